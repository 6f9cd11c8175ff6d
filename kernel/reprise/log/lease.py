"""Who may write a session: an advisory lock on the appending connection, and an epoch."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

import psycopg

from reprise.errors import DatabaseUnavailable, LeaseHeld, LeaseLost
from reprise.log.connect import KERNEL_ROLE, Connection
from reprise.log.head import Head
from reprise.log.model import Json, canonical

#: Seconds `recover` waits for the lock that its own dead connection may still hold.
_RELOCK_SECONDS = 5.0


class Lease:
    """One writer's hold on one session.

    `writer` is drawn anew for each `take`, and Postgres keeps it beside the epoch; it tells this
    writer's own earlier connection from another process.
    """

    def __init__(self, session: uuid.UUID, owner: str, holder: Mapping[str, Json], now: int):
        self.session = session
        self.epoch = 0
        self._owner = owner
        self._holder = canonical(dict(holder)).decode("ascii")
        self._since = now
        self._writer = uuid.uuid4()
        self._backend_pid: int | None = None

    async def take(self, connection: Connection, wait: float) -> Head:
        """Lock and begin a new epoch. Raises LeaseHeld after `wait` seconds."""
        if not await lock(connection, self.session, wait):
            raise LeaseHeld(await self._held_by(connection))
        return await self._begin_epoch(connection, None)

    async def take_again(self, connection: Connection) -> Head:
        """Lock again after the connection was lost; ends our own old backend if it lingers.

        Raises LeaseLost when another writer has, or had, the session meanwhile.
        """
        holder = await self._require_ours(connection)
        if holder is not None and holder == self._backend_pid:
            await self._end_old_backend(connection, holder)
        if not await lock(connection, self.session, _RELOCK_SECONDS):
            await self._require_ours(connection)
            raise DatabaseUnavailable(
                f"Another connection holds the lock of session {self.session} but has not taken it"
                " over."
            )
        try:
            return await self._begin_epoch(connection, self._writer)
        except psycopg.Error as error:
            if error.sqlstate == "RP001":
                raise LeaseLost(self._lost()) from error
            raise

    async def _require_ours(self, connection: Connection) -> int | None:
        """The backend that holds the session's lock; LeaseLost if another writer came after us."""
        cursor = await connection.execute(
            "SELECT writer, reprise.lock_holder(session) FROM reprise.heads WHERE session = %s",
            [self.session],
        )
        row = await cursor.fetchone()
        if row is None or row[0] != self._writer:
            raise LeaseLost(self._lost())
        pid: int | None = row[1]
        return pid

    async def _begin_epoch(self, connection: Connection, previous: uuid.UUID | None) -> Head:
        cursor = await connection.execute(
            "SELECT epoch, backend_pid, next_event, next_seq, next_output, chain"
            " FROM reprise.take_lease(%s, %s, %s, %s, %s::bigint, %s)",
            [self.session, self._owner, self._writer, self._holder, self._since, previous],
        )
        row = await cursor.fetchone()
        assert row is not None  # noqa: S101 - the function gives one row or raises
        self.epoch = row[0]
        self._backend_pid = row[1]
        return Head(row[2], row[3], row[4], bytes(row[5]))

    async def _end_old_backend(self, connection: Connection, pid: int) -> None:
        # As the login, not as the kernel role: Postgres lets a login end its own backends only.
        await connection.execute("SELECT set_config('role', 'none', false)")
        try:
            await connection.execute(
                "SELECT pg_terminate_backend(%s) WHERE reprise.lock_holder(%s) = %s",
                [pid, self.session, pid],
            )
        finally:
            await connection.execute("SELECT set_config('role', %s, false)", [KERNEL_ROLE])

    async def _held_by(self, connection: Connection) -> str:
        cursor = await connection.execute(
            "SELECT holder::text, since FROM reprise.heads WHERE session = %s", [self.session]
        )
        who = held_by(*(await cursor.fetchone() or (None, None)))
        return (
            f"Session {self.session} is being written by {who}. Only one kernel writes a"
            " session at a time; shut that kernel down, or use another session. Nothing was"
            " changed."
        )

    def _lost(self) -> str:
        return (
            f"While the connection to Postgres was gone, another process took over session"
            f" {self.session}, so this one writes it no more. What was acknowledged is stored;"
            " start the kernel again to go on from there."
        )


def held_by(holder: str | None, since: int | None) -> str:
    """Who holds something, and since when, in words. holder: as JSON; since: microseconds."""
    who, when = "another process", ""
    if holder is not None:
        words = json.loads(holder)
        who = ", ".join(f"{name} {words[name]}" for name in sorted(words)) or who
    if since is not None:
        when = f" since {datetime.fromtimestamp(since / 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return who + when


async def lock(connection: Connection, what: uuid.UUID, wait: float) -> bool:
    """Take the advisory lock of a session or a conversation, waiting at most `wait` seconds."""
    cursor = await connection.execute("SELECT pg_try_advisory_lock(reprise.lock_key(%s))", [what])
    row = await cursor.fetchone()
    if row is not None and row[0]:
        return True
    if wait <= 0:
        return False
    await connection.execute(
        "SELECT set_config('lock_timeout', %s, false)", [str(max(1, int(wait * 1000)))]
    )
    try:
        await connection.execute("SELECT pg_advisory_lock(reprise.lock_key(%s))", [what])
    except psycopg.errors.LockNotAvailable:
        return False
    finally:
        if not connection.broken and not connection.closed:
            await connection.execute("SELECT set_config('lock_timeout', '0', false)")
    return True
