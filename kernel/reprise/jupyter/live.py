"""One step that clients wait for: accepted, run, recorded, and only then told to be over."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

from reprise.errors import LeaseLost, RepriseError, SandboxDied, TooLarge
from reprise.failpoints import failpoint
from reprise.jupyter.flushing import Flushing
from reprise.jupyter.request import Request
from reprise.jupyter.steps import StepRequest
from reprise.log.model import (
    USER,
    Actor,
    During,
    Json,
    NewOutcome,
    NewStep,
    Outcome,
    OutputEntry,
    Status,
    Step,
    StepKind,
    canonical,
)
from reprise.log.postgres import now_us
from reprise.replay.deaths import why
from reprise.replay.engine import LiveSession
from reprise.replay.executor import ensure_subshell
from reprise.replay.link import KernelLink, Run, entry_message, reply_entry
from reprise.replay.message import Message, make, request_payload
from reprise.replay.recorder import OutputRecorder
from reprise.sandbox.contract import DeathCause, Limits
from reprise.sandbox.frames import Channel

log = logging.getLogger("reprise")

#: Seconds that the reply of an interrupted step may come after its idle.
INTERRUPTED_REPLY_S = 1.0

#: Seconds a step over its time has to react to the interrupt before its sandbox is ended.
TIMEOUT_GRACE_S = 5.0

#: Times a request is sent again that the language kernel itself aborted without running it
#: (its own abort window after an error may still be open when the next step arrives).
SENDS = 100


@dataclass(frozen=True)
class Ended:
    """How a live step ended, for its lane: `failed` asks for the abort of what is queued."""

    reply: Message | None
    idle: Message
    idle_topic: bytes
    failed: bool
    terminated: bool = False
    outcome: Outcome | None = None


@dataclass(eq=False)
class LiveStep:
    """A step while it runs: the audience of its run and the writer of its record.

    publish: shows an iopub message to the clients. ask: passes an input_request on.
    during: the main step that runs while this one starts, if this one goes beside it.
    accepted: told of the step as soon as it is committed, before it is sent.
    before_outcome: awaited when the run has ended, before its outcome is stored.
    actor: who asked; key: the idempotency key that the client gave.
    """

    session: LiveSession
    request: Request
    kind: StepKind
    limits: Limits
    publish: Callable[[Message, bytes], None]
    ask_client: Callable[[Run, Message], None]
    during: Callable[[], During | None]
    before_outcome: Callable[[], Awaitable[None]]
    accepted: Callable[[Step], None]
    actor: Actor = USER
    key: str | None = None
    interrupted: bool = False
    timed_out: bool = False
    killed: str | None = None
    step: Step | None = None
    run: Run | None = None
    link: KernelLink | None = None
    input_shown: Message | None = None
    _flushing: Flushing | None = None
    _sends: int = 1
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _interrupt_waits: bool = False
    _interrupting: asyncio.Task[None] | None = None

    # the audience of the run (replay.link.Audience) ------------------------------------------

    def show(self, message: Message, topic: bytes) -> None:
        if message.msg_type == "execute_input":
            self.input_shown = message
            if self._interrupt_waits:
                self._interrupt_now()
        self.publish(self._numbered(message), topic)

    def recorded(self, _run: Run) -> None:
        if self._flushing is not None:
            self._flushing.recorded()

    def ask(self, run: Run, message: Message) -> None:
        self.ask_client(run, message)

    def _numbered(self, message: Message) -> Message:
        """With the prompt number a client expects, where the kernel counts from elsewhere."""
        offset = self.session.prompt_offset
        if offset and message.msg_type in ("execute_input", "execute_result", "execute_reply"):
            content = message.content()
            if isinstance(content.get("execution_count"), int):
                content["execution_count"] += offset
                return message.with_content(content)
        return message

    def _named(self, reply: Message, step: Step) -> Message:
        """With the step that it is of, for pages (docs/messages.md). The record has none of it."""
        try:
            log = self.session.writer
            named = {"session": str(log.session), "step": step.seq, "outputs": log.next_output}
            metadata = {**reply.metadata(), "reprise": named}
            return replace(reply, raw_metadata=canonical(metadata))
        except (RepriseError, ValueError):
            # The outcome is stored, so it is told: also where the lease was lost right after that,
            # or the metadata are malformed, or hold what JSON has no form for.
            return reply

    def interrupt(self) -> None:
        """Interrupt the step; as soon as it has begun, if the kernel has not got to it yet.

        A SIGINT that comes before the language kernel runs the cell is lost (it ignores them
        between requests), and the cell would run on although somebody stopped it.
        """
        self.interrupted = True
        if self.run is not None:
            self.run.reply_grace_s = INTERRUPTED_REPLY_S
            if self.run.overdue is not None and not self.run.finished.done():
                self.run.await_reply()
        silent = bool(self.request.message.content().get("silent"))
        begun = self.input_shown is not None or self.kind == "comm"
        if begun or silent or self._interrupt_waits:
            self._interrupt_now()
        else:
            self._interrupt_waits = True

    def _interrupt_now(self) -> None:
        self._interrupt_waits = False
        if self.link is not None and self._interrupting is None:
            task = asyncio.get_running_loop().create_task(self._send_interrupt(self.link))
            self._interrupting = task

    async def _send_interrupt(self, link: KernelLink) -> None:
        try:
            await link.guest.call("interrupt")
            if self.kind == "comm" and self.run is not None:
                # Handled in a subshell, it is out of an interrupt's reach and goes on.
                await asyncio.wait([self.run.finished], timeout=INTERRUPTED_REPLY_S)
                self.interrupted = self.run.finished.done()
        except RepriseError as error:
            log.warning("The interrupt did not arrive: %s", error)
        finally:
            self._interrupting = None

    # its life --------------------------------------------------------------------------------

    async def accept(self) -> None:
        """Commit the step and send it, in one go. Raises what prevents it; then nothing ran."""
        message = self.request.message
        if message.size > self.limits.request:
            raise too_large(message.size, self.limits.request)
        payload = request_payload(message)
        self.link = link = self.session.link
        subshell = message.subshell_id
        if subshell is not None and self.session.had_subshell(subshell):
            await ensure_subshell(link, subshell)
        blobs: tuple[str, ...] = ()
        if message.buffers:
            blobs = tuple(await self.session.writer.blobs.put_many(message.buffers))
        self.run = run = Run(
            message,
            self.request.client,
            OutputRecorder(self.limits.output),
            self,
            expects_reply=self.kind == "cell",
            channel=Channel.CONTROL if self.request.channel == "control" else Channel.SHELL,
            live=True,
        )
        new = NewStep(
            self.kind,
            payload,
            self.session.environment,
            now_us(),
            self.actor,
            during=self.during(),
            blobs=blobs,
            key=self.key,
        )

        def send(step: Step) -> None:
            self.accepted(step)
            link.seqs[message.msg_id] = step.seq
            try:
                link.start(run)
            except RepriseError as error:
                # Committed but never sent: it ends as died, and nothing of it ran.
                self.killed = "never sent"
                run.finished.set_exception(SandboxDied(str(error)))
                self.session.stop_sandbox()

        self.step = await self.session.accept(new, send)

    async def end(self) -> Ended:
        """Wait for the end, commit the outcome, and return what may now be told.

        Raises LeaseLost when the outcome cannot be recorded any more.
        """
        run, step, link = self._running()
        began = time.monotonic()
        self._flushing = Flushing(self.session, step.seq, run.recorder, run.take_blobs)
        died: SandboxDied | None = None
        try:
            await self._finished(run, link)
        except SandboxDied as error:
            died = error
        finally:
            link.end(run)
            await self._flushing.stop()
        await self.before_outcome()
        failpoint("ended")
        took_us = round((time.monotonic() - began) * 1e6)
        status, cause = self._status(died)
        prompt = self._prompt(run)
        if died is not None:
            self._tell_of_death(run, died, prompt)
        elif run.reply is None and run.expects_reply:
            self._stand_in(run, prompt)
        final = reply_entry(run)
        if final is not None:
            run.recorder.add(final)
        try:
            outcome = await self.session.conclude(
                step,
                NewOutcome(
                    status,
                    run.recorder.hexdigest(),
                    now_us(),
                    took_us,
                    tuple(run.inputs),
                    prompt,
                    cause,
                    run.recorder.cut,
                ),
                run.recorder.take(),
                run.blobs,
            )
        finally:
            if died is not None:
                self.session.rolled_back(link, self.killed)
        failed = run.reply_content.get("status") == "error"
        reply = None if run.reply is None else self._named(self._numbered(run.reply), step)
        idle = run.idle or self._message("status", {"execution_state": "idle"})
        told_to_end = (
            died is not None
            and isinstance(died.cause, DeathCause)
            and died.cause.signal == signal.SIGTERM
        )
        return Ended(reply, idle, run.idle_topic or b"status", failed, told_to_end, outcome)

    async def _finished(self, run: Run, link: KernelLink) -> None:
        wall = self.limits.wall or None
        while True:
            try:
                await asyncio.wait_for(asyncio.shield(run.finished), wall)
            except TimeoutError:
                await self._time_is_up(run, link)
            if run.reply_content.get("status") != "aborted" or self._sends >= SENDS:
                return
            self._sends += 1
            await asyncio.sleep(0)
            run.again()
            link.start(run)

    async def _time_is_up(self, run: Run, link: KernelLink) -> None:
        self.timed_out = True
        await link.guest.call("interrupt")
        try:
            await asyncio.wait_for(asyncio.shield(run.finished), TIMEOUT_GRACE_S)
        except TimeoutError:
            self.killed = "timeout"
            self.session.stop_sandbox()
            await run.finished

    def _running(self) -> tuple[Run, Step, KernelLink]:
        if self.run is None or self.step is None or self.link is None:
            raise LeaseLost("The step was never accepted.")
        return self.run, self.step, self.link

    # its end ---------------------------------------------------------------------------------

    def _status(self, died: SandboxDied | None) -> tuple[Status, dict[str, Json] | None]:
        run, _, _ = self._running()
        if died is not None:
            cause = died.cause.to_json() if isinstance(died.cause, DeathCause) else {}
            if self.killed is not None:
                cause = {"what": self.killed}
            return "died", cause
        if self.timed_out:
            return "timeout", {"what": "timeout", "limit_s": self.limits.wall}
        if self.interrupted:
            # Also when the cell caught it and ended well: no replay can cut it there again.
            return "interrupted", {"what": "interrupt"}
        said = run.reply_content.get("status")
        if said == "aborted":
            # The language kernel never ran it, however often it was asked: nor may a replay.
            return "lost", {"what": "aborted"}
        return ("error" if said == "error" else "ok"), None

    def _prompt(self, run: Run) -> int | None:
        content = self.request.message.content()
        if self.kind != "cell" or content.get("silent") or content.get("store_history") is False:
            return None
        count = run.reply_content.get("execution_count")
        if not isinstance(count, int) and self.input_shown is not None:
            count = self.input_shown.content().get("execution_count")
        return count + self.session.prompt_offset if isinstance(count, int) else None

    def _stand_in(self, run: Run, prompt: int | None) -> None:
        """The reply that the language kernel did not give, or its client would wait for ever."""
        name = "KeyboardInterrupt" if self.interrupted else "NoReply"
        text = "The language kernel ended this cell without a reply. What the cell did is kept."
        self._reply_with(run, prompt, {"ename": name, "evalue": text, "traceback": []})

    def _tell_of_death(self, run: Run, died: SandboxDied, prompt: int | None) -> None:
        """The rolled-back cell says so in its own error output."""
        _, step, _ = self._running()
        text = rolled_back_text(step.seq, died.cause, self.killed)
        error = {"ename": "SandboxDied", "evalue": text, "traceback": [f"SandboxDied: {text}"]}
        for entry in run.recorder.add(OutputEntry("error", error)):
            self.publish(entry_message(entry, self.request.message.raw_header), b"error")
        if not run.expects_reply:
            return
        self._reply_with(run, prompt, error)

    def _reply_with(self, run: Run, prompt: int | None, error: dict[str, Json]) -> None:
        content = {
            "status": "error",
            "execution_count": prompt or 0,
            "user_expressions": {},
            "payload": [],
            **error,
        }
        run.reply_content = content
        run.reply = self._message("execute_reply", content)

    def as_requested(self, ended: Ended, asked: StepRequest, request: Request) -> Ended:
        """The end of a cell or comm that a step_request asked for, with a step_reply."""
        _, step, _ = self._running()
        if ended.outcome is None:
            return ended
        last = None
        if ended.reply is not None and self.kind == "cell":
            last = OutputEntry("execute_reply", ended.reply.content())
        return replace(ended, reply=asked.reply(request, step, ended.outcome, last))

    def _message(self, msg_type: str, content: dict[str, Json]) -> Message:
        return make(msg_type, content, parent=self.request.message.raw_header)


def too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(
        f"This request is {size:,} bytes; {limit:,} are the most a step may be, so it was not run. "
        "Put large data into a file beside the notebook and read it from there, or raise the "
        "environment's limit `request`."
    )


def rolled_back_text(seq: int, cause: object, killed: str | None) -> str:
    """What died, why, and which state the session is in now, in three sentences."""
    state = f"as after step {seq - 1}" if seq > 0 else "as at the beginning"
    return (
        f"Step {seq} was rolled back: {why(cause, killed)}. The state is {state}: a fresh sandbox "
        "plays the steps before it again. The next cell works; run this one again once it can end "
        "well."
    )
