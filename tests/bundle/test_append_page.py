"""Postgres takes a page of a history only from its writer, and only where it fits."""

from __future__ import annotations

import uuid
from typing import Any

import psycopg
import pytest

from reprise.log.connect import Connection
from reprise.log.imported import _begin
from reprise.log.model import GENESIS, canonical_outcome, canonical_step, extend
from reprise.log.postgres import Log
from tests.bundle.sample import cell, ended

_STATEMENT = (
    "SELECT reprise.append_page(%s, %s, %s, %b::text[], %s::bigint[], %b::text[], %b::bytea[],"
    " %b::text[], %s::bigint[], %b::text[], %b::text[], %b::text[], %s::bigint[], %s::bigint[])"
)

Row = tuple[Any, ...]


def rows() -> list[Row]:
    """A step with an output, and its outcome."""
    new, end = cell("1"), ended([])
    first = canonical_step(0, 0, new)
    digest = extend(GENESIS, first)
    last = canonical_outcome(0, 1, end)
    chain = extend(digest, last)
    return [
        (
            "step",
            0,
            first.decode(),
            digest,
            "cell",
            new.at,
            new.environment,
            None,
            None,
            None,
            None,
        ),
        ("output", 0, "[]", *(None,) * 8),
        ("outcome", 0, last.decode(), chain, "ok", end.at, None, None, None, 7, None),
        ("late", 0, "[]", *(None,) * 8),
    ]


async def append(
    connection: Connection,
    session: uuid.UUID,
    page: list[Row],
    owner: str = "tester",
    epoch: int = 1,
) -> None:
    columns = [list(column) for column in zip(*page, strict=True)]
    await connection.execute(_STATEMENT, [session, owner, epoch, *columns])


async def head_of(log: Log, session: uuid.UUID) -> tuple[Any, ...]:
    found = await log._ask(
        "SELECT next_event, next_seq, next_output FROM reprise.heads WHERE session = %s", [session]
    )
    return found[0]


async def test_a_page_that_fits_moves_the_head_once(log: Log) -> None:
    session, connection = uuid.uuid4(), await log._open()
    async with connection.transaction():
        await _begin(connection, "tester", session, "python3", 5)
        await append(connection, session, rows()[:2])
        await append(connection, session, rows()[2:])
    await connection.close()
    assert await head_of(log, session) == (2, 1, 2)
    report = await log.check(session)
    # The late batch is empty here; its hash stands nowhere yet.
    assert (report.ok, report.steps, report.outcomes) == (True, 1, 1)


CHANGES = {
    "another link": lambda page: [(*page[0][:3], b"x" * 32, *page[0][4:]), *page[1:]],
    "another body": lambda page: [(*page[0][:2], page[0][2] + " ", *page[0][3:]), *page[1:]],
    "a step twice": lambda page: [page[0], page[0]],
    "a later step": lambda page: [(page[0][0], 1, *page[0][2:])],
    "an outcome of no step": lambda page: [page[2]],
    "an outcome twice": lambda page: [*page[:3], page[2]],
    "an output of no step": lambda page: [page[1]],
    "an output after the end": lambda page: [page[0], page[2], page[1]],
    "late before the end": lambda page: [page[0], page[3]],
    "another type": lambda page: [page[0], ("else", *page[1][1:])],
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_page_that_does_not_fit_is_refused(log: Log, change: str) -> None:
    session, connection = uuid.uuid4(), await log._open()
    with pytest.raises(psycopg.Error) as caught:
        async with connection.transaction():
            await _begin(connection, "tester", session, "python3", 5)
            await append(connection, session, CHANGES[change](rows()))
    assert caught.value.sqlstate in ("RP002", "23505"), caught.value
    await connection.close()
    assert all(info.id != session for info in await log.sessions())


@pytest.mark.parametrize("wrong", ["owner", "epoch", "connection", "a fork"])
async def test_a_page_comes_from_the_sessions_writer_alone(log: Log, wrong: str) -> None:
    session, connection = uuid.uuid4(), await log._open()
    async with connection.transaction():
        await _begin(connection, "tester", session, "python3", 5)
        await append(connection, session, rows()[:3])
    stranger = await log._open()
    with pytest.raises(psycopg.Error) as caught:
        if wrong == "owner":
            await append(connection, session, rows()[3:], owner="other")
        elif wrong == "epoch":
            await append(connection, session, rows()[3:], epoch=2)
        elif wrong == "connection":
            await append(stranger, session, rows()[3:])
        else:
            fork = await log.fork(session, 0)
            await append(connection, fork, rows()[3:])
    assert caught.value.sqlstate in ("RP001", "RP002")
    await stranger.close()
    await connection.close()
    assert await head_of(log, session) == (2, 1, 1)


async def test_a_single_row_is_still_checked(log: Log) -> None:
    session, connection = uuid.uuid4(), await log._open()
    async with connection.transaction():
        await _begin(connection, "tester", session, "python3", 5)
    with pytest.raises(psycopg.Error) as caught:
        await connection.execute(
            "INSERT INTO reprise.steps (session, seq, event, owner, epoch, kind, environment, at,"
            " body, digest) VALUES (%s, 0, 0, 'tester', 1, 'cell', 'e', 1, '{}', sha256('x'))",
            [session],
        )
    assert caught.value.sqlstate == "RP002"
    await connection.close()
