"""What was exported comes in whole, and goes out again byte for byte."""

from __future__ import annotations

import uuid

import pytest

from reprise.log.postgres import Log
from reprise.log.store import Notice
from tests.bundle.conftest import exported, imported
from tests.bundle.sample import LARGE, begin, cell, run, text


async def everything(log: Log, session: uuid.UUID) -> list[object]:
    """All that can be read of a session."""
    reader = await log.reader(session)
    records = [record async for record in reader.records()]
    artifacts = [
        vars(each) | {"id": None, "session": None} for each in await log.artifacts(session)
    ]
    recorded = [each async for each in reader.all_recorded()]
    return [records, await reader.states(), artifacts, await reader.by_key("once"), recorded]


async def test_what_goes_out_comes_in(log: Log, other: Log, sample: uuid.UUID) -> None:
    artifacts = await log.artifacts(sample)
    data = await exported(log, sample, notices=True, artifacts=artifacts)
    loaded = await imported(other, data)
    assert (loaded.session, loaded.outcome) == (sample, "imported")
    assert await everything(other, sample) == await everything(log, sample)
    notices = await (await other.reader(sample)).notices()
    assert notices == await (await log.reader(sample)).notices()
    assert isinstance(notices[0], Notice)
    report = await other.check(sample, blobs=True)
    assert report.ok, report.fault
    assert await other._blobs.get((await log._blobs.put_many([LARGE]))[0]) == LARGE
    info = await (await other.reader(sample)).info()
    assert (info.owner, info.notebook, info.holder) == ("importer", None, None)
    assert info.created_at == (await (await log.reader(sample)).info()).created_at


@pytest.mark.parametrize("whole", [True, False], ids=["all of it", "the history alone"])
async def test_it_goes_out_again_byte_for_byte(
    log: Log, other: Log, sample: uuid.UUID, whole: bool
) -> None:
    async def out(of: Log) -> bytes:
        more = {"notices": True, "artifacts": await of.artifacts(sample)} if whole else {}
        return await exported(of, sample, **more)

    data = await out(log)
    assert data == await out(log)
    await imported(other, data)
    assert await out(other) == data


async def test_an_imported_session_goes_on(log: Log, other: Log, sample: uuid.UUID) -> None:
    await imported(other, await exported(log, sample))
    writer = await other.acquire(sample, {})
    seq = await run(writer, cell("more"), text("more\n"))
    assert seq == (await (await log.reader(sample)).info()).steps
    await writer.close()
    assert (await other.check(sample, blobs=True)).ok


async def test_the_same_again_changes_nothing(log: Log, other: Log, sample: uuid.UUID) -> None:
    data = await exported(log, sample)
    await imported(other, data)
    assert (await imported(other, data)).outcome == "there"
    new = uuid.uuid4()
    assert (await imported(other, data, as_new=new)).session == new
    assert await everything(other, new) == await everything(other, sample)
    assert (await other.check(new, blobs=True)).ok


async def test_a_step_that_runs_goes_out_as_far_as_it_is(log: Log, other: Log) -> None:
    writer = await begin(log)
    await run(writer, cell("first"))
    running = await writer.append_step(cell("second"))
    await writer.append_outputs(running.seq, text("so far"))
    data = await exported(log, writer.session)
    await writer.close()
    await imported(other, data)
    held = await other.acquire(writer.session, {})
    records = [record async for record in held.records()]
    assert [r.outcome and r.outcome.status for r in records] == ["ok", "lost"]
    assert records[1].outputs == tuple(text("so far"))
    await held.close()


async def test_a_fork_goes_out_whole(log: Log, other: Log, sample: uuid.UUID) -> None:
    fork = await log.fork(sample, 3)
    writer = await log.acquire(fork, {})
    await run(writer, cell("on another way"), text("there\n"))
    await writer.close()
    again = await log.fork(fork, 2)
    for session in (fork, again):
        data = await exported(log, session)
        await imported(other, data)
        assert (await other.check(session, blobs=True)).ok
        assert await everything(other, session) == await everything(log, session)
        assert await exported(other, session) == data


async def test_an_empty_session_is_a_history_too(log: Log, other: Log) -> None:
    session = await log.begin(kernel="python3")
    data = await exported(log, session)
    await imported(other, data)
    assert await exported(other, session) == data


async def test_a_history_of_many_pages(log: Log, other: Log) -> None:
    """Steps and outputs that do not fit into a page of the bundle, nor of the log."""
    writer = await begin(log)
    for number in range(4):
        code = f"{number}" * (5 << 20)
        shown = text(*(f"{number}{piece}" * 100_000 for piece in range(12)))
        await run(writer, cell(code), shown)
        await writer.append_outputs(number, text("late" * (1 << 20)), late=True)
    await writer.close()
    data = await exported(log, writer.session)
    await imported(other, data)
    assert (await other.check(writer.session)).ok
    assert await exported(other, writer.session) == data
    assert await everything(other, writer.session) == await everything(log, writer.session)
