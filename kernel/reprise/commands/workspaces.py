"""The workspace of a session for a command: of its running kernel, or rebuilt from the log."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from reprise.client import aconnect
from reprise.client.beside import PastWorkspace, fresh_sandbox, past_workspace
from reprise.client.comparison import Workspace
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.client.kernel import AsyncKernel
from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.log.postgres import Log
from reprise.replay.executor import Played
from reprise.sandbox.backends import backend

__all__ = [
    "fresh_sandbox",
    "kernel_or_past",
    "opened_workspace",
    "past",
    "running_kernel",
]


@contextlib.asynccontextmanager
async def kernel_or_past(
    log: Log, session: uuid.UUID, terminal: Terminal
) -> AsyncIterator[AsyncKernel | PastWorkspace]:
    """The kernel that holds the session; without one, its last state rebuilt from the log.

    Raises LeaseHeld when a kernel elsewhere holds it, UsageError where there is no workspace
    apart from the notebook's folder.
    """
    info = await (await log.reader(session)).info()
    connection = running_kernel(info)
    if connection is not None:
        async with await aconnect(connection_file=connection, start=False) as kernel:
            yield kernel
        return
    if info.holder is not None:
        raise held_elsewhere(info)
    chosen = backend()
    if not chosen.isolated:
        raise UsageError(
            f"Without a sandbox (backend {chosen.name}) the workspace is the notebook's own "
            f"folder: {info.notebook or 'where the kernel was started'}."
        )
    async with past(log, session, None, terminal) as workspace:
        yield workspace


@contextlib.asynccontextmanager
async def opened_workspace(
    log: Log, session: uuid.UUID, terminal: Terminal
) -> AsyncIterator[Workspace]:
    """The workspace as it is now. Raises as `kernel_or_past`."""
    async with kernel_or_past(log, session, terminal) as found:
        yield found.workspace if isinstance(found, AsyncKernel) else found


@contextlib.asynccontextmanager
async def past(
    log: Log, session: uuid.UUID, at: int | None, terminal: Terminal, folder: Path | None = None
) -> AsyncIterator[PastWorkspace]:
    """The workspace as after step `at`, or after the last one, built beside any live sandbox."""
    reader = await log.reader(session)
    played = 0

    def on_step(step: Played) -> None:
        nonlocal played
        played += 1
        terminal.status(f"replayed {played} steps, up to step {step.record.step.seq}")

    terminal.status("starting a sandbox …")
    async with past_workspace(reader, at, folder=folder, on_step=on_step) as workspace:
        terminal.status("")
        yield workspace
