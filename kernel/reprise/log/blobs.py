"""Content-addressed bytes of one owner: up to 1 MiB in Postgres, larger ones in files."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from reprise.errors import LogCorrupt, RepriseError, UnavailableError

#: Above this a file is faster than a row by an order of magnitude (200 MB: 4 s against 0.12 s).
IN_POSTGRES_BYTES = 1 << 20

#: Bytes of small blobs that are sent in one statement.
_BATCH_BYTES = 4 << 20

#: Bytes of a file that are copied at once.
_PIECE = 1 << 20

_NAME = re.compile(rb"[0-9a-f]{64}")
_QUOTED_NAME = re.compile(rb'"([0-9a-f]{64})"')

Ask = Callable[[str, Sequence[Any]], Awaitable[list[tuple[Any, ...]]]]


class BlobFiles:
    """The files of one owner's large blobs, named by their sha256. Blocking; run in a thread."""

    def __init__(self, home: Path, owner: str) -> None:
        # Owners are people's names from anywhere; a hash of one is a safe folder name.
        self.root = home / "blobs" / hashlib.sha256(owner.encode()).hexdigest()[:32]

    def path(self, name: str) -> Path:
        return self.root / name[:2] / name[2:4] / name

    def write(self, name: str, data: bytes) -> None:
        """Make the file durable under its name; one that is there with other bytes is replaced."""
        try:
            if not self._is_whole(name, len(data)):
                self.fill(name, lambda file: file.write(data))
        except OSError as error:
            raise UnavailableError(
                f"A blob of {len(data)} bytes could not be written to {self.path(name)}:"
                f" {error.strerror}. Nothing refers to it yet; free space there or set"
                " REPRISE_HOME, then try again."
            ) from error

    def fill(self, name: str, write: Callable[[BinaryIO], object]) -> None:
        """Make a file durable under its name, with what `write` puts into it.

        Raises OSError and whatever `write` raises; then the name is as it was.
        """
        path = self.path(name)
        created = _make_private(path.parent)
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        for folder in (path.parent, *created):
            _fsync_folder(folder)

    def read(self, name: str, size: int) -> bytes | None:
        """The file's bytes, unchecked; None when it is not there or its size is another."""
        try:
            with self.path(name).open("rb") as file:
                if os.fstat(file.fileno()).st_size != size:
                    return None
                return file.read(size)
        except FileNotFoundError:
            return None

    def lost(self, expected: Sequence[tuple[str, int]]) -> set[str]:
        """Those names whose file is not there in the size it should have."""
        found = set()
        for name, size in expected:
            try:
                if self.path(name).stat().st_size == size:
                    continue
            except FileNotFoundError:
                pass
            found.add(name)
        return found

    # -- for a collection -----------------------------------------------------------------------

    def folders(self) -> list[Path]:
        """The folders that hold blobs: 65,536 at most."""
        return sorted(path for path in self.root.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]"))

    def old(self, folder: Path, before: float) -> list[tuple[str, int]]:
        """Blobs in a folder that were written before a time, with sizes; removes leftovers."""
        found = []
        for path in sorted(folder.iterdir()):
            try:
                status = path.lstat()
                if status.st_mtime >= before or not stat.S_ISREG(status.st_mode):
                    continue
                if path.name.startswith("."):
                    path.unlink()  # of a writer, or a collection, that died
                elif is_blob_name(path.name):
                    found.append((path.name, status.st_size))
            except FileNotFoundError:
                continue
        return found

    def take(self, name: str, before: float) -> int | None:
        """Remove a blob's file, unless it was written after a time; returns the size removed.

        It is renamed first and looked at then, so that one that a writer puts in its place
        meanwhile is never the one that goes.
        """
        path = self.path(name)
        aside = path.with_name(f".{name}.going")
        try:
            path.rename(aside)
            status = aside.stat()
            if status.st_mtime >= before:
                aside.rename(path)
                return None
            aside.unlink()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnavailableError(
                f"The file of a blob that nothing names, {path}, could not be deleted:"
                f" {error.strerror}. What was deleted before it is gone, the rest is as it was; try"
                " again as a user who may write there."
            ) from error
        return status.st_size

    def _is_whole(self, name: str, size: int) -> bool:
        data = self.read(name, size)
        return data is not None and hashlib.sha256(data).hexdigest() == name


def _make_private(folder: Path) -> list[Path]:
    """Create folders that only we can enter; returns the parents whose entries changed."""
    changed = []
    missing = []
    at = folder
    while not at.exists():
        missing.append(at)
        at = at.parent
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
        changed.append(path.parent)
    return changed


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class OwnedBlobs:
    """The `Blobs` of the log contract.

    ask: runs one statement on a connection of the log and returns its rows.
    """

    def __init__(self, ask: Ask, owner: str, home: Path) -> None:
        self._ask = ask
        self._owner = owner
        #: where the large ones lie
        self.files = BlobFiles(home, owner)

    async def put(self, data: bytes) -> str:
        return (await self.put_many([data]))[0]

    async def put_many(self, items: Sequence[bytes]) -> list[str]:
        """Store all; when it returns all are durable. Raises TooLarge, UnavailableError."""
        names = [hashlib.sha256(data).hexdigest() for data in items]
        unique = dict(zip(names, items, strict=True))
        absent = await self.missing(list(unique))
        batch: list[tuple[str, int, bytes | None]] = []
        room = _BATCH_BYTES
        for name, data in unique.items():
            large = len(data) > IN_POSTGRES_BYTES
            if large:
                # Also when the row is there: the file may hold other bytes than it should.
                await asyncio.to_thread(self.files.write, name, data)
            if name not in absent:
                continue
            batch.append((name, len(data), None if large else data))
            room -= 0 if large else len(data)
            if room <= 0 or len(batch) >= 500:
                await self._insert(batch)
                batch, room = [], _BATCH_BYTES
        if batch:
            await self._insert(batch)
        for name in absent:
            # A collection may have taken a file that was left without a row, right before the row
            # came. From now on it leaves this one alone, since the row is there and fresh.
            if len(unique[name]) > IN_POSTGRES_BYTES:
                await asyncio.to_thread(self.files.write, name, unique[name])
        return names

    async def put_file(self, file: BinaryIO) -> tuple[str, int]:
        """Store a file of any size, of which nothing is kept in memory but a piece; its sha256
        and its size. Raises as `put_many`."""
        name, size = await asyncio.to_thread(_hashed, file)
        if size <= IN_POSTGRES_BYTES:
            file.seek(0)
            return await self.put(file.read()), size

        def write() -> None:
            file.seek(0)
            try:
                self.files.fill(name, lambda target: shutil.copyfileobj(file, target, _PIECE))
            except OSError as error:
                raise UnavailableError(
                    f"A file of {size} bytes could not be stored at {self.files.path(name)}:"
                    f" {error.strerror}. Nothing refers to it yet; free space there, then try"
                    " again."
                ) from error

        if await self.missing([name]):
            await asyncio.to_thread(write)
            await self._insert([(name, size, None)])
            if await self.missing([name]):
                # As in `put_many`: a collection took the file right before the row came.
                await asyncio.to_thread(write)
        return name, size

    async def _insert(self, batch: Sequence[tuple[str, int, bytes | None]]) -> None:
        await self._ask(
            "INSERT INTO reprise.blobs (owner, sha256, size, data)"
            " SELECT %s, w.sha256, w.size, w.data"
            " FROM unnest(%b::bytea[], %s::bigint[], %b::bytea[]) AS w(sha256, size, data)"
            " ON CONFLICT DO NOTHING",
            [
                self._owner,
                [bytes.fromhex(name) for name, _, _ in batch],
                [size for _, size, _ in batch],
                [data for _, _, data in batch],
            ],
        )

    async def get(self, sha256: str) -> bytes:
        rows = await self._ask(
            "SELECT size, data FROM reprise.blobs WHERE owner = %s AND sha256 = %s",
            [self._owner, _digest(sha256)],
        )
        if not rows:
            raise LogCorrupt(f"Blob {sha256} is not stored for {self._owner}.")
        size, data = rows[0]
        if data is None:
            try:
                data = await asyncio.to_thread(self.files.read, sha256, size)
            except OSError as error:
                raise UnavailableError(
                    f"Blob {sha256} at {self.files.path(sha256)} cannot be read: {error.strerror}."
                ) from error
            if data is None:
                raise LogCorrupt(
                    f"Blob {sha256} ({size} bytes) has no whole file at {self.files.path(sha256)}."
                    " If the log is used from several machines, they must share that folder."
                )
        return _proven(sha256, data)

    async def small(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        rows = await self._ask(
            "SELECT encode(b.sha256, 'hex'), b.data"
            " FROM unnest(%b::bytea[], %s::bigint[]) AS w(sha256, size)"
            " JOIN reprise.blobs b ON b.owner = %s AND b.sha256 = w.sha256 AND b.size = w.size"
            " WHERE b.data IS NOT NULL",
            [[_digest(name) for name in wanted], list(wanted.values()), self._owner],
        )
        return {name: _proven(name, data) for name, data in rows}

    async def missing(self, sha256s: Sequence[str]) -> set[str]:
        return await self.absent(self._ask, sha256s)

    async def absent(self, ask: Ask, sha256s: Collection[str]) -> set[str]:
        """Those that are not stored, asked with `ask`; a collection leaves the others alone.

        A large one whose file is gone, or has another size, counts as not stored.
        """
        if not sha256s:
            return set()
        rows = await ask(
            "SELECT sha256, size, in_file FROM reprise.touch_blobs(%s, %b::bytea[])",
            [self._owner, [_digest(name) for name in sha256s]],
        )
        stored = {bytes(row[0]).hex() for row in rows}
        in_files = [(bytes(name).hex(), size) for name, size, in_file in rows if in_file]
        if in_files:
            stored -= await asyncio.to_thread(self.files.lost, in_files)
        return set(sha256s) - stored


def _hashed(file: BinaryIO) -> tuple[str, int]:
    """sha256 (hex) and size of what a file holds."""
    file.seek(0)
    total, size = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        total.update(piece)
        size += len(piece)
    return total.hexdigest(), size


def _proven(sha256: str, data: bytes) -> bytes:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise LogCorrupt(f"Blob {sha256} holds other bytes than those it is named for.")
    return bytes(data)


def is_blob_name(text: str) -> bool:
    """Whether a text is a sha256 as blobs are named by."""
    return _NAME.fullmatch(text.encode("ascii", "replace")) is not None


def named_in(data: bytes) -> set[str]:
    """All names of blobs that stand as a text of their own in some JSON.

    Whatever the JSON says: what is not meant as a name keeps a blob that nobody needs, at worst.
    """
    return {match.decode("ascii") for match in _QUOTED_NAME.findall(data)}


def _digest(name: str) -> bytes:
    try:
        digest = bytes.fromhex(name)
    except ValueError:
        digest = b""
    if len(digest) != 32 or digest.hex() != name:
        raise RepriseError(f"{name!r} is not the sha256 of a blob.")
    return digest
