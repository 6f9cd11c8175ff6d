"""What jobs do with a session: verify it, check its record, build and compare its workspaces."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from reprise.client import aconnect
from reprise.client.beside import PastWorkspace, past_workspace
from reprise.client.comparison import change_json, compared_paths, variables_compared
from reprise.client.holder import running_kernel
from reprise.client.verification import verified
from reprise.client.workspace import LiveWorkspace
from reprise.errors import TooLarge
from reprise.log.as_json import check_json
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from reprise.replay.report import Report, StepReport
from reprise.replay.verify import Replays, Scope
from reprise_server.api.job import Done, Job, Progress
from reprise_server.api.verify_report import VerifyReport
from reprise_server.api.workspaces import Workspaces


@asynccontextmanager
async def opened_log() -> AsyncIterator[Log]:
    """A log of the job's own: each loop has its own connection. Raises UnavailableError."""
    log = await Log.connect()
    try:
        yield log
    finally:
        await log.close()


async def verify_session(job: Job, session: uuid.UUID, scope: Scope, replays: Replays) -> Done:
    """Replay the session and compare; the report is the result."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    text = ""

    def tell() -> None:
        job.tell(Progress(text, len(seen), total, dict(counts)))

    def on_step(step: StepReport) -> None:
        if step.seq not in seen:
            seen.add(step.seq)
            counts[step.verdict] += 1
        tell()

    def on_progress(said: str) -> None:
        nonlocal text
        text = said
        tell()

    async with opened_log() as log:
        info = await (await log.reader(session)).info()
        steps = info.steps
        total = max(0, (steps if scope.stop is None else min(scope.stop, steps)) - scope.start)
        report = await verified(
            log, session, scope=scope, replays=replays, on_step=on_step, on_progress=on_progress
        )
    text = "writing the report"
    tell()
    kept = await asyncio.to_thread(_kept, report, info)
    try:
        said = await asyncio.to_thread(report.to_json)
    except BaseException:
        if kept is not None:
            kept.close()
        raise
    short = {name: said[name] for name in ("ok", "sentence", "took_s", "from", "replays", "counts")}
    return Done(short, said, kept)


def _kept(report: Report, info: SessionInfo) -> VerifyReport | None:
    try:
        return VerifyReport(report, notebook=info.notebook, kernel=info.kernel)
    except TooLarge:
        return None


async def check_record(job: Job, session: uuid.UUID) -> Done:
    """Recompute every digest of the session's record."""
    job.tell(Progress("recomputing every digest"))
    async with opened_log() as log:
        return Done(check_json(await log.check(session, blobs=True)))


async def build_workspace(job: Job, workspaces: Workspaces, session: uuid.UUID, at: int) -> Done:
    """Have the workspace as after a step stand for a while."""
    await workspaces.build(session, at, lambda text: job.tell(Progress(text)))
    return Done({"at": at})


#: Where an interpreter cannot be asked, they are null.
_VARIABLES: Final = ("variables", "variables_same", "variables_unknown")


async def compare_workspaces(
    job: Job, session: uuid.UUID, since: int, until: int | None, *, variables: bool = False
) -> Done:
    """What differs between two states; `until` None is the running kernel's."""
    async with opened_log() as log, AsyncExitStack() as stack:
        reader = await log.reader(session)

        async def past(at: int) -> PastWorkspace:
            played = 0

            def on_step(_: object) -> None:
                nonlocal played
                played += 1
                job.tell(Progress(f"as after step {at}: {played} steps replayed"))

            job.tell(Progress(f"as after step {at}: starting a sandbox …"))
            return await stack.enter_async_context(past_workspace(reader, at, on_step=on_step))

        before = await past(since)
        connection = None
        if until is None:
            info = await reader.info()
            connection = running_kernel(info)
            # Its kernel may have ended while this waited for its turn.
            until = info.steps - 1
        after: PastWorkspace | LiveWorkspace
        if connection is not None:
            kernel = await aconnect(connection_file=connection, start=False)
            after = (await stack.enter_async_context(kernel)).workspace
        else:
            after = await past(until)
        job.tell(Progress("comparing"))
        found, looked = await compared_paths(before, after)
        result = {
            "session": str(session),
            "since": since,
            "until": None if connection is not None else until,
            "changes": [change_json(change) for change in found],
            "files": looked,
        }
        if variables:
            job.tell(Progress("comparing variables"))
            compared_with = await variables_compared(before, after)
            result |= compared_with or dict.fromkeys(_VARIABLES)
    kinds = Counter(change.kind for change in found)
    return Done({"differences": len(found), **{str(k): n for k, n in kinds.items()}}, result)
