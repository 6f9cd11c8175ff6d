"""Two writers can never interleave in one session."""

from __future__ import annotations

import asyncio
import os
import uuid

import psycopg
import pytest

from reprise.errors import DatabaseUnavailable, LeaseHeld, LeaseLost, SessionNotFound, UsageError
from reprise.log.model import canonical_step, extend
from reprise.log.postgres import Log
from reprise.log.writer import Writer
from tests.log.words import cell, ok, text

#: The long form (10,000) runs with REPRISE_LONG=1.
TRIES = 10_000 if os.environ.get("REPRISE_LONG") else 400


def terminate(dsn: str, pid: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", [pid])


def backend_of(writer: Writer) -> int:
    assert writer._connection is not None
    return writer._connection.info.backend_pid


async def test_a_held_session_says_who_holds_it_and_since_when(log: Log, writer: Writer) -> None:
    with pytest.raises(LeaseHeld, match=r"name fixture since 20\d\d-\d\d-\d\d .* UTC"):
        await log.acquire(writer.session, {"name": "second"}, wait=0.05)


async def test_a_newcomer_gets_the_session_as_soon_as_it_is_given_back(
    log: Log, writer: Writer
) -> None:
    newcomer = asyncio.create_task(log.acquire(writer.session, {"name": "second"}, wait=60))
    await writer.append_step(cell())
    await writer.close()
    second = await newcomer
    assert second.epoch == writer.epoch + 1
    assert second.next_seq == 1
    await second.close()
    with pytest.raises(LeaseLost):
        await writer.append_step(cell())


async def test_steps_left_open_end_as_lost_in_order_in_the_same_chain(
    log: Log, writer: Writer
) -> None:
    for code in ("a", "b"):
        step = await writer.append_step(cell(code))
        await writer.append_outputs(step.seq, text(f"shown by {code}"))
    await writer.close()
    second = await log.acquire(writer.session, {})
    records = [record async for record in second.records()]
    assert [(r.outcome.status, r.outcome.event) for r in records if r.outcome] == [
        ("lost", 2),
        ("lost", 3),
    ]
    assert (await log.check(writer.session)).ok
    await second.close()


async def test_a_writer_whose_connection_was_ended_is_refused_once_another_took_over(
    log: Log, writer: Writer, dsn: str
) -> None:
    step = await writer.append_step(cell())
    terminate(dsn, backend_of(writer))
    second = await log.acquire(writer.session, {"name": "second"})
    with pytest.raises(Exception, match="Postgres") as failed:
        await writer.record_outcome(step.seq, ok())
    assert type(failed.value).__name__ == "DatabaseUnavailable"
    with pytest.raises(LeaseLost):
        await writer.recover()
    for _ in range(2):  # for good
        with pytest.raises(LeaseLost):
            await writer.append_step(cell())
    await second.append_step(cell("second"))
    await second.close()
    assert (await log.check(writer.session)).ok


async def test_postgres_itself_refuses_a_stale_writer_whatever_its_code_does(
    log: Log, writer: Writer, dsn: str
) -> None:
    """A holder that was paused for an hour wakes up, and its connection still works."""
    await writer.append_step(cell())
    connection = writer._connection
    assert connection is not None
    # The lock is taken from it as a server's restart would, but the connection lives.
    await connection.execute("SELECT pg_advisory_unlock_all()")
    second = await log.acquire(writer.session, {"name": "second"})
    with pytest.raises(LeaseLost, match="taken over"):
        await writer.append_step(cell("stale"))
    with pytest.raises(LeaseLost):
        await writer.append_outputs(0, text("stale"))
    await second.close()
    assert [r.step.seq async for r in second.records()] == [0]


async def test_no_one_appends_without_the_lock_or_out_of_order(writer: Writer, dsn: str) -> None:
    """Attempts made with bare SQL as the kernel's role."""
    await writer.append_step(cell())
    head = writer._head
    body = canonical_step(1, 1, cell())
    insert = (
        "INSERT INTO reprise.steps (session, seq, event, owner, epoch, kind, environment, at,"
        " body, digest) VALUES (%s, %s, %s, %s, %s, 'cell', 'e', 1, %s, %s)"
    )
    digest = extend(head.chain, body)

    def values(**changes: object) -> list[object]:
        good: dict[str, object] = {
            "session": writer.session,
            "seq": 1,
            "event": 1,
            "owner": "tester",
            "epoch": writer.epoch,
            "body": body.decode(),
            "digest": digest,
        }
        return list({**good, **changes}.values())

    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("SET ROLE reprise_kernel")
        with pytest.raises(psycopg.Error) as refused:
            other.execute(insert, values())
        assert refused.value.sqlstate == "RP001"  # another connection
        with pytest.raises(psycopg.Error) as refused:
            other.execute(
                "SELECT reprise.take_lease(%s, 'tester', gen_random_uuid(), '{}', 1)",
                [writer.session],
            )
        assert refused.value.sqlstate == "RP001"  # without the lock
    assert writer._connection is not None
    for wrong in [
        {"seq": 2},
        {"event": 2},
        {"seq": 0},
        {"digest": b"x" * 32},
        {"body": body.replace(b"cell", b"mell").decode()},
    ]:
        with pytest.raises(psycopg.Error) as refused:
            await writer._connection.execute(insert, values(**wrong))
        assert refused.value.sqlstate in ("RP002", "23514"), wrong
    with pytest.raises(psycopg.Error) as refused:
        await writer._connection.execute(insert, values(epoch=writer.epoch - 1))
    assert refused.value.sqlstate == "RP001"


async def test_a_step_has_one_outcome_and_outputs_end_with_it(log: Log, writer: Writer) -> None:
    step = await writer.append_step(cell())
    await writer.record_outcome(step.seq, ok())
    with pytest.raises(Exception, match="refused"):
        await writer.record_outcome(step.seq, ok(status="error"))
    with pytest.raises(Exception, match="refused"):
        await writer.append_outputs(step.seq, text("not late"))
    with pytest.raises(Exception, match="refused"):
        await writer.record_outcome(7, ok())
    second = await writer.append_step(cell())
    with pytest.raises(Exception, match="refused"):
        await writer.append_outputs(second.seq, text("late, yet it runs"), late=True)
    await writer.record_outcome(second.seq, ok())
    assert (await log.check(writer.session)).ok


async def test_many_tries_of_two_writers_never_interleave(log: Log, dsn: str, home: object) -> None:
    """Each tries to take the session, by force too, and appends while it believes to hold it."""
    session = await log.begin(kernel="python3")
    logs = [log, await Log.connect(dsn, owner="tester", home=log.home)]
    acknowledged: list[tuple[int, str]] = []
    tries = 0

    async def contend(name: str, of: Log) -> None:
        nonlocal tries
        while tries < TRIES:
            try:
                writer = await of.acquire(session, {"name": name}, wait=0.02)
            except LeaseHeld:
                tries += 1
                pid = await asyncio.to_thread(_holder, dsn, session)
                if pid is not None and tries % 3 == 0:
                    await asyncio.to_thread(terminate, dsn, pid)
                continue
            except DatabaseUnavailable:
                tries += 1  # the other one's blow met us while we took it
                continue
            try:
                for _ in range(5):
                    tries += 1
                    code = f"{name} {uuid.uuid4()}"
                    step = await writer.append_step(cell(code))
                    acknowledged.append((step.seq, code))
                    await writer.record_outcome(step.seq, ok())
            except Exception as error:
                if type(error).__name__ not in ("DatabaseUnavailable", "LeaseLost"):
                    raise
            finally:
                await writer.close()

    async with asyncio.TaskGroup() as group:
        for name, of in zip("ab", logs, strict=True):
            group.create_task(contend(name, of))
    report = await log.check(session)
    assert report.fault is None
    stored = {
        r.step.seq: r.step.payload["content"]["code"]
        async for r in (await log.reader(session)).records()
    }
    assert sorted(stored) == list(range(report.steps))
    assert len(acknowledged) == len({seq for seq, _ in acknowledged}) > 0
    assert all(stored[seq] == code for seq, code in acknowledged)
    await logs[1].close()


def _holder(dsn: str, session: uuid.UUID) -> int | None:
    with psycopg.connect(dsn, autocommit=True) as admin:
        row = admin.execute("SELECT reprise.lock_holder(%s)", [session]).fetchone()
    return None if row is None else row[0]


async def test_a_session_is_begun_once_and_belongs_to_its_owner(log: Log, dsn: str) -> None:
    session = uuid.uuid4()
    assert await log.begin(session=session, kernel="python3", notebook="a.ipynb") == session
    assert await log.begin(session=session, kernel="other") == session
    assert [info.notebook for info in await log.sessions()] == ["a.ipynb"]
    stranger = await Log.connect(dsn, owner="stranger", home=log.home)
    with pytest.raises(UsageError, match="another owner"):
        await stranger.begin(session=session, kernel="python3")
    with pytest.raises(SessionNotFound):
        await stranger.reader(session)
    with pytest.raises(SessionNotFound):
        await stranger.acquire(session, {})
    assert await stranger.sessions() == []
    await stranger.close()


async def test_a_key_leads_to_the_session_it_was_bound_to_last(log: Log) -> None:
    assert await log.find("notebook") is None
    for _ in range(2):
        session = await log.begin(kernel="python3")
        writer = await log.acquire(session, {})
        await writer.bind("notebook")
        await writer.close()
        assert await log.find("notebook") == session
