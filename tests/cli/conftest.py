"""A kernel that runs beside the commands, on a session that they name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprise.client.specs import kernel_specs
from reprise.demo.kernel import DemoKernel
from tests.fixtures.commands import Reprise


@pytest.fixture
def session() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def kernel(reprise: Reprise, session: str, tmp_path: Path) -> Iterator[DemoKernel]:
    folder = tmp_path / "folder"
    folder.mkdir()
    env = {**reprise.environ, "REPRISE_SESSION": session}
    with kernel_specs() as specs, DemoKernel("reprise", specs, folder, env) as running:
        yield running
