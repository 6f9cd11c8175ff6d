"""What a person does with files of a workspace (new folders, moving, copying, removing), as one
upload step: all of it or nothing, its contents pinned, so that a replay does the very same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from reprise.client import requests
from reprise.errors import GuestCallFailed, TooLarge, UsageError
from reprise.log.store import Blobs
from reprise.quantities import amount
from reprise.settings import TREE_BYTES, TREE_FILES
from reprise.workspace.listing import FolderPage, Listed
from reprise.workspace.manifest import Entry, shown

#: Of a folder that somebody makes.
FOLDER_MODE = 0o755
#: Reprise's own folder, which nobody moves or removes by hand.
OWN = ".reprise"


class PathTaken(UsageError):
    """Something lies already where something else is to come."""


class PathNotFound(UsageError):
    """Nothing lies where something was to be taken from."""


class Place(Protocol):
    """A workspace as this needs it (`client.workspace.LiveWorkspace`)."""

    async def folder(
        self, path: str = "", *, after: str | None = None, limit: int = ...
    ) -> FolderPage: ...

    async def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes: ...


@dataclass(frozen=True)
class FileChanges:
    """What is wanted; paths within the workspace. move, copy: from where, to where.

    put: files whose bytes are stored already.  replaced: whether what is in the way goes.
    """

    make: Sequence[str] = ()
    remove: Sequence[str] = ()
    move: Sequence[tuple[str, str]] = ()
    copy: Sequence[tuple[str, str]] = ()
    put: Sequence[Entry] = ()
    replaced: bool = False


@dataclass
class Upload:
    """What an upload step is to bring in, and to take away before."""

    entries: dict[str, Entry] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)


async def as_upload(place: Place, blobs: Blobs, wanted: FileChanges) -> Upload:
    """The upload that does what is wanted; contents that it names are stored then.

    Raises PathTaken, PathNotFound, TooLarge, UsageError: nothing was changed.
    """
    return await _Planner(place, blobs, wanted.replaced).plan(wanted)


class _Planner:
    def __init__(self, place: Place, blobs: Blobs, replaced: bool) -> None:
        self._place = place
        self._blobs = blobs
        self._replaced = replaced
        self._upload = Upload()
        self._bytes = 0

    async def plan(self, wanted: FileChanges) -> Upload:
        for path in map(_named, wanted.make):
            there = await self._at(path)
            if there is not None:
                raise _taken(path)
            self._add(Entry(path, "dir", FOLDER_MODE))
        for path in map(_named, wanted.remove):
            await self._source(path)
            self._upload.removed.append(path)
        for source, target in wanted.copy:
            await self._bring(_named(source), _named(target))
        for source, target in wanted.move:
            await self._bring(_named(source), _named(target))
            self._upload.removed.append(_named(source))
        for entry in wanted.put:
            path = _named(entry.path)
            await self._make_way(path, wanted_file=True)
            self._add(replace(entry, path=path))
        if not self._upload.entries and not self._upload.removed:
            raise UsageError("Nothing was asked for: name what to make, move, copy or remove.")
        return self._upload

    async def _bring(self, source: str, target: str) -> None:
        """Have what lies at `source` at `target`, too."""
        if target == source or target.startswith(f"{source}/"):
            raise UsageError(f"{shown(source)} cannot be brought into itself.")
        found = await self._source(source)
        await self._make_way(target, wanted_file=found.type != "dir")
        await self._take(source, target, found)

    async def _take(self, source: str, target: str, found: Listed) -> None:
        if found.type == "link":
            if found.target is None:
                raise PathNotFound(f"{shown(source)} is gone. Nothing was changed.")
            self._add(Entry(target, "link", 0o777, target=found.target))
            return
        if found.type == "file":
            self._bytes += found.size
            self._check(source)
            data = await self._place.read(source, limit=TREE_BYTES)
            # A folder's list is the sandbox's word; what came is what counts.
            self._bytes += len(data) - found.size
            self._check(source)
            digest = await self._blobs.put(data)
            self._add(Entry(target, "file", found.mode, len(data), digest))
            return
        self._add(Entry(target, "dir", found.mode))
        after: str | None = None
        while True:
            page = await self._place.folder(source, after=after)
            for child in page.entries:
                await self._take(f"{source}/{child.name}", f"{target}/{child.name}", child)
            if page.next is None:
                return
            after = page.next

    async def _make_way(self, path: str, *, wanted_file: bool) -> None:
        """Raises PathTaken where something lies that is not to be replaced.

        UsageError for a file that would take a folder's place: what lies in there was not meant.
        """
        there = await self._at(path)
        if there is None:
            return
        if not self._replaced:
            raise _taken(path)
        if wanted_file and there.type == "dir":
            raise UsageError(
                f"{shown(path)} is a folder, whose place a file does not take. Remove it first, or "
                "give the file another name. Nothing was changed."
            )
        if not wanted_file:
            # A folder that comes would be merged into the one that is there.
            self._upload.removed.append(path)

    async def _source(self, path: str) -> Listed:
        found = await self._at(path)
        if found is None:
            raise PathNotFound(f"There is no {shown(path)} in the workspace. Nothing was changed.")
        return found

    async def _at(self, path: str) -> Listed | None:
        """What lies at a path, links not followed in last place."""
        above, _, name = path.rpartition("/")
        after: str | None = _before(name)
        while True:
            try:
                page = await self._place.folder(above, after=after, limit=_FEW)
            except GuestCallFailed as error:
                if error.kind == "not-found":
                    return None
                if error.kind == "outside":
                    raise UsageError(
                        f"{shown(above)} leads out of the workspace. Nothing was changed."
                    ) from error
                raise
            for each in page.entries:
                if each.name == name:
                    return each
                if each.name.encode("utf-8", "surrogateescape") > name.encode(
                    "utf-8", "surrogateescape"
                ):
                    return None
            if page.next is None:
                return None
            after = page.next

    def _add(self, entry: Entry) -> None:
        if entry.path in self._upload.entries:
            raise UsageError(f"{shown(entry.path)} is asked for twice. Nothing was changed.")
        self._upload.entries[entry.path] = entry
        self._check(entry.path)

    def _check(self, path: str) -> None:
        if self._bytes > TREE_BYTES or len(self._upload.entries) > TREE_FILES:
            raise TooLarge(
                f"{shown(path)} and the rest are over {amount(TREE_BYTES)} or {TREE_FILES:,} files,"
                " which is the most that one step moves. Nothing was changed. Move it in a cell."
            )


#: Entries of a page that only looks for one name.
_FEW = 20


def _before(name: str) -> str:
    """What comes before `name` in the order of bytes, and behind what else comes before it, but
    for names that nobody gives."""
    raw = name.encode("utf-8", "surrogateescape")
    return (raw[:-1] + bytes([raw[-1] - 1]) + b"\xff" * 4).decode("utf-8", "surrogateescape")


def _named(path: str) -> str:
    """Raises UsageError for what may not be changed by hand."""
    found = requests.place(path)
    if not found:
        raise UsageError("That is the workspace itself. Name something in it.")
    if found.partition("/")[0] == OWN:
        raise UsageError(f"{OWN} is Reprise's own folder; what is in it is not changed by hand.")
    return found


def _taken(path: str) -> PathTaken:
    return PathTaken(f"There is a {shown(path)} already. Nothing was changed.")
