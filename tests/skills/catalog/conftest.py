"""Runs the catalog's tests on each major version of Postgres that counts, as the log's."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from reprise.errors import UnavailableError
from reprise.log import schema
from reprise.log.binaries import find_binaries
from reprise.log.postgres import Log
from reprise.skills.catalog import Catalog
from tests.fixtures.catalog import appoint_team, make_logins
from tests.fixtures.postgres import TestServer, run_server

_numbers = count()


@pytest.fixture(scope="session", params=[18, 15])
def postgres(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    try:
        find_binaries(request.param)
    except UnavailableError as error:
        pytest.skip(str(error))
    yield from run_server(request.param)


@pytest.fixture(scope="session")
def template(postgres: TestServer) -> str:
    """The name of a migrated database: copying it is faster than migrating each."""
    dsn = postgres.create_database()
    asyncio.run(schema.migrate(dsn))
    return name_of(dsn)


@pytest.fixture
def dsn(postgres: TestServer, template: str) -> Iterator[str]:
    yield from copied(postgres, template)


def copied(postgres: TestServer, template: str) -> Iterator[str]:
    name = f"catalog_{next(_numbers)}"
    with postgres.admin() as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    yield postgres.dsn(name)
    with postgres.admin() as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def name_of(dsn: str) -> str:
    return dsn.split("dbname=")[1].split(maxsplit=1)[0]


@pytest.fixture(scope="module")
def database(postgres: TestServer, template: str) -> Iterator[str]:
    """A database that a module's tests share, with team/ml as in the fixture `team`."""
    for dsn in copied(postgres, template):
        asyncio.run(_begin(dsn))
        yield dsn


async def _begin(dsn: str) -> None:
    make_logins(dsn)
    with tempfile.TemporaryDirectory() as home:
        log = await Log.connect(dsn, home=Path(home))
        try:
            await appoint_team(Catalog(log))
        finally:
            await log.close()
