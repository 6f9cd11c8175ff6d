"""Clients of kernels on a database of the tests, on both backends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from reprise.client import AsyncKernel, aconnect
from reprise.settings import RUN_UNTRUSTED
from tests.fixtures.kernel import Database

#: Makes a client; what it makes is closed after the test.
Connect = Callable[..., Awaitable[AsyncKernel]]


@pytest.fixture(params=["process", "bubblewrap"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def env(database: Database, backend: str) -> dict[str, str]:
    """What a client and its kernels find the tests' database and backend by."""
    return {
        "REPRISE_DSN": database.dsn,
        "REPRISE_HOME": str(database.home),
        "REPRISE_BACKEND": backend,
        "REPRISE_SESSION": "",
        "REPRISE_ENVIRONMENT": "",
        # What is mounted here is the tests' own.
        RUN_UNTRUSTED: "yes",
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where kernels run."""
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
async def connect(env: dict[str, str], folder: Path) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as opened:

        async def make(session: Any = None, **options: Any) -> AsyncKernel:
            options.setdefault("folder", folder)
            more = {**env, **options.pop("env", {})}
            return await opened.enter_async_context(await aconnect(session, env=more, **options))

        yield make


@pytest.fixture
async def kernel(connect: Connect) -> AsyncKernel:
    """A new session with a kernel of the client's own."""
    return await connect()
