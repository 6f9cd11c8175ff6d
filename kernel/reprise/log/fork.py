"""Finds the event at which a fork leaves its parent's history."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from reprise.errors import UsageError
from reprise.log.blobs import Ask
from reprise.log.lineage import Line, along, columns, open_steps, segments


@dataclass(frozen=True)
class ForkPoint:
    """Where a fork begins: all events below `event` are shared.

    parent: the session that owns the last shared event (so a fork of a fork at a step of the
      first session needs nothing of the second); with nothing shared, the session asked for.
    seq: the step as a person counts: the fork stands as after it. -1: nothing is shared.
    """

    parent: uuid.UUID
    seq: int
    event: int


async def fork_point(ask: Ask, session: uuid.UUID, owner: str, at: int | None) -> ForkPoint:
    """The fork after step `at`; by default the step before the first open one, else the last.

    A step that ran beside an earlier one (a comm beside a cell) brings that one with its outcome,
    and so all that was accepted in between. It works while the session is written: what is
    appended meanwhile is not seen. Raises SessionNotFound and UsageError.
    """
    line = await segments(ask, session, owner)
    rows = await ask("SELECT next_event, next_seq FROM reprise.heads WHERE session = %s", [session])
    next_event, next_seq = rows[0]
    line = (*line[:-1], line[-1].until(next_event, next_seq))
    if at is None:
        at = next_seq - 1
        # Each event is a step or an outcome, so the numbers tell how many steps are open.
        still_open = 2 * next_seq - next_event
        if still_open:
            opened = await open_steps(
                ask, line, before=next_seq, by_event=next_event, count=still_open
            )
            at = opened[0] - 1
    if not -1 <= at < next_seq:
        has = "no steps yet" if next_seq == 0 else f"steps 0 to {next_seq - 1}"
        raise UsageError(
            f"Session {session} has {has}, so it cannot be forked at step {at}. Nothing was"
            " changed. (At -1 a fork begins empty.)"
        )
    if at == -1:
        return ForkPoint(session, -1, 0)
    ended = await _outcome_events(ask, line, [at])
    if not ended:
        raise UsageError(
            f"Step {at} of session {session} has no outcome yet: it is running, or its kernel went"
            f" away in the middle. Nothing was changed. Fork at step {at - 1}, or wait until it"
            " has ended."
        )
    last = max([*ended, *await _ended_later(ask, line, at, ended[0])])
    return ForkPoint(_owner_of(line, last), at, last + 1)


def _owner_of(line: Line, event: int) -> uuid.UUID:
    [owner] = [part.session for part in line if part.first_event <= event < part.end_event]
    return owner


async def _outcome_events(ask: Ask, line: Line, seqs: list[int]) -> list[int]:
    rows = await ask(
        along(
            "SELECT o.event FROM line g JOIN reprise.outcomes o"
            " ON o.session = g.session AND o.event < g.end_event AND o.seq = ANY(%s::bigint[])"
        ),
        [*columns(line), seqs],
    )
    return [row[0] for row in rows]


async def _ended_later(ask: Ask, line: Line, at: int, event: int) -> list[int]:
    """Outcome events of the steps below `at` that were open after `event` and have ended since."""
    [part] = [part for part in line if part.first_event <= event < part.end_event]
    rows = await ask(
        "SELECT seq FROM reprise.steps WHERE session = %s AND event <= %s"
        " ORDER BY event DESC LIMIT 1",
        [part.session, event],
    )
    steps = rows[0][0] + 1 if rows else part.first_seq
    opened = 2 * steps - (event + 1)
    if opened == 0:
        return []
    # Those above `at` need not be looked for: they began beside it, and are left open.
    rows = await ask(
        along(
            "SELECT count(*) FROM line g JOIN reprise.outcomes o"
            " ON o.session = g.session AND o.event < least(g.end_event, %s)"
            " AND o.seq > %s AND o.seq < %s"
        ),
        [*columns(line), event + 1, at, steps],
    )
    above = (steps - 1 - at) - int(rows[0][0])
    if opened == above:
        return []
    below = await open_steps(ask, line, before=at, by_event=event + 1, count=opened - above)
    return await _outcome_events(ask, line, below)
