"""Writes to one session's log that outlast a database which goes away and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from reprise.errors import DatabaseUnavailable, LeaseLost, UnavailableError
from reprise.log.model import NewOutcome, NewStep, Outcome, OutputEntry, Step
from reprise.log.store import NetworkRow, Notice, RecordedResponse, SessionLog

Written = TypeVar("Written")

#: How long a cell waits for a database that went away before it is told so, seconds.
DATABASE_PATIENCE_S = 10.0

#: First and longest pause before a write is repeated that Postgres, or the disk of large blobs,
#: refused for want of room or resources, seconds.
RETRY_S = (0.05, 1.0)


class DurableLog:
    """A held session: writes are repeated until they are stored, or the lease is lost.

    lease_lost: called once when another process has taken the session.
    waits: told the seq of a step whose outputs or outcome have to wait, and why they do.
    """

    def __init__(
        self,
        log: SessionLog,
        lease_lost: Callable[[LeaseLost], Awaitable[None]],
        waits: Callable[[int, UnavailableError], None],
    ) -> None:
        self.log = log
        self._lease_lost = lease_lost
        self._waits = waits
        #: The step that was told last to wait: once is enough.
        self._told: int | None = None
        self._recovery: asyncio.Task[None] | None = None
        # Held until a write is answered, repetitions included: the log tells a repeated write from
        # a new one only if nothing else comes between.
        self._writing = asyncio.Lock()

    async def append(self, new: NewStep) -> Step:
        """Commit a step. Raises DatabaseUnavailable when it takes too long, LeaseLost."""
        reason = "Postgres cannot be reached; the kernel keeps trying to connect."
        try:
            async with asyncio.timeout(DATABASE_PATIENCE_S), self._writing:
                pauses = _pauses()
                while True:
                    await self.recovered()
                    try:
                        # Repeated with equal arguments, a write whose answer was lost is claimed.
                        return await self.log.append_step(new)
                    except DatabaseUnavailable as error:
                        reason = str(error)
                        await self._wait(next(pauses))
        except TimeoutError:
            # If it was stored all the same, the log ends it as `lost` before its next step.
            self._connection_lost()
            raise DatabaseUnavailable(
                f"This was not run: nothing runs that is not in the log. {reason} The session is "
                "as before; run it again when that is mended (`reprise doctor` says what is wrong)."
            ) from None

    async def show(
        self, seq: int, entries: Sequence[OutputEntry], blobs: Sequence[bytes], *, late: bool
    ) -> None:
        """Commit a batch of outputs, however long the database takes. Raises LeaseLost."""
        await self._outlasting(seq, blobs, lambda: self.log.append_outputs(seq, entries, late=late))

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
        return await self._outlasting(
            seq, blobs, lambda: self.log.record_outcome(seq, new, entries)
        )

    async def network(self, rows: Sequence[NetworkRow]) -> None:
        """Commit what was asked of the network, however long it takes. Raises LeaseLost."""
        await self._outlasting(_step_of(rows), (), lambda: self.log.append_network(rows))

    async def respond(self, response: RecordedResponse, pieces: Sequence[bytes]) -> None:
        """Commit what a host answered, however long it takes. Raises LeaseLost."""
        await self._outlasting(response.seq, pieces, lambda: self.log.record_response(response))

    async def _outlasting(
        self, seq: int, blobs: Sequence[bytes], write: Callable[[], Awaitable[Written]]
    ) -> Written:
        """Store blobs, then write what names them, until both are done."""
        async with self._writing:
            pauses = _pauses()
            while True:
                await self.recovered()
                try:
                    if blobs:
                        await self.log.blobs.put_many(blobs)
                    return await write()
                except UnavailableError as error:
                    # Of the disk of large blobs too: the step has run, so its record must come.
                    if self._told != seq:
                        self._told = seq
                        self._waits(seq, error)
                    await self._wait(next(pauses))

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

    async def _wait(self, pause: float) -> None:
        self._connection_lost()
        await asyncio.sleep(pause)

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


def _step_of(rows: Sequence[NetworkRow]) -> int:
    return next((row.seq for row in rows if row.seq is not None), -1)


def _pauses() -> Iterator[float]:
    pause, longest = RETRY_S
    while True:
        yield pause
        pause = min(pause * 2, longest)


def _retrieve(task: asyncio.Task[None]) -> None:
    """Its error is told by whoever waits for the recovery; asyncio need not repeat it."""
    if not task.cancelled():
        task.exception()
