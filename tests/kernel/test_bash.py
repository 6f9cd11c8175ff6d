"""A language kernel whose language is not Python: wrapped, logged, killed and brought back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fixtures.kernel import Kernels


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """The command line of the kernelspec that `reprise kernelspec add bash` writes."""
    installed = tmp_path / "jupyter"
    (installed / "kernels" / "bash").mkdir(parents=True)
    argv = [sys.executable, "-m", "bash_kernel", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Bash", "language": "bash", "env": {"PS1": "$"}}
    (installed / "kernels" / "bash" / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(installed))
    subprocess.run(
        [sys.executable, "-m", "reprise.cli", "kernelspec", "add", "bash", "--prefix", tmp_path],
        check=True,
        capture_output=True,
        env={**os.environ, "JUPYTER_PATH": str(installed)},
        timeout=60,
    )
    wrapped = tmp_path / "share" / "jupyter" / "kernels" / "reprise-bash" / "kernel.json"
    body = json.loads(wrapped.read_text())
    assert body["language"] == "bash"
    assert body["display_name"] == "Bash (Reprise)"
    return [word.replace("{connection_file}", "{file}") for word in body["argv"]]


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_bash_is_logged_and_comes_back(
    kernels: Kernels, command: Sequence[str], backend: str
) -> None:
    kernel = kernels(backend, command=command)
    client = kernel.client()
    assert client.ask("kernel_info_request")["language_info"]["name"] == "bash"
    first = client.run("x=41; echo $((x + 1))")
    assert first.text().strip() == "42"
    client.run("cd /; y=$PWD")
    ran = client.run("kill -9 $PPID")
    assert ran.error == "SandboxDied"
    assert client.run("echo $x $y").text().strip() == "41 /"
    kernel.kill("router")
    kernel.close_clients()
    kernel = kernels(
        backend, command=command, session=kernel.session, path=kernel.path, folder=kernel.folder
    )
    client = kernel.client()
    ran = client.run("echo $x $y")
    assert ran.text().strip() == "41 /"
    assert ran.reply["execution_count"] == first.reply["execution_count"] + 4
    assert kernels.read(kernel).report.ok
