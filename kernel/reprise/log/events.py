"""Reads a session's events and outputs in the order in which they were recorded, as stored.

For whoever carries a history elsewhere. What is read is a prefix that no longer changes: it ends
where the log ended when the reading began.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reprise.errors import LogCorrupt, SessionNotFound, UnavailableError
from reprise.log.blobs import OwnedBlobs
from reprise.log.head import Head
from reprise.log.lineage import NO_END, Segment
from reprise.log.packing import unpack
from reprise.log.reader import PAGE_BYTES, PAGE_ROWS, Reader

#: Bodies of outputs that are fetched at once; one row may be larger.
_OUTPUT_BYTES = 8 << 20

#: Bytes of a large blob that are read at once.
_PIECE = 1 << 20


@dataclass(frozen=True)
class Snapshot:
    """A session at the moment when its reading began."""

    kernel: str
    created_at: int
    head: Head


@dataclass(frozen=True)
class Stored:
    """A step or outcome (its canonical bytes; link: digest or chain), or a batch of outputs.

    A batch's body is its JSON array, unpacked. event: an outputs' row has the one that was to
    come next.
    """

    type: Literal["step", "outcome", "output", "late"]
    seq: int
    event: int
    body: bytes
    link: bytes = b""


@dataclass(frozen=True)
class _Row:
    """Where a batch of outputs lies, and how large it is."""

    number: int
    seq: int
    event: int
    late: bool
    size: int


async def snapshot(reader: Reader) -> Snapshot:
    """Where the session stands now. Raises SessionNotFound."""
    rows = await reader._ask(
        "SELECT s.kernel, s.created_at, h.next_event, h.next_seq, h.next_output, h.chain"
        " FROM reprise.sessions s JOIN reprise.heads h ON h.session = s.id"
        " WHERE s.id = %s AND s.owner = %s",
        [reader.session, reader.owner],
    )
    if not rows:
        raise SessionNotFound(f"There is no session {reader.session} of {reader.owner}.")
    kernel, created_at, event, seq, output, chain = rows[0]
    return Snapshot(kernel, created_at, Head(event, seq, output, bytes(chain)))


async def events(reader: Reader, until: Snapshot) -> AsyncIterator[Stored]:
    """All events and batches of outputs before the snapshot's end; memory stays at a page.

    Those that a fork shares come from the sessions that own them. Raises LogCorrupt when a row is
    missing (somebody deletes the session, say).
    """
    running: set[int] = set()
    *shared, own = await reader.line()
    for part in shared:
        walk = _Walk(reader, part, running, None)
        async for stored in walk.whole():
            yield stored
    own = own.until(until.head.next_event, until.head.next_seq)
    walk = _Walk(reader, own, running, until.head.next_output)
    async for stored in walk.whole():
        yield stored
    # What was shown after the last event: by late threads, or by a step that still runs.
    async for stored in walk.outputs(own.end_event, own.end_event + 1):
        yield stored


class _Walk:
    """Goes through a part of a history in windows that fit into memory.

    running: the steps that have begun and not ended; goes on from part to part.
    outputs: the number of the part's batches; None for all of them.
    """

    def __init__(
        self, reader: Reader, part: Segment, running: set[int], outputs: int | None
    ) -> None:
        self._reader = reader
        self._part = part
        self._running = running
        self._end = NO_END if outputs is None else outputs
        self._at = part.first_event

    async def whole(self) -> AsyncIterator[Stored]:
        while self._at < self._part.end_event:
            stop = await self._stop()
            found = await self._events(stop)
            # Steps that begin in this window, and those that were running before it.
            self._running |= {stored.seq for stored in found if stored.type == "step"}
            shown = self.outputs(self._at, stop)
            batch = await anext(shown, None)
            for stored in found:
                while batch is not None and batch.event <= stored.event:
                    yield batch
                    batch = await anext(shown, None)
                yield stored
            self._running -= {stored.seq for stored in found if stored.type == "outcome"}
            self._at = stop

    async def outputs(self, start: int, stop: int) -> AsyncIterator[Stored]:
        """Batches that were stored before the events of a window, in order."""
        page: list[_Row] = []
        room = _OUTPUT_BYTES
        for row in await self._rows(start, stop):
            if page and row.size > room:
                for stored in await self._bodies(page):
                    yield stored
                page, room = [], _OUTPUT_BYTES
            page.append(row)
            room -= row.size
        for stored in await self._bodies(page):
            yield stored

    async def _stop(self) -> int:
        """The event before which a window ends that is not too large."""
        last = min(self._at + PAGE_ROWS, self._part.end_event)
        rows = await self._reader._ask(
            "SELECT event, size FROM reprise.steps"
            " WHERE session = %s AND event >= %s AND event < %s"
            " UNION ALL SELECT event, size FROM reprise.outcomes"
            " WHERE session = %s AND event >= %s AND event < %s",
            [self._part.session, self._at, last] * 2,
        )
        sizes: dict[int, int] = dict(rows)
        if len(sizes) != last - self._at:
            raise LogCorrupt(
                f"Between the events {self._at} and {last} of session {self._part.session} some are"
                " missing. Was it deleted meanwhile? `reprise log --check` tells what is whole."
            )
        total, stop = 0, self._at
        while stop < last and (stop == self._at or total + sizes[stop] <= PAGE_BYTES):
            total += sizes[stop]
            stop += 1
        return stop

    async def _events(self, stop: int) -> list[Stored]:
        rows = await self._reader._ask(
            "SELECT event, 'step', seq, body::text, digest FROM reprise.steps"
            " WHERE session = %s AND event >= %s AND event < %s"
            " UNION ALL SELECT event, 'outcome', seq, body::text, chain FROM reprise.outcomes"
            " WHERE session = %s AND event >= %s AND event < %s",
            [self._part.session, self._at, stop] * 2,
        )
        found = [
            Stored(type_, seq, event, body.encode(), bytes(link))
            for event, type_, seq, body, link in rows
        ]
        return sorted(found, key=lambda stored: stored.event)

    async def _rows(self, start: int, stop: int) -> list[_Row]:
        session, bounds = self._part.session, (start, stop, self._end)
        # A packed batch counts as what it unpacks to (`packing`).
        columns = (
            "number, seq, event, late, CASE WHEN left(body::text, 6) = '\"zstd:'"
            " THEN split_part(left(body::text, 40), ':', 2)::bigint ELSE size END"
        )
        rows = await self._reader._ask(
            # Only the steps that run in the window can have shown something: found by their key,
            # where a search for the event would read all outputs of the session.
            f"SELECT {columns} FROM reprise.outputs WHERE session = %s AND seq = ANY(%s::bigint[])"  # noqa: S608
            " AND NOT late AND event >= %s AND event < %s AND number < %s"
            f" UNION ALL SELECT {columns} FROM reprise.outputs WHERE late AND session = %s"
            " AND event >= %s AND event < %s AND number < %s",
            [session, sorted(self._running), *bounds, session, *bounds],
        )
        return sorted((_Row(*row) for row in rows), key=lambda row: row.number)

    async def _bodies(self, page: Sequence[_Row]) -> list[Stored]:
        if not page:
            return []
        rows = await self._reader._ask(
            "SELECT o.number, o.body::text FROM reprise.outputs o"
            " JOIN unnest(%s::bigint[], %s::bigint[]) AS w(seq, number)"
            " ON o.seq = w.seq AND o.number = w.number WHERE o.session = %s",
            [[row.seq for row in page], [row.number for row in page], self._part.session],
        )
        bodies: dict[int, str] = dict(rows)
        if len(bodies) != len(page):
            raise LogCorrupt(
                f"Outputs of session {self._part.session} are missing. Was it deleted meanwhile?"
            )
        found = []
        for row in page:
            batch = unpack(bodies[row.number])
            body = batch if isinstance(batch, bytes) else batch.encode()
            found.append(Stored("late" if row.late else "output", row.seq, row.event, body))
        return found


async def blob_in_pieces(blobs: OwnedBlobs, name: str) -> tuple[int, Iterator[bytes]]:
    """The size of a stored blob and its bytes, unchecked, without holding a large one in memory.

    Raises LogCorrupt when it is not stored, UnavailableError when its file cannot be read.
    """
    rows = await blobs._ask(
        "SELECT size, data FROM reprise.blobs WHERE owner = %s AND sha256 = %b",
        [blobs._owner, bytes.fromhex(name)],
    )
    if not rows:
        raise LogCorrupt(f"Blob {name} is not stored for {blobs._owner}.")
    size, data = rows[0]
    if data is not None:
        return size, iter((bytes(data),))
    return size, _file_pieces(blobs.files.path(name))


def _file_pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
    except FileNotFoundError as error:
        raise LogCorrupt(
            f"A blob has no file at {path}. If the log is used from several machines, they must"
            " share that folder."
        ) from error
    except OSError as error:
        raise UnavailableError(f"The blob at {path} cannot be read: {error.strerror}.") from error
