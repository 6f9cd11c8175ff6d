"""Walks a host folder without trusting it: bounded, through directory descriptors, never a symlink.

Nothing here follows a link: each directory is opened beneath its parent's descriptor with
O_NOFOLLOW, so a directory swapped for a link during the walk is left out and not entered.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from reprise.settings import WALK_ENTRIES, WALK_SECONDS
from reprise.workspace.manifest import MAX_PATH, EntryType, path_bytes, path_text

#: Version control: the history is not what a cell reads, and it is often larger than the files.
VERSION_CONTROL = frozenset({b".git", b".hg", b".svn", b".bzr", b".jj", b"CVS"})
#: Environments: the sandbox has its own; these hold paths of this machine.
ENVIRONMENTS = frozenset(
    {
        b"node_modules",
        b".venv",
        b"__pypackages__",
        b".pixi",
        b".tox",
        b".nox",
        b".conda",
        b".reprise",
    }
)
#: A directory that holds one of these is an environment whatever its name is.
ENVIRONMENT_MARKS = (b"pyvenv.cfg", b"conda-meta")
CACHES = frozenset(
    {
        b"__pycache__",
        b".ipynb_checkpoints",
        b".mypy_cache",
        b".pytest_cache",
        b".ruff_cache",
        b".hypothesis",
        b".cache",
        b".virtual_documents",
        b".Trash",
        b"lost+found",
    }
)
SKIPPED = VERSION_CONTROL | ENVIRONMENTS | CACHES
#: What editors and servers write beside a file while they save it: gone a moment later.
TRANSIENT = (b".~", b".#", b".nfs", b".goutputstream-")
TRANSIENT_ENDS = (b".swp", b".swx", b"~", b".part", b".crdownload")
#: Directories deeper than this are left out: each open level costs a descriptor.
MAX_DEPTH = 64
#: File systems of the kernel's own, whose files have no end or no meaning elsewhere.
KERNEL_TREES = ("/proc", "/sys", "/dev")

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK: a file swapped for a fifo must not make the open wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

CHUNK = 1 << 20


class Signature(NamedTuple):
    """Changes when a file's content does: all of it equal and old enough means unchanged."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int
    mode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Signature:
        return cls(
            found.st_size,
            found.st_mtime_ns,
            found.st_ctime_ns,
            found.st_ino,
            found.st_dev,
            found.st_mode,
        )


class Found(NamedTuple):
    """Something that the walk met. target: of a link that stays inside the folder."""

    path: str
    type: EntryType
    signature: Signature
    target: str | None = None

    @property
    def size(self) -> int:
        return self.signature.size if self.type == "file" else 0

    @property
    def mode(self) -> int:
        """Permission bits; the owner can always read, and enter and fill directories."""
        return self.signature.mode & 0o777 | (0o700 if self.type == "dir" else 0o400)


@dataclass(frozen=True)
class LeftOut:
    """Something that does not come in, and why (a phrase that completes "it …")."""

    path: str
    reason: str
    size: int = 0


@dataclass
class Walk:
    """All that a walk found. runaway: why it stopped early, or None when it saw everything."""

    found: list[Found] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    runaway: str | None = None
    entries: int = 0
    seconds: float = 0.0


class _Runaway(Exception):
    """The walk met its bound."""


class _Walker:
    def __init__(
        self, root: Path, exclude: Iterable[Path], max_entries: int, max_seconds: float
    ) -> None:
        self.root = root
        self.real_root = os.path.realpath(os.fsencode(root))
        self.walk = Walk()
        self.max_entries = max_entries
        self.max_seconds = max_seconds
        self.began = time.monotonic()
        self.excluded = set(_identities(exclude))
        self.kernel_devices = {device for device, _ in _identities(map(Path, KERNEL_TREES))}

    def run(self) -> Walk:
        try:
            # The root itself may be a link: the notebook's folder is what its path leads to.
            top = os.open(self.root, _DIRECTORY & ~os.O_NOFOLLOW)
        except OSError as error:
            self.walk.left_out.append(LeftOut("", f"cannot be read ({error.strerror})"))
            self.walk.runaway = f"it cannot be read ({error.strerror})"
            return self.walk
        try:
            self.device = os.fstat(top).st_dev
            self.directory(top, b"", 0)
        except _Runaway as why:
            self.walk.runaway = str(why)
        finally:
            os.close(top)
        self.walk.seconds = time.monotonic() - self.began
        return self.walk

    def directory(self, fd: int, path: bytes, depth: int) -> None:
        inner: list[tuple[bytes, Signature]] = []
        try:
            with os.scandir(fd) as listing:
                for entry in listing:
                    self.count()
                    # fsencode: the locale's file system encoding need not be UTF-8.
                    name = os.fsencode(entry.name)
                    if not self.wanted(name):
                        continue
                    try:
                        signature = Signature.of(entry.stat(follow_symlinks=False))
                    except OSError:
                        continue  # gone since the listing
                    self.meet(fd, path + name, name, signature, inner)
        except OSError as error:
            self.leave(path, f"cannot be listed ({error.strerror})")
            return
        for name, signature in sorted(inner):
            self.enter(fd, path + name, name, signature, depth + 1)

    def count(self) -> None:
        self.walk.entries += 1
        if self.walk.entries > self.max_entries:
            raise _Runaway(f"it holds more than {self.max_entries:,} entries")
        if self.walk.entries % 256 == 0 and time.monotonic() - self.began > self.max_seconds:
            raise _Runaway(f"listing it takes more than {self.max_seconds:g} s")

    def wanted(self, name: bytes) -> bool:
        return not (name in SKIPPED or name.startswith(TRANSIENT) or name.endswith(TRANSIENT_ENDS))

    def meet(
        self,
        fd: int,
        path: bytes,
        name: bytes,
        signature: Signature,
        inner: list[tuple[bytes, Signature]],
    ) -> None:
        kind = stat.S_IFMT(signature.mode)
        if len(path) > MAX_PATH:
            self.leave(path, "has too long a path")
        elif kind == stat.S_IFREG:
            self.walk.found.append(Found(path_text(path), "file", signature))
        elif kind == stat.S_IFDIR:
            inner.append((name, signature))
        elif kind == stat.S_IFLNK:
            self.link(fd, path, name, signature)
        else:
            self.leave(path, "is no file (a socket, a pipe or a device)")

    def link(self, fd: int, path: bytes, name: bytes, signature: Signature) -> None:
        try:
            target = os.readlink(name, dir_fd=fd)
        except OSError:
            return  # gone, or no link any more
        inside = self.inside(path, target)
        if inside is None:
            self.leave(path, "is a link that leads out of the folder")
        else:
            self.walk.found.append(Found(path_text(path), "link", signature, path_text(inside)))

    def inside(self, path: bytes, target: bytes) -> bytes | None:
        """The target as it stands in the sandbox, or None when it leads out of the folder."""
        above = path.rpartition(b"/")[0]
        if target.startswith(b"/"):
            normal = os.path.normpath(target)
            if not (normal + b"/").startswith(self.real_root + b"/"):
                return None
            # An absolute path of this machine means nothing in a sandbox.
            target = os.path.relpath(normal, self.real_root + b"/" + above)
        # Resolved for real: `d/../x` leads out when d is a link.
        real = os.path.realpath(b"/".join((self.real_root, above, target)))
        return target if (real + b"/").startswith(self.real_root + b"/") else None

    def enter(self, fd: int, path: bytes, name: bytes, signature: Signature, depth: int) -> None:
        identity = (signature.device, signature.inode)
        if identity in self.excluded:
            return
        if signature.device != self.device and signature.device in self.kernel_devices:
            self.leave(path, "belongs to the system")
            return
        if depth > MAX_DEPTH:
            self.leave(path, f"lies more than {MAX_DEPTH} directories deep")
            return
        try:
            inner = os.open(name, _DIRECTORY, dir_fd=fd)
        except FileNotFoundError:
            return
        except OSError as error:
            self.leave(path, f"cannot be opened ({error.strerror})")
            return
        try:
            if any(_exists(inner, mark) for mark in ENVIRONMENT_MARKS):
                return
            self.walk.found.append(Found(path_text(path), "dir", signature))
            self.directory(inner, path + b"/", depth)
        finally:
            os.close(inner)

    def leave(self, path: bytes, reason: str) -> None:
        self.walk.left_out.append(LeftOut(path_text(path.rstrip(b"/")), reason))


def walk(
    root: Path,
    exclude: Iterable[Path] = (),
    *,
    max_entries: int = WALK_ENTRIES,
    max_seconds: float = WALK_SECONDS,
) -> Walk:
    """Everything beneath `root` that may come in. Blocks; never raises for what is on the disk.

    exclude: directories that are not entered, wherever they lie.
    """
    return _Walker(root, exclude, max_entries, max_seconds).run()


def open_file(root: Path, path: str) -> int:
    """A descriptor of the regular file at `path` beneath `root`, opened without following links.

    Raises OSError (also when it is no regular file any more).
    """
    names = path_bytes(path).split(b"/")
    directory = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for name in names[:-1]:
            inner = os.open(name, _DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        fd = os.open(names[-1], _FILE, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path!r} is no regular file any more")
    return fd


def chunks(root: Path, path: str, most: int) -> Iterator[bytes]:
    """The first `most` bytes of a file at most, in bounded pieces. Raises OSError."""
    fd = open_file(root, path)
    with closing(os.fdopen(fd, "rb", buffering=0)) as file:
        while most > 0:
            piece = file.read(min(CHUNK, most))
            if not piece:
                return
            most -= len(piece)
            yield piece


def hash_file(root: Path, path: str, most: int) -> tuple[int, str]:
    """Size and sha256 of the first `most` bytes of a file. Raises OSError.

    A file that grows while it is read is what it was up to its declared size; the next walk
    sees that it changed again.
    """
    total, size = hashlib.sha256(), 0
    for piece in chunks(root, path, most):
        total.update(piece)
        size += len(piece)
    return size, total.hexdigest()


def _identities(paths: Iterable[Path]) -> Iterator[tuple[int, int]]:
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue
        yield found.st_dev, found.st_ino


def _exists(fd: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return True
