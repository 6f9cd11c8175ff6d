"""Moves files between host and sandbox through the guest's calls, trusting none of its answers.

Used live and on replay alike: an upload is always applied from the log's own blobs.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from reprise.errors import (
    GuestCallFailed,
    LogCorrupt,
    ProtocolViolation,
    RepriseError,
    TooLarge,
)
from reprise.log.ahead import ReadAhead
from reprise.log.model import Json
from reprise.log.store import Blobs
from reprise.quantities import amount
from reprise.sandbox.connection import Guest
from reprise.settings import TREE_BYTES, TREE_FILES, TREE_SECONDS
from reprise.workspace.folder import Bounds
from reprise.workspace.manifest import (
    MAX_ENTRIES,
    BadManifest,
    Entry,
    Manifest,
    by_path_order,
    check_path,
    checked,
    children_first,
    difference,
    parse,
    shown,
)

#: Data of one call at most. Well under the stream's bound on a frame, and few round trips.
BATCH = 4 << 20
#: Entries of one call at most: their JSON stays under a megabyte or so.
BATCH_ENTRIES = 1_000
#: Entries that one `tree` answer is asked for.
PAGE = 2_000

#: How the path of a stage begins; 16 hex digits follow (`sandbox.contract`).
STAGE = ".reprise/stage-"

#: Reprise's own folder in a workspace, and a name behind those that it gives there.
OWN = ".reprise"
_LAST = "\U0010ffff"

#: Bytes of a file asked for at once.
PIECE = 1 << 20
#: Up to so many paths are asked for one by one.
FEW = 64

ReadBlob = Callable[[str], Awaitable[bytes]]


@dataclass(frozen=True)
class Stat:
    """What the guest says of a path."""

    type: str
    mode: int
    size: int


async def send_entries(guest: Guest, entries: Iterable[Entry], read_blob: ReadBlob) -> None:
    """Put entries into the workspace: directories, then files, then links.

    Memory: one batch and one file. Raises GuestCallFailed (a full disk, a file in the way).
    """
    ordered = by_path_order(entries)
    directories = [entry for entry in ordered if entry.type == "dir"]
    # One may have to write into a directory that is read-only in the end.
    await _put_all(guest, [replace(entry, mode=entry.mode | 0o700) for entry in directories])
    batch: list[Json] = []
    data: list[bytes] = []
    size = 0
    for entry in ordered:
        if entry.type != "file":
            continue
        if entry.sha256 is None:
            raise LogCorrupt(f"The file {entry.path!r} names no content.")
        content = await read_blob(entry.sha256)
        if len(content) != entry.size:
            raise LogCorrupt(
                f"The file {entry.path!r} should be {entry.size} bytes; its blob holds "
                f"{len(content)}."
            )
        # Pieces after the first are written by opening the file again.
        mode = entry.mode if len(content) <= BATCH else entry.mode | 0o200
        described = {"path": entry.path, "type": "file", "mode": mode}
        pieces = [content[at : at + BATCH] for at in range(0, len(content), BATCH)] or [b""]
        for number, piece in enumerate(pieces):
            if batch and (size + len(piece) > BATCH or len(batch) >= BATCH_ENTRIES):
                await guest.call("put", {"entries": batch}, data)
                batch, data, size = [], [], 0
            batch.append(described if number == 0 else {**described, "append": True})
            data.append(piece)
            size += len(piece)
    if batch:
        await guest.call("put", {"entries": batch}, data)
    await _put_all(guest, [entry for entry in ordered if entry.type == "link"])
    await _put_all(guest, [e for e in reversed(directories) if e.mode & 0o700 != 0o700])


async def _put_all(guest: Guest, entries: Sequence[Entry]) -> None:
    """Put entries that carry no data."""
    for at in range(0, len(entries), BATCH_ENTRIES):
        described = [
            {"path": e.path, "type": e.type, "mode": e.mode}
            | ({} if e.target is None else {"target": e.target})
            for e in entries[at : at + BATCH_ENTRIES]
        ]
        await guest.call("put", {"entries": described})


async def remove_paths(guest: Guest, paths: Iterable[str]) -> None:
    """Remove paths, what lies in a directory before the directory."""
    ordered = children_first(paths)
    for at in range(0, len(ordered), BATCH_ENTRIES):
        await guest.call("remove", {"paths": list(ordered[at : at + BATCH_ENTRIES])})


async def workspace_manifest(
    guest: Guest, hashes: bool = True, limit: int = MAX_ENTRIES, *, own: bool = True
) -> Manifest:
    """The whole workspace, page by page. A file that could not be read has no sha256.

    own: whether Reprise's own folder (packages, results) is in it; it may be larger than the rest.
    Raises ProtocolViolation when the guest's answers make no tree, TooLarge past `limit` entries.
    """
    entries: list[Entry] = []
    after: str | None = None
    seen = 0
    passed = False
    while True:
        arguments: dict[str, Json] = {"hashes": hashes, "limit": PAGE}
        if after is not None:
            arguments["after"] = after
        answer, _ = await guest.call("tree", arguments)
        page, more = answer.get("entries"), answer.get("more")
        if not isinstance(page, list) or not isinstance(more, bool) or (more and not page):
            raise ProtocolViolation("The guest's listing of the workspace has no entries.")
        seen += len(page)
        if seen > limit:
            raise TooLarge(f"The workspace holds more than {limit:,} files and directories.")
        try:
            read = [_tree_entry(value, hashes) for value in page]
        except BadManifest as error:
            raise ProtocolViolation(f"The guest's listing of the workspace: {error}") from error
        entries += [
            entry
            for entry in read
            if (entry.type != "link" or entry.target is not None)
            and (own or not _in_own(entry.path))
        ]
        if not more:
            break
        after = read[-1].path
        if not own and not passed and _in_own(after):
            # Once: names of any bytes may lie there.
            after, passed = f"{OWN}/{_LAST}", True
    try:
        return Manifest.of(entries)
    except BadManifest as error:
        # Each entry was well formed, so this is most likely a program that writes meanwhile.
        raise GuestCallFailed(
            f"The workspace changed while it was listed ({error}). Try again when no program "
            "writes in it."
        ) from error


def _in_own(path: str) -> bool:
    return path == OWN or path.startswith(f"{OWN}/")


def _tree_entry(value: Json, hashes: bool) -> Entry:
    """An entry of a listing. One that vanished or could not be read has no hash or no target."""
    if not isinstance(value, dict):
        raise BadManifest("an entry is no object")
    path, type_, mode = value.get("path"), value.get("type"), value.get("mode")
    # setuid, setgid and sticky bits mean nothing in a tree of ours.
    mode = mode & 0o777 if type(mode) is int else mode
    unread = isinstance(value.get("error"), str)
    if type_ == "link" and unread:
        return Entry(check_path(path), "link", 0o777)
    sha256 = value.get("sha256") if type_ == "file" else None
    if type_ == "file" and hashes and sha256 is None and not unread:
        raise BadManifest("a file has no hash")
    target = value.get("target") if type_ == "link" else None
    return checked(path, type_, mode, value.get("size") if type_ == "file" else 0, sha256, target)


async def stat_path(guest: Guest, path: str) -> Stat | None:
    """What `path` names in the workspace (links followed), or None when it names nothing there."""
    try:
        answer, _ = await guest.call("get", {"path": check_path(path), "offset": 0, "length": 0})
    except GuestCallFailed:
        return None
    return _stat(answer)


def _stat(answer: Mapping[str, Json]) -> Stat:
    type_, mode, size = answer.get("type"), answer.get("mode"), answer.get("size")
    if not isinstance(type_, str) or type(mode) is not int or type(size) is not int or size < 0:
        raise ProtocolViolation("The guest's answer about a file has no type, mode or size.")
    return Stat(type_, mode & 0o777, size)


async def read_piece(guest: Guest, path: str, offset: int, length: int) -> tuple[int, bytes]:
    """The size of a file as it is now, and up to `length` (≤ PIECE) bytes of it from `offset` on.

    Raises GuestCallFailed when it is no file.
    """
    check_path(path)
    answer, data = await guest.call("get", {"path": path, "offset": offset, "length": length})
    stat = _stat(answer)
    if stat.type != "file":
        raise GuestCallFailed(
            f"{shown(path)} in the workspace is a {stat.type}, not a file.", "not-a-file"
        )
    piece = data[0] if len(data) == 1 else b""
    if len(data) > 1 or len(piece) > length:
        raise ProtocolViolation("The guest sent more of a file than it was asked for.")
    return stat.size, piece


async def _pieces(guest: Guest, path: str, limit: int) -> AsyncIterator[bytes]:
    """A file of the workspace in pieces. Raises TooLarge past `limit`, GuestCallFailed."""
    offset, size = 0, None
    while size is None or offset < size:
        length = min(PIECE, limit - offset) if size is not None else min(PIECE, limit)
        now, piece = await read_piece(guest, path, offset, length)
        if now > limit:
            raise TooLarge(
                f"{shown(path)} in the workspace holds {amount(now)}, more than the "
                f"{amount(limit)} that may be taken."
            )
        # The size of the first answer is the file's size: one that grows meanwhile has no end.
        size = now if size is None else size
        if not piece and offset < size:
            raise GuestCallFailed(
                f"{shown(path)} in the workspace became shorter while it was read: "
                f"{offset} bytes of {size}."
            )
        piece = piece[: size - offset]
        offset += len(piece)
        if piece:
            yield piece


async def fetch(guest: Guest, path: str, sink: BinaryIO, limit: int) -> int:
    """Copy a file of the workspace into `sink`; returns its size in bytes.

    Raises TooLarge when it holds more than `limit` bytes, GuestCallFailed when it is no file or
    shrinks while it is read; part of it may be in the sink then. The path of the sink is the
    caller's choice alone: nothing the guest says has a part in it.
    """
    size = 0
    async for piece in _pieces(guest, path, limit):
        await asyncio.to_thread(sink.write, piece)
        size += len(piece)
    return size


async def read_file(guest: Guest, path: str, limit: int) -> bytes:
    """A file of the workspace in memory. Raises as `fetch`."""
    return b"".join([piece async for piece in _pieces(guest, path, limit)])


async def stat_paths(
    guest: Guest, paths: Sequence[str], compared: Sequence[Manifest], *, whole: bool = False
) -> dict[str, Entry]:
    """What the workspace holds at these paths, for `manifest.merge`.

    A file is hashed (by reading it) only when it might be what one of the `compared` trees says,
    that is when it has the same size there. With `whole`, everything else in the workspace is
    in the answer too, unhashed (it may be without). Few paths are asked for one by one.
    """
    found: dict[str, Entry] = {}
    if not whole and len(paths) <= FEW:
        for path in paths:
            stat = await stat_path(guest, path)
            if stat is None:
                # Nothing there, or a link that leads nowhere: only a listing tells these apart.
                whole = True
                break
            found[path] = _entry(path, stat)
    if whole or len(paths) > FEW:
        found = dict((await workspace_manifest(guest, hashes=False)).by_path)
    for path in paths:
        now = found.get(path)
        if now is None or now.type != "file":
            continue
        sizes = [e.size for e in (tree.get(path) for tree in compared) if e and e.type == "file"]
        if now.size in sizes:
            found[path] = replace(now, sha256=await _hash(guest, path, now.size))
    return found


def _entry(path: str, stat: Stat) -> Entry:
    """A stat as an entry. The call tells no link's target, so a link equals no other one then."""
    if stat.type == "dir":
        return Entry(path, "dir", stat.mode)
    if stat.type == "link":
        return Entry(path, "link", stat.mode)
    return Entry(path, "file", stat.mode, stat.size)


async def _hash(guest: Guest, path: str, size: int) -> str | None:
    """sha256 of a file of the workspace, or None when it is not what it was a moment ago."""
    total, read = hashlib.sha256(), 0
    try:
        async for piece in _pieces(guest, path, size):
            total.update(piece)
            read += len(piece)
    except (GuestCallFailed, TooLarge):
        return None
    return total.hexdigest() if read == size else None


def upload_change(payload: Mapping[str, Json]) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Entries to put and paths to remove of an upload step. Raises LogCorrupt."""
    entries, removed = payload.get("entries"), payload.get("removed")
    if not isinstance(entries, list) or not isinstance(removed, list):
        raise LogCorrupt("An upload step has no entries.")
    try:
        return (
            Manifest.of(Entry.from_json(list(value)) for value in entries).entries,
            tuple(check_path(path) for path in removed),
        )
    except (BadManifest, TypeError) as error:
        raise LogCorrupt(f"An upload step is malformed: {error}") from error


def uploaded(base: Manifest, payload: Mapping[str, Json]) -> Manifest:
    """What counts as brought in after an upload step, given what was before it."""
    entries, removed = upload_change(payload)
    return base.but(entries, removed)


async def apply_upload(guest: Guest, payload: Mapping[str, Json], blobs: Blobs) -> None:
    """Do what an upload step says, live and on replay alike: all of it or nothing.

    The files go beside first, in a stage that is part of no tree, and then in by renaming. Raises
    GuestCallFailed when nothing has changed, or with kind "half-installed" when something has (the
    sandbox must go then); LogCorrupt, SandboxDied.
    """
    entries, removed = upload_change(payload)
    stage = f"{STAGE}{secrets.token_hex(8)}"
    staged = [replace(entry, path=f"{stage}/{entry.path}") for entry in entries]
    try:
        read = _ahead(blobs, staged)
        await send_entries(guest, [Entry(stage, "dir", 0o700), *staged], read)
        await guest.call("install", {"stage": stage, "removed": list(removed)})
    except BaseException:
        # After `install` it is gone. A stage that stays belongs to nothing; only its room is lost.
        with contextlib.suppress(RepriseError):
            await guest.call("remove", {"paths": [stage]})
        raise


async def keep_tree(guest: Guest, blobs: Blobs, bounds: Bounds | None = None) -> str | None:
    """Store the workspace as it is; returns its manifest's sha256.

    None when it is over the bounds, holds what cannot be read, or takes too long: a later resume
    then plays the steps again. Call it with the interpreter ended: nothing may change it.
    """
    bounds = bounds or Bounds(TREE_BYTES, TREE_FILES)
    try:
        async with asyncio.timeout(TREE_SECONDS):
            manifest = await workspace_manifest(guest, limit=bounds.files)
            unread = any(e.type == "file" and e.sha256 is None for e in manifest)
            if unread or manifest.size > bounds.bytes:
                return None
            missing = await blobs.missing(manifest.blobs())
            kept: list[Entry] = []
            batch: list[bytes] = []
            for entry in manifest:
                if entry.type != "file" or entry.sha256 not in missing:
                    kept.append(entry)
                    continue
                data = await read_file(guest, entry.path, bounds.bytes)
                # Named by what was read: the guest's word about it is worth nothing.
                kept.append(entry.containing(data))
                batch.append(data)
                if sum(map(len, batch)) > BATCH:
                    await blobs.put_many(batch)
                    batch = []
            if batch:
                await blobs.put_many(batch)
            whole = Manifest.of(kept)
            if whole.size > bounds.bytes:
                return None
            return await blobs.put(whole.to_bytes())
    except (TimeoutError, TooLarge, GuestCallFailed):
        return None


async def put_tree(guest: Guest, blobs: Blobs, sha256: str) -> None:
    """Make the workspace exactly the kept tree: what is not in it goes.

    Raises LogCorrupt when the blob is no manifest, GuestCallFailed.
    """
    try:
        wanted = parse(await blobs.get(sha256))
    except BadManifest as error:
        raise LogCorrupt(f"The kept tree {sha256} is malformed: {error}") from error
    await _make_exactly(guest, wanted, _ahead(blobs, wanted))


def _ahead(blobs: Blobs, entries: Iterable[Entry]) -> ReadAhead:
    return ReadAhead(
        blobs, ((entry.sha256, entry.size) for entry in entries if entry.sha256 is not None)
    )


async def clear_workspace(guest: Guest) -> None:
    """Make the workspace as empty as a fresh sandbox's."""

    async def never(sha256: str) -> bytes:
        raise LogCorrupt(f"An empty tree has no file {sha256}.")

    await _make_exactly(guest, Manifest(), never)


async def _make_exactly(guest: Guest, wanted: Manifest, read_blob: ReadBlob) -> None:
    change = difference(await workspace_manifest(guest), wanted)
    await remove_paths(guest, change.removed)
    await send_entries(guest, change.put, read_blob)
