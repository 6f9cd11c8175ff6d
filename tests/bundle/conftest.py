"""Sessions to export, on each major version of Postgres that counts."""

from __future__ import annotations

import io
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from reprise.bundle.load import Loaded, check_bundle, load_bundle
from reprise.bundle.source import Spooled
from reprise.bundle.write import write_bundle
from reprise.errors import UnavailableError
from reprise.log.binaries import find_binaries
from reprise.log.postgres import Log
from tests.bundle.sample import write_sample
from tests.fixtures.postgres import TestServer, run_server


@pytest.fixture(scope="session", params=[18, 15])
def postgres(request: pytest.FixtureRequest) -> Iterator[TestServer]:
    try:
        find_binaries(request.param)
    except UnavailableError as error:
        pytest.skip(str(error))
    yield from run_server(request.param)


@pytest.fixture
async def other(postgres: TestServer, dsn: str, tmp_path: Path) -> AsyncIterator[Log]:
    """A log on another database, of another owner, with a home of its own."""
    connected = await Log.connect(
        postgres.create_database(), owner="importer", home=tmp_path / "other"
    )
    yield connected
    await connected.close()


@pytest.fixture
async def sample(log: Log) -> uuid.UUID:
    """A session with something of everything."""
    return await write_sample(log)


Export = Callable[..., Awaitable[bytes]]
Import = Callable[..., Awaitable[Loaded]]


async def exported(log: Log, session: uuid.UUID, **options: object) -> bytes:
    """The bytes of a session's bundle."""
    sink = io.BytesIO()
    await write_bundle(await log.reader(session), sink, **options)  # type: ignore[arg-type]
    return sink.getvalue()


async def imported(log: Log, data: bytes, **options: object) -> Loaded:
    """Bring a bundle's bytes into a log."""
    bundle = Spooled(io.BytesIO(data))
    return await load_bundle(log, bundle, check_bundle(bundle), **options)  # type: ignore[arg-type]
