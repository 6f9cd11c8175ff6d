"""The sandbox tests hold for an ordinary user too, when it is root who tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.sandbox import AS_ORDINARY_USER

#: What may differ with who starts a runtime: its users, what it mounts, how it ends.
OF_RUNTIMES = (
    "says_what_it_is",
    "kill_leaves",
    "with_its_stream",
    "with_its_modes",
    "its_variables",
)

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(AS_ORDINARY_USER, reason="this is that run")
@pytest.mark.skipif(os.geteuid() != 0, reason="the tests run as an ordinary user anyway")
@pytest.mark.parametrize(
    "suite",
    [
        ["tests/conformance", "-k", "bubblewrap"],
        ["tests/conformance", "-k", f"(oci-crun or oci-runc) and ({' or '.join(OF_RUNTIMES)})"],
        ["tests/conformance", "-k", "oci-runsc and (says_what_it_is or with_its_modes)"],
        ["tests/sandbox/test_escape.py", "tests/sandbox/test_escape_kernel.py"],
        ["tests/sandbox/test_mount.py"],
        ["tests/skills/test_running.py", "-k", "finds_its_folder or very_folder or plays_the_same"],
        # Closed folders are closed to an ordinary user only.
        ["tests/sandbox/test_files.py", "-k", "staged or whichever or closed or come_and_go"],
    ],
)
def test_as_an_ordinary_user(suite: list[str]) -> None:
    done = subprocess.run(
        # All that the suite names, also what is long.
        [sys.executable, "-m", "tests.sandbox.ordinary_user", *suite, "-q", "-m", ""],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout[-2000:]
