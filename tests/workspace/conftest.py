"""A real guest on each backend; its language kernel only says what it is: files need no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reprise.sandbox.backends import backend
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import DeathCause, SandboxSpec
from reprise.sandbox.frames import Channel
from tests.fixtures.sandbox import quiet_kernel

QUIET = quiet_kernel()


class Listener:
    """Hears what the guest says; a quiet kernel says nothing."""

    def message(self, channel: Channel, parts: list[bytes]) -> None:
        pytest.fail(f"a message on {channel}")

    def died(self, cause: DeathCause) -> None:
        pass


@pytest.fixture(params=["process", "bubblewrap"])
async def guest(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Guest]:
    chosen = backend(request.param)
    if problems := chosen.check():
        pytest.skip("; ".join(problems))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    spec = SandboxSpec(QUIET, workspace=workspace)
    started = await Guest.start(chosen, spec, Listener())
    try:
        await started.ready()
        yield started
    finally:
        await started.kill()
