"""Reads one session without a lease, in pages whose memory is bounded."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from reprise.errors import LogCorrupt, SessionNotFound
from reprise.log.blobs import Ask, OwnedBlobs
from reprise.log.model import Json, Outcome, OutputEntry, Step, parse_outcome, parse_step
from reprise.log.packing import unpack
from reprise.log.store import Notice, SessionInfo, StepRecord, StepSummary

#: A page of steps, or of outputs, holds at most so many rows and bytes (one row may be larger).
PAGE_ROWS = 500
PAGE_BYTES = 8 << 20

SESSION_QUERY = """
SELECT s.id, s.owner, s.created_at, h.last_at, h.next_seq, s.notebook, s.kernel, e.environment,
       h.holder::text, l.key IS NOT NULL AS held
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

    @property
    def blobs(self) -> OwnedBlobs:
        return self._blobs

    async def info(self) -> SessionInfo:
        rows = await self._ask(SESSION_QUERY + " AND s.id = %s", [self.owner, self.session])
        if not rows:
            raise SessionNotFound(f"There is no session {self.session} of {self.owner}.")
        return session_info(rows[0])

    async def summaries(self) -> list[StepSummary]:
        # One row of arrays: unpacking 100,000 rows one by one would cost more than the query.
        rows = await self._ask(
            "SELECT array_agg(seq), array_agg(kind), array_agg(status), array_agg(duration_us),"
            " array_agg(tree), array_agg(execution_count) FROM ("
            " SELECT s.seq, s.kind, o.status, coalesce(o.duration_us, 0) AS duration_us, s.tree,"
            "  o.execution_count FROM reprise.steps s LEFT JOIN reprise.outcomes o"
            "  ON o.session = s.session AND o.seq = s.seq WHERE s.session = %s ORDER BY s.seq"
            ") AS ordered",
            [self.session],
        )
        columns = rows[0]
        if columns[0] is None:
            return []
        return [StepSummary(*values) for values in zip(*columns, strict=True)]

    async def records(
        self, start: int = 0, stop: int | None = None, *, outputs: bool = True
    ) -> AsyncIterator[StepRecord]:
        at = start
        while stop is None or at < stop:
            page = await self._ask(
                "SELECT seq, event, body, digest, o_event, o_body, o_chain FROM ("
                " SELECT s.seq, s.event, s.body::text, s.digest, o.event AS o_event,"
                "  o.body::text AS o_body, o.chain AS o_chain, s.size + coalesce(o.size, 0) AS own,"
                "  sum(s.size + coalesce(o.size, 0)) OVER (ORDER BY s.seq) AS total"
                " FROM reprise.steps s LEFT JOIN reprise.outcomes o"
                " ON o.session = s.session AND o.seq = s.seq"
                " WHERE s.session = %s AND s.seq >= %s AND (%s::bigint IS NULL OR s.seq < %s)"
                " ORDER BY s.seq LIMIT %s) AS page WHERE total - own < %s ORDER BY seq",
                [self.session, at, stop, stop, PAGE_ROWS, PAGE_BYTES],
            )
            if not page:
                return
            steps = [_step_and_outcome(row) for row in page]
            if not outputs:
                for step, outcome in steps:
                    yield StepRecord(step, outcome)
            else:
                for group in await self._groups(steps):
                    shown, late = await self._outputs(group[0][0].seq, group[-1][0].seq)
                    for step, outcome in group:
                        yield StepRecord(
                            step,
                            outcome,
                            tuple(shown.pop(step.seq, ())),
                            tuple(late.pop(step.seq, ())),
                        )
            at = steps[-1][0].seq + 1

    async def _groups(
        self, steps: list[tuple[Step, Outcome | None]]
    ) -> list[list[tuple[Step, Outcome | None]]]:
        """Cut a page so that the outputs of each part fit into a page of their own."""
        rows = await self._ask(
            # A packed batch counts as what it unpacks to (`packing`).
            "SELECT seq, sum(CASE WHEN left(body::text, 6) = '\"zstd:'"
            " THEN split_part(left(body::text, 40), ':', 2)::bigint ELSE size END)"
            " FROM reprise.outputs"
            " WHERE session = %s AND seq BETWEEN %s AND %s GROUP BY seq",
            [self.session, steps[0][0].seq, steps[-1][0].seq],
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
        self, first: int, last: int
    ) -> tuple[dict[int, list[OutputEntry]], dict[int, list[OutputEntry]]]:
        rows = await self._ask(
            "SELECT seq, late, body::text FROM reprise.outputs"
            " WHERE session = %s AND seq BETWEEN %s AND %s ORDER BY seq, number",
            [self.session, first, last],
        )
        shown: dict[int, list[OutputEntry]] = {}
        late: dict[int, list[OutputEntry]] = {}
        for seq, is_late, body in rows:
            (late if is_late else shown).setdefault(seq, []).extend(parse_entries(body))
        return shown, late

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

    async def environment(self, digest: str) -> Mapping[str, Json]:
        rows = await self._ask(
            "SELECT spec::text FROM reprise.environments WHERE owner = %s AND digest = %s",
            [self.owner, digest],
        )
        if not rows:
            raise LogCorrupt(f"The spec of environment {digest} is not recorded.")
        spec: Mapping[str, Json] = json.loads(rows[0][0])
        return spec


def _step_and_outcome(row: Sequence[Any]) -> tuple[Step, Outcome | None]:
    seq, event, body, digest, outcome_event, outcome_body, outcome_chain = row
    step = Step(seq, event, parse_step(json.loads(body)), bytes(digest))
    if outcome_body is None:
        return step, None
    new = parse_outcome(json.loads(outcome_body))
    return step, Outcome(seq, outcome_event, new, bytes(outcome_chain))
