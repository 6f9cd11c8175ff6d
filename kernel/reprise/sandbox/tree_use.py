"""Which kept trees are in use, and when each was used last: marks beside them, in `.marks`.

    .marks/lock        held for a moment: shared by who begins or ends a use, alone by who collects
    .marks/using-…     one for each sandbox, locked as long as it lives: the digests it uses, a line
                       each; without a lock it is of a sandbox whose host process was killed
    .marks/DIGEST      its mtime says when the tree's last use began or ended

A lock, since it holds as long as the use and not longer, whatever happens: a time mark alone that
somebody has to renew would be old when a machine wakes up after a night, with its cells still
there. One file for a sandbox and not a lock for each tree, since a session may mount any number.
The trees themselves cannot carry marks: their times belong to them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

_MARKS = ".marks"
_USING = "using-"
_DIGEST = re.compile(r"[0-9a-f]{64}")


class TreeUse:
    """The kept trees that one sandbox uses, until it has ended. Blocking; run in a thread."""

    def __init__(self, mounts: Path) -> None:
        self._mounts = mounts
        self._file: int | None = None
        self._path = mounts / _MARKS / f"{_USING}{secrets.token_hex(8)}"
        self._digests: set[str] = set()
        self._ended = False
        # A sandbox may end while a mount of it is being made in another thread.
        self._changing = threading.Lock()

    def begin(self, digest: str) -> None:
        """From now on no collection takes this tree, be it there already or not. Raises OSError."""
        with self._changing, guarded(self._mounts, fcntl.LOCK_SH):
            if self._ended:
                return  # nobody is left who could use it
            if self._file is None:
                self._file = _locked_file(self._path)
            if digest not in self._digests:
                _append(self._file, f"{digest}\n".encode(), self._path)
                self._digests.add(digest)
            _mark(self._mounts, digest).touch()

    def end(self) -> None:
        """The sandbox is gone."""
        with self._changing:
            self._ended = True
            file, self._file = self._file, None
            if file is None:
                return
            try:
                # What cannot be noted any more counts from when its use began.
                with contextlib.suppress(OSError), guarded(self._mounts, fcntl.LOCK_SH):
                    for digest in self._digests:
                        _mark(self._mounts, digest).touch()
                    self._path.unlink()
            finally:
                os.close(file)


@contextlib.contextmanager
def guarded(mounts: Path, how: int) -> Iterator[None]:
    """Hold `.marks/lock` (LOCK_SH or LOCK_EX), made with its folder if need be. Raises OSError."""
    marks = mounts / _MARKS
    for folder in (mounts, marks):
        folder.mkdir(mode=0o700, exist_ok=True)
    lock = os.open(marks / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, how)
        yield
    finally:
        os.close(lock)


def used_digests(mounts: Path) -> set[str]:
    """What living sandboxes use; the files of dead ones go. Under `guarded(…, LOCK_EX)`."""
    used: set[str] = set()
    for path in (mounts / _MARKS).glob(f"{_USING}*"):
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            used.update(path.read_text("ascii").split())
        else:
            path.unlink()
        finally:
            os.close(file)
    return used


def last_use(mounts: Path, kept: Path) -> float:
    """When the tree's last use began or ended; of one without a mark, when it came to its name."""
    try:
        return _mark(mounts, kept.name).stat().st_mtime
    except FileNotFoundError:
        return kept.lstat().st_ctime


def marked_digests(mounts: Path) -> list[str]:
    """The digests of trees that have a mark, be they there or not."""
    return [path.name for path in (mounts / _MARKS).iterdir() if is_digest(path.name)]


def unmark(mounts: Path, digest: str) -> None:
    """Forget when a tree was used: it is gone. Under `guarded(…, LOCK_EX)`."""
    _mark(mounts, digest).unlink(missing_ok=True)


def is_digest(name: str) -> bool:
    return _DIGEST.fullmatch(name) is not None


def _mark(mounts: Path, digest: str) -> Path:
    return mounts / _MARKS / digest


def _locked_file(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
    except BaseException:
        os.close(file)
        raise
    return file


def _append(file: int, line: bytes, path: Path) -> None:
    """All of it or nothing: half a line would spoil the next one."""
    before = os.fstat(file).st_size
    try:
        whole = os.write(file, line) == len(line)
    except OSError:
        os.ftruncate(file, before)
        raise
    if not whole:
        os.ftruncate(file, before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
