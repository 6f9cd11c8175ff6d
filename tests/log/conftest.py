"""Runs the log's tests on each major version of Postgres that counts: the wheel's and Debian's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from reprise.errors import UnavailableError
from reprise.log.binaries import find_binaries
from reprise.log.postgres import Log
from reprise.log.writer import Writer
from tests.fixtures.postgres import TestServer, run_server


@pytest.fixture(scope="session", params=[18, 15])
def postgres(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    try:
        find_binaries(request.param)
    except UnavailableError as error:
        pytest.skip(str(error))
    yield from run_server(request.param)


@pytest.fixture
async def writer(log: Log) -> AsyncIterator[Writer]:
    """A new session of `log`, held for writing."""
    session = await log.begin(kernel="python3")
    held = await log.acquire(session, {"name": "fixture"})
    yield held
    await held.close()
