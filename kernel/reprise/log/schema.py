"""Brings a database to the schema this version needs: roles, numbered migrations, the check."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import psycopg
from psycopg import sql

from reprise.errors import UnavailableError
from reprise.log.connect import (
    KERNEL_ROLE,
    OWNER_ROLE,
    Connection,
    checked_conninfo,
    described,
    explained,
    open_connection,
)

#: Any number that is the same for all migrators of one database.
_MIGRATION_LOCK = 0x72657072697365

SUPPORTED_MAJORS = range(15, 19)


@dataclass(frozen=True)
class Migration:
    """One numbered SQL file."""

    version: int
    name: str
    text: str


def migrations() -> list[Migration]:
    """The migrations this version ships, in order."""
    found = []
    for entry in resources.files("reprise.log").joinpath("migrations").iterdir():
        if entry.name.endswith(".sql"):
            number, _, name = entry.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, entry.read_text("utf-8")))
    return sorted(found, key=lambda migration: migration.version)


#: The schema version this code reads and writes: the number of the newest migration.
VERSION = 9


async def version_of(connection: Connection) -> int:
    """The schema version of a database, 0 when it has none. One query."""
    try:
        cursor = await connection.execute(
            "SELECT coalesce(max(version), 0) FROM reprise.migrations"
        )
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return 0
    row = await cursor.fetchone()
    assert row is not None  # noqa: S101 - an aggregate always gives a row
    return int(row[0])


async def migrate(dsn: str, *, kernel_may_log_in: bool = False) -> None:
    """Create roles and schema, or bring them up to date; safe to race.

    dsn: a login that may create roles and schemas (a superuser, or CREATEROLE plus CREATE on the
    database), or on later migrations any member of reprise_owner.
    kernel_may_log_in: let reprise_kernel connect by itself (on the embedded server).
    Raises UnavailableError when that login may not, or when the server is too old.
    """
    connection = await open_connection(dsn)
    try:
        major = connection.info.server_version // 10_000
        if major < SUPPORTED_MAJORS[0]:
            raise UnavailableError(
                f"{described(dsn)} is PostgreSQL {major}; Reprise needs"
                f" {SUPPORTED_MAJORS[0]} to {SUPPORTED_MAJORS[-1]}. Nothing was changed."
            )
        await connection.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
        await _ensure_roles(connection)
        if kernel_may_log_in:
            await connection.execute(
                sql.SQL("ALTER ROLE {} LOGIN").format(sql.Identifier(KERNEL_ROLE))
            )
        await _apply_missing(connection)
    except psycopg.errors.InsufficientPrivilege as error:
        raise UnavailableError(
            f"{described(dsn)}: the login {connection.info.user!r} may not set up Reprise's schema"
            f" ({error.diag.message_primary}). Nothing was changed. Give in REPRISE_DSN, once, a"
            " login that may create roles and schemas, then use any member of"
            f" {KERNEL_ROLE}."
        ) from error
    except psycopg.Error as error:
        raise explained(error, "setting up Reprise's schema", dsn) from error
    finally:
        await connection.close()


async def _ensure_roles(connection: Connection) -> None:
    for role in (OWNER_ROLE, KERNEL_ROLE):
        # Roles belong to the whole server, so migrators of two databases may race here.
        await connection.execute(
            sql.SQL(
                "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = {name}) THEN"
                " CREATE ROLE {role} NOLOGIN; END IF;"
                " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
            ).format(name=sql.Literal(role), role=sql.Identifier(role))
        )
        cursor = await connection.execute(
            "SELECT pg_has_role(session_user, %s, %s)",
            # SET is a right of its own since 16.
            [role, "SET" if connection.info.server_version >= 160_000 else "MEMBER"],
        )
        row = await cursor.fetchone()
        if row is not None and not row[0]:
            await connection.execute(
                sql.SQL("GRANT {role} TO {login}").format(
                    role=sql.Identifier(role), login=sql.Identifier(connection.info.user)
                )
            )
    cursor = await connection.execute("SELECT to_regnamespace('reprise') IS NULL")
    row = await cursor.fetchone()
    if row is not None and row[0]:
        await connection.execute(
            sql.SQL("CREATE SCHEMA IF NOT EXISTS reprise AUTHORIZATION {}").format(
                sql.Identifier(OWNER_ROLE)
            )
        )


async def _apply_missing(connection: Connection) -> None:
    await connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(OWNER_ROLE)))
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS reprise.migrations (version integer PRIMARY KEY,"
        " name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
    )
    present = await version_of(connection)
    for migration in migrations():
        if migration.version <= present:
            continue
        async with connection.transaction():
            await connection.execute(migration.text.encode("utf-8"))
            await connection.execute(
                "INSERT INTO reprise.migrations (version, name) VALUES (%s, %s)",
                [migration.version, migration.name],
            )


async def connect_as_kernel(dsn: str) -> tuple[Connection | None, int]:
    """A connection as reprise_kernel and the schema version; (None, 0) when the role is missing.

    Raises psycopg.Error when the server cannot be reached.
    """
    try:
        connection = await open_connection(dsn, role=KERNEL_ROLE)
    except (
        psycopg.errors.InvalidParameterValue,
        psycopg.errors.UndefinedObject,
        psycopg.errors.InsufficientPrivilege,
    ):
        return None, 0
    except psycopg.OperationalError as error:
        if _is_unknown_login(error, dsn):
            return None, 0
        raise
    try:
        return connection, await version_of(connection)
    except psycopg.errors.InsufficientPrivilege:
        # The role exists from another database of this server; this one has no schema yet.
        await connection.close()
        return None, 0
    except BaseException:
        await connection.close()
        raise


def _is_unknown_login(error: psycopg.OperationalError, dsn: str) -> bool:
    """Whether the kernel role itself was refused as a login: before the first migration.

    libpq gives no SQLSTATE for a refused connection, so the login's name must do.
    """
    login = checked_conninfo(dsn).get("user")
    return login == KERNEL_ROLE and f'role "{KERNEL_ROLE}"' in str(error)
