"""Which parts of which sessions a session's history is made of: its own, and those it shares.

A fork shares a prefix of its parent's events (not of its steps: one that ran beside the last may
be shared while its outcome is not). Seen from a fork, the outcome, or late output, of a shared
step may therefore stand in a later part than the step. Lineage never changes once it is made.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace

from reprise.errors import SessionNotFound
from reprise.log.blobs import Ask

#: Where the last part ends, which goes on growing: above every event and step.
NO_END = 2**63 - 1


@dataclass(frozen=True)
class Segment:
    """The events and steps of one session that belong to a history: first ≤ number < end."""

    session: uuid.UUID
    first_event: int
    end_event: int
    first_seq: int
    end_seq: int

    def until(self, event: int, seq: int) -> Segment:
        """The same part, ended where the history stands now."""
        return replace(self, end_event=event, end_seq=seq)


Line = tuple[Segment, ...]


_LINE = (
    "WITH line AS (SELECT * FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[], %s::bigint[])"
    " WITH ORDINALITY AS part(session, end_event, first_seq, end_seq, place)) "
)


def along(query: str) -> str:
    """A query over `line`, the parts of a history as a table; its first values are `columns`."""
    return _LINE + query


def columns(line: Sequence[Segment]) -> list[list[uuid.UUID] | list[int]]:
    """The first values of a query `along` a line."""
    return [
        [part.session for part in line],
        [part.end_event for part in line],
        [part.first_seq for part in line],
        [part.end_seq for part in line],
    ]


async def segments(ask: Ask, session: uuid.UUID, owner: str) -> Line:
    """The parts of a session's history, the oldest first. Raises SessionNotFound."""
    rows = await ask(
        "SELECT g.session, g.first_event, g.end_event, g.first_seq, g.end_seq"
        " FROM reprise.sessions s, reprise.line(s.id) g WHERE s.id = %s AND s.owner = %s"
        " ORDER BY g.first_event",
        [session, owner],
    )
    if not rows:
        raise SessionNotFound(f"There is no session {session} of {owner}.")
    return tuple(Segment(*row) for row in rows)


async def open_steps(ask: Ask, line: Line, *, before: int, by_event: int, count: int) -> list[int]:
    """The last `count` steps below `before` that have no outcome below event `by_event`, sorted.

    They are found from the end, without a walk over a long history, provided that there are so
    many: callers count them by the numbers of events and steps.
    """
    crossed = await ask(
        along(
            "SELECT o.seq FROM line g JOIN reprise.outcomes o ON o.session = g.session"
            " AND o.seq < g.first_seq AND o.event < least(g.end_event, %s)"
        ),
        [*columns(line), by_event],
    )
    ended = [row[0] for row in crossed]
    found: list[int] = []
    for part in reversed(line):
        if len(found) >= count:
            break
        rows = await ask(
            "SELECT s.seq FROM reprise.steps s"
            " WHERE s.session = %s AND s.seq >= %s AND s.seq < %s AND s.seq <> ALL(%s::bigint[])"
            " AND NOT EXISTS (SELECT FROM reprise.outcomes o"
            "  WHERE o.session = s.session AND o.seq = s.seq AND o.event < %s)"
            " ORDER BY s.seq DESC LIMIT %s",
            [
                part.session,
                part.first_seq,
                min(before, part.end_seq),
                ended,
                min(by_event, part.end_event),
                count - len(found),
            ],
        )
        found.extend(row[0] for row in rows)
    return sorted(found)
