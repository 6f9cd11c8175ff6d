"""`reprise lab` starts a JupyterLab that offers the kernel, and says so when it cannot."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.test_doctor import hide
from tests.fixtures.commands import Reprise


def test_without_jupyterlab_it_names_the_extra(reprise: Reprise, tmp_path: Path) -> None:
    hide(tmp_path, "jupyterlab")
    shown = reprise("lab", PYTHONPATH=str(tmp_path))
    assert shown.returncode == 3
    assert "jupyter-reprise[lab]" in shown.stderr
    assert len(shown.stderr.splitlines()) == 1


@pytest.fixture
def lab(reprise: Reprise, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    options = ["--no-browser", "--port", "0", "--ServerApp.token=t", f"--notebook-dir={tmp_path}"]
    if os.geteuid() == 0:
        options.append("--allow-root")
    env = {**reprise.environ, "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    process = subprocess.Popen(
        [sys.executable, "-m", "reprise.cli", "lab", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=env,
    )
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    with process.stderr:
        process.stderr.read()  # to its end: the child has closed it too
    process.wait(timeout=60)


def answer_of(url: str, timeout_s: float = 30) -> bytes:
    """What the server answers; it tells its address a moment before it listens there."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=timeout_s) as answer:
                return bytes(answer.read())
        except urllib.error.URLError as error:
            refused = isinstance(error.reason, ConnectionRefusedError)
            if not refused or time.monotonic() > deadline:
                raise


@pytest.mark.skipif(find_spec("jupyterlab") is None, reason="SKIPPED: JupyterLab is not installed")
def test_the_lab_offers_the_kernel_of_this_python(lab: subprocess.Popen[str]) -> None:
    assert lab.stderr is not None
    for line in lab.stderr:
        found = re.search(r"(http://(?:localhost|127\.0\.0\.1):\d+)/lab", line)
        if found:
            break
    else:
        pytest.fail("JupyterLab ended without telling its address")
    specs = json.loads(answer_of(f"{found[1]}/api/kernelspecs?token=t"))["kernelspecs"]
    argv = specs["reprise"]["spec"]["argv"]
    assert argv[:3] == [sys.executable, "-m", "reprise.jupyter"]
    assert answer_of(f"{found[1]}/lab?token=t")
