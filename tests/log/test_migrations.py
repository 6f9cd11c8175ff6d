"""A database is brought to the schema by whoever comes first, and only by who may."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from pathlib import Path

import psycopg
import pytest

from reprise.errors import RepriseError, UnavailableError, UsageError
from reprise.log import schema
from reprise.log.model import GENESIS, LateHash, canonical_outcome, canonical_step, extend
from reprise.log.postgres import Log
from tests.fixtures.postgres import TestServer
from tests.log.aging import age_blobs
from tests.log.words import cell, ok


def with_login(dsn: str, login: str) -> str:
    return dsn.replace("user=postgres", f"user={login}")


async def test_ten_racing_migrators_leave_one_schema(dsn: str, home: Path) -> None:
    await asyncio.gather(*(schema.migrate(dsn) for _ in range(10)))
    log = await Log.connect(dsn, home=home)
    rows = await log._ask("SELECT version FROM reprise.migrations ORDER BY version", [])
    assert [row[0] for row in rows] == [each.version for each in schema.migrations()]
    await log.close()


async def test_ten_racing_first_connections_all_work(dsn: str, home: Path) -> None:
    logs = await asyncio.gather(*(Log.connect(dsn, home=home) for _ in range(10)))
    await asyncio.gather(*(log.begin(kernel="python3") for log in logs))
    assert len(await logs[0].sessions()) == 10
    for log in logs:
        await log.close()


def test_the_code_names_the_newest_migration_and_none_is_missing() -> None:
    versions = [each.version for each in schema.migrations()]
    assert versions == list(range(1, schema.VERSION + 1))


async def test_work_is_done_as_the_kernel_role(log: Log) -> None:
    assert await log._ask("SELECT current_user::text", []) == [("reprise_kernel",)]


async def test_an_operators_login_with_the_kernel_role_alone_suffices(
    dsn: str, home: Path, postgres: TestServer
) -> None:
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("DROP ROLE IF EXISTS operator_login")
        admin.execute("CREATE ROLE operator_login LOGIN")
    theirs = with_login(dsn, "operator_login")
    with pytest.raises(UnavailableError, match="may not set up Reprise's schema"):
        await Log.connect(theirs, home=home)
    await schema.migrate(dsn)
    with pytest.raises(UnavailableError, match="reprise_kernel"):
        await Log.connect(theirs, home=home)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("GRANT reprise_kernel TO operator_login")
    log = await Log.connect(theirs, home=home)
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {})
    await writer.close()
    await log.close()
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("DROP ROLE operator_login")


async def test_a_login_that_may_create_roles_and_schemas_sets_everything_up(
    dsn: str, home: Path
) -> None:
    """No superuser, as on a managed server; on a server where no role exists yet."""
    with psycopg.connect(dsn, autocommit=True) as admin:
        _drop_roles(admin)
        admin.execute("CREATE ROLE managed LOGIN CREATEROLE")
        admin.execute(f"GRANT CREATE ON DATABASE {admin.info.dbname} TO managed")
    log = await Log.connect(with_login(dsn, "managed"), home=home)
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {})
    await writer.close()
    await log.close()
    with psycopg.connect(dsn, autocommit=True) as admin:
        owner = admin.execute(
            "SELECT tableowner FROM pg_tables WHERE schemaname = 'reprise' AND tablename = 'steps'"
        ).fetchone()
        assert owner == ("reprise_owner",)
        admin.execute("DROP SCHEMA reprise CASCADE")
        admin.execute("DROP OWNED BY managed, reprise_owner, reprise_kernel CASCADE")
        admin.execute("DROP ROLE managed")


def _drop_roles(admin: psycopg.Connection[tuple[object, ...]]) -> None:
    for role in ("managed", "reprise_kernel", "reprise_owner"):
        if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).rowcount:
            admin.execute(f"DROP OWNED BY {role} CASCADE")
            admin.execute(f"DROP ROLE {role}")


async def test_a_log_of_the_first_version_is_whole_after_all_migrations_and_goes_on(
    dsn: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = [each for each in schema.migrations() if each.version == 1]
    with monkeypatch.context() as older:
        older.setattr(schema, "migrations", lambda: first)
        await schema.migrate(dsn)
    session, new = uuid.uuid4(), cell("old", blobs=(hashlib.sha256(b"old").hexdigest(),))
    body = canonical_step(0, 0, new, LateHash().hexdigest())
    end = canonical_outcome(0, 1, ok(), LateHash().hexdigest())
    digest = extend(GENESIS, body)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET ROLE reprise_kernel")
        connection.execute(
            "INSERT INTO reprise.sessions (id, owner, created_at, kernel)"
            " VALUES (%s, 'tester', 1, 'python3')",
            [session],
        )
        connection.execute("SELECT pg_advisory_lock(reprise.lock_key(%s))", [session])
        connection.execute(
            "SELECT reprise.take_lease(%s, 'tester', gen_random_uuid(), '{}', 1)", [session]
        )
        connection.execute(
            "INSERT INTO reprise.blobs (owner, sha256, size, data)"
            " VALUES ('tester', sha256('old'), 3, 'old')"
        )
        connection.execute(
            "INSERT INTO reprise.steps (session, seq, event, owner, epoch, kind, environment, at,"
            " body, digest) VALUES (%s, 0, 0, 'tester', 1, 'cell', %s, %s, %s, %s)",
            [session, new.environment, new.at, body.decode(), digest],
        )
        connection.execute(
            "INSERT INTO reprise.outcomes (session, seq, event, owner, epoch, status, duration_us,"
            " execution_count, at, body, chain)"
            " VALUES (%s, 0, 1, 'tester', 1, 'ok', %s, 1, %s, %s, %s)",
            [session, ok().duration_us, ok().at, end.decode(), extend(digest, end)],
        )
    log = await Log.connect(dsn, owner="tester", home=home)
    assert (await log.check(session, blobs=True)).fault is None
    fork = await log.fork(session)
    for each in (session, fork):
        writer = await log.acquire(each, {})
        step = await writer.append_step(cell("new", key="key"))
        await writer.record_outcome(step.seq, ok())
        await writer.close()
        assert (await log.check(each)).fault is None
    age_blobs(dsn, home)
    assert (await log.collect()).blobs == 0
    assert await log.delete(session, with_forks=True) == [fork, session]
    assert (await log.collect()).blobs == 1
    await log.close()


async def test_a_database_of_a_newer_reprise_is_left_alone(dsn: str, home: Path, log: Log) -> None:
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("INSERT INTO reprise.migrations (version, name) VALUES (9999, 'future')")
    with pytest.raises(UnavailableError, match=r"newer Reprise.*Nothing was changed"):
        await Log.connect(dsn, home=home)


async def test_a_database_that_is_not_there_is_said_without_the_password(home: Path) -> None:
    with pytest.raises(UnavailableError, match="nowhere") as failed:
        await Log.connect("postgresql://me:s3cret@localhost:1/nowhere", home=home)
    assert "s3cret" not in str(failed.value)


async def test_a_malformed_dsn_is_wrong_use(home: Path) -> None:
    with pytest.raises(UsageError, match="REPRISE_DSN"):
        await Log.connect("postgresql://a b c", home=home)
    assert issubclass(UsageError, RepriseError)
