"""A fork reads exactly the prefix it shares, goes on by itself, and copies nothing."""

from __future__ import annotations

import asyncio
import uuid

import psycopg
import pytest

from reprise.errors import KeyInUse, RepriseError, SessionNotFound, UsageError
from reprise.log.model import During, NewOutcome, outputs_hash
from reprise.log.postgres import Log
from reprise.log.store import StateRecord, StepRecord
from reprise.log.writer import Writer
from tests.log.words import cell, ok, text


async def ran(writer: Writer, code: str, **changes: object) -> int:
    """One cell from acceptance to outcome, with an output before the outcome and one in it."""
    step = await writer.append_step(cell(code, **changes))
    first, second = text(f"{code} shows"), text(" this")
    await writer.append_outputs(step.seq, first)
    await writer.record_outcome(step.seq, ok(*first, *second), second)
    return step.seq


async def history(log: Log, session: uuid.UUID) -> list[StepRecord]:
    return [record async for record in (await log.reader(session)).records()]


async def gone_on(log: Log, session: uuid.UUID, code: str) -> None:
    """One more cell in a session that nobody holds; everything adds up afterwards."""
    writer = await log.acquire(session, {})
    await ran(writer, code)
    await writer.close()
    report = await log.check(session, blobs=True)
    assert report.fault is None


async def test_a_fork_is_the_prefix_and_both_go_on_apart(log: Log, writer: Writer) -> None:
    for code in "abc":
        await ran(writer, code)
    whole = await history(log, writer.session)
    fork = await log.fork(writer.session, 1)
    assert await history(log, fork) == whole[:2]
    info = await (await log.reader(fork)).info()
    assert (info.parent, info.fork_seq, info.steps) == (writer.session, 1, 2)
    assert info.environment == whole[1].step.new.environment
    await ran(writer, "d")
    await gone_on(log, fork, "x")
    codes = [r.step.payload["content"]["code"] for r in await history(log, fork)]
    assert codes == ["a", "b", "x"]
    assert (await history(log, writer.session))[:3] == whole
    assert (await log.check(writer.session)).ok
    summaries = await (await log.reader(fork)).summaries()
    assert [(each.seq, each.status) for each in summaries] == [(0, "ok"), (1, "ok"), (2, "ok")]


async def test_nothing_is_copied(log: Log, writer: Writer, dsn: str) -> None:
    for code in "abc":
        await ran(writer, code)
    fork = await log.fork(writer.session)
    with psycopg.connect(dsn) as connection:
        for table in ("steps", "outcomes", "outputs"):
            rows = connection.execute(
                f"SELECT count(*) FROM reprise.{table} WHERE session = %s", [fork]
            ).fetchone()
            assert rows == (0,)


async def test_a_fork_of_a_fork_hangs_on_the_session_whose_steps_it_needs(
    log: Log, writer: Writer
) -> None:
    for code in "abc":
        await ran(writer, code)
    middle = await log.fork(writer.session, 2)
    await gone_on(log, middle, "m")
    of_own = await log.fork(middle, 3)
    of_shared = await log.fork(middle, 1)
    parents = {info.id: info.parent for info in await log.sessions()}
    assert parents[of_own] == middle
    assert parents[of_shared] == writer.session
    await gone_on(log, of_own, "o")
    await gone_on(log, of_shared, "s")
    codes = [r.step.payload["content"]["code"] for r in await history(log, of_own)]
    assert codes == ["a", "b", "c", "m", "o"]
    codes = [r.step.payload["content"]["code"] for r in await history(log, of_shared)]
    assert codes == ["a", "b", "s"]


async def test_a_history_of_fifty_sessions_reads_as_one(log: Log, writer: Writer) -> None:
    await ran(writer, "0")
    session = writer.session
    for number in range(1, 50):
        session = await log.fork(session)
        await gone_on(log, session, str(number))
    records = await history(log, session)
    assert [r.step.payload["content"]["code"] for r in records] == [str(n) for n in range(50)]
    reader = await log.reader(session)
    assert len(await reader.line()) == 50
    middle = [record async for record in reader.records(20, 30)]
    assert middle == records[20:30]
    assert len((await log.dependents(writer.session)).forks) == 49


async def test_forks_at_the_beginning_and_before_it(log: Log, writer: Writer) -> None:
    await ran(writer, "a")
    await ran(writer, "b")
    first = await log.fork(writer.session, 0)
    empty = await log.fork(writer.session, -1)
    assert len(await history(log, first)) == 1
    assert await history(log, empty) == []
    info = await (await log.reader(empty)).info()
    assert (info.parent, info.fork_seq, info.steps) == (writer.session, -1, 0)
    assert info.environment is None
    await gone_on(log, first, "x")
    await gone_on(log, empty, "y")
    again = await log.fork(empty, 0)
    assert (await (await log.reader(again)).info()).parent == empty
    await gone_on(log, again, "z")


async def test_a_died_step_is_forked_like_any_other(log: Log, writer: Writer) -> None:
    await ran(writer, "a")
    step = await writer.append_step(cell("b"))
    died = NewOutcome("died", outputs_hash(()), 1, cause={"what": "signal", "signal": 9})
    await writer.record_outcome(step.seq, died)
    fork = await log.fork(writer.session)
    assert [r.outcome.status for r in await history(log, fork) if r.outcome] == ["ok", "died"]
    await gone_on(log, fork, "x")


async def test_what_cannot_be_forked_is_said_and_leaves_no_session(
    log: Log, writer: Writer
) -> None:
    with pytest.raises(UsageError, match="no steps yet"):
        await log.fork(writer.session, 0)
    await ran(writer, "a")
    await writer.append_step(cell("runs"))
    with pytest.raises(UsageError, match=r"Fork at step 0, or wait"):
        await log.fork(writer.session, 1)
    for at in (2, 10**12, -2):
        with pytest.raises(UsageError, match="steps 0 to 1"):
            await log.fork(writer.session, at)
    with pytest.raises(SessionNotFound):
        await log.fork(uuid.uuid4())
    assert len(await log.sessions()) == 1
    fork = await log.fork(writer.session)  # by default the step before the open one
    assert (await (await log.reader(fork)).info()).fork_seq == 0


async def test_an_open_first_step_leaves_an_empty_fork(log: Log, writer: Writer) -> None:
    await writer.append_step(cell("runs"))
    fork = await log.fork(writer.session)
    assert (await (await log.reader(fork)).info()).fork_seq == -1


async def test_another_owners_session_is_not_there(log: Log, writer: Writer, dsn: str) -> None:
    await ran(writer, "a")
    other = await Log.connect(dsn, owner="other", home=log.home)
    with pytest.raises(SessionNotFound):
        await other.fork(writer.session)
    for parent, event, seq in ((writer.session, 2, 0), (writer.session, 0, -1)):
        with pytest.raises(RepriseError, match=r"not there to be forked|foreign key"):
            await other._ask(
                "INSERT INTO reprise.sessions (id, owner, created_at, kernel, parent, fork_event,"
                " fork_seq) VALUES (gen_random_uuid(), 'other', 1, 'python3', %s, %s, %s)",
                [parent, event, seq],
            )
    await other.close()


@pytest.mark.parametrize(
    ("event", "seq"),
    [(1, 0), (3, 1), (99, 0), (2, 1), (2, 7), (0, 0), (2, -1), (-1, -1)],
    ids=str,
)
async def test_postgres_refuses_a_fork_where_no_step_ended(
    log: Log, writer: Writer, event: int, seq: int
) -> None:
    """Bare SQL as the kernel's role: cell 0 is over (events 0 and 1), cell 1 runs (event 2)."""
    await ran(writer, "a")
    await writer.append_step(cell("runs"))
    with pytest.raises(RepriseError, match="refused"):
        await log._ask(
            "INSERT INTO reprise.sessions (id, owner, created_at, kernel, parent, fork_event,"
            " fork_seq) VALUES (gen_random_uuid(), 'tester', 1, 'python3', %s, %s, %s)",
            [writer.session, event, seq],
        )
    assert len(await log.sessions()) == 1


async def test_a_comm_brings_the_cell_it_ran_beside(log: Log, writer: Writer) -> None:
    outer = await writer.append_step(cell("waits"))
    comm = await writer.append_step(cell("slides", kind="comm", during=During(outer.seq, 0)))
    await writer.record_outcome(comm.seq, ok())
    third = await writer.append_step(cell("slides again", kind="comm"))
    await writer.record_outcome(outer.seq, ok())
    await writer.record_outcome(third.seq, ok())
    await ran(writer, "later")
    fork = await log.fork(writer.session, comm.seq)
    records = await history(log, fork)
    assert [r.outcome and r.outcome.status for r in records] == ["ok", "ok", None]
    held = await log.acquire(fork, {})
    lost = [record async for record in held.records()][third.seq].outcome
    assert lost is not None
    assert (lost.status, lost.event) == ("lost", 5)
    summaries = await held.summaries()
    assert [each.status for each in summaries] == ["ok", "ok", "lost"]
    # Its output from now on is late, and there is no second outcome for it.
    await held.append_outputs(third.seq, text("late"), late=True)
    with pytest.raises(RepriseError, match="does not follow"):
        await held.record_outcome(third.seq, ok())
    with pytest.raises(RepriseError, match="does not follow"):
        await held.append_outputs(outer.seq, text("not late"))
    await ran(held, "x")
    await held.close()
    assert (await history(log, fork))[third.seq].late == tuple(text("late"))
    assert (await log.check(fork)).fault is None
    again = await log.fork(fork)
    assert (await history(log, again)) == (await history(log, fork))
    assert (await log.check(again)).fault is None


async def test_late_outputs_are_shared_up_to_the_fork(log: Log, writer: Writer) -> None:
    await ran(writer, "a")
    await writer.append_outputs(0, text("late, before b"), late=True)
    await ran(writer, "b")
    await writer.append_outputs(0, text("late, after b"), late=True)
    fork = await log.fork(writer.session, 1)
    assert (await history(log, fork))[0].late == tuple(text("late, before b"))
    held = await log.acquire(fork, {})
    await held.append_outputs(1, text("late in the fork"), late=True)
    await ran(held, "x")
    await held.close()
    records = await history(log, fork)
    assert records[1].late == tuple(text("late in the fork"))
    assert (await log.check(fork)).fault is None
    assert (await log.check(writer.session)).fault is None
    assert (await history(log, writer.session))[1].late == ()


async def test_forks_made_while_the_session_is_written_are_all_whole(
    log: Log, writer: Writer
) -> None:
    forks: list[uuid.UUID] = []

    async def write() -> None:
        number = 0
        while number < 60 or len(forks) < 10:
            await ran(writer, f"cell {number}")
            number += 1

    writing = asyncio.create_task(write())
    while not writing.done():
        forks.append(await log.fork(writer.session))
    await writing
    whole = await history(log, writer.session)
    for each in forks:
        records = await history(log, each)
        assert records == whole[: len(records)]
        assert (await log.check(each)).fault is None


async def test_a_hundred_forks_at_once(log: Log, writer: Writer, dsn: str) -> None:
    for code in "abc":
        await ran(writer, code)
    logs = [await Log.connect(dsn, owner="tester", home=log.home) for _ in range(10)]
    forks = await asyncio.gather(
        *(each.fork(writer.session, number % 3) for number in range(10) for each in logs)
    )
    assert len(set(forks)) == 100
    await asyncio.gather(*(gone_on(log, each, "x") for each in forks[:20]))
    for each in logs:
        await each.close()
    found = {info.id: info.steps for info in await log.sessions()}
    assert sorted(found[each] for each in forks[20:]) == sorted(
        1 + number % 3 for number in range(2, 10) for _ in logs
    )


async def test_a_fork_whose_answer_was_lost_is_made_once(log: Log, writer: Writer) -> None:
    await ran(writer, "a")
    identity = uuid.uuid4()
    assert await log.fork(writer.session, identity=identity) == identity
    await ran(writer, "b")
    assert await log.fork(writer.session, identity=identity) == identity
    assert len(await history(log, identity)) == 1


@pytest.mark.parametrize(
    ("edit", "seq"),
    [
        ("UPDATE reprise.steps SET body = replace(body::text, 'b', 'q')::json WHERE seq = 1", 1),
        ("DELETE FROM reprise.outcomes WHERE seq = 1", 1),
        (
            "UPDATE reprise.outputs SET body = replace(body::text, 'b s', 'q')::json WHERE seq = 1",
            1,
        ),
    ],
    ids=["a step", "an outcome", "an output"],
)
async def test_a_check_of_a_fork_finds_what_was_changed_in_its_parent(
    log: Log, writer: Writer, dsn: str, edit: str, seq: int
) -> None:
    for code in "abc":
        await ran(writer, code)
    fork = await log.fork(writer.session, 1)
    untouched = await log.fork(writer.session, 0)
    await gone_on(log, fork, "x")
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        assert superuser.execute(edit.encode()).rowcount >= 1
    fault = (await log.check(fork)).fault
    assert fault is not None
    assert fault.seq == seq
    assert (await log.check(untouched)).fault is None


# -- keys -----------------------------------------------------------------------------------------


async def test_a_key_finds_its_step_in_the_session_and_in_forks_that_share_it(
    log: Log, writer: Writer
) -> None:
    await ran(writer, "a")
    seq = await ran(writer, "b", key="the key")
    await ran(writer, "c", key="another")
    found = await writer.by_key("the key")
    assert found is not None
    assert (found.step.seq, found.outcome and found.outcome.status) == (seq, "ok")
    assert "".join(str(entry.content["text"]) for entry in found.outputs) == "b shows this"
    for at, there in ((0, None), (1, seq), (2, seq)):
        reader = await log.reader(await log.fork(writer.session, at))
        record = await reader.by_key("the key")
        assert (record and record.step.seq) == there
    for nobodys in ("", "none", "nul\0", "\ud800", "x" * 201):
        assert await writer.by_key(nobodys) is None


async def test_postgres_refuses_a_second_step_under_a_key(log: Log, writer: Writer) -> None:
    await ran(writer, "a", key="once")
    for session in (writer.session, await log.fork(writer.session)):
        held = writer if session == writer.session else await log.acquire(session, {})
        with pytest.raises(KeyInUse, match="already has a step"):
            await held.append_step(cell("again", key="once"))
        assert held.next_seq == 1
        await ran(held, "goes on", key="twice")
        assert (await log.check(session)).fault is None
        await held.close()
    beside = await log.fork(writer.session, -1)
    held_beside = await log.acquire(beside, {})
    await ran(held_beside, "a", key="once")  # nothing is shared, so it is free here
    await held_beside.close()


@pytest.mark.parametrize("key", ["", "nul\0", "\ud800", "x" * 201], ids=repr)
async def test_a_key_that_postgres_cannot_hold_is_refused_before_anything_is_recorded(
    log: Log, writer: Writer, key: str
) -> None:
    with pytest.raises(UsageError, match="idempotency key"):
        await writer.append_step(cell(key=key))
    await ran(writer, "a", key="ä" * 200)
    assert (await log.check(writer.session)).fault is None


async def test_a_key_column_that_was_changed_is_found(log: Log, writer: Writer, dsn: str) -> None:
    await ran(writer, "a", key="once")
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        superuser.execute("UPDATE reprise.steps SET key = 'other'")
    fault = (await log.check(writer.session)).fault
    assert fault is not None
    assert "key" in fault.what


# -- what hangs on a session ------------------------------------------------------------------------


async def test_recorded_states_are_inherited_and_the_last_of_a_step_counts(
    log: Log, writer: Writer
) -> None:
    await ran(writer, "a")
    await ran(writer, "b")
    tree = await writer.blobs.put(b'{"entries":[]}')
    await writer.record_state(StateRecord(0, 1, None, {"x": "old"}))
    await writer.record_state(StateRecord(0, 2, tree, {"x": "1", "\ud800": None}))
    await writer.record_state(StateRecord(1, 3, tree, None))
    fork = await log.fork(writer.session, 0)
    reader = await log.reader(fork)
    assert await reader.states() == [StateRecord(0, 2, tree, {"x": "1", "\ud800": None})]
    held = await log.acquire(fork, {})
    await held.record_state(StateRecord(0, 9, None, {"x": "2"}))
    await held.close()
    assert [each.at for each in await reader.states()] == [9]
    assert [each.at for each in await writer.states()] == [2, 3]


async def test_rebinding_takes_the_keys_that_lead_to_a_session_now(
    log: Log, writer: Writer
) -> None:
    await ran(writer, "a")
    for key in ("one", "two", "moved"):
        await writer.bind(key)
    elsewhere = await log.acquire(await log.begin(kernel="python3"), {})
    await elsewhere.bind("moved")
    await elsewhere.close()
    fork = await log.fork(writer.session)
    assert await log.rebind(writer.session, fork) == ["one", "two"]
    assert [await log.find(key) for key in ("one", "two", "moved")] == [
        fork,
        fork,
        elsewhere.session,
    ]
    assert await log.rebind(writer.session, fork) == []
