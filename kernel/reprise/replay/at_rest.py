"""What can be done with a session that no kernel holds: rebuild its workspace beside, reset it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from reprise.errors import UsageError
from reprise.log.model import NO_OUTPUTS, NewOutcome, Step
from reprise.log.postgres import now_us
from reprise.log.store import LogReader, SessionLog
from reprise.replay.detached import DetachedSandbox, patience
from reprise.replay.executor import AskPassword, Played
from reprise.replay.link import KernelLink
from reprise.replay.plan import plan
from reprise.replay.restarts import reset_step, trees
from reprise.sandbox.contract import Backend, SandboxSpec


@asynccontextmanager
async def rebuilt(
    reader: LogReader,
    backend: Backend,
    spec: SandboxSpec,
    *,
    stop: int | None = None,
    on_step: Callable[[Played], None] | None = None,
    ask_password: AskPassword | None = None,
) -> AsyncIterator[KernelLink]:
    """A sandbox in the state before seq `stop` (the head by default), beside any live sandbox.

    Raises SandboxDied when a step ends the sandbox on its replay.
    """
    summaries = await reader.summaries()
    end = len(summaries) if stop is None else stop
    steps = summaries[:end]
    async with DetachedSandbox(reader, backend, spec) as sandbox:
        player = sandbox.player(ask_password=ask_password, patience=patience)
        route = plan(steps, trees=trees(steps, isolated=backend.isolated))
        async for played in player.play(route, end):
            if on_step is not None:
                on_step(played)
        yield sandbox.link


async def reset(log: SessionLog) -> Step:
    """Append a reset to a session that this process has just acquired.

    Raises UsageError when the session has no step yet.
    """
    info = await log.info()
    if info.environment is None:
        raise UsageError(f"Session {log.session} is empty already; there is nothing to reset.")
    step = await log.append_step(await reset_step(log.blobs, info.environment))
    await log.record_outcome(step.seq, NewOutcome("ok", NO_OUTPUTS, now_us()))
    return step
