"""What a job does that runs a step: a cell, a command or a skill's script, in the session's order.

The step has an idempotency key. Whatever becomes of the kernel, and however often the same is asked
again under that key, it runs once (docs/messages.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import uuid
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from reprise.client import AsyncKernel, CellResult, CommandResult, Output, SkillResult
from reprise.client.results import StepResult, command_json
from reprise.client.skill_results import skill_json
from reprise.errors import RepriseError
from reprise.log.model import Json
from reprise.log.store import SessionInfo
from reprise_server.api.job import Done, Job, Progress
from reprise_server.api.kernels import Kernels
from reprise_server.api.session_work import opened_log

#: Seconds between two looks whether a step that is to be cancelled has begun, and between two
#: interrupts of one that goes on.
_LOOK_S: Final = 0.25
_AGAIN_S: Final = 5.0

#: Characters of a cell's last value in what is told of the job; its output holds all of it.
_VALUE: Final = 10_000
#: Characters of what was asked for in what is told of the job.
_WHAT: Final = 1_000

T = TypeVar("T")


class _Stopped(RepriseError):
    """The job was cancelled before its step had begun."""


@dataclass(frozen=True)
class StepWork:
    """A step to run. asked: the request's body.  stop: set when the job is cancelled.

    start: whether a kernel may be started where none holds the session.
    """

    info: SessionInfo
    asked: Mapping[str, Any]
    key: str
    start: bool
    kernels: Kernels
    stop: asyncio.Event

    async def __call__(self, job: Job) -> Done:
        """Raises KernelGone, LeaseHeld, SkillNotTrusted …: then nothing was run."""
        job.tell(Progress("reaching the kernel"))
        entering = self.kernels.of(self.info, start=self.start)
        kernel = await self._unless_stopped(entering.__aenter__())
        try:
            done = await self._run(job, kernel)
        except BaseException as error:
            await entering.__aexit__(type(error), error, error.__traceback__)
            raise
        await entering.__aexit__(None, None, None)
        return done

    async def _run(self, job: Job, kernel: AsyncKernel) -> Done:
        job.tell(Progress("waiting for its turn, or running"))
        kernel.on_notice(lambda notice: job.tell(Progress(str(notice.get("text", "")))))
        running = asyncio.ensure_future(self._step(job, kernel))
        stopping = asyncio.ensure_future(self._stop(kernel, running))
        try:
            result = await running
        except asyncio.CancelledError:
            if self.stop.is_set() and running.cancelled():
                raise _Stopped("It was cancelled before its step had begun.") from None
            raise
        finally:
            kernel.on_notice(None)
            for task in (running, stopping):
                task.cancel()
            await asyncio.gather(running, stopping, return_exceptions=True)
        return _done(kernel.session, result)

    async def _step(self, job: Job, kernel: AsyncKernel) -> StepResult:
        def show(output: Output) -> None:
            job.show(_entry(output))

        asked = self.asked
        match asked["kind"]:
            case "cell":
                return await kernel.run(
                    asked["code"],
                    on_output=show,
                    key=self.key,
                    silent=asked.get("silent", False),
                    store_history=asked.get("store_history", True),
                    user_expressions=asked.get("user_expressions"),
                    cell_id=asked.get("cell_id"),
                    timeout=asked.get("timeout_s"),
                )
            case "command":
                return await kernel.command(
                    asked["shell"] if "shell" in asked else asked["argv"],
                    on_output=show,
                    key=self.key,
                    cwd=asked.get("cwd"),
                    env=asked.get("env"),
                    stdin=asked.get("stdin"),
                    timeout=asked.get("timeout_s"),
                    output_bytes=asked.get("output_bytes"),
                    output_lines=asked.get("output_lines"),
                )
            case _:
                return await kernel.run_skill(
                    asked["skill"],
                    asked["script"],
                    asked.get("arguments", []),
                    on_output=show,
                    on_progress=lambda progress: job.tell(Progress(progress.text)),
                    key=self.key,
                    env=asked.get("env"),
                    stdin=asked.get("stdin"),
                    timeout=asked.get("timeout_s"),
                    install=asked.get("install", True),
                )

    # cancelling ---------------------------------------------------------------------------------

    async def _unless_stopped(self, work: Awaitable[T]) -> T:
        """Its result; given up when the job is cancelled meanwhile. Raises _Stopped."""
        task = asyncio.ensure_future(work)
        stopped = asyncio.ensure_future(self.stop.wait())
        waiting: list[asyncio.Future[Any]] = [task, stopped]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise _Stopped("It was cancelled before its step had begun.")
        finally:
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _stop(self, kernel: AsyncKernel, running: asyncio.Future[StepResult]) -> None:
        """When the job is cancelled: interrupt its step, and no other one.

        A step that waits behind others in the kernel cannot be taken back. Where the kernel is our
        own it ends unasked; else the step is interrupted as soon as it begins.
        """
        await self.stop.wait()
        async with opened_log() as log:
            reader = await log.reader(self.info.id)
            while True:
                found = await reader.by_key(self.key)
                if found is not None and found.outcome is None:
                    await kernel.interrupt()
                    await asyncio.sleep(_AGAIN_S)
                elif found is None and kernel.started:
                    running.cancel()
                    return
                else:
                    await asyncio.sleep(_LOOK_S)


def _entry(output: Output) -> list[Json]:
    """As the record has it: type, content, metadata, and the sha256 of each buffer."""
    digests: list[Json] = [hashlib.sha256(buffer).hexdigest() for buffer in output.buffers]
    return [output.type, dict(output.content), dict(output.metadata), digests]


def _done(session: uuid.UUID, result: StepResult) -> Done:
    error = None
    if result.error is not None:
        error = {"name": result.error.name, "text": result.error.text}
    short: dict[str, Json] = {
        "seq": result.seq,
        "digest": result.digest,
        "outcome": result.status,
        "duration_s": result.duration_s,
        "key": result.key,
        "repeated": result.repeated,
        "error": error,
    }
    more: dict[str, Json] = {"session": str(session), **short}
    if isinstance(result, CellResult):
        short["execution_count"] = more["execution_count"] = result.execution_count
        short["value"] = None if result.value is None else result.value[:_VALUE]
        more["value"] = result.value
        more["user_expressions"] = dict(result.user_expressions)
    if isinstance(result, CommandResult):
        more |= command_json(result)
        short |= {name: more[name] for name in ("exit_code", "signal", "timed_out", "streams")}
    if isinstance(result, SkillResult):
        short |= skill_json(result)
        more |= skill_json(result)
    if result.error is not None:
        more["traceback"] = list(result.error.traceback)
    return Done(short, more)


def told(asked: Mapping[str, Any], key: str) -> dict[str, Json]:
    """What a job says of the step it was asked for; of long texts the beginning."""
    what = {
        "cell": lambda: str(asked["code"]),
        "command": lambda: str(asked["shell"]) if "shell" in asked else shlex.join(asked["argv"]),
        "skill": lambda: shlex.join([asked["skill"], asked["script"], *asked.get("arguments", [])]),
    }[asked["kind"]]()
    return {"kind": asked["kind"], "what": what[:_WHAT], "key": key}


def key_of(asked: Mapping[str, Any]) -> str:
    """The key that a request gives, or a new one."""
    given = asked.get("key")
    return str(given) if given is not None else uuid.uuid4().hex
