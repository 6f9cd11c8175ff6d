"""Postgres goes away at any moment: nothing acknowledged is lost, nothing is stored twice."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest

import reprise.log.connect
import reprise.log.writer
from reprise.errors import DatabaseUnavailable, LeaseLost
from reprise.log.connect import cut
from reprise.log.model import OutputEntry
from reprise.log.postgres import Log
from reprise.log.writer import Writer
from tests.fixtures.postgres import TestServer
from tests.log.test_lease import backend_of, terminate
from tests.log.words import cell, ok, text


async def _steps(log: Log, writer: Writer) -> list[tuple[int, str, str | None, str]]:
    """(seq, code, status, text shown) of each step; and the chain must add up."""
    assert (await log.check(writer.session)).fault is None
    found = []
    async for record in (await log.reader(writer.session)).records():
        shown = "".join(entry.content["text"] for entry in record.outputs)
        status = record.outcome.status if record.outcome else None
        found.append((record.step.seq, record.step.payload["content"]["code"], status, shown))
    return found


class BreakingCursor:
    """A cursor whose connection breaks at the next statement, after it committed or before."""

    def __init__(self, writer: Writer, stored: bool) -> None:
        assert writer._connection is not None
        self._connection = writer._connection
        self._real = writer._cursor
        self._stored = stored

    async def execute(self, *arguments: Any, **options: Any) -> None:
        if self._stored:
            await self._real.execute(*arguments, **options)
        cut(self._connection)
        await self._real.execute("SELECT 1")


def lose_answer(writer: Writer, *, stored: bool) -> None:
    """The answer to the next append is lost; a recovery gets a new cursor that works."""
    writer._cursor = BreakingCursor(writer, stored)  # type: ignore[assignment]


@pytest.mark.parametrize("stored", [True, False])
async def test_a_step_whose_answer_was_lost_is_stored_once_when_repeated(
    log: Log, writer: Writer, stored: bool
) -> None:
    lose_answer(writer, stored=stored)
    with pytest.raises(DatabaseUnavailable):
        await writer.append_step(cell("once"))
    with pytest.raises(DatabaseUnavailable):
        await writer.append_step(cell("once"))  # at once, until recovered
    await writer.recover()
    step = await writer.append_step(cell("once"))
    assert step.seq == 0
    await writer.record_outcome(0, ok())
    again = await writer.append_step(cell("once"))  # asked anew, not repeated
    assert again.seq == 1
    assert [s[:3] for s in await _steps(log, writer)] == [(0, "once", "ok"), (1, "once", None)]


@pytest.mark.parametrize("stored", [True, False])
async def test_a_step_that_was_given_up_is_lost_and_never_doubled(
    log: Log, writer: Writer, stored: bool
) -> None:
    lose_answer(writer, stored=stored)
    with pytest.raises(DatabaseUnavailable):
        await writer.append_step(cell("given up"))
    await writer.recover()
    step = await writer.append_step(cell("next"))
    await writer.record_outcome(step.seq, ok())
    expected = [(step.seq, "next", "ok", "")]
    if stored:
        expected.insert(0, (0, "given up", "lost", ""))
    assert await _steps(log, writer) == expected


@pytest.mark.parametrize("stored", [True, False])
async def test_an_outcome_whose_answer_was_lost_is_stored_once(
    log: Log, writer: Writer, stored: bool
) -> None:
    step = await writer.append_step(cell("a"))
    entries = text("all of it")
    lose_answer(writer, stored=stored)
    with pytest.raises(DatabaseUnavailable):
        await writer.record_outcome(step.seq, ok(*entries), entries)
    await writer.recover()
    outcome = await writer.record_outcome(step.seq, ok(*entries), entries)
    assert outcome.event == 1
    assert await _steps(log, writer) == [(0, "a", "ok", "all of it")]


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("late", [True, False])
async def test_outputs_whose_answer_was_lost_are_stored_once(
    log: Log, writer: Writer, stored: bool, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reprise.log.writer, "_ROW_BYTES", 60)  # several rows a call
    step = await writer.append_step(cell("a"))
    if late:
        await writer.record_outcome(step.seq, ok())
    entries = text(*(f"piece {number}, " for number in range(6)))
    real = writer._append_row
    calls = 0

    async def append_row(*arguments: Any, **options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            lose_answer(writer, stored=stored)
        await real(*arguments, **options)

    monkeypatch.setattr(writer, "_append_row", append_row)
    with pytest.raises(DatabaseUnavailable):
        await writer.append_outputs(step.seq, entries, late=late)
    await writer.recover()
    await writer.append_outputs(step.seq, entries, late=late)
    if not late:
        await writer.record_outcome(step.seq, ok(*entries))
    else:
        await writer.append_step(cell("closes over the late ones"))
    [record] = [r async for r in writer.records(0, 1)]
    assert (record.late if late else record.outputs) == tuple(entries)
    assert (await log.check(writer.session)).ok


async def test_a_cancelled_write_leaves_a_log_that_recovers(
    log: Log, writer: Writer, postgres: TestServer
) -> None:
    postgres.pause()
    write = asyncio.create_task(writer.append_step(cell("cancelled")))
    done, _ = await asyncio.wait([write], timeout=0.2)
    assert not done
    write.cancel()
    postgres.resume()
    with pytest.raises(asyncio.CancelledError):
        await write
    with pytest.raises(DatabaseUnavailable):
        await writer.append_step(cell("at once"))
    await writer.recover()
    step = await writer.append_step(cell("next"))
    await writer.record_outcome(step.seq, ok())
    stored = await _steps(log, writer)
    assert stored[-1] == (step.seq, "next", "ok", "")
    assert stored[:-1] in ([], [(0, "cancelled", "lost", "")])


async def test_a_hung_server_does_not_hang_a_write_for_ever(
    writer: Writer, postgres: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reprise.log.connect, "STATEMENT_SECONDS", 0.3)
    step = await writer.append_step(cell())
    postgres.pause()
    try:
        with pytest.raises(DatabaseUnavailable):
            await writer.record_outcome(step.seq, ok())
    finally:
        postgres.resume()
    await writer.recover()
    assert (await writer.record_outcome(step.seq, ok())).event == 1


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGQUIT])
async def test_a_server_that_stops_and_comes_back_loses_nothing_acknowledged(
    log: Log, writer: Writer, postgres: TestServer, how: signal.Signals
) -> None:
    for code in ("a", "b"):
        step = await writer.append_step(cell(code))
        await writer.record_outcome(step.seq, ok())
    step = await writer.append_step(cell("running"))
    await writer.append_outputs(step.seq, text("seen "))
    postgres.stop(how)
    with pytest.raises(DatabaseUnavailable):
        await writer.record_outcome(step.seq, ok(*text("seen so far")), text("so far"))
    recovery = asyncio.create_task(writer.recover())
    done, _ = await asyncio.wait([recovery], timeout=0.3)
    assert not done  # it goes on trying
    with pytest.raises(DatabaseUnavailable):
        await writer.append_step(cell("meanwhile"))  # at once
    postgres.start()
    await recovery
    await writer.record_outcome(step.seq, ok(*text("seen so far")), text("so far"))
    assert await _steps(log, writer) == [
        (0, "a", "ok", ""),
        (1, "b", "ok", ""),
        (2, "running", "ok", "seen so far"),
    ]


async def test_a_zombie_of_our_own_connection_does_not_keep_us_out(
    log: Log, writer: Writer
) -> None:
    """The network took the connection, and the server has not noticed."""
    step = await writer.append_step(cell())
    zombie = writer._connection
    assert zombie is not None
    writer._connection = None  # lost to us; its backend still holds the lock
    await writer.recover()
    await writer.record_outcome(step.seq, ok())
    with pytest.raises(Exception, match=r"terminat|closed"):
        await zombie.execute("SELECT 1")
    await zombie.close()
    assert (await log.check(writer.session)).ok


async def test_the_lease_is_lost_when_another_writer_came_and_went(
    log: Log, writer: Writer, dsn: str
) -> None:
    step = await writer.append_step(cell())
    terminate(dsn, backend_of(writer))
    second = await log.acquire(writer.session, {})
    await second.close()
    with pytest.raises(DatabaseUnavailable):
        await writer.record_outcome(step.seq, ok())
    with pytest.raises(LeaseLost):
        await writer.recover()


async def test_recovering_can_be_cancelled_and_closing_ends_it(
    writer: Writer, postgres: TestServer
) -> None:
    postgres.stop()
    with pytest.raises(DatabaseUnavailable):
        await writer.append_step(cell())
    recovery = asyncio.create_task(writer.recover())
    await asyncio.wait([recovery], timeout=0.2)
    recovery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recovery
    recovery = asyncio.create_task(writer.recover())
    await asyncio.wait([recovery], timeout=0.2)
    await writer.close()
    with pytest.raises(LeaseLost):
        await recovery


async def test_reading_survives_a_lost_connection(log: Log, dsn: str) -> None:
    session = await log.begin(kernel="python3")
    assert log._connection is not None
    terminate(dsn, log._connection.info.backend_pid)
    assert [info.id for info in await log.sessions()] == [session]


async def test_entries_keep_their_order_over_batches_and_recoveries(
    log: Log, writer: Writer, dsn: str
) -> None:
    step = await writer.append_step(cell())
    shown: list[OutputEntry] = []
    for number in range(12):
        if number % 4 == 3:
            terminate(dsn, backend_of(writer))
        batch = text(f"{number};")
        try:
            await writer.append_outputs(step.seq, batch)
        except DatabaseUnavailable:
            await writer.recover()
            await writer.append_outputs(step.seq, batch)
        shown += batch
    await writer.record_outcome(step.seq, ok(*shown))
    [record] = [r async for r in writer.records()]
    assert record.outputs == tuple(shown)
    assert (await log.check(writer.session)).ok
