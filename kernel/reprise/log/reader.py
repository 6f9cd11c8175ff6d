"""Reads one session without a lease, in pages whose memory is bounded."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reprise.errors import LogCorrupt, SessionNotFound
from reprise.log.blobs import Ask, OwnedBlobs
from reprise.log.lineage import Line, along, columns, segments
from reprise.log.model import (
    Json,
    Outcome,
    OutputEntry,
    Step,
    canonical,
    parse_outcome,
    parse_step,
)
from reprise.log.mounted import select_skill_mounts, select_standings
from reprise.log.packing import unpack
from reprise.log.recorded import count_recorded, select_all_recorded, select_recorded
from reprise.log.store import (
    NetworkRow,
    Notice,
    RecordedResponse,
    SessionInfo,
    SkillMount,
    Standing,
    StateRecord,
    StepRecord,
    StepSummary,
)

#: A page of steps, or of outputs, holds at most so many rows and bytes (one row may be larger).
PAGE_ROWS = 500
PAGE_BYTES = 8 << 20

#: Characters of an idempotency key (docs/messages.md).
MAX_KEY = 200

SESSION_QUERY = """
SELECT s.id, s.owner, s.created_at, h.last_at, h.next_seq, s.notebook, s.kernel,
       CASE WHEN h.next_seq > h.first_seq THEN e.environment
            WHEN h.first_seq > 0 THEN reprise.shared_environment(s.id, h.first_seq - 1) END,
       h.holder::text, l.key IS NOT NULL AS held, s.parent, s.fork_seq,
       (SELECT nullif(n.name, '') FROM reprise.session_names n
         WHERE n.session = s.id ORDER BY n.number DESC LIMIT 1)
  FROM reprise.sessions s
  JOIN reprise.heads h ON h.session = s.id
  LEFT JOIN LATERAL (SELECT t.environment FROM reprise.steps t
                      WHERE t.session = s.id ORDER BY t.seq DESC LIMIT 1) e ON true
  LEFT JOIN (SELECT DISTINCT (k.classid::bigint << 32) | k.objid::bigint AS key
               FROM pg_locks k
              WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
                AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
            ) l ON l.key = reprise.lock_key(s.id)
 WHERE s.owner = %s
"""


def session_info(row: Sequence[Any]) -> SessionInfo:
    """A row of SESSION_QUERY as the contract has it."""
    holder = json.loads(row[8]) if row[9] and row[8] is not None else None
    return SessionInfo(
        id=row[0],
        owner=row[1],
        created_at=row[2],
        last_at=row[3],
        steps=row[4],
        notebook=row[5],
        kernel=row[6],
        environment=row[7],
        holder=holder,
        parent=row[10],
        fork_seq=row[11],
        name=row[12],
    )


def parse_entries(body: str) -> list[OutputEntry]:
    """The entries of one stored batch."""
    return [OutputEntry.from_json(value) for value in json.loads(unpack(body))]


class Reader:
    """The `LogReader` of the log contract. `ask` runs one statement and returns its rows."""

    def __init__(self, ask: Ask, session: uuid.UUID, owner: str, blobs: OwnedBlobs) -> None:
        self.session = session
        self._ask = ask
        self.owner = owner
        self._blobs = blobs
        self._line: Line | None = None

    @property
    def blobs(self) -> OwnedBlobs:
        return self._blobs

    async def line(self) -> Line:
        """The parts of this session's history; they never change."""
        if self._line is None:
            self._line = await segments(self._ask, self.session, self.owner)
        return self._line

    async def info(self) -> SessionInfo:
        rows = await self._ask(SESSION_QUERY + " AND s.id = %s", [self.owner, self.session])
        if not rows:
            raise SessionNotFound(f"There is no session {self.session} of {self.owner}.")
        return session_info(rows[0])

    async def summaries(self) -> list[StepSummary]:
        line = await self.line()
        found: list[StepSummary] = []
        for place, part in enumerate(line):
            # One row of arrays: unpacking 100,000 rows one by one would cost more than the query.
            rows = await self._ask(
                "SELECT array_agg(seq), array_agg(kind), array_agg(status), array_agg(duration_us),"
                " array_agg(tree), array_agg(execution_count) FROM ("
                " SELECT s.seq, s.kind, o.status, coalesce(o.duration_us, 0) AS duration_us,"
                "  s.tree, o.execution_count FROM reprise.steps s LEFT JOIN reprise.outcomes o"
                "  ON o.session = s.session AND o.seq = s.seq AND o.event < %s"
                "  WHERE s.session = %s AND s.seq < %s ORDER BY s.seq"
                ") AS ordered",
                [part.end_event, part.session, part.end_seq],
            )
            arrays = rows[0]
            if arrays[0] is None:
                continue
            own = [StepSummary(*values) for values in zip(*arrays, strict=True)]
            still_open = [each.seq for each in own if each.status is None]
            ended = await self._later_outcomes(line[place + 1 :], still_open)
            for seq, (_, status, duration_us, execution_count, _, _) in ended.items():
                own[seq - part.first_seq] = replace(
                    own[seq - part.first_seq],
                    status=status,
                    duration_us=duration_us,
                    execution_count=execution_count,
                )
            found += own
        return found

    async def records(
        self, start: int = 0, stop: int | None = None, *, outputs: bool = True
    ) -> AsyncIterator[StepRecord]:
        line = await self.line()
        for place, part in enumerate(line):
            at = max(start, part.first_seq)
            end = part.end_seq if stop is None else min(stop, part.end_seq)
            while at < end:
                steps = await self._page(line[place:], at, end)
                if not steps:
                    break
                if not outputs:
                    for step, outcome in steps:
                        yield StepRecord(step, outcome)
                else:
                    for group in await self._groups(line[place:], steps):
                        shown, late = await self._outputs(
                            line[place:], group[0][0].seq, group[-1][0].seq
                        )
                        for step, outcome in group:
                            yield StepRecord(
                                step,
                                outcome,
                                tuple(shown.pop(step.seq, ())),
                                tuple(late.pop(step.seq, ())),
                            )
                at = steps[-1][0].seq + 1

    async def _page(self, line: Line, at: int, end: int) -> list[tuple[Step, Outcome | None]]:
        """Steps of the line's first part, with outcomes that may stand in a later one."""
        part = line[0]
        page = await self._ask(
            "SELECT seq, event, body, digest, o_event, o_body, o_chain FROM ("
            " SELECT s.seq, s.event, s.body::text, s.digest, o.event AS o_event,"
            "  o.body::text AS o_body, o.chain AS o_chain, s.size + coalesce(o.size, 0) AS own,"
            "  sum(s.size + coalesce(o.size, 0)) OVER (ORDER BY s.seq) AS total"
            " FROM reprise.steps s LEFT JOIN reprise.outcomes o"
            " ON o.session = s.session AND o.seq = s.seq AND o.event < %s"
            " WHERE s.session = %s AND s.seq >= %s AND s.seq < %s"
            " ORDER BY s.seq LIMIT %s) AS page WHERE total - own < %s ORDER BY seq",
            [part.end_event, part.session, at, end, PAGE_ROWS, PAGE_BYTES],
        )
        ended = await self._later_outcomes(line[1:], [row[0] for row in page if row[4] is None])
        return [
            step_and_outcome((*row[:4], *_event_of(ended[row[0]])) if row[0] in ended else row)
            for row in page
        ]

    async def _later_outcomes(self, later: Line, seqs: Sequence[int]) -> dict[int, tuple[Any, ...]]:
        """Outcomes that stand in later parts than their steps, by step."""
        if not later or not seqs:
            return {}
        rows = await self._ask(
            along(
                "SELECT o.seq, o.event, o.status, o.duration_us, o.execution_count, o.body::text,"
                " o.chain FROM line g JOIN reprise.outcomes o ON o.session = g.session"
                " AND o.event < g.end_event AND o.seq = ANY(%s::bigint[])"
            ),
            [*columns(later), list(seqs)],
        )
        return {row[0]: row[1:] for row in rows}

    async def _groups(
        self, line: Line, steps: list[tuple[Step, Outcome | None]]
    ) -> list[list[tuple[Step, Outcome | None]]]:
        """Cut a page so that the outputs of each part fit into a page of their own."""
        rows = await self._ask(
            along(
                # A packed batch counts as what it unpacks to (`packing`).
                "SELECT o.seq, sum(CASE WHEN left(o.body::text, 6) = '\"zstd:'"
                " THEN split_part(left(o.body::text, 40), ':', 2)::bigint ELSE o.size END)"
                " FROM line g JOIN reprise.outputs o ON o.session = g.session"
                " AND o.event < g.end_event WHERE o.seq BETWEEN %s AND %s GROUP BY o.seq"
            ),
            [*columns(line), steps[0][0].seq, steps[-1][0].seq],
        )
        sizes = {row[0]: int(row[1]) for row in rows}
        groups: list[list[tuple[Step, Outcome | None]]] = []
        room = 0
        for pair in steps:
            size = sizes.get(pair[0].seq, 0)
            if not groups or size > room:
                groups.append([])
                room = PAGE_BYTES
            groups[-1].append(pair)
            room -= size
        return groups

    async def _outputs(
        self, line: Line, first: int, last: int
    ) -> tuple[dict[int, list[OutputEntry]], dict[int, list[OutputEntry]]]:
        rows = await self._ask(
            along(
                "SELECT o.seq, o.late, o.body::text FROM line g"
                " JOIN reprise.outputs o ON o.session = g.session AND o.event < g.end_event"
                " WHERE o.seq BETWEEN %s AND %s ORDER BY o.seq, g.place, o.number"
            ),
            [*columns(line), first, last],
        )
        shown: dict[int, list[OutputEntry]] = {}
        late: dict[int, list[OutputEntry]] = {}
        for seq, is_late, body in rows:
            (late if is_late else shown).setdefault(seq, []).extend(parse_entries(body))
        return shown, late

    async def by_key(self, key: str) -> StepRecord | None:
        if not is_key(key):
            return None
        rows = await self._ask(
            along(
                "SELECT t.seq FROM line g JOIN reprise.steps t ON t.session = g.session"
                " AND t.key = %s AND t.seq < g.end_seq"
            ),
            [*columns(await self.line()), key],
        )
        for (seq,) in rows:
            async for record in self.records(seq, seq + 1):
                return record
        return None

    async def first_untrusted(self, trusted: Collection[str] = ()) -> int | None:
        rows = await self._ask(
            along(
                "SELECT min(t.seq) FROM line g JOIN reprise.steps t ON t.session = g.session"
                # As the index `untrusted_steps` has it.
                " AND t.seq < g.end_seq AND reprise.untrusted(t.kind, t.body)"
                " WHERE NOT reprise.mounts_one_of(t.kind, t.body, %s::text[])"
            ),
            [*columns(await self.line()), list(trusted)],
        )
        first: int | None = rows[0][0]
        return first

    async def skill_mounts(self) -> list[SkillMount]:
        return await select_skill_mounts(self._ask, await self.line())

    async def standings(self, trees: Collection[str]) -> dict[str, Standing]:
        return await select_standings(self._ask, trees)

    async def states(self) -> list[StateRecord]:
        rows = await self._ask(
            along(
                "SELECT DISTINCT ON (t.seq) t.seq, t.at, encode(t.files, 'hex'), t.variables::text"
                " FROM line g JOIN reprise.states t ON t.session = g.session"
                " AND t.seq < g.end_seq ORDER BY t.seq, g.place DESC, t.number DESC"
            ),
            [*columns(await self.line())],
        )
        return [
            StateRecord(seq, at, files, None if variables is None else json.loads(variables))
            for seq, at, files, variables in rows
        ]

    async def notices(self) -> list[Notice]:
        rows = await self._ask(
            "SELECT seq, at, code, body::text FROM reprise.notices"
            " WHERE session = %s ORDER BY number",
            [self.session],
        )
        found = []
        for seq, at, code, body in rows:
            text, detail = json.loads(body)
            found.append(Notice(seq, at, code, text, detail))
        return found

    async def network(self, start: int = 0, stop: int | None = None) -> AsyncIterator[NetworkRow]:
        # What came before the first step stands behind none.
        first = -1 if start <= 0 else start
        for part in await self.line():
            after = -1
            while True:
                rows = await self._ask(
                    "SELECT number, id, seq, at, verdict, replay, bytes_up, bytes_down, body::text"
                    " FROM reprise.network WHERE session = %s AND number > %s AND event < %s"
                    " AND place >= %s AND place < %s ORDER BY number LIMIT %s",
                    [
                        part.session,
                        after,
                        part.end_event,
                        first,
                        part.end_seq if stop is None else min(stop, part.end_seq),
                        PAGE_ROWS,
                    ],
                )
                for row in rows:
                    yield network_row(row)
                    after = row[0]
                if len(rows) < PAGE_ROWS:
                    break

    async def network_count(self) -> int:
        count = 0
        for part in await self.line():
            rows = await self._ask(
                "SELECT count(*) FROM reprise.network"
                " WHERE session = %s AND event < %s AND place < %s",
                [part.session, part.end_event, part.end_seq],
            )
            count += rows[0][0]
        return count

    async def recorded(
        self, seq: int, key: str, nth: int, *, idle: bool = False
    ) -> RecordedResponse | None:
        return await select_recorded(self._ask, await self.line(), seq, key, nth, idle)

    async def recorded_count(self, seq: int, key: str) -> int:
        return await count_recorded(self._ask, await self.line(), seq, key)

    async def all_recorded(self) -> AsyncIterator[RecordedResponse]:
        async for row in select_all_recorded(self._ask, await self.line()):
            yield row

    async def environment(self, digest: str) -> Mapping[str, Json]:
        rows = await self._ask(
            "SELECT spec::text FROM reprise.environments WHERE owner = %s AND digest = %s",
            [self.owner, digest],
        )
        if not rows:
            raise LogCorrupt(f"The spec of environment {digest} is not recorded.")
        spec: Mapping[str, Json] = json.loads(rows[0][0])
        return spec


def is_key(key: str) -> bool:
    """Whether a text can be an idempotency key: 1 to 200 characters that Postgres can hold."""
    if not 0 < len(key) <= MAX_KEY or "\0" in key:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in key)


def network_body(row: NetworkRow) -> str:
    """What of a network row is no column of its own."""
    return canonical(
        [row.host, row.port, row.address, row.via, row.reason, row.duration_us, dict(row.detail)]
    ).decode("ascii")


def network_row(found: Sequence[Any]) -> NetworkRow:
    _, identity, seq, at, verdict, replay, up, down, body = found
    host, port, address, via, reason, duration_us, detail = json.loads(body)
    return NetworkRow(
        seq=seq,
        at=at,
        host=host,
        port=port,
        address=address,
        via=via,
        verdict=verdict,
        reason=reason,
        bytes_up=up,
        bytes_down=down,
        duration_us=duration_us,
        replay=replay,
        detail=detail,
        id=identity,
    )


def _event_of(outcome: Sequence[Any]) -> tuple[Any, ...]:
    event, _, _, _, body, chain = outcome
    return event, body, chain


def step_and_outcome(row: Sequence[Any]) -> tuple[Step, Outcome | None]:
    seq, event, body, digest, outcome_event, outcome_body, outcome_chain = row
    step = Step(seq, event, parse_step(json.loads(body)), bytes(digest))
    if outcome_body is None:
        return step, None
    new = parse_outcome(json.loads(outcome_body))
    return step, Outcome(seq, outcome_event, new, bytes(outcome_chain))
