"""What may be mounted where: the rules for a tree, its target and its size.

A tree comes from our own log, and its target from a client. Both are looked at again here, before
anything of them is written: the paths of a tree name places within it and nowhere else.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from reprise.errors import SandboxError, TooLarge, UsageError
from reprise.log.model import Json, canonical
from reprise.quantities import amount
from reprise.sandbox.contract import MOUNT_PLACES, Tree, TreeEntry

#: In one tree. Each is written, and later looked at, one by one.
MAX_ENTRIES = 50_000
#: Folders within folders; programs that walk a tree go no deeper than a thousand.
MAX_DEPTH = 100
#: Of all paths and link targets together, in bytes.
MAX_NAMES = 16 << 20
#: Linux' own bounds: NAME_MAX, and PATH_MAX without its NUL.
_MAX_NAME = 255
_MAX_PATH = 4095
#: What a memory file system takes files in, and what one entry is counted for beside its bytes.
_PAGE = 4096
#: Of folders that a tree implies without naming them.
_FOLDER_MODE = 0o755

#: When each file and folder of a mounted tree was modified, in seconds: one time for all, so that
#: a replay finds what there was. 1980, since no zip file can say anything earlier.
MODIFIED = 315_532_800

#: Where a tree is prepared beside the others (`enter` makes it): no target is called so.
INCOMING = ".reprise-incoming"

#: Larger files are hashed beside the event loop.
_AT_ONCE = 256 << 10

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Piece:
    """One thing to write: a `contract.TreeEntry`, checked."""

    path: str
    type: Literal["file", "dir", "link"]
    mode: int
    size: int = 0
    sha256: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class CheckedTree:
    """A tree that may be written: folders before what lies in them, none implied.

    footprint: bytes it is counted for, each file in whole pages and each entry with a page.
    """

    digest: str
    pieces: tuple[Piece, ...]
    footprint: int
    read: Callable[[str], Awaitable[bytes]]

    async def content(self, piece: Piece) -> bytes:
        """A file's bytes. Raises SandboxError when they are not those that the tree names."""
        data = await self.read(piece.sha256 or "")
        if len(data) != piece.size or await _sha256(data) != piece.sha256:
            raise SandboxError(
                f"{_shown(piece.path)} was not mounted, nor anything of its tree: the stored bytes "
                f"are not those that the tree names ({piece.size:,} bytes with sha256 "
                f"{piece.sha256}). What was mounted before stays. `reprise log --check` looks for "
                "more such damage."
            )
        return data


async def _sha256(data: bytes) -> str:
    if len(data) > _AT_ONCE:
        return (await asyncio.to_thread(hashlib.sha256, data)).hexdigest()
    return hashlib.sha256(data).hexdigest()


def check_tree(tree: Tree) -> CheckedTree:
    """The tree, checked whole. Raises UsageError, or TooLarge for more than MAX_ENTRIES."""
    if not _SHA256.fullmatch(tree.digest):
        raise UsageError(f"{tree.digest!r} is no digest of a tree (64 hexadecimal digits).")
    if len(tree.entries) > MAX_ENTRIES:
        raise TooLarge(
            f"A tree to mount has {len(tree.entries):,} entries; the most is {MAX_ENTRIES:,}. "
            "Pack what belongs together into an archive, or mount parts of it."
        )
    pieces = sorted(map(_piece, tree.entries), key=lambda piece: _bytes(piece.path))
    if sum(len(each.path) + len(each.target or "") for each in pieces) > MAX_NAMES:
        raise TooLarge(
            f"The names in a tree to mount take more than {amount(MAX_NAMES)} together. Mount "
            "parts of it."
        )
    named: list[Json] = [
        [p.path, p.type, p.mode, p.size, p.target if p.type == "link" else p.sha256] for p in pieces
    ]
    # As `workspace.manifest` defines it: what is shown is what the log names, to the last bit.
    if hashlib.sha256(canonical({"entries": named})).hexdigest() != tree.digest:
        raise UsageError(f"The entries of the tree {tree.digest[:12]} do not add up to its digest.")
    whole: dict[str, Piece] = {}
    for piece in pieces:
        for folder in _above(piece.path):
            found = whole.setdefault(folder, Piece(folder, "dir", _FOLDER_MODE))
            if found.type != "dir":
                raise _bad(piece.path, f"lies beneath {_shown(folder)}, a {found.type}")
        if piece.path in whole:
            raise _bad(piece.path, "is there twice")
        whole[piece.path] = piece
    footprint = sum(-(-piece.size // _PAGE) * _PAGE + _PAGE for piece in whole.values())
    return CheckedTree(tree.digest, tuple(whole.values()), footprint, tree.read)


def _piece(entry: TreeEntry) -> Piece:
    path, kind, mode, size = entry.path, entry.type, entry.mode, entry.size
    _check_path(path)
    if kind not in ("file", "dir", "link"):
        raise _bad(path, "is neither file, dir nor link")
    if type(mode) is not int or not 0 <= mode <= 0o777:
        raise _bad(path, "has a mode outside 0 to 0o777")
    if type(size) is not int or size < 0 or (size and kind != "file"):
        raise _bad(path, f"is a {kind} with a size of {size}")
    if kind == "file":
        if entry.sha256 is None or not _SHA256.fullmatch(entry.sha256):
            raise _bad(path, "is a file without the sha256 of its bytes")
    elif entry.sha256 is not None:
        raise _bad(path, f"is a {kind} with a sha256")
    if kind == "link":
        # It may point anywhere: only the sandbox follows it.
        target = _bytes(entry.target) if isinstance(entry.target, str) else b""
        if not 0 < len(target) <= _MAX_PATH or b"\0" in target:
            raise _bad(path, "is a link without a target that a link can have")
    elif entry.target is not None:
        raise _bad(path, f"is a {kind} with a link's target")
    return Piece(path, kind, mode, size, entry.sha256, entry.target)


def _check_path(path: object) -> None:
    if not isinstance(path, str):
        raise UsageError(f"A tree to mount has a path that is no text: {path!r}.")
    names = _bytes(path).split(b"/")
    if any(name in (b"", b".", b"..") or b"\0" in name for name in names):
        raise _bad(path, "is no clean path within it")
    if sum(map(len, names)) + len(names) - 1 > _MAX_PATH or max(map(len, names)) > _MAX_NAME:
        raise _bad(path, "is longer than any path")
    if len(names) > MAX_DEPTH:
        raise _bad(path, f"lies deeper than {MAX_DEPTH} folders")


def _bytes(text: str) -> bytes:
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} stands for no bytes.") from None
    # Else two texts would name one file.
    if raw.decode("utf-8", "surrogateescape") != text:
        raise UsageError(f"{text!r} is not how its bytes are written.")
    return raw


def _above(path: str) -> list[str]:
    """The folders above a path, outermost first."""
    names = path.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]


def _bad(path: str, what: str) -> UsageError:
    return UsageError(f"A tree cannot be mounted: its entry {_shown(path)} {what}.")


def _shown(path: str) -> str:
    text = ascii(path)
    return text if len(text) <= 200 else f"{text[:200]}…"


class Mounted:
    """The targets of one sandbox and what lies there.

    limit: bytes that all of it may take, 0 for no limit.  places: those of MOUNT_PLACES that
    the environment leaves free.  taken: paths below them that are the environment's own.
    """

    def __init__(
        self, limit: int, places: Iterable[str] = MOUNT_PLACES, taken: Iterable[str] = ()
    ) -> None:
        self._limit = limit
        self._places = tuple(places)
        self._taken = tuple(taken)
        self._footprints: dict[str, int] = {}

    def check_target(self, target: str) -> tuple[str, list[str]]:
        """The place that a target lies in, and the names below. Raises UsageError."""
        _, place, *names = target.split("/") if target.startswith("/") else ["", ""]
        place = f"/{place}"
        if place not in MOUNT_PLACES or not names:
            raise UsageError(
                f"{_shown(target)} is no place to mount at: it must lie below "
                f"{' or '.join(MOUNT_PLACES)}, as {MOUNT_PLACES[0]}/NAME does."
            )
        for raw in map(_bytes, names):
            if raw in (b"", b".", b"..") or b"\0" in raw or len(raw) > _MAX_NAME:
                raise UsageError(
                    f"{_shown(target)} is no place to mount at: each name in it must be a plain "
                    f"one of at most {_MAX_NAME} bytes."
                )
        if len(_bytes(target)) > _MAX_PATH or names[0] == INCOMING:
            raise UsageError(f"{_shown(target)} is no place to mount at: choose another name.")
        if place not in self._places:
            raise UsageError(
                f"{place} is itself part of this environment, so nothing can be mounted below it. "
                f"Mount at {' or '.join(f'{each}/…' for each in self._places) or 'no place'}."
            )
        self._check_apart(target)
        return place, names

    def _check_apart(self, target: str) -> None:
        for other in self._taken:
            if _nested(target, other) or target == other:
                raise UsageError(
                    f"{_shown(target)} is no place to mount at: {_shown(other)} is part of this "
                    "environment. Choose another name."
                )
        for other in self._footprints:
            if _nested(target, other):
                raise UsageError(
                    f"{_shown(target)} is no place to mount at: something is mounted at "
                    f"{_shown(other)}, and one mount cannot lie within another. Choose a name "
                    f"beside it, or mount at {_shown(other)} itself to replace that."
                )

    def check_room(self, target: str, tree: CheckedTree) -> None:
        """Raises TooLarge when all that is mounted would be over the limit."""
        others = sum(size for other, size in self._footprints.items() if other != target)
        if self._limit and others + tree.footprint > self._limit:
            raise TooLarge(
                f"{_shown(target)} would take {amount(tree.footprint)}; together with "
                f"{amount(others)} of other mounts that is over the limit of "
                f"{amount(self._limit)}. Nothing was mounted, and what was there before stays. "
                "`reprise env limit mounts SIZE` raises the limit; where mounts lie in memory, a "
                "quarter of the sandbox's is the most."
            )

    def shows(self, target: str, tree: CheckedTree) -> None:
        """From now on the tree lies at `target`."""
        self._footprints[target] = tree.footprint


def _nested(one: str, other: str) -> bool:
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")
