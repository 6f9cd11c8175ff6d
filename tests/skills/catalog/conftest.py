"""Runs the catalog's tests on each major version of Postgres that counts, as the log's."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from reprise.errors import UnavailableError
from reprise.log import schema
from reprise.log.binaries import find_binaries
from reprise.log.postgres import Log
from tests.fixtures.catalog import PEOPLE, People, appoint_team, login_dsn, make_logins
from tests.fixtures.postgres import TestServer, run_server


@pytest.fixture(scope="session", params=[18, 15])
def postgres(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    try:
        find_binaries(request.param)
    except UnavailableError as error:
        pytest.skip(str(error))
    yield from run_server(request.param)


@pytest.fixture(scope="module")
def database(postgres: TestServer) -> Iterator[str]:
    """The DSN of a migrated database that a module's tests share, with team/ml (`team`)."""
    if postgres.process is None or postgres.process.poll() is not None:
        postgres.start()
    dsn = postgres.create_database()

    async def begin() -> None:
        await schema.migrate(dsn)
        make_logins(dsn)
        with tempfile.TemporaryDirectory() as home:
            async with AsyncExitStack() as stack:
                logs = {}
                for login in (*PEOPLE, "op"):
                    logs[login] = await Log.connect(login_dsn(dsn, login), home=Path(home))
                    stack.push_async_callback(logs[login].close)
                await appoint_team(People(dsn, logs)["op"])

    asyncio.run(begin())
    yield dsn
    with postgres.admin() as connection:
        connection.execute(f"DROP DATABASE {dsn.split('dbname=')[1].split()[0]} WITH (FORCE)")
