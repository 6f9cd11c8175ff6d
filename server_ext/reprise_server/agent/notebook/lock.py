"""One writer of a notebook file at a time, among everything of Reprise's on this machine."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from reprise.errors import UnavailableError
from reprise.log.model import sha256_hex

#: Seconds. Who holds it reads and writes one file, so it is free long before.
PATIENCE: Final = 30.0
#: Seconds between two looks: a waiter can be cancelled, which one that blocks could not.
_LOOK: Final = 0.02


P = ParamSpec("P")
T = TypeVar("T")


@asynccontextmanager
async def notebook_lock(
    home: Path, key: str, name: str, patience: float = PATIENCE
) -> AsyncIterator[None]:
    """Hold the lock of the notebook that `key` names; free again whatever ends this process.

    home: REPRISE_HOME, where locks lie, so that none is left beside notebooks.  name: for people.
    Raises UnavailableError when somebody holds it for longer than `patience` seconds.
    """
    handle = await asyncio.to_thread(_opened, home, key)
    try:
        until = time.monotonic() + patience
        while not _taken(handle):
            if time.monotonic() > until:
                raise UnavailableError(
                    f"{name} is being changed by another agent for {patience:.0f} s now. Nothing "
                    "was changed. Try again, or see what that one is doing."
                )
            await asyncio.sleep(_LOOK)
        yield
    finally:
        os.close(handle)  # which frees it


def _opened(home: Path, key: str) -> int:
    folder = home / "locks"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"notebook-{sha256_hex(os.fsencode(key))[:32]}.lock"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UnavailableError(
            f"Locks of notebooks cannot be kept in {folder}: {error.strerror}. Nothing was changed."
        ) from error


def _taken(handle: int) -> bool:
    try:
        # Of this open file, so two tasks of one process exclude each other as well.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def whole(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` gives, in a thread; as `finished`."""
    return await finished(asyncio.to_thread(work, *args, **kwargs))


async def finished(work: Coroutine[Any, Any, T]) -> T:
    """What `work` gives. Who is cancelled meanwhile still waits for its end: a lock must not be let
    go of while something that it guards goes on."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, or asyncio complains
        raise
