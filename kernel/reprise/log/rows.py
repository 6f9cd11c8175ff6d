"""The steps of a history as rows that are had by their number, with a filter or without.

Without a filter a row's number is its step's. With one, the numbers of the steps that fit are found
once and kept: the log is append-only, so what was found stays, and only what is new, or was still
running, is looked at again.
"""

from __future__ import annotations

import asyncio
import bisect
import json
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reprise.log.lineage import NO_END, Line
from reprise.log.model import Json, Status, StepKind, parse_outcome, parse_step
from reprise.log.one_line import Asked, asked, shown
from reprise.log.postgres import Log
from reprise.log.reader import SESSION_QUERY, Reader, session_info
from reprise.log.search import StepFilter, searched
from reprise.log.search import conditions as search_conditions
from reprise.log.store import SessionInfo

#: Steps that are looked through for one answer, and at once.
SCANNED: Final = 100_000
_AT_ONCE: Final = 10_000
#: Bytes of steps whose texts are looked at, at once (one step may be larger).
_BYTES: Final = 4 << 20
#: Characters of a step's text that are looked at, its last ones, and those of a batch of outputs.
_HEAD: Final = 8 << 10
_TAIL: Final = 2 << 10
_SHOWN: Final = 4 << 10
#: Searches whose findings are kept.
_KEPT: Final = 32
#: Forks that are told.
_FORKS: Final = 1_000


@dataclass(frozen=True)
class RowFilter:
    """Which steps; see StepFilter. cell: only runs of the notebook's cell of that id."""

    steps: StepFilter = field(default_factory=StepFilter)
    cell: str | None = None

    @property
    def key(self) -> tuple[object, ...]:
        steps = self.steps
        return (
            tuple(sorted(steps.kinds)),
            tuple(sorted(steps.actors)),
            tuple(sorted(steps.ended)),
            tuple(steps.words),
            self.cell,
        )

    @property
    def open(self) -> bool:
        """Whether everything fits."""
        return self.key == RowFilter().key

    @property
    def texts(self) -> bool:
        """Whether a step's text has to be looked at to tell whether it fits."""
        return bool(self.steps.words) or self.cell is not None


@dataclass(frozen=True)
class Row:
    """A step in a line. number: its place among those that fit, the oldest is 0."""

    number: int
    seq: int
    kind: StepKind
    at: int
    asked: Asked
    status: Status | None
    duration_us: int | None
    execution_count: int | None
    cause: Json
    digest: str
    shown: str | None


@dataclass(frozen=True)
class Rows:
    """found: how many fit. exact: False where more may fit than was looked through."""

    rows: tuple[Row, ...]
    found: int
    exact: bool
    total: int


class RowSearches:
    """What searches have found so far, the ones that were asked for last.

    shortened: makes the text of a command one for people.
    """

    def __init__(self, shortened: Callable[[str], str] = str) -> None:
        self._shortened = shortened
        self._found: OrderedDict[tuple[object, ...], _Search] = OrderedDict()

    async def rows(self, reader: Reader, wanted: RowFilter, offset: int, limit: int) -> Rows:
        """Rows offset ≤ number < offset + limit. Raises UsageError for too many words."""
        total = (await reader.info()).steps
        if wanted.open:
            numbers = range(min(offset, total), min(offset + limit, total))
            rows = await _rows(reader, numbers, offset, self._shortened)
            return Rows(tuple(rows), total, True, total)
        key = (reader.owner, reader.session, wanted.key)
        search = self._found.get(key)
        if search is None:
            search = self._found[key] = _Search(wanted)
        self._found.move_to_end(key)
        while len(self._found) > _KEPT:
            self._found.popitem(last=False)
        async with search.lock:
            exact = await search.go_on(reader, total)
            chosen = list(search.seqs[offset : offset + limit])
            found = len(search.seqs)
        return Rows(
            tuple(await _rows(reader, chosen, offset, self._shortened)), found, exact, total
        )


_CANDIDATES: Final = """
SELECT s.seq, o.status, s.kind, NULL, 0
  FROM reprise.steps s
  LEFT JOIN reprise.outcomes o
    ON o.session = s.session AND o.seq = s.seq AND o.event < %s
 WHERE s.session = %s AND s.seq >= %s AND s.seq < %s{conditions} ORDER BY s.seq
"""
#: With their texts, as far as there is room.
_TEXTS: Final = """
SELECT seq, status, kind, body, size FROM (
    SELECT s.seq, o.status, s.kind, s.body::text AS body, s.size,
           sum(s.size) OVER (ORDER BY s.seq) AS total
      FROM reprise.steps s
      LEFT JOIN reprise.outcomes o
        ON o.session = s.session AND o.seq = s.seq AND o.event < %s
     WHERE s.session = %s AND s.seq >= %s AND s.seq < %s{conditions}) AS page
 WHERE total - size < %s ORDER BY seq
"""


class _Search:
    """The steps of one history that fit a filter, as far as it was looked through."""

    def __init__(self, wanted: RowFilter) -> None:
        self.lock = asyncio.Lock()
        self.seqs: array[int] = array("q")
        self._wanted = wanted
        self._next = 0
        #: steps that ran when they were looked at: whether they fit may have changed
        self._running: list[int] = []

    async def go_on(self, reader: Reader, total: int) -> bool:
        """Look through what is new, within bounds; returns whether all was looked through."""
        # Whoever asks may be gone before an answer comes: what is kept changes only then, at once.
        if self._running:
            again = sorted(self._running)
            fitting, running = await self._fitting(reader, again[0], again[-1] + 1, set(again))
            for seq in again:
                place = bisect.bisect_left(self.seqs, seq)
                if place < len(self.seqs) and self.seqs[place] == seq:
                    self.seqs.pop(place)
            for seq in fitting:
                bisect.insort(self.seqs, seq)
            self._running = running
        looked = 0
        while self._next < total and looked < SCANNED:
            stop = min(self._next + _AT_ONCE, total)
            fitting, running = await self._fitting(reader, self._next, stop)
            self.seqs.extend(fitting)
            self._running += running
            looked += stop - self._next
            self._next = stop
        return self._next >= total

    async def _fitting(
        self, reader: Reader, first: int, stop: int, only: set[int] | None = None
    ) -> tuple[list[int], list[int]]:
        """Numbers of steps first ≤ seq < stop that fit, sorted; and of those that run, where an end
        may make them fit, or no more."""
        found: list[int] = []
        open_: list[int] = []
        line = await reader.line()
        for place, part in enumerate(line):
            start, end = max(first, part.first_seq), min(stop, part.end_seq)
            while start < end:
                rows = await self._candidates(reader, line, place, start, end)
                full = sum(row[4] for row in rows) >= _BYTES
                start = rows[-1][0] + 1 if full else end
                if only is not None:
                    rows = [row for row in rows if row[0] in only]
                running = [row[0] for row in rows if row[1] is None]
                later = await reader._later_outcomes(line[place + 1 :], running)
                ended = {seq: outcome[1] for seq, outcome in later.items()}
                if self._wanted.steps.ended:
                    open_ += [seq for seq in running if seq not in ended]
                found += await asyncio.to_thread(self._fit, rows, ended)
        return found, open_

    async def _candidates(
        self, reader: Reader, line: Line, place: int, first: int, stop: int
    ) -> list[tuple[Any, ...]]:
        """(seq, status, kind, text, size) of the first steps that may fit; the text, and so a
        bound, only where it has to be looked at."""
        part, wanted = line[place], self._wanted
        conditions, values = search_conditions(wanted.steps, wanted.steps.words)
        if wanted.cell is not None:
            conditions += " AND strpos(s.body::text, %s) > 0"
            values.append(f'"cellId":{json.dumps(wanted.cell)}')
        values = [part.end_event, part.session, first, stop, *values]
        # What is put into the text is written here; values go beside it.
        if wanted.texts:
            return await reader._ask(_TEXTS.format(conditions=conditions), [*values, _BYTES])
        return await reader._ask(_CANDIDATES.format(conditions=conditions), values)

    def _fit(self, rows: Sequence[tuple[Any, ...]], ended: dict[int, Status]) -> list[int]:
        wanted = self._wanted
        words = [word.lower() for word in wanted.steps.words]
        found = []
        for seq, status, kind, text, _ in rows:
            now = ended.get(seq, status) or "running"
            if wanted.steps.ended and now not in wanted.steps.ended:
                continue
            if text is not None:
                step = parse_step(json.loads(text))
                if words:
                    said = searched(step).lower()
                    if not all(word in said for word in words):
                        continue
                if wanted.cell is not None and (
                    kind != "cell"
                    or (step.payload.get("metadata") or {}).get("cellId") != wanted.cell
                ):
                    continue
            found.append(seq)
        return found


#: Beginnings of large texts alone: a list has room for a line of each.
_ROWS: Final = """
SELECT s.seq, s.kind, s.at, left(s.body::text, %s),
       CASE WHEN s.size > %s THEN right(s.body::text, %s) END,
       encode(s.digest, 'hex'), o.status, o.duration_us, o.execution_count,
       CASE WHEN o.size <= %s THEN o.body::text END,
       (SELECT left(b.body::text, %s) FROM reprise.outputs b
         WHERE b.session = s.session AND b.seq = s.seq AND NOT b.late AND b.event < %s
         ORDER BY b.number LIMIT 1),
       (SELECT left(b.body::text, %s) FROM reprise.outputs b
         WHERE b.session = s.session AND b.seq = s.seq AND NOT b.late AND b.event < %s
         ORDER BY b.number DESC LIMIT 1)
  FROM reprise.steps s
  LEFT JOIN reprise.outcomes o
    ON o.session = s.session AND o.seq = s.seq AND o.event < %s
 WHERE s.session = %s AND s.seq = ANY(%s::bigint[]) ORDER BY s.seq
"""


async def _rows(
    reader: Reader, numbers: Sequence[int], offset: int, shortened: Callable[[str], str]
) -> list[Row]:
    """Rows of these steps, numbered from `offset` on."""
    found: list[Row] = []
    line = await reader.line()
    for place, part in enumerate(line):
        own = [seq for seq in numbers if part.first_seq <= seq < part.end_seq]
        if not own:
            continue
        end = part.end_event
        cuts = [_HEAD, _HEAD, _TAIL, _HEAD]
        rows = await reader._ask(_ROWS, [*cuts, _SHOWN, end, _SHOWN, end, end, part.session, own])
        running = [row[0] for row in rows if row[6] is None]
        later = await reader._later_outcomes(line[place + 1 :], running)
        for row in rows:
            seq, kind, at, head, tail, digest, status, took, count, body, first, last = row
            if seq in later:
                _, status, took, count, body, _ = later[seq]
            cause = None if body is None else parse_outcome(json.loads(body)).cause
            found.append(
                Row(
                    offset + len(found),
                    seq,
                    kind,
                    at,
                    asked(kind, head, tail, shortened),
                    status,
                    took,
                    count,
                    None if cause is None else dict(cause),
                    digest,
                    shown(first, last),
                )
            )
    return found


async def find_forks(log: Log, reader: Reader) -> list[SessionInfo]:
    """The sessions that leave this history at one of its steps, the oldest fork first.

    Forks of the session, and of those above it up to where it left them, and of those forks where
    they leave within what is shared. What left a fork after its own first step is a branch of that.
    """
    rows = await log.query(
        "WITH RECURSIVE up(id, upto) AS ("
        " SELECT id, %s::bigint FROM reprise.sessions WHERE owner = %s AND id = %s"
        " UNION ALL SELECT s.parent, least(u.upto, s.fork_seq)"
        "  FROM up u JOIN reprise.sessions s ON s.id = u.id WHERE s.parent IS NOT NULL),"
        " down(id, upto) AS ("
        " SELECT c.id, c.fork_seq FROM up u JOIN reprise.sessions c"
        "  ON c.parent = u.id AND c.fork_seq <= u.upto WHERE c.id NOT IN (SELECT id FROM up)"
        " UNION ALL SELECT c.id, c.fork_seq"
        "  FROM down d JOIN reprise.sessions c ON c.parent = d.id AND c.fork_seq <= d.upto)"
        " SELECT id FROM down LIMIT %s",
        [NO_END, log.owner, reader.session, _FORKS],
    )
    found = await log.query(
        SESSION_QUERY + " AND s.id = ANY(%s) ORDER BY s.created_at, s.id",
        [log.owner, [row[0] for row in rows]],
    )
    return [session_info(row) for row in found]
