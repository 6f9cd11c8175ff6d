"""The suites' own environment: their requirements and source archives, kept outside the checkout.

One folder for each set of versions and Python, so that a change of either begins a fresh one.
"""

# ruff: noqa: T201

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from pathlib import Path

from catalogue import ARCHIVES, REQUIREMENTS, SUITES, Suite

#: Seconds for pip's whole work, on a slow network.
PIP_S = 1800


@dataclass(frozen=True)
class Environment:
    """A ready environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def tests_of(self, suite: Suite) -> Path:
        """The folder that a suite's tests are run in."""
        if suite.archive is None:
            return self.folder / "own"
        return self.folder / f"{suite.archive}-{ARCHIVES[suite.archive]}"


def ready() -> Environment:
    """The environment for these versions and this Python; made when it is not there yet."""
    key = hashlib.sha256("\n".join([sys.version, sys.executable, *REQUIREMENTS]).encode())
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reprise-suites"
    folder = base / key.hexdigest()[:16]
    base.mkdir(parents=True, exist_ok=True)
    with (base / f"{folder.name}.lock").open("w") as lock:
        # Two runs at a time share what the first of them makes.
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = Environment(folder)
        if not (folder / "ready").exists():
            print(f"making the suites' environment in {folder} …", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            _make(environment)
            (folder / "ready").touch()
        # Away from the checkout, whose conftest.py and settings are not theirs.
        (folder / "own").mkdir(exist_ok=True)
        for suite in SUITES:
            if suite.archive is None:
                for test in suite.tests:
                    shutil.copy(Path(__file__).with_name(test), folder / "own")
    return environment


def _make(environment: Environment) -> None:
    venv.create(environment.folder / "venv", with_pip=True)
    pip = [str(environment.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *REQUIREMENTS], check=True, timeout=PIP_S)
    for name, version in ARCHIVES.items():
        subprocess.run(
            [
                *(*pip, "download", "--no-deps", "--no-binary", name),
                *(f"{name}=={version}", "--dest", str(environment.folder)),
            ],
            check=True,
            timeout=PIP_S,
        )
        with tarfile.open(environment.folder / f"{name}-{version}.tar.gz") as archive:
            archive.extractall(environment.folder, filter="data")
