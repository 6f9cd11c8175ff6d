"""How connections to Postgres are opened, watched and told apart when they fail."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from reprise.errors import DatabaseUnavailable, RepriseError, UsageError

KERNEL_ROLE = "reprise_kernel"
OWNER_ROLE = "reprise_owner"

#: Seconds one statement may take before its connection is given up for lost. Far above what a
#: durable commit of the largest row takes on a slow disk, far below a person's patience.
STATEMENT_SECONDS = 60.0

#: Seconds a connection attempt may take.
CONNECT_SECONDS = 10

# A vanished peer is noticed by both ends within about 30 s, whatever the machine's defaults are:
# the client gives up the connection, and the server ends the session, which frees its lock.
_CLIENT_SETTINGS = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "reprise",
}
_SERVER_SETTINGS = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
    "tcp_user_timeout": "30000",
    "client_connection_check_interval": "10000",
    "idle_in_transaction_session_timeout": "60000",
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    # What is acknowledged is on disk, even where an operator's default says otherwise.
    "synchronous_commit": "on",
    # Every statement here is short and indexed; compiling one costs more than running it.
    "jit": "off",
}

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


def checked_conninfo(dsn: str) -> dict[str, Any]:
    """The parts of a DSN (a URL or key=value words). Raises UsageError when it is malformed."""
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.ProgrammingError as error:
        # The DSN itself may hold a password, so it is not repeated.
        raise UsageError(f"The database DSN (REPRISE_DSN) cannot be read: {error}") from None


def described(dsn: str) -> str:
    """The database a DSN leads to, in words, without its password."""
    parts = checked_conninfo(dsn)
    host = parts.get("host") or os.environ.get("PGHOST") or "the local socket"
    port = parts.get("port") or os.environ.get("PGPORT") or "5432"
    return f"Postgres at {host} port {port}, database {parts.get('dbname') or 'by default'}"


async def open_connection(dsn: str, *, role: str | None = None) -> Connection:
    """A new autocommit connection; with `role`, acting as that role from its first statement.

    Raises psycopg.Error as it comes: callers tell a missing role from a missing server.
    """
    parts = checked_conninfo(dsn)
    wanted = {name: value for name, value in _CLIENT_SETTINGS.items() if name not in parts}
    connection = await psycopg.AsyncConnection.connect(
        make_conninfo("", **{**parts, **wanted}), autocommit=True
    )
    try:
        settings = dict(_SERVER_SETTINGS)
        if role is not None:
            settings["role"] = role
        # One round trip. As statements, not as startup options, which poolers refuse; names an
        # older server does not know are skipped by the WHERE.
        with watched(connection):
            await connection.execute(
                "SELECT set_config(w.name, w.value, false)"
                " FROM unnest(%s::text[], %s::text[]) AS w(name, value)"
                " WHERE current_setting(w.name, true) IS NOT NULL",
                [list(settings), list(settings.values())],
            )
    except BaseException:
        await connection.close()
        raise
    return connection


def cut(connection: Connection) -> None:
    """Shut a connection's socket down, so that whoever waits for it fails at once."""
    try:
        duplicate = os.dup(connection.pgconn.socket)
    except (psycopg.OperationalError, OSError):
        return  # it is closed already
    with socket.socket(fileno=duplicate) as sock:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the peer was faster


@contextmanager
def watched(connection: Connection) -> Iterator[None]:
    """Cut the connection if the statements in this block take longer than STATEMENT_SECONDS.

    Cancelling a statement would ask a hung server to answer; cutting the socket needs nobody.
    """
    timer = asyncio.get_running_loop().call_later(STATEMENT_SECONDS, cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def is_connection_loss(error: psycopg.Error, connection: Connection | None = None) -> bool:
    """Whether an error means that the connection is gone, rather than that a statement is wrong."""
    if connection is not None and connection.broken:
        return True
    state = error.sqlstate or ""
    # 08 connection exceptions, 57P operator intervention (shutdown, crash, terminated backend).
    return isinstance(error, psycopg.OperationalError) and (
        not state or state.startswith(("08", "57P"))
    )


def explained(error: psycopg.Error, doing: str, dsn: str) -> RepriseError:
    """A psycopg error as one of ours, in a sentence for a person."""
    reason = " ".join(str(error).split()) or type(error).__name__
    state = error.sqlstate or ""
    if state.startswith("53"):  # insufficient resources: disk full, too many connections, memory
        return DatabaseUnavailable(f"{described(dsn)} is out of resources while {doing}: {reason}")
    if isinstance(error, psycopg.OperationalError):
        return DatabaseUnavailable(f"{described(dsn)} cannot be reached while {doing}: {reason}")
    return RepriseError(f"{described(dsn)} refused while {doing}: {reason}")
