"""Frees built environments that nothing names any more."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from reprise.environments.build import MAKING, remove, remove_left
from reprise.environments.files import size_of
from reprise.errors import UnavailableError
from reprise.sandbox.built import USE
from reprise.sandbox.named import environments, load

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class CollectedEnvironments:
    """What went (with `dry_run`: what would go): built environments, half made ones, bytes."""

    built: int
    left: int
    bytes: int


def named_digests() -> set[str]:
    """What the environments of REPRISE_HOME stand on. Raises UsageError when one cannot be read:
    nobody knows then what it names."""
    found = (load(name).packages for name in environments())
    return {digest for digest in found if digest is not None}


def collect(
    built: Path, keep: Collection[str], *, grace_s: float, dry_run: bool
) -> CollectedEnvironments:
    """Remove what is in nobody's use, not named in `keep`, and was not used within the grace.

    Raises UnavailableError when the folder cannot be read or written; what is there is whole then.
    """
    if not built.is_dir():
        return CollectedEnvironments(0, 0, 0)
    count, total = 0, 0
    try:
        left = 0 if dry_run else remove_left(built)
        for folder in sorted(path for path in built.iterdir() if _DIGEST.fullmatch(path.name)):
            if folder.name in keep:
                continue
            with _unused(folder, time.time() - grace_s) as unused:
                if not unused:
                    continue
                size = size_of(folder)
                if not dry_run:
                    # By a rename, so that it is whole or not there for whoever comes now.
                    aside = built / f"{MAKING}{secrets.token_hex(8)}"
                    folder.rename(aside)
                    remove(aside)
                count, total = count + 1, total + size
    except OSError as error:
        raise UnavailableError(
            f"The built environments in {built} could not be collected: {error.strerror} "
            f"({error.filename}). Those that are there are whole."
        ) from error
    return CollectedEnvironments(count, left, total)


@contextlib.contextmanager
def _unused(folder: Path, before: float) -> Iterator[bool]:
    """Whether nobody uses it; nobody can begin to inside the block, but to find it gone."""
    try:
        file = os.open(folder / USE, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield folder.stat().st_mtime < before  # somebody has taken its mark away
        return
    try:
        yield _taken_alone(file) and os.fstat(file).st_mtime < before
    finally:
        os.close(file)


def _taken_alone(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
