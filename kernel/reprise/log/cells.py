"""Which step is the newest of each notebook cell, and what one step has shown, read bit by bit."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from reprise.log.lineage import Line, along, columns
from reprise.log.model import Json, OutputEntry
from reprise.log.packing import unpack
from reprise.log.reader import Reader, parse_entries, step_and_outcome
from reprise.log.store import StepRecord

#: Cells of one answer; a notebook with more is told the newest ones.
CELLS: Final = 2_000
#: Bytes of stored batches read at once, and rows; one row may be larger.
PAGE_BYTES: Final = 4 << 20
_PAGE_ROWS: Final = 200
#: How often it is looked again where a step names cells that are not its own.
_ROUNDS: Final = 5
#: Rows that are looked through for a display.
_LOOKED_AT: Final = 2_000


@dataclass(frozen=True, order=True)
class Place:
    """Where a batch of outputs stands: the part of the history, and its number there."""

    part: int
    number: int

    def __str__(self) -> str:
        return f"{self.part}.{self.number}"


@dataclass(frozen=True)
class Batch:
    """Outputs of one step that were stored together. late: after the step's end."""

    place: Place
    late: bool
    entries: tuple[OutputEntry, ...]


@dataclass(frozen=True)
class Named:
    """What step `seq` showed in a display. late: after the step's end."""

    seq: int
    late: bool
    entry: OutputEntry


def cell_of(payload: Mapping[str, Json]) -> str | None:
    """The notebook's cell that a cell step ran, when its client said so."""
    metadata = payload.get("metadata")
    cell = metadata.get("cellId") if isinstance(metadata, Mapping) else None
    return cell if isinstance(cell, str) else None


async def newest_of_cells(reader: Reader, after: int = -1) -> list[StepRecord]:
    """The newest step behind `after` of each cell, in order, without outputs."""
    line = await reader.line()
    found: dict[str, StepRecord] = {}
    others: list[int] = []
    for _ in range(_ROUNDS):
        rows = await reader._ask(
            along(
                # In the canonical text a quote inside a string stands behind a backslash, so this
                # finds keys, and nothing that somebody wrote in a cell (functions of json refuse
                # bodies with NUL). A cell's own metadata may have such a key as well.
                "SELECT cell, seq FROM (SELECT DISTINCT ON (named.cell) named.cell, s.seq"
                " FROM line g JOIN reprise.steps s ON s.session = g.session"
                "  AND s.seq >= g.first_seq AND s.seq < g.end_seq,"
                " LATERAL (SELECT m[1] FROM regexp_matches(s.body::text,"
                '  \'"cellId":"([^"\\\\]{1,200})"\', \'g\') AS m) AS named(cell)'
                " WHERE s.kind = 'cell' AND s.seq > %s AND s.seq <> ALL(%s::bigint[])"
                " ORDER BY named.cell, s.seq DESC) AS newest ORDER BY seq DESC LIMIT %s"
            ),
            [*columns(line), after, others, CELLS],
        )
        wanted = {cell: seq for cell, seq in rows if cell not in found}
        records = {each.step.seq: each for each in await records_of(reader, set(wanted.values()))}
        found |= {
            cell: records[seq]
            for cell, seq in wanted.items()
            if cell_of(records[seq].step.payload) == cell
        }
        mistaken = {seq for cell, seq in wanted.items() if cell not in found} - set(others)
        if not mistaken:
            break
        others += mistaken
    return sorted(found.values(), key=lambda each: each.step.seq)


@dataclass(frozen=True)
class Ran:
    """A cell of a notebook. first: the step that ran it first.  last: the last one, its outputs
    left out.  cell: its id; None where the client did not say which cell a step was of."""

    cell: str | None
    first: int
    last: StepRecord


async def cells_until(reader: Reader, until: int) -> tuple[list[Ran], bool]:
    """The cells that had run by step `until`, in the order of their first runs, which is how they
    stand in a notebook as far as the record can tell; and whether older ones are left out.

    A step whose client did not say which cell it was is a cell of its own.
    """
    line = await reader.line()
    found: dict[str | int, Ran] = {}
    mistaken: set[int] = set()
    many = False
    for _ in range(_ROUNDS):
        rows = await reader._ask(
            along(
                # As in `newest_of_cells`.
                "SELECT named.cell, min(s.seq), max(s.seq)"
                " FROM line g JOIN reprise.steps s ON s.session = g.session"
                "  AND s.seq >= g.first_seq AND s.seq < g.end_seq,"
                " LATERAL (SELECT m[1] FROM regexp_matches(s.body::text,"
                '  \'"cellId":"([^"\\\\]{1,200})"\', \'g\') AS m) AS named(cell)'
                " WHERE s.kind = 'cell' AND s.seq <= %s AND s.seq <> ALL(%s::bigint[])"
                " GROUP BY named.cell ORDER BY max(s.seq) DESC LIMIT %s"
            ),
            [*columns(line), until, sorted(mistaken), CELLS + 1],
        )
        many = many or len(rows) > CELLS
        wanted = {cell: (first, last) for cell, first, last in rows if cell not in found}
        records = await records_of(reader, {last for _, last in wanted.values()})
        by_seq = {record.step.seq: record for record in records}
        before = len(mistaken)
        for cell, (first, last) in wanted.items():
            if cell_of(by_seq[last].step.payload) == cell:
                found[cell] = Ran(cell, first, by_seq[last])
            else:
                mistaken.add(last)
        if len(mistaken) == before:
            break
    rows = await reader._ask(
        along(
            "SELECT s.seq FROM line g JOIN reprise.steps s ON s.session = g.session"
            "  AND s.seq >= g.first_seq AND s.seq < g.end_seq"
            " WHERE s.kind = 'cell' AND s.seq <= %s AND (s.seq = ANY(%s::bigint[])"
            '  OR strpos(s.body::text, \'"cellId":"\') = 0) ORDER BY s.seq DESC LIMIT %s'
        ),
        [*columns(line), until, sorted(mistaken), CELLS + 1],
    )
    for record in await records_of(reader, {seq for (seq,) in rows}):
        if cell_of(record.step.payload) is None:
            found[record.step.seq] = Ran(None, record.step.seq, record)
    newest = sorted(found.values(), key=lambda each: each.last.step.seq, reverse=True)
    kept = sorted(newest[:CELLS], key=lambda each: (each.first, each.last.step.seq))
    return kept, many or len(rows) > CELLS or len(newest) > CELLS


async def records_of(reader: Reader, seqs: Collection[int]) -> list[StepRecord]:
    """These steps, in order, without outputs."""
    line = await reader.line()
    found: list[StepRecord] = []
    for place, part in enumerate(line):
        own = [seq for seq in sorted(seqs) if part.first_seq <= seq < part.end_seq]
        for at in range(0, len(own), _PAGE_ROWS):
            rows = await reader._ask(
                "SELECT s.seq, s.event, s.body::text, s.digest, o.event, o.body::text, o.chain"
                " FROM reprise.steps s LEFT JOIN reprise.outcomes o"
                " ON o.session = s.session AND o.seq = s.seq AND o.event < %s"
                " WHERE s.session = %s AND s.seq = ANY(%s::bigint[]) ORDER BY s.seq",
                [part.end_event, part.session, own[at : at + _PAGE_ROWS]],
            )
            later = await reader._later_outcomes(
                line[place + 1 :], [row[0] for row in rows if row[4] is None]
            )
            for row in rows:
                if row[0] in later:
                    event, _, _, _, body, chain = later[row[0]]
                    row = (*row[:4], event, body, chain)  # noqa: PLW2901
                found.append(StepRecord(*step_and_outcome(row)))
    return found


async def batches(reader: Reader, seq: int, after: Place | None = None) -> tuple[list[Batch], bool]:
    """The first outputs of a step behind `after`, and whether there are more of them by now."""
    rows = await reader._ask(
        along(
            "SELECT part, number, late, body FROM ("
            " SELECT g.place AS part, o.number, o.late, o.body::text AS body, o.size,"
            "  sum(o.size) OVER (ORDER BY g.place, o.number) AS total"
            "  FROM line g JOIN reprise.outputs o ON o.session = g.session"
            "   AND o.event < g.end_event WHERE o.seq = %s AND (g.place, o.number) > (%s, %s)"
            "  ORDER BY g.place, o.number LIMIT %s) AS page"
            " WHERE total - size < %s ORDER BY part, number"
        ),
        [
            *columns(await reader.line()),
            seq,
            *((-1, -1) if after is None else (after.part, after.number)),
            _PAGE_ROWS + 1,
            PAGE_BYTES,
        ],
    )
    found = [
        Batch(Place(part, number), late, tuple(parse_entries(body)))
        for part, number, late, body in rows[:_PAGE_ROWS]
    ]
    if not found:
        return [], False
    left = await reader._ask(
        along(
            "SELECT EXISTS (SELECT FROM line g JOIN reprise.outputs o ON o.session = g.session"
            " AND o.event < g.end_event WHERE o.seq = %s AND (g.place, o.number) > (%s, %s))"
        ),
        [*columns(await reader.line()), seq, found[-1].place.part, found[-1].place.number],
    )
    return found, bool(left[0][0])


async def late_since(reader: Reader, outputs: int) -> tuple[list[int], int]:
    """The steps that showed something after their end, in batches of this session's own numbered
    `outputs` or higher; and how many batches it has by now."""
    rows = await reader._ask(
        "SELECT h.next_output, (SELECT array_agg(DISTINCT o.seq) FROM reprise.outputs o"
        " WHERE o.session = h.session AND o.late AND o.number >= %s)"
        " FROM reprise.heads h WHERE h.session = %s",
        [outputs, reader.session],
    )
    return (sorted(rows[0][1] or []), rows[0][0]) if rows else ([], 0)


async def naming_display(
    reader: Reader, display: str, *, after: int = -1, before: int | None = None
) -> list[Named]:
    """Entries of steps `after` < seq < `before` that show or update a display, in order."""
    named = json.dumps(display)[1:-1]
    line = await reader.line()
    rows = await reader._ask(
        along(
            "SELECT g.place, o.seq, o.number, o.size FROM line g JOIN reprise.outputs o"
            " ON o.session = g.session AND o.event < g.end_event"
            " WHERE o.seq > %s AND o.seq < %s"
            # What is packed has to be looked into.
            " AND (strpos(o.body::text, %s) > 0 OR left(o.body::text, 6) = '\"zstd:')"
            " ORDER BY g.place, o.number LIMIT %s"
        ),
        [*columns(line), after, _END if before is None else before, named, _LOOKED_AT],
    )
    found: list[Named] = []
    while rows:
        some = [rows.pop(0)]
        room = PAGE_BYTES - some[0][3]
        while rows and rows[0][3] <= room:
            room -= rows[0][3]
            some.append(rows.pop(0))
        bodies = await reader._ask(
            along(
                "SELECT o.seq, o.late, o.body::text"
                " FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[])"
                " AS wanted(part, seq, number)"
                " JOIN line g ON g.place = wanted.part JOIN reprise.outputs o"
                " ON o.session = g.session AND o.seq = wanted.seq AND o.number = wanted.number"
                " ORDER BY g.place, o.number"
            ),
            [*columns(line), *([row[at] for row in some] for at in range(3))],
        )
        found += await asyncio.to_thread(_naming, bodies, named, display)
    return found


def _naming(rows: Iterable[tuple[int, bool, str]], named: str, display: str) -> list[Named]:
    found = []
    for seq, late, body in rows:
        batch = unpack(body)
        text = batch if isinstance(batch, str) else batch.decode("ascii")
        if named in text:
            entries = map(OutputEntry.from_json, json.loads(text))
            found += [Named(seq, late, each) for each in entries if display_of(each) == display]
    return found


def display_of(entry: OutputEntry) -> str | None:
    """The id of the display that an entry shows or updates."""
    if entry.type not in ("display_data", "execute_result", "update_display_data"):
        return None
    transient = entry.content.get("transient")
    display = transient.get("display_id") if isinstance(transient, Mapping) else None
    return display if isinstance(display, str) else None


def shared_until(one: Line, other: Line) -> int:
    """The last step that two histories share; -1: none."""
    last = -1
    for mine, theirs in zip(one, other, strict=False):
        if mine.session != theirs.session:
            break
        last = min(mine.end_seq, theirs.end_seq) - 1
        if mine.end_seq != theirs.end_seq:
            break
    return last


_END: Final = 2**63 - 1
