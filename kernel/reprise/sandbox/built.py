"""Built environments: REPRISE_HOME/built/DIGEST, read-only, shared by all sandboxes.

    prefix/       a virtual environment with everything compiled; what sandboxes see
    lock          what it was built of (`environments.lock`)
    about.json    {interpreter, python, uv}: what it was built with
    files.json    every file of prefix/ with its hash, for `reprise env check`
    wheels/       files that the lock names and no index has

`environments.build` makes one, whole or not at all. Imported at every kernel start: this module
only says where things lie and that a process uses them.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
from pathlib import Path

from reprise.errors import UnavailableError
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.prefixes import installation_prefixes
from reprise.settings import home

FOLDER = "built"
#: Held, shared, as long as a process uses what lies beside it; who collects takes it alone.
USE = ".use"
#: A lock is at most so long (`environments.lock.MAX_BYTES`).
_LOCK_BYTES = 32 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")
#: Characters of a digest that are shown to people.
SHOWN = 12


def built_home() -> Path:
    """The folder of all built environments."""
    return home() / FOLDER


def built_folder(digest: str) -> Path:
    """Where the environment of that digest lies, if it is here."""
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no digest")
    return built_home() / digest


def built_python(digest: str) -> Path:
    """The interpreter of a built environment, the link that makes it one."""
    return built_folder(digest) / "prefix" / "bin" / "python"


def built_kernel(digest: str, environment: str) -> LanguageKernel:
    """The ipykernel of a built environment, which is in use until this process ends.

    environment: its name, for the error. Raises UnavailableError when it is not there, or the
    interpreter that it was built on is gone. Blocks: a dozen looks at the file system.
    """
    python = built_python(digest)
    _use(built_folder(digest))
    if not python.exists():
        if not built_folder(digest).is_dir():
            gone = f"is not on this machine ({built_folder(digest)} is missing)"
        else:
            gone = f"stands on an interpreter that is gone ({os.path.realpath(python)})"
        raise UnavailableError(
            f"What the environment {environment!r} was built of {gone}. Nothing was started. "
            f"`reprise env check {environment}` says more; build it again from its lock or its "
            f"requirements with `reprise env create {environment} --replace …`."
        )
    return LanguageKernel(
        "python3",
        "python",
        (str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"),
        installation_prefixes(python),
    )


def built_lock(digest: str) -> str | None:
    """The lock of a built environment; None when it cannot be read."""
    try:
        with (built_folder(digest) / "lock").open("rb") as file:
            return file.read(_LOCK_BYTES).decode("ascii")
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=256)
def _use(folder: Path) -> int | None:
    """Keep a collection away as long as this process lives: the lock goes with its last file."""
    try:
        file = os.open(folder / USE, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    # A file system without locks keeps nobody away; what sessions name is never collected there.
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return file
