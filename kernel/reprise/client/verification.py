"""Verifies a session with all that is at hand: its environment today, and its running kernel."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from reprise.client.beside import fresh_sandbox
from reprise.client.entry import aconnect
from reprise.client.environment import environment_of
from reprise.client.failures import Refused
from reprise.client.holder import running_kernel
from reprise.client.reach import Patience
from reprise.errors import RepriseError, UnavailableError
from reprise.jupyter.kernelspec import language_kernel
from reprise.log.postgres import Log, now_us
from reprise.log.store import LogReader, SessionInfo, StateRecord
from reprise.replay.executor import AskPassword
from reprise.replay.known import Known, of_record
from reprise.replay.report import Report, StepReport
from reprise.replay.state_report import READ_BYTES
from reprise.replay.verify import EVERYTHING, Replays, Scope, verify
from reprise.sandbox.environment import difference, environment_kernel, environment_spec
from reprise.sandbox.named import NamedEnvironment
from reprise.workspace.manifest import Entry

#: Seconds that a running kernel has to say what stands in it; a cell may keep it busy.
ANSWER_S = 60.0


async def verified(
    log: Log,
    session: uuid.UUID,
    *,
    scope: Scope = EVERYTHING,
    replays: Replays = "once",
    folder: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    on_step: Callable[[StepReport], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_unasked: Callable[[str], None] | None = None,
    ask_password: AskPassword | None = None,
) -> Report:
    """Replay a session in fresh sandboxes and compare; the running kernel goes on.

    folder: the notebook's, for a backend without workspaces of its own (`fresh_sandbox`).
    on_progress: gets what is being done, in words.  on_step: each step as soon as it was played.
    on_unasked: why the running kernel's state is not compared; the report says it, too.
    Raises SessionNotFound, SandboxError, and UsageError for steps that are not there. Cancelled,
    it leaves no sandbox.
    """
    tell = on_progress or _quiet
    reader = await log.reader(session)
    info = await reader.info()
    named = await environment_of(reader, info, environ)
    async with AsyncExitStack() as stack:
        backend, spec = stack.enter_context(fresh_sandbox(info, named, folder, environ))
        # Without isolation a sandbox works in a copy of the folder, and each needs its own.
        again = spec
        if not backend.isolated and replays != "once":
            _, again = stack.enter_context(fresh_sandbox(info, named, folder, environ))
        tell("asking the running kernel …")
        live, unasked = await _live(reader, info, stack)
        if unasked and on_unasked is not None:
            on_unasked(unasked)
        tell("starting a fresh sandbox …")
        report = await verify(
            reader,
            backend,
            spec,
            scope=scope,
            live=live,
            replays=replays,
            again=again,
            outside=await _outside(reader, info, named),
            on_step=on_step,
            on_progress=lambda text: tell(f"{text} of {info.steps}"),
            ask_password=ask_password,
        )
    return replace(report, unsaid=(unasked, *report.unsaid)) if unasked else report


def _quiet(_: str) -> None:
    """Nobody listens."""


async def _live(
    reader: LogReader, info: SessionInfo, stack: AsyncExitStack
) -> tuple[Known | None, str]:
    """The state of the session's running kernel, or why it cannot be had."""
    connection = running_kernel(info)
    if connection is None:
        return None, ""
    patience = Patience(start=ANSWER_S, answer=ANSWER_S)
    try:
        kernel = await stack.enter_async_context(
            await aconnect(connection_file=connection, start=False, patience=patience)
        )
        told = await kernel.state()
        record = StateRecord(told.seq, now_us(), told.files, told.variables)
        known = await of_record(reader, record, "running kernel")
    except (UnavailableError, Refused, TypeError, ValueError) as error:
        return None, f"The running kernel did not tell its state ({error}); it is not compared."

    async def read(entry: Entry) -> bytes | None:
        try:
            return await kernel.workspace.read(entry.path, limit=READ_BYTES)
        except RepriseError:
            return None

    return replace(known, read=read), ""


async def _outside(reader: LogReader, info: SessionInfo, named: NamedEnvironment) -> list[str]:
    """How today's environment differs from the one the session last ran in."""
    if info.environment is None:
        return []
    language = environment_kernel(named, language_kernel(info.kernel))
    now = await asyncio.to_thread(environment_spec, named, language)
    if now.digest == info.environment:
        return []
    return difference(await reader.environment(info.environment), now.to_json())
