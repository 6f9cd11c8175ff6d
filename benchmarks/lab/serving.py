"""A real lab for the benchmarks of this folder, and pages that are driven in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]
LAB = PROJECT / "labextension" / "ui-tests"


@contextmanager
def lab() -> Iterator[dict[str, Any]]:
    """The lab of the browser tests (serve.py): its address, token, folder, home, control."""
    serving = subprocess.Popen(
        [sys.executable, str(LAB / "serve.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert serving.stdin is not None
    assert serving.stdout is not None
    try:
        yield json.loads(serving.stdout.readline())
    finally:
        serving.stdin.close()
        serving.wait(60)


def control(at: Mapping[str, Any], what: str, said: Mapping[str, Any]) -> None:
    """Steer what is outside of the page: `script`, `go`, `server`, …"""
    request = urllib.request.Request(
        f"{at['control']}/{what}", data=json.dumps(said).encode(), method="POST"
    )
    urllib.request.urlopen(request, timeout=60).close()


def page(script: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a script of Node found in a page. Exits where it failed."""
    found = subprocess.run(
        ["node", str(script)],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        raise SystemExit(f"the page failed:\n{found.stderr}")
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer
