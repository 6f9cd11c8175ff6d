"""Writes one session under its lease: appends, and the way back after a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from reprise.errors import DatabaseUnavailable, LeaseLost, RepriseError, TooLarge
from reprise.failpoints import failpoint
from reprise.log.blobs import Ask, OwnedBlobs
from reprise.log.connect import Connection, is_connection_loss, watched
from reprise.log.lease import Head, Lease
from reprise.log.model import (
    Json,
    LateHash,
    NewOutcome,
    NewStep,
    Outcome,
    OutputEntry,
    OutputsHash,
    Step,
    canonical,
    canonical_outcome,
    canonical_step,
    extend,
)
from reprise.log.reader import Reader, parse_entries
from reprise.log.store import Notice

#: The largest step (a cell with its metadata) and the largest single output that are recorded.
#: Far below what Postgres can store in a value (1 GB), and such that one fits into memory often.
MAX_STEP_BYTES = 64 << 20
MAX_ENTRY_BYTES = 128 << 20

#: Batches of outputs are cut into rows of about this size, so that pages of them stay small.
_ROW_BYTES = 4 << 20

#: First and longest pause between attempts to reach Postgres again, in seconds.
_BACK_OFF = (0.05, 5.0)

_APPEND_STEP = (
    "INSERT INTO reprise.steps"
    " (session, seq, event, owner, epoch, kind, environment, tree, at, body, digest)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b)"
)
_APPEND_OUTPUTS = (
    "INSERT INTO reprise.outputs (session, seq, number, event, owner, epoch, late, body)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)
_APPEND_OUTCOME = (
    "INSERT INTO reprise.outcomes"
    " (session, seq, event, owner, epoch, status, duration_us, execution_count, at, body, chain)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %b)"
)
_RECORD_OUTCOME = (
    "SELECT reprise.record_outcome(%s, %s::bigint, %s::bigint, %s, %s::bigint, %s, %s::bigint,"
    " %s::bigint, %s::bigint, %s, %b, %s::bigint, %s)"
)


@dataclass(frozen=True)
class _Write:
    """A write on its way: what it would make of the head, and its result for the caller.

    body: the canonical bytes that tell a retry of the same write from another one.
    """

    after: Head
    what: tuple[str, int, bytes, bytes]  # kind of write, seq, body, last outputs
    result: Step | Outcome | None
    late: LateHash | None = None


class Writer(Reader):
    """The `SessionLog` of the log contract.

    A write that failed with DatabaseUnavailable may or may not be stored. After `recover` the
    caller either repeats it with equal arguments (which stores it once, whatever happened), or
    goes on: a step that was stored but never repeated gets the outcome `lost` before the next
    step, since nobody was told that it runs.
    """

    def __init__(
        self,
        *,
        connection: Connection,
        lease: Lease,
        head: Head,
        owner: str,
        ask: Ask,
        blobs: OwnedBlobs,
        reconnect: Callable[[], Awaitable[Connection]],
        now: Callable[[], int],
    ) -> None:
        super().__init__(ask, lease.session, owner, blobs)
        self._connection: Connection | None = connection
        self._cursor = connection.cursor()
        self._lease = lease
        self._head = head
        self._reconnect = reconnect
        self._now = now
        self._late = LateHash()
        self._write_lock = asyncio.Lock()
        self._pending: _Write | None = None  # sent, never answered
        self._stored: _Write | None = None  # found stored by recover, not yet claimed by a retry
        self._gone: str | None = None  # why the lease is lost for good

    @property
    def epoch(self) -> int:
        return self._lease.epoch

    @property
    def next_seq(self) -> int:
        return self._head.next_seq

    async def append_step(self, new: NewStep) -> Step:
        async with self._write_lock:
            claimed = self._claim_step(new)
            if claimed is not None:
                return claimed
            await self._close_unclaimed()
            head = self._head
            body = canonical_step(head.next_seq, head.next_event, new, self._late.hexdigest())
            if len(body) > MAX_STEP_BYTES:
                raise TooLarge(
                    f"A {new.kind} step of {len(body)} bytes is over the bound of {MAX_STEP_BYTES}"
                    " bytes. It was not run and nothing was recorded. Put large data into a file"
                    " (upload it, or mount its folder) and read it from the cell."
                )
            step = Step(head.next_seq, head.next_event, new, extend(head.chain, body))
            tree = new.payload.get("tree") if new.kind == "restart" else None
            write = _Write(head.after_step(step.digest), ("step", step.seq, body, b""), step)
            failpoint("before-step-commit")
            await self._send(
                write,
                _APPEND_STEP,
                [
                    self.session,
                    step.seq,
                    step.event,
                    self.owner,
                    self.epoch,
                    new.kind,
                    new.environment,
                    tree,
                    new.at,
                    body.decode("ascii"),
                    step.digest,
                ],
            )
            failpoint("after-step-commit")
            return step

    async def append_outputs(
        self, seq: int, entries: Sequence[OutputEntry], *, late: bool = False
    ) -> None:
        async with self._write_lock:
            for body in _rows(entries):
                await self._append_batch(seq, body, late)

    async def record_outcome(
        self, seq: int, new: NewOutcome, entries: Sequence[OutputEntry] = ()
    ) -> Outcome:
        async with self._write_lock:
            return await self._record_outcome(seq, new, entries)

    async def note(self, notice: Notice) -> None:
        body = canonical([notice.text, dict(notice.detail)]).decode("ascii")
        async with self._write_lock:
            await self._execute(
                "INSERT INTO reprise.notices (session, owner, epoch, seq, at, code, body)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s)",
                [self.session, self.owner, self.epoch, notice.seq, notice.at, notice.code, body],
            )

    async def record_environment(self, digest: str, spec: Mapping[str, Json]) -> None:
        async with self._write_lock:
            await self._execute(
                "INSERT INTO reprise.environments (owner, digest, spec) VALUES (%s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                [self.owner, digest, canonical(spec).decode("ascii")],
            )

    async def bind(self, key: str) -> None:
        async with self._write_lock:
            await self._execute(
                "INSERT INTO reprise.bindings (owner, key, session, at) VALUES (%s, %s, %s, %s)",
                [self.owner, key, self.session, self._now()],
            )

    async def recover(self) -> None:
        async with self._write_lock:
            if self._gone is not None:
                raise LeaseLost(self._gone)
            if self._connection is not None:
                return
            pause, longest = _BACK_OFF
            while True:
                try:
                    await self._recover_once()
                except DatabaseUnavailable:
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, longest)
                except LeaseLost as error:
                    self._gone = str(error)
                    raise
                else:
                    return

    async def close(self) -> None:
        """Give the lease back. A write in flight is waited for."""
        async with self._write_lock:
            self._gone = self._gone or f"The log of session {self.session} was closed here."
            if self._connection is not None:
                connection, self._connection = self._connection, None
                await connection.close()

    # -- acquiring ------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Finish what an earlier writer left: load late outputs, close open steps as `lost`."""
        async with self._write_lock:
            await self._load_late()
            rows = await self._execute(
                "SELECT s.seq FROM reprise.steps s WHERE s.session = %s AND NOT EXISTS"
                " (SELECT FROM reprise.outcomes o WHERE o.session = s.session AND o.seq = s.seq)"
                " ORDER BY s.seq",
                [self.session],
            )
            for (seq,) in rows:
                await self._record_lost(seq, {"what": "writer-gone"})

    async def _load_late(self) -> None:
        self._late = LateHash()
        after = -1
        while True:
            rows = await self._execute(
                "SELECT number, seq, body::text FROM reprise.outputs WHERE late AND session = %s"
                " AND event = %s AND number > %s ORDER BY number LIMIT 20",
                [self.session, self._head.next_event, after],
            )
            for number, seq, body in rows:
                self._late.add(seq, body.encode("ascii"))
                after = number
            if not rows:
                return

    async def _record_lost(self, seq: int, cause: Mapping[str, Json]) -> None:
        total = OutputsHash()
        after = -1
        while True:
            rows = await self._execute(
                "SELECT number, body::text FROM reprise.outputs WHERE session = %s AND seq = %s"
                " AND NOT late AND number > %s ORDER BY number LIMIT 20",
                [self.session, seq, after],
            )
            for number, body in rows:
                for entry in parse_entries(body):
                    total.add(entry)
                after = number
            if not rows:
                break
        new = NewOutcome("lost", total.hexdigest(), self._now(), cause=cause)
        await self._record_outcome(seq, new, ())

    # -- writing --------------------------------------------------------------------------------

    async def _append_batch(self, seq: int, body: bytes, late: bool) -> None:
        stored = self._stored
        if stored is not None and stored.what == ("outputs", seq, body, b"late" if late else b""):
            self._stored = None
            return
        head = self._head
        grown = None
        if late:
            grown = self._late_with(seq, body)
        what = ("outputs", seq, body, b"late" if late else b"")
        await self._send(
            _Write(head.after_output(), what, None, grown),
            _APPEND_OUTPUTS,
            [
                self.session,
                seq,
                head.next_output,
                head.next_event,
                self.owner,
                self.epoch,
                late,
                body.decode("ascii"),
            ],
        )

    def _late_with(self, seq: int, body: bytes) -> LateHash:
        grown = self._late.copy()
        grown.add(seq, body)
        return grown

    async def _record_outcome(
        self, seq: int, new: NewOutcome, entries: Sequence[OutputEntry]
    ) -> Outcome:
        *first, last = _rows(entries) or [b""]
        claimed = self._claim_outcome(seq, new, last)
        if claimed is not None:
            return claimed
        for batch in first:
            await self._append_batch(seq, batch, late=False)
        head = self._head
        body = canonical_outcome(seq, head.next_event, new, self._late.hexdigest())
        outcome = Outcome(seq, head.next_event, new, extend(head.chain, body))
        write = _Write(
            head.after_outcome(outcome.chain, bool(last)), ("outcome", seq, body, last), outcome
        )
        values: list[Any] = [
            self.session,
            seq,
            outcome.event,
            self.owner,
            self.epoch,
            new.status,
            new.duration_us,
            new.execution_count,
            new.at,
            body.decode("ascii"),
            outcome.chain,
        ]
        failpoint("before-outcome-commit")
        if last:
            values += [head.next_output, last.decode("ascii")]
            await self._send(write, _RECORD_OUTCOME, values)
        else:
            await self._send(write, _APPEND_OUTCOME, values)
        failpoint("after-outcome-commit")
        return outcome

    def _claim_step(self, new: NewStep) -> Step | None:
        """The step that an earlier, unanswered call with an equal `new` has stored, if any."""
        stored = self._stored
        if stored is None or not isinstance(stored.result, Step):
            return None
        if canonical(dict(new.payload)) != canonical(dict(stored.result.payload)):
            return None
        if stored.result.new != new:
            return None
        self._stored = None
        return stored.result

    def _claim_outcome(self, seq: int, new: NewOutcome, last: bytes) -> Outcome | None:
        stored = self._stored
        if stored is None or not isinstance(stored.result, Outcome):
            return None
        result = stored.result
        if result.seq != seq or result.new != new or stored.what[3] != last:
            return None
        self._stored = None
        return result

    async def _close_unclaimed(self) -> None:
        """Close a stored step that its caller gave up; it never ran."""
        stored, self._stored = self._stored, None
        if stored is not None and isinstance(stored.result, Step):
            await self._record_lost(stored.result.seq, {"what": "unanswered"})

    async def _send(self, write: _Write, statement: str, values: Sequence[Any]) -> None:
        """Run one append; until its answer is here it is pending."""
        if self._connection is not None:
            self._pending = write
        try:
            await self._execute(statement, values)
        except (LeaseLost, RepriseError) as error:
            if not isinstance(error, DatabaseUnavailable):
                self._pending = None  # it was answered: refused
            raise
        self._settle_pending()

    def _settle_pending(self) -> None:
        """The pending write is stored: move the head."""
        write, self._pending = self._pending, None
        if write is None:
            return
        self._head = write.after
        if write.late is not None:
            self._late = write.late
        elif write.result is not None:
            self._late = LateHash()  # the event closed over it

    async def _execute(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._gone is not None:
            raise LeaseLost(self._gone)
        connection = self._connection
        if connection is None:
            raise DatabaseUnavailable(
                f"The connection to Postgres was lost, so session {self.session} cannot be written."
                " Nothing was run. Reprise connects again by itself."
            )
        answered = False
        try:
            with watched(connection):
                await self._cursor.execute(statement, values, prepare=True)
                rows = await self._cursor.fetchall() if self._cursor.description else []
            answered = True
        except psycopg.Error as error:
            if is_connection_loss(error, connection):
                raise DatabaseUnavailable(
                    f"The connection to Postgres was lost while session {self.session} was written"
                    f" ({' '.join(str(error).split())}). Reprise connects again by itself."
                ) from error
            answered = True
            raise self._refused(error) from error
        finally:
            if not answered:
                # Lost, cut or cancelled: the outcome of this statement is unknown, and only a
                # new connection can tell. Nothing more is written on this one.
                self._connection = None
                await _discard(connection)
        return rows

    def _refused(self, error: psycopg.Error) -> RepriseError:
        reason = error.diag.message_primary or " ".join(str(error).split())
        state = error.sqlstate or ""
        if state == "RP001":
            self._gone = (
                f"Another process has taken over session {self.session}, so this one writes it no"
                f" more ({reason}). What it had acknowledged is stored; start the kernel again to"
                " go on from there."
            )
            return LeaseLost(self._gone)
        if state.startswith("53"):
            return DatabaseUnavailable(
                f"Postgres has no room or resources left ({reason}), so session {self.session}"
                " could not be written. Nothing was run; it works again once there is room."
            )
        return RepriseError(f"Postgres refused to record this in session {self.session}: {reason}")

    # -- recovering -----------------------------------------------------------------------------

    async def _recover_once(self) -> None:
        connection = await self._reconnect()
        try:
            with watched(connection):
                head = await self._lease.take_again(connection)
            pending = self._pending
            if pending is not None and head == pending.after:
                self._settle_pending()
                self._stored = pending
            elif head == self._head:
                self._pending = None
            else:
                raise LeaseLost(
                    f"The log of session {self.session} has moved on since this process lost its"
                    " connection, so it writes it no more. Start the kernel again to go on."
                )
        except psycopg.Error as error:
            await _discard(connection)
            if is_connection_loss(error, connection):
                raise DatabaseUnavailable(f"The connection was lost again: {error}") from error
            raise self._refused(error) from error
        except BaseException:
            await _discard(connection)
            raise
        self._connection = connection
        self._cursor = connection.cursor()


async def _discard(connection: Connection) -> None:
    """Close without asking the server anything."""
    await connection.close()


def _rows(entries: Sequence[OutputEntry]) -> list[bytes]:
    """Entries as canonical JSON arrays of bounded size. Raises TooLarge."""
    rows: list[bytes] = []
    parts: list[bytes] = []
    size = 0
    for entry in entries:
        part = canonical(entry.to_json())
        if len(part) > MAX_ENTRY_BYTES:
            raise TooLarge(
                f"An output of {len(part)} bytes is over the bound of {MAX_ENTRY_BYTES} bytes and"
                " was not recorded."
            )
        if parts and size + len(part) > _ROW_BYTES:
            rows.append(b"[" + b",".join(parts) + b"]")
            parts, size = [], 0
        parts.append(part)
        size += len(part)
    if parts:
        rows.append(b"[" + b",".join(parts) + b"]")
    return rows
