"""Postgres itself refuses to change the log, to the kernel's role and to the owner's."""

from __future__ import annotations

import uuid

import psycopg
import pytest

from reprise.log.postgres import Log
from reprise.log.writer import Writer
from tests.fixtures.postgres import TestServer
from tests.log.words import cell, ok, text

TABLES = ["steps", "outcomes", "outputs"]
CHANGES = [
    "UPDATE reprise.{} SET owner = 'someone'",
    "DELETE FROM reprise.{}",
    "TRUNCATE reprise.{} CASCADE",
]


async def _one_step(writer: Writer) -> None:
    step = await writer.append_step(cell())
    entries = text("hello")
    await writer.record_outcome(step.seq, ok(*entries), entries)


def _as(dsn: str, role: str) -> psycopg.Connection[tuple[object, ...]]:
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute(f"SET ROLE {role}")
    return connection


@pytest.mark.parametrize(
    "table", [*TABLES, "heads", "sessions", "blobs", "notices", "bindings", "recorded"]
)
@pytest.mark.parametrize("change", CHANGES)
async def test_the_kernel_role_may_not_change_what_is_stored(
    writer: Writer, dsn: str, table: str, change: str
) -> None:
    await _one_step(writer)
    with _as(dsn, "reprise_kernel") as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(change.format(table))
    assert refused.value.sqlstate == "42501"


@pytest.mark.parametrize("role", ["reprise_owner", "postgres"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("change", CHANGES)
async def test_a_trigger_refuses_changes_even_to_the_owner_and_a_superuser(
    writer: Writer, dsn: str, table: str, change: str, role: str
) -> None:
    await _one_step(writer)
    with _as(dsn, role) as connection, pytest.raises(psycopg.Error) as refused:
        connection.execute(change.format(table))
    assert refused.value.sqlstate == "RP003"


async def test_the_kernel_role_owns_nothing_and_cannot_disarm_the_triggers(
    writer: Writer, dsn: str
) -> None:
    for statement in [
        "ALTER TABLE reprise.steps DISABLE TRIGGER ALL",
        "SET session_replication_role = replica",
        "DROP TABLE reprise.steps",
        "CREATE TABLE reprise.mine ()",
        "INSERT INTO reprise.deletions (session, owner) SELECT id, owner FROM reprise.sessions",
        "SELECT reprise.delete_session(id) FROM reprise.sessions",
        "INSERT INTO reprise.heads (session, owner, last_at) VALUES (gen_random_uuid(), 'x', 1)",
        "SET ROLE reprise_owner; SET ROLE postgres",
    ]:
        with psycopg.connect(dsn, autocommit=True) as connection:
            # A real login, so that nothing can be regained with RESET ROLE.
            connection.execute("SET SESSION AUTHORIZATION reprise_kernel")
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(statement.encode())
            assert refused.value.sqlstate == "42501", statement


async def test_a_whole_session_is_deleted_only_by_its_function_and_leaves_a_trace(
    log: Log, postgres: TestServer, dsn: str
) -> None:
    session = await log.begin(kernel="python3")
    kept = await log.begin(kernel="python3")
    for each in (session, kept):
        writer = await log.acquire(each, {})
        await writer.bind(f"key of {each}")
        await _one_step(writer)
        if each == session:
            with _as(dsn, "reprise_owner") as owner, pytest.raises(psycopg.errors.ObjectInUse):
                owner.execute("SELECT reprise.delete_session(%s)", [session])
        await writer.close()
    with _as(dsn, "reprise_owner") as owner:
        owner.execute("SELECT reprise.delete_session(%s)", [session])
        left = owner.execute("SELECT DISTINCT session FROM reprise.steps").fetchall()
        traces = owner.execute("SELECT session, owner, by FROM reprise.deletions").fetchall()
    assert left == [(kept,)]
    assert traces == [(session, "tester", "postgres")]
    assert await log.find(f"key of {session}") is None
    assert (await log.check(kept)).ok


async def test_deleting_a_session_waits_while_a_fork_needs_it(log: Log, dsn: str) -> None:
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {})
    await _one_step(writer)
    await writer.close()
    fork = await log.fork(session)
    with _as(dsn, "reprise_owner") as owner:
        with pytest.raises(psycopg.errors.ObjectInUse, match="forks"):
            owner.execute("SELECT reprise.delete_session(%s)", [session])
        owner.execute("SELECT reprise.delete_session(%s)", [fork])
        owner.execute("SELECT reprise.delete_session(%s)", [session])
    assert await log.sessions() == []


async def test_a_session_that_comes_back_after_its_deletion_is_append_only_again(
    log: Log, dsn: str
) -> None:
    session = uuid.uuid4()
    for _ in range(2):
        await log.begin(session=session, kernel="python3")
        writer = await log.acquire(session, {})
        await _one_step(writer)
        await writer.close()
        with _as(dsn, "postgres") as superuser:
            with pytest.raises(psycopg.Error) as refused:
                superuser.execute("DELETE FROM reprise.steps")
            assert refused.value.sqlstate == "RP003"
            superuser.execute("SELECT reprise.delete_session(%s)", [session])
