"""Finds steps, sessions, notices and network rows in pages, for whoever shows them bit by bit.

A page ends at a number of rows, at a number of bytes, or when much has been looked through; where
the next one begins is part of it. What a page costs depends on none of what lies before it.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from reprise.errors import UsageError
from reprise.log.lineage import Line, Segment
from reprise.log.model import ActorKind, Json, NewStep, Status, Step, StepKind
from reprise.log.postgres import Log
from reprise.log.reader import SESSION_QUERY, Reader, network_row, session_info, step_and_outcome
from reprise.log.store import NetworkRow, Notice, SessionInfo, SkillMount, StepRecord

#: Steps that are looked through for one page, and at once.
SCANNED: Final = 50_000
_AT_ONCE: Final = 5_000
#: A page of steps holds at most so many bytes of bodies (one step may be larger).
PAGE_BYTES: Final = 4 << 20

#: Words of one search, and characters of all of them.
_WORDS: Final = 8
_SEARCHED: Final = 200

Row = TypeVar("Row")
Cursor = TypeVar("Cursor")
Ended = Status | Literal["running"]


@dataclass(frozen=True)
class Page(Generic[Row, Cursor]):
    """Rows in the order asked for. next: what to give as `after` for the next page, None: no more.

    With a filter, a page may hold few rows or none, and there may be more all the same.
    """

    rows: tuple[Row, ...]
    next: Cursor | None


@dataclass(frozen=True)
class StepFilter:
    """Which steps: of one of these kinds, asked for by one of these, ended so. Empty: any.

    text: words that all stand in what was asked for (the code of a cell, a command, the paths of
      an upload or a mount). Case does not matter for ASCII.
    """

    kinds: Collection[StepKind] = ()
    actors: Collection[ActorKind] = ()
    ended: Collection[Ended] = ()
    text: str = ""

    @property
    def words(self) -> list[str]:
        """Raises UsageError."""
        return _words(self.text)


def _words(text: str) -> list[str]:
    words = text.split()
    if len(words) > _WORDS or len(text) > _SEARCHED:
        raise UsageError(f"A search takes up to {_WORDS} words of {_SEARCHED} characters together.")
    return words


async def find_steps(
    reader: Reader,
    wanted: StepFilter,
    *,
    after: int | None = None,
    newest: bool = False,
    limit: int = 200,
) -> Page[StepRecord, int]:
    """The steps behind `after` (in the order asked for) that fit, without their outputs.

    newest: the last step first.  after: a seq; None begins at the end that comes first.
    Raises UsageError for a search of too many words.
    """
    search = _Search(reader, wanted, wanted.words, await reader.line(), newest)
    steps = (await reader.info()).steps
    found: list[StepRecord] = []
    room, looked = PAGE_BYTES, 0
    for place, start, stop in _windows(search.line, steps, after, newest):
        first, end = start, stop
        while first < end:
            rows = await search.rows(place, first, end, limit - len(found), room)
            found += await search.fitting(place, rows)
            room -= sum(row[-1] for row in rows)
            if not rows:
                break
            last: int = rows[-1][0]
            if len(found) >= limit or room <= 0:
                return Page(tuple(found), last)
            first, end = (first, last) if newest else (last + 1, end)
        looked += stop - start
        if looked >= SCANNED:
            return Page(tuple(found), start if newest else stop - 1)
    return Page(tuple(found), None)


def _windows(
    line: Line, steps: int, after: int | None, newest: bool
) -> Iterator[tuple[int, int, int]]:
    """Which part of the line, and the seqs first ≤ seq < stop in it, in the order asked for."""
    places = range(len(line))
    for place in reversed(places) if newest else places:
        part = line[place]
        first, stop = part.first_seq, min(part.end_seq, steps)
        if after is not None:
            first, stop = (first, min(stop, after)) if newest else (max(first, after + 1), stop)
        while first < stop:
            if newest:
                yield place, max(first, stop - _AT_ONCE), stop
                stop -= _AT_ONCE
            else:
                yield place, first, min(first + _AT_ONCE, stop)
                first += _AT_ONCE


_STEPS: Final = """
SELECT seq, event, body, digest, o_event, o_body, o_chain, own FROM (
    SELECT s.seq, s.event, s.body::text AS body, s.digest, o.event AS o_event,
           o.body::text AS o_body, o.chain AS o_chain, s.size + coalesce(o.size, 0) AS own,
           sum(s.size + coalesce(o.size, 0)) OVER (ORDER BY s.seq {order}) AS total
      FROM reprise.steps s
      LEFT JOIN reprise.outcomes o
        ON o.session = s.session AND o.seq = s.seq AND o.event < %s
     WHERE s.session = %s AND s.seq >= %s AND s.seq < %s{conditions}
     ORDER BY s.seq {order} LIMIT %s) AS page
 WHERE total - own < %s ORDER BY seq {order}
"""


class _Search:
    """One search through the steps of one history."""

    def __init__(
        self, reader: Reader, wanted: StepFilter, words: list[str], line: Line, newest: bool
    ) -> None:
        self.line = line
        self._reader = reader
        self._wanted = wanted
        self._words = words
        self._order = "DESC" if newest else "ASC"

    async def rows(
        self, place: int, first: int, stop: int, limit: int, room: int
    ) -> list[tuple[Any, ...]]:
        """Steps that may fit: each with its outcome, as far as that stands in the same part, and
        its size."""
        part, wanted = self.line[place], self._wanted
        where, values = conditions(wanted, self._words)
        # What is put into the text is written here; values go beside it.
        statement = _STEPS.format(order=self._order, conditions=where)
        return await self._reader._ask(
            statement, [part.end_event, part.session, first, stop, *values, limit, room]
        )

    async def fitting(self, place: int, rows: Sequence[tuple[Any, ...]]) -> list[StepRecord]:
        """Those that fit, with their outcomes, which may stand in later parts of the history."""
        still_open = [row[0] for row in rows if row[4] is None]
        later = await self._reader._later_outcomes(self.line[place + 1 :], still_open)
        found = []
        for row in rows:
            ended = row[4:7]
            if row[0] in later:
                event, _, _, _, body, chain = later[row[0]]
                ended = (event, body, chain)
            record = StepRecord(*step_and_outcome((*row[:4], *ended)))
            if self._fits(record):
                found.append(record)
        return found

    def _fits(self, record: StepRecord) -> bool:
        ended = self._wanted.ended
        status = "running" if record.outcome is None else record.outcome.status
        if ended and status not in ended:
            return False
        if not self._words:
            return True
        text = searched(record.step).lower()
        return all(word.lower() in text for word in self._words)


def conditions(wanted: StepFilter, words: Sequence[str]) -> tuple[str, list[Any]]:
    """What Postgres can tell of a step: never too little, so that what fits is not lost."""
    found: list[str] = []
    values: list[Any] = []
    if wanted.kinds:
        found.append("s.kind = ANY(%s)")
        values.append(list(wanted.kinds))
    if wanted.actors:
        # The canonical form has its keys sorted, so it begins with the actor.
        found.append("s.body::text LIKE ANY(%s)")
        values.append([_ACTORS[actor] for actor in wanted.actors])
    if wanted.ended:
        # A shared step may have ended after the place where a fork left.
        found.append("(o.status IS NULL OR o.status = ANY(%s))")
        values.append(list(wanted.ended))
    for word in words:
        # As the canonical form spells it.
        found.append("strpos(lower(s.body::text), lower(%s)) > 0")
        values.append(json.dumps(word)[1:-1])
    return "".join(f" AND {each}" for each in found), values


_ACTORS: Final[dict[ActorKind, str]] = {
    "user": '{"actor":{"kind":"user"}%',
    "system": '{"actor":{"kind":"system"}%',
    "agent": '{"actor":{"conversation":%',
}


def searched(step: Step | NewStep) -> str:
    """What a search looks through: what was asked for, not the message around it."""
    payload = step.payload
    content = _object(payload.get("content"))
    match step.kind:
        case "cell":
            return str(content.get("code", ""))
        case "command":
            words = payload.get("argv")
            return str(payload.get("shell", "")) if words is None else "\n".join(map(str, words))
        case "upload":
            entries, removed = payload.get("entries") or [], payload.get("removed") or []
            return "\n".join([*(str(entry[0]) for entry in entries), *map(str, removed)])
        case "mount":
            skill = _object(payload.get("skill"))
            return f"{payload.get('target')}\n{payload.get('tree')}\n{skill.get('name', '')}"
        case "comm":
            return str(content.get("target_name", ""))
        case _:
            return ""


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


async def find_sessions(
    log: Log,
    *,
    after: tuple[int, uuid.UUID] | None = None,
    notebook: str | None = None,
    text: str = "",
    limit: int = 100,
) -> Page[SessionInfo, tuple[int, uuid.UUID]]:
    """The sessions of the owner, the one used last first.

    after: when the last one of the page before was used, and its id.
    notebook: only those of that notebook, named by its path or its file's name.
    text: words that all stand in the notebook's path, the kernel's name or the id.
    Raises UsageError for a search of too many words.
    """
    conditions: list[str] = []
    values: list[Any] = [log.owner]
    if after is not None:
        conditions.append("(h.last_at < %s OR (h.last_at = %s AND s.id > %s))")
        values += [after[0], *after]
    if notebook is not None:
        conditions.append("(s.notebook = %s OR right(s.notebook, %s) = %s)")
        values += [notebook, len(notebook) + 1, f"/{notebook}"]
    for word in _words(text):
        conditions.append(
            "strpos(lower(concat_ws(' ', s.notebook, s.kernel, s.id)), lower(%s)) > 0"
        )
        values.append(word)
    rows = await log.query(
        SESSION_QUERY
        + "".join(f" AND {each}" for each in conditions)
        + " ORDER BY h.last_at DESC, s.id LIMIT %s",
        [*values, limit + 1],
    )
    found = [session_info(row) for row in rows[:limit]]
    more = (found[-1].last_at, found[-1].id) if len(rows) > limit else None
    return Page(tuple(found), more)


async def revoked_of(
    log: Log, sessions: Sequence[SessionInfo]
) -> dict[uuid.UUID, list[SkillMount]]:
    """What `Log.revoked_skills` says of these sessions, which need not be all of the owner."""
    ids = [info.parent for info in sessions if info.parent is not None]
    rows = await log.query(
        "WITH RECURSIVE up AS (SELECT id, parent FROM reprise.sessions WHERE id = ANY(%s)"
        " UNION SELECT s.id, s.parent FROM up JOIN reprise.sessions s ON s.id = up.parent)"
        " SELECT id FROM up",
        [ids],
    )
    above = {row[0] for row in rows} - {info.id for info in sessions}
    rows = await log.query(SESSION_QUERY + " AND s.id = ANY(%s)", [log.owner, list(above)])
    found = await log.revoked_skills([*sessions, *(session_info(row) for row in rows)])
    return {info.id: found[info.id] for info in sessions if info.id in found}


async def find_notices(
    reader: Reader, *, after: int | None = None, limit: int = 500
) -> Page[Notice, int]:
    """The session's notices in the order in which they were told. after: a number of one."""
    rows = await reader._ask(
        "SELECT number, seq, at, code, body::text FROM reprise.notices"
        " WHERE session = %s AND number > %s ORDER BY number LIMIT %s",
        [reader.session, -1 if after is None else after, limit + 1],
    )
    found = [Notice(seq, at, code, *json.loads(body)) for _, seq, at, code, body in rows[:limit]]
    return Page(tuple(found), rows[limit - 1][0] if len(rows) > limit else None)


async def find_network(
    reader: Reader,
    start: int = 0,
    stop: int | None = None,
    *,
    after: tuple[int, int] | None = None,
    limit: int = 500,
) -> Page[NetworkRow, tuple[int, int]]:
    """What steps start ≤ seq < stop asked of the network, as `LogReader.network`.

    after: the place of a part in the history, and the number of a row in it.
    """
    # What came before the first step stands behind none.
    first = -1 if start <= 0 else start
    found: list[NetworkRow] = []
    for place, part in enumerate(await reader.line()):
        if after is not None and place < after[0]:
            continue
        number = after[1] if after is not None and place == after[0] else 0
        rows = await reader._ask(
            "SELECT number, id, seq, at, verdict, replay, bytes_up, bytes_down, body::text"
            " FROM reprise.network WHERE session = %s AND number > %s AND event < %s"
            " AND place >= %s AND place < %s ORDER BY number LIMIT %s",
            [part.session, number, part.end_event, first, _end(part, stop), limit + 1 - len(found)],
        )
        for row in rows:
            if len(found) == limit:
                return Page(tuple(found), (place, number))
            found.append(network_row(row))
            number = row[0]
    return Page(tuple(found), None)


def _end(part: Segment, stop: int | None) -> int:
    return part.end_seq if stop is None else min(stop, part.end_seq)
