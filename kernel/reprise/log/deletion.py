"""Deletes whole sessions, as the owner role, and says beforehand what hangs on one."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from reprise.errors import LeaseHeld, SessionNeeded, SessionNotFound
from reprise.failpoints import failpoint
from reprise.log.blobs import Ask
from reprise.log.connect import Connection
from reprise.log.store import SessionInfo


@dataclass(frozen=True)
class Dependents:
    """What a deletion of `session` would take with it, or has to wait for.

    steps: of its own; those it shares with others stay.
    forks: the sessions that need its steps, directly or through another; in such an order that
      each can be deleted after those before it.
    keys: the notebooks and kernels that lead to it now, as bound.
    artifacts: how many files taken out of it are stored.  conversations: how many of the agent's
      are in it now, which go with it.
    """

    session: SessionInfo
    steps: int
    forks: tuple[SessionInfo, ...]
    keys: tuple[str, ...]
    artifacts: int
    conversations: int

    @property
    def held(self) -> tuple[SessionInfo, ...]:
        """Those of the session and its forks that somebody writes."""
        return tuple(each for each in (*self.forks, self.session) if each.holder is not None)


async def dependents(
    ask: Ask, owner: str, session: uuid.UUID, sessions: Sequence[SessionInfo]
) -> Dependents:
    """`sessions`: all of the owner. Raises SessionNotFound."""
    infos = {info.id: info for info in sessions}
    if session not in infos:
        raise SessionNotFound(f"There is no session {session} of {owner}.")
    tree = await ask(
        "WITH RECURSIVE tree AS ("
        " SELECT id, 0 AS depth FROM reprise.sessions WHERE parent = %s AND fork_event > 0"
        " UNION ALL SELECT s.id, t.depth + 1 FROM tree t"
        "  JOIN reprise.sessions s ON s.parent = t.id AND s.fork_event > 0)"
        " SELECT id FROM tree ORDER BY depth DESC, id",
        [session],
    )
    keys = await ask(
        "SELECT key FROM (SELECT DISTINCT ON (key) key, session FROM reprise.bindings"
        " WHERE owner = %s ORDER BY key, number DESC) AS b WHERE session = %s ORDER BY key",
        [owner, session],
    )
    [(own, artifacts, conversations)] = await ask(
        "SELECT h.next_seq - h.first_seq,"
        " (SELECT count(*) FROM reprise.artifacts a WHERE a.owner = h.owner"
        "   AND a.session = h.session), (SELECT count(*) FROM reprise.conversation_heads c"
        "   WHERE c.owner = h.owner AND c.session = h.session)"
        " FROM reprise.heads h WHERE h.session = %s",
        [session],
    )
    return Dependents(
        infos[session],
        own,
        tuple(infos[row[0]] for row in tree if row[0] in infos),
        tuple(row[0] for row in keys),
        artifacts,
        conversations,
    )


async def delete(connection: Connection, doomed: Sequence[uuid.UUID]) -> None:
    """Delete sessions in this order, all or none. `connection` acts as the owner role.

    Raises SessionNeeded, LeaseHeld and SessionNotFound; then nothing was deleted.
    """
    try:
        async with connection.transaction():
            for session in doomed:
                await connection.execute("SELECT reprise.delete_session(%s)", [session])
            failpoint("before-delete-commit")
        failpoint("after-delete-commit")
    except psycopg.errors.NoDataFound as error:
        raise SessionNotFound(f"{_said(error)}. Nothing was deleted.") from error
    except psycopg.errors.ObjectInUse as error:
        said = f"{_said(error)}. Nothing was deleted."
        raise (SessionNeeded(said) if "forks" in said else LeaseHeld(said)) from error


def _said(error: psycopg.Error) -> str:
    reason = error.diag.message_primary or str(error)
    return reason[:1].upper() + reason[1:]
