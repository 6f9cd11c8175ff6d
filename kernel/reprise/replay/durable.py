"""Writes to one session's log that outlast a database which goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from reprise.errors import DatabaseUnavailable, LeaseLost
from reprise.log.model import NewOutcome, NewStep, Outcome, OutputEntry, Step
from reprise.log.store import Notice, SessionLog

#: How long a cell waits for a database that went away before it is told so, seconds.
DATABASE_PATIENCE_S = 10.0

#: Pause before a write is repeated that Postgres refused for want of room or resources, seconds.
RETRY_S = 0.05


class DurableLog:
    """A held session: writes are repeated until the database answers, or the lease is lost.

    lease_lost: called once when another process has taken the session.
    outcome_waits: told the seq of a step whose outcome has to wait for the database.
    """

    def __init__(
        self,
        log: SessionLog,
        lease_lost: Callable[[LeaseLost], Awaitable[None]],
        outcome_waits: Callable[[int], None],
    ) -> None:
        self.log = log
        self._lease_lost = lease_lost
        self._outcome_waits = outcome_waits
        self._recovery: asyncio.Task[None] | None = None
        # Held until a write is answered, repetitions included: the log tells a repeated write from
        # a new one only if nothing else comes between.
        self._writing = asyncio.Lock()

    async def append(self, new: NewStep) -> Step:
        """Commit a step. Raises DatabaseUnavailable when it takes too long, LeaseLost."""
        try:
            async with asyncio.timeout(DATABASE_PATIENCE_S), self._writing:
                while True:
                    await self.recovered()
                    try:
                        # Repeated with equal arguments, a write whose answer was lost is claimed.
                        return await self.log.append_step(new)
                    except DatabaseUnavailable:
                        await self._wait()
        except TimeoutError:
            # If it was stored all the same, the log ends it as `lost` before its next step.
            self._connection_lost()
            raise DatabaseUnavailable(
                "Postgres cannot be reached, so this was not run: nothing runs that is not in the "
                "log. The session is as before; the kernel keeps trying to connect. "
                "Run it again when Postgres is back (`reprise doctor` says what is wrong)."
            ) from None

    async def show(
        self, seq: int, entries: Sequence[OutputEntry], blobs: Sequence[bytes], *, late: bool
    ) -> None:
        """Commit a batch of outputs, however long the database takes. Raises LeaseLost."""
        async with self._writing:
            while True:
                await self.recovered()
                try:
                    if blobs:
                        await self.log.blobs.put_many(blobs)
                    await self.log.append_outputs(seq, entries, late=late)
                except DatabaseUnavailable:
                    await self._wait()
                else:
                    return

    async def conclude(
        self,
        seq: int,
        new: NewOutcome,
        entries: Sequence[OutputEntry],
        blobs: Sequence[bytes],
    ) -> Outcome:
        """Commit the last outputs and the outcome, however long the database takes.

        Raises LeaseLost.
        """
        told = False
        async with self._writing:
            while True:
                await self.recovered()
                try:
                    if blobs:
                        await self.log.blobs.put_many(blobs)
                    return await self.log.record_outcome(seq, new, entries)
                except DatabaseUnavailable:
                    if not told:
                        told = True
                        self._outcome_waits(seq)
                    await self._wait()

    async def note(self, notice: Notice) -> None:
        """Keep a notice, if the database is there."""
        try:
            await self.log.note(notice)
        except DatabaseUnavailable:
            self._connection_lost()

    async def recovered(self) -> None:
        """Wait while the connection is being opened again. Raises LeaseLost."""
        if self._recovery is not None:
            await asyncio.shield(self._recovery)

    def _connection_lost(self) -> None:
        if self._recovery is None:
            self._recovery = asyncio.get_running_loop().create_task(self._recover())
            self._recovery.add_done_callback(_retrieve)

    async def _wait(self) -> None:
        self._connection_lost()
        await asyncio.sleep(RETRY_S)

    async def _recover(self) -> None:
        try:
            await self.log.recover()
        except LeaseLost as error:
            await self._lease_lost(error)
            raise
        finally:
            self._recovery = None

    async def close(self) -> None:
        """Give the lease back."""
        if self._recovery is not None:
            self._recovery.cancel()
        await self.log.close()


def _retrieve(task: asyncio.Task[None]) -> None:
    """Its error is told by whoever waits for the recovery; asyncio need not repeat it."""
    if not task.cancelled():
        task.exception()
