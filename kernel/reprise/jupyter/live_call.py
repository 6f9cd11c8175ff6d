"""A command, upload or mount while it runs: accepted, done, recorded, and only then told."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from reprise.errors import LeaseLost, RepriseError, SandboxDied
from reprise.failpoints import failpoint
from reprise.jupyter.flushing import Flushing
from reprise.jupyter.live import Ended, rolled_back_text
from reprise.jupyter.request import Request
from reprise.jupyter.steps import StepRequest
from reprise.log.model import Json, NewOutcome, NewStep, OutputEntry, Status, Step, StepKind
from reprise.log.postgres import now_us
from reprise.replay.calls import CallEnd, perform
from reprise.replay.engine import LiveSession
from reprise.replay.link import KernelLink, entry_message
from reprise.replay.message import Message, make
from reprise.replay.recorder import OutputRecorder
from reprise.sandbox.contract import DeathCause, Limits

log = logging.getLogger("reprise")

#: Seconds a command has to end after an interrupt's SIGINT before its whole tree is killed.
INTERRUPT_GRACE_S = 2.0


@dataclass(eq=False)
class LiveCall:
    """A step that is no message to the interpreter. `publish` shows an iopub message.

    accepted: told of the step as soon as it is committed, before it begins.
    """

    session: LiveSession
    request: Request
    asked: StepRequest
    limits: Limits
    publish: Callable[[Message, bytes], None]
    accepted: Callable[[Step], None]
    interrupted: bool = False
    killed: str | None = None
    step: Step | None = None
    #: whether it ended well
    done: bool = False
    link: KernelLink | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    #: A call shows what it shows through no run of the interpreter.
    run: None = None
    _recorder: OutputRecorder = field(init=False)
    _work: asyncio.Task[CallEnd] | None = None
    _flushing: Flushing | None = None
    _interrupting: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self._recorder = OutputRecorder(self.limits.output)

    @property
    def kind(self) -> StepKind:
        return self.asked.kind

    async def accept(self) -> None:
        """Commit the step and begin it, in one go. Raises what prevents it; then nothing ran."""
        self.link = link = self.session.link
        blobs = self.session.writer.blobs

        def begin(step: Step) -> None:
            self.accepted(step)
            work = perform(self._bounded(step), link, blobs, self._show)
            self._work = asyncio.get_running_loop().create_task(work)

        new = NewStep(
            self.kind,
            self.asked.payload,
            self.session.environment,
            now_us(),
            self.asked.actor,
            blobs=self.asked.blobs,
            key=self.asked.key,
        )
        self.step = await self.session.accept(new, begin)

    def _bounded(self, step: Step) -> Step:
        """With the environment's time limit, where the step has none or a longer one."""
        wall = self.limits.wall
        if self.kind != "command" or not wall or "stop" in step.payload:
            return step
        asked = step.payload.get("timeout_s")
        timeout = wall if asked is None else min(wall, asked)
        return replace(step, new=replace(step.new, payload={**step.payload, "timeout_s": timeout}))

    def _show(self, entry: OutputEntry) -> None:
        for shown in self._recorder.add(entry):
            message = entry_message(shown, self.request.message.raw_header)
            self.publish(message, f"stream.{shown.content.get('name', '')}".encode())
        if self._flushing is not None:
            self._flushing.recorded()

    def interrupt(self) -> None:
        """SIGINT to a command's group, then SIGKILL to its tree; files come in whole or not."""
        if self.kind != "command" or "stop" in self.asked.payload:
            return
        self.interrupted = True
        if self.step is not None and self.link is not None and self._interrupting is None:
            work = self._interrupt(self.link, str(self.step.seq))
            self._interrupting = asyncio.get_running_loop().create_task(work)

    async def _interrupt(self, link: KernelLink, name: str) -> None:
        try:
            await link.guest.signal_command(name, signal.SIGINT)
            if self._work is not None:
                await asyncio.wait([self._work], timeout=INTERRUPT_GRACE_S)
                if not self._work.done():
                    await link.guest.signal_command(name, signal.SIGKILL)
        except RepriseError as error:
            # It has ended meanwhile, or its sandbox has.
            log.info("The interrupt did not arrive: %s", error)

    async def end(self) -> Ended:
        """Wait for the end, commit the outcome, and return what may now be told.

        Raises LeaseLost when the outcome cannot be recorded any more.
        """
        step, work, link = self._running()
        began = time.monotonic()
        self._flushing = Flushing(self.session, step.seq, self._recorder, list)
        died: SandboxDied | None = None
        try:
            end = await work
        except SandboxDied as error:
            died = error
            end = self._death(step, error)
        except RepriseError as error:
            # A blob that cannot be read: nothing of the step was done.
            log.error("Step %d could not be done: %s", step.seq, error)
            end = CallEnd("error", error=(type(error).__name__, str(error)))
        finally:
            await self._flushing.stop()
        failpoint("ended")
        status: Status = end.status
        if self.interrupted and died is None:
            status = "interrupted"
            text = "It was interrupted. What it had done is kept, and is left out of a replay."
            end = replace(end, status=status, error=("Interrupted", text))
        cause = {"what": "interrupt"} if status == "interrupted" else end.cause
        took_us = round((time.monotonic() - began) * 1e6)
        self._recorder.add(end.entry())
        try:
            outcome = await self.session.conclude(
                step,
                NewOutcome(
                    status,
                    self._recorder.hexdigest(),
                    now_us(),
                    took_us,
                    cause=cause,
                    cut=self._recorder.cut,
                ),
                self._recorder.take(),
            )
        finally:
            if died is not None:
                self.session.rolled_back(link, self.killed)
        self.done = status == "ok"
        reply = self.asked.reply(self.request, step, outcome, end.entry())
        idle = make("status", {"execution_state": "idle"}, parent=self.request.message.raw_header)
        return Ended(reply, idle, b"status", failed=False, outcome=outcome)

    def _death(self, step: Step, died: SandboxDied) -> CallEnd:
        cause: dict[str, Json] = {}
        if isinstance(died.cause, DeathCause):
            cause = died.cause.to_json()
        if self.killed is not None:
            cause = {"what": self.killed}
        text = rolled_back_text(step.seq, died.cause, self.killed)
        return CallEnd("died", error=("SandboxDied", text), cause=cause)

    def _running(self) -> tuple[Step, asyncio.Task[CallEnd], KernelLink]:
        if self.step is None or self._work is None or self.link is None:
            raise LeaseLost("The step was never accepted.")
        return self.step, self._work, self.link
