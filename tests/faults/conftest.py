"""A Postgres of its own for each module of fault tests, which may kill it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fixtures.kernel import Database, run_database
from tests.fixtures.postgres import run_server


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    for server in run_server():
        yield from run_database(server, tmp_path_factory.mktemp("home"))
