"""Trees kept as folders of REPRISE_HOME/mounts/DIGEST, for the backend that cannot mount.

Each is made once, whole or not at all, by whoever comes first; who finds one there looks at every
byte before it is used. Nothing protects them from code that runs as their owner, so one that was
changed is set aside and made anew. One that nobody has used for a while is collected: it is set
aside by a rename, so that it is there whole or not at all, while nobody can begin to use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from reprise.errors import SandboxError, UnavailableError
from reprise.failpoints import failpoint
from reprise.sandbox.tree_use import (
    TreeUse,
    guarded,
    is_digest,
    last_use,
    marked_digests,
    unmark,
    used_digests,
)
from reprise.sandbox.trees import MODIFIED, CheckedTree, Piece

Given = ParamSpec("Given")
Found = TypeVar("Found")

#: Folders in the making, with the pid of the maker: what a killed one left is removed.
_MAKING = ".making-"

#: What a rename says where something else lies already.
_TAKEN = frozenset({errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR})

#: Without these even their owner could not look whether a tree is still whole.
_READABLE = {"file": 0o400, "dir": 0o500}


async def keep(tree: CheckedTree, mounts: Path, use: TreeUse) -> Path:
    """The folder of a tree below `mounts`, made if it is not there. Raises SandboxError.

    It is there, whole unless somebody changes it, until `use` ends.
    """
    kept = mounts / tree.digest
    await _on_disk(use.begin, tree.digest)
    if await _on_disk(_is_whole, kept, tree):
        return kept
    making = _aside(mounts)
    try:
        await _on_disk(_begin, making)
        for piece in tree.pieces:
            data = await tree.content(piece) if piece.type == "file" else b""
            await _on_disk(_write, making, piece, data)
        await _on_disk(_finish, making, kept, tree)
    finally:
        await _on_disk(_remove, making)
    return kept


async def _on_disk(do: Callable[Given, Found], *given: Given.args, **named: Given.kwargs) -> Found:
    """Do it in a thread; it has ended when this has, cancelled or not. Raises SandboxError."""
    doing = asyncio.ensure_future(asyncio.to_thread(do, *given, **named))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        raise
    except OSError as error:
        raise SandboxError(
            f"A tree to mount could not be kept at {error.filename}: "
            f"{error.strerror}. Nothing was mounted, and what was there before stays."
        ) from error


def _begin(making: Path) -> None:
    for left in _left(making.parent):
        _remove(left)
    making.mkdir(mode=0o700)


def _left(mounts: Path) -> list[Path]:
    """What makers and collectors that died have left."""
    return [
        path
        for path in mounts.glob(f"{_MAKING}*")
        if (maker := path.name.removeprefix(_MAKING).partition("-")[0]).isdigit()
        and not Path("/proc", maker).exists()
    ]


def _aside(mounts: Path) -> Path:
    """A name that nobody has, and that says who is to remove what lies there."""
    return mounts / f"{_MAKING}{os.getpid()}-{secrets.token_hex(8)}"


def _below(folder: Path, piece: Piece) -> Path:
    """Whatever this machine takes names for, the bytes are those of the tree."""
    return folder / os.fsdecode(piece.path.encode("utf-8", "surrogateescape"))


def _mode(piece: Piece) -> int:
    """As the tree says, but that nobody may write and the owner may read."""
    return piece.mode & ~0o222 | _READABLE[piece.type]


def _write(making: Path, piece: Piece, data: bytes) -> None:
    path = _below(making, piece)
    if piece.type == "dir":
        path.mkdir(mode=0o700)
    elif piece.type == "link":
        path.symlink_to(os.fsdecode((piece.target or "").encode("utf-8", "surrogateescape")))
        os.utime(path, (MODIFIED, MODIFIED), follow_symlinks=False)
    else:
        with path.open("xb") as file:
            file.write(data)
            os.fchmod(file.fileno(), _mode(piece))
        os.utime(path, (MODIFIED, MODIFIED))


def _finish(making: Path, kept: Path, tree: CheckedTree) -> None:
    """Close the folders and give the whole its name, unless another maker was first."""
    folders = [_below(making, piece) for piece in tree.pieces if piece.type == "dir"]
    modes = [_mode(piece) for piece in tree.pieces if piece.type == "dir"]
    for path, mode in [(making, 0o555), *zip(folders, modes, strict=True)][::-1]:
        path.chmod(mode)
        os.utime(path, (MODIFIED, MODIFIED))
    while True:
        try:
            making.rename(kept)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            return
        if _is_whole(kept, tree):
            return
        # Changed by somebody. Whoever uses it now keeps it open, not its name.
        changed = _aside(kept.parent)
        with contextlib.suppress(FileNotFoundError):
            kept.rename(changed)
        _remove(changed)


def _is_whole(kept: Path, tree: CheckedTree) -> bool:
    """Whether a folder holds this tree and nothing else, to the last byte and mode."""
    try:
        if not stat.S_ISDIR(kept.lstat().st_mode):
            return False
        wanted = {_below(kept, piece): piece for piece in tree.pieces}
        if not all(path in wanted for path in _walk(kept)):
            return False
        return all(_is_same(path, piece) for path, piece in wanted.items())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        yield path
        if not path.is_symlink() and path.is_dir():
            yield from _walk(path)


def _is_same(path: Path, piece: Piece) -> bool:
    found = path.lstat()
    if piece.type == "link":
        target = (piece.target or "").encode("utf-8", "surrogateescape")
        return stat.S_ISLNK(found.st_mode) and os.fsencode(path.readlink()) == target
    if piece.type == "dir":
        return found.st_mode == stat.S_IFDIR | _mode(piece)
    if found.st_mode != stat.S_IFREG | _mode(piece) or found.st_size != piece.size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == piece.sha256


def _remove(folder: Path) -> None:
    """Remove what was made or set aside; what cannot be removed is tried again another time."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
        return
    for path, _, _ in os.walk(folder):
        with contextlib.suppress(OSError):
            Path(path).chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


# what is not used any more ------------------------------------------------------------------------


@dataclass(frozen=True)
class CollectedTrees:
    """What went (with `dry_run`: what would go): trees, what the dead left half made, bytes."""

    trees: int
    left: int
    bytes: int


def collect(mounts: Path, *, grace_s: float, dry_run: bool) -> CollectedTrees:
    """Remove kept trees that no sandbox uses and none has used within the grace. Blocking.

    Raises UnavailableError when the folder cannot be read or written; what is left is whole.
    """
    if not mounts.is_dir():
        return CollectedTrees(0, 0, 0)
    try:
        trees, left = _set_aside(mounts, time.time() - grace_s, dry_run)
        failpoint("trees-set-aside")
        total = 0
        for path in (*trees, *left):
            size = _bytes_in(path)
            if not dry_run:
                _remove(path)
            # What cannot be removed now is what a later collection finds left.
            total += size if dry_run or not os.path.lexists(path) else 0
    except OSError as error:
        raise UnavailableError(
            f"The trees kept in {mounts} could not be collected: {error.strerror}"
            f" ({error.filename}). Those that are there are whole; try again as a user who may"
            " write there."
        ) from error
    return CollectedTrees(len(trees), len(left), total)


def _set_aside(mounts: Path, before: float, dry_run: bool) -> tuple[list[Path], list[Path]]:
    """The trees that go, under names that no mount looks for, and what the dead left."""
    gone = []
    # Nobody begins a use meanwhile; whoever waits to begin one then finds it there or makes it.
    with guarded(mounts, fcntl.LOCK_EX):
        used = used_digests(mounts)
        left = _left(mounts)
        for kept in sorted(path for path in mounts.iterdir() if is_digest(path.name)):
            if kept.name in used or last_use(mounts, kept) >= before:
                continue
            gone.append(kept if dry_run else kept.rename(_aside(mounts)))
        if not dry_run:
            for digest in marked_digests(mounts):
                # Also of a tree that was never made, or that went with a collector that died.
                if digest not in used and not os.path.lexists(mounts / digest):
                    unmark(mounts, digest)
    return gone, left


def _bytes_in(folder: Path) -> int:
    """Bytes of the files below; of a folder that somebody else removes meanwhile, what is left."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(path, name).lstat().st_size
    return total
