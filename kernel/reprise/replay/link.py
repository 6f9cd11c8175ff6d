"""The link to one language kernel: follows each request from send to reply and idle.

It is the one reader of what a guest says in Jupyter's channels, live and on replay alike, and
trusts none of it: a message must belong to a request that was sent, one reply a request, one
idle a request; what is malformed is dropped and told once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reprise.errors import SandboxDied
from reprise.log.model import Json, OutputEntry
from reprise.replay.comms import Comms
from reprise.replay.identity import OPENING, IdMap, Opened, Pairing, opening
from reprise.replay.message import (
    UNRECORDED,
    Malformed,
    Message,
    make,
    output_entry,
    parse_object,
)
from reprise.replay.recorder import OutputRecorder
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import DeathCause
from reprise.sandbox.frames import Channel

log = logging.getLogger("reprise")


#: Openings remembered that no replayed step has claimed.
UNCLAIMED = 1000

#: As they stand in a header.
_OPENING = tuple(kind.encode() for kind in OPENING)

#: Seconds that a reply may come after its request's idle; they travel on channels of their own.
REPLY_GRACE_S = 10.0

#: Seconds without output after which a comm that a cell handled while it awaited is over:
#: ipykernel sends no idle for it, and its page sends no more until it gets one.
QUIET_S = 0.05


class Audience(Protocol):
    """Who sees what a run shows: the router's clients, or nobody on a replay."""

    def show(self, message: Message, topic: bytes) -> None:
        """An iopub message, in order."""

    def recorded(self, _run: Run) -> None:
        """What was shown is in the run's recorder now."""

    def ask(self, run: Run, message: Message) -> None:
        """An input_request; answer with `KernelLink.answer_input`."""


class Egress(Protocol):
    """Is told which steps run (`reprise.egress.connections.Egress`)."""

    def begin(self, step: int, replay: bool = False, recorded: bool = True) -> None: ...
    def end(self, step: int) -> None: ...


class Nobody:
    """The audience of what we ask ourselves."""

    def show(self, message: Message, topic: bytes) -> None:
        """It is shown to nobody."""

    def recorded(self, run: Run) -> None:
        """It is recorded nowhere."""

    def ask(self, run: Run, message: Message) -> None:
        """It asks for nothing."""


@dataclass(eq=False)
class Run:
    """One request on its way through the language kernel.

    finished: resolves when the reply and the idle are here; raises SandboxDied.
    blobs: bytes of message buffers that the recorded entries name, not stored yet.
    inputs: replies to input_request so far, None for a password.
    heard: set by its busy, by an output, and at its end.
    began, ended: its busy and its idle, by their number among all messages on iopub.
    live: a client's request, not a recorded one that is played again.
    """

    request: Message
    client: bytes
    recorder: OutputRecorder
    audience: Audience
    expects_reply: bool = True
    channel: Channel = Channel.SHELL
    reply: Message | None = None
    reply_content: dict[str, Json] = field(default_factory=dict)
    idle: Message | None = None
    idle_topic: bytes = b""
    asking_password: bool = False
    inputs: list[str | None] = field(default_factory=list)
    blobs: list[bytes] = field(default_factory=list)
    finished: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    began: int | None = None
    ended: int | None = None
    live: bool = False
    reply_grace_s: float = REPLY_GRACE_S
    overdue: asyncio.TimerHandle | None = None

    def await_reply(self) -> None:
        """The idle is here and the reply is not: wait for it, but not for ever.

        ipykernel loses the reply of a cell that is interrupted at its very end.
        """
        self.finish_in(self.reply_grace_s)

    def finish_in(self, seconds: float) -> None:
        if self.overdue is not None:
            self.overdue.cancel()
        self.overdue = asyncio.get_running_loop().call_later(seconds, self.finish)

    def again(self) -> None:
        """Ready to be sent once more: the language kernel aborted it without running it."""
        self.reply, self.reply_content, self.idle = None, {}, None
        self.finished = asyncio.get_running_loop().create_future()

    def take_blobs(self) -> list[bytes]:
        """The bytes of message buffers since the last take."""
        taken, self.blobs = self.blobs, []
        return taken

    def finish(self) -> None:
        self.heard.set()
        if self.overdue is not None:
            self.overdue.cancel()
        if not self.finished.done():
            self.finished.set_result(None)


def _trusts_nothing(_tree: str) -> bool:
    """Until it is known whose word counts."""
    return False


class KernelLink:
    """Implements `reprise.sandbox.connection.GuestListener`.

    Until `listen` is called, what belongs to no run is dropped.
    """

    def __init__(self) -> None:
        self.ids = IdMap()
        #: what its comms are of, under the ids that clients and the log know
        self.comms = Comms()
        #: ids that replayed steps are still to open, by the msg_id of their request
        self.pairings: dict[str, Pairing] = {}
        #: what a replay has opened and no step's record has held so far
        self._unclaimed: list[Opened] = []
        #: no new cell has run since the replay
        self._returning = True
        self.runs: dict[str, Run] = {}
        #: subshells of this language kernel, by the ids that clients and the log know
        self.subshells: set[str] = set()
        #: held while one of them is created anew, so that two steps do not create it twice
        self.creating = asyncio.Lock()
        #: seq of each step whose request this language kernel was sent, by its msg_id
        self.seqs: dict[str, int] = {}
        self.cause: DeathCause | None = None
        #: who makes the connections of programs inside; None where nothing may go out
        self.egress: Egress | None = None
        #: whether somebody vouches for a skill's content (sha256 of its tree)
        self.trusts: Callable[[str], bool] = _trusts_nothing
        self._guest: Guest | None = None
        self._stray: Callable[[Message, str | None, bytes], None] | None = None
        self._passed: Callable[[Channel, Message, str], None] | None = None
        self._gone: Callable[[DeathCause], None] | None = None
        self._told_malformed = False
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def listen(
        self,
        *,
        stray: Callable[[Message, str | None, bytes], None],
        passed: Callable[[Channel, Message, str], None],
        gone: Callable[[DeathCause], None],
    ) -> None:
        """Hear what belongs to no run.

        stray: every iopub message whose run is over or unknown (output that threads send late,
          messages of passed requests), in order: (message, parent's msg_id, topic).
        passed: every reply that belongs to no run: (channel, message, parent's msg_id).
        gone: once, when the language kernel or its sandbox is gone.
        """
        self._stray, self._passed, self._gone = stray, passed, gone

    @property
    def guest(self) -> Guest:
        if self._guest is None:
            raise SandboxDied("The sandbox has not been started yet.")
        return self._guest

    def attach(self, guest: Guest) -> None:
        self._guest = guest

    def forget(self) -> None:
        """The interpreter starts anew: ids and subshells of the old one mean nothing now."""
        self.ids = IdMap()
        self.comms = Comms()
        self.pairings.clear()
        self._unclaimed.clear()
        self.subshells.clear()

    # what we send ---------------------------------------------------------------------------

    def start(self, run: Run) -> None:
        """Send a run's request. Raises SandboxDied when there is nobody to send it to."""
        self._check_alive()
        if run.live and run.expects_reply:
            self._returning = False
        self.runs[run.request.msg_id] = run
        self.send(run.channel, run.client, run.request)

    def send(self, channel: Channel, client: bytes, message: Message) -> None:
        """Send any message to the language kernel, recorded ids replaced by the living ones."""
        self._check_alive()
        frames = message.frames()
        if self.ids:
            # Buffers are opaque; ids stand in the JSON frames only.
            frames[:4] = [self.ids.to_kernel(frame) for frame in frames[:4]]
        self.guest.send(channel, [client, *frames])

    def answer_input(self, run: Run, value: str, reply: Message | None = None) -> None:
        """Give the language kernel the answer to its input_request and remember it."""
        run.inputs.append(None if run.asking_password else value)
        if reply is None:
            reply = make("input_reply", {"value": value, "status": "ok"})
        self.send(Channel.STDIN, run.client, reply)

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold a task that watches runs of this link until it is over."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self, run: Run) -> None:
        """Forget a run: from now on its output is late."""
        self.runs.pop(run.request.msg_id, None)

    def _check_alive(self) -> None:
        if self.cause is not None:
            raise SandboxDied("The sandbox has ended.", self.cause)

    # what we hear (GuestListener) -----------------------------------------------------------

    def message(self, channel: Channel, parts: list[bytes]) -> None:
        prefix, frames = parts[0], parts[1:]
        try:
            reopened = False
            if channel is Channel.IOPUB and (self.pairings or self._returning):
                # Before its own ids are replaced: what follows may name them at once.
                reopened = self._pair(frames)
            if self.ids:
                frames[:4] = [self.ids.to_client(frame) for frame in frames[:4]]
            message = Message.from_frames(frames)
            parent = message.parent_id()
            if channel is Channel.IOPUB:
                if message.msg_type == "comm_open":
                    self.comms.opened(message.content())
                if not (reopened and parent not in self.runs):
                    self._iopub(message, parent, prefix)
            elif channel is Channel.STDIN:
                self._stdin(message, parent)
            else:
                self._reply(channel, message, parent)
        except Malformed as error:
            if not self._told_malformed:
                self._told_malformed = True
                log.warning("A message from the sandbox was dropped: %s.", error)

    def died(self, cause: DeathCause) -> None:
        if self.cause is not None:
            return
        self.cause = cause
        runs, self.runs = self.runs, {}
        for run in runs.values():
            run.heard.set()
            if not run.finished.done():
                run.finished.set_exception(SandboxDied("The sandbox died.", cause))
                run.finished.exception()  # retrieved: a run nobody awaits is no error
        if self._gone is not None:
            self._gone(cause)

    def _pair(self, frames: list[bytes]) -> bool:
        """Learn the id that a message opens; True for a comm that the page has already.

        What a thread opens belongs to whatever ran last (ipykernel), another step than at its
        first run perhaps; so until a new cell has run, any replayed step may claim it.
        """
        if not any(kind in frames[0] for kind in _OPENING):
            return False
        message = Message.from_frames(frames)
        opened = opening(message.msg_type, message.content())
        if opened is None:
            return False
        parent = message.parent_id() or ""
        pairing, run = self.pairings.get(parent), self.runs.get(parent)
        old = None if pairing is None else pairing.learn(self.ids, opened)
        if old is None and self._returning and not (run is not None and run.live):
            for other in self.pairings.values():
                old = other.learn(self.ids, opened)
                if old is not None:
                    break
            else:
                if len(self._unclaimed) < UNCLAIMED:
                    self._unclaimed.append(opened)
        return old is not None and message.msg_type == "comm_open"

    def replayed(self, msg_id: str) -> None:
        """A replayed step has ended: what it has not opened may have been opened before it."""
        pairing = self.pairings.get(msg_id)
        if pairing:
            unclaimed = []
            for each in self._unclaimed:
                known = pairing.learn(self.ids, each)
                if known is None:
                    unclaimed.append(each)
                else:
                    self.comms.renamed(each[1], known)
            self._unclaimed = unclaimed
        if not pairing:
            self.pairings.pop(msg_id, None)

    def _iopub(self, message: Message, parent: str | None, topic: bytes) -> None:
        self._number += 1
        run = self.runs.get(parent) if parent is not None else None
        if run is None or run.idle is not None:
            if self._stray is not None:
                self._stray(message, parent, topic)
            return
        if message.msg_type == "status":
            state = message.content().get("execution_state")
            if state != "idle":
                if state == "busy":
                    run.began = self._number
                    run.heard.set()
                run.audience.show(message, topic)
            else:
                run.idle, run.idle_topic, run.ended = message, topic, self._number
                self._maybe_finish(run)
            return
        if message.msg_type in UNRECORDED:
            run.audience.show(message, topic)
            return
        size = message.payload_size
        entry = output_entry(message)
        ahead = run.recorder.fits(size)
        if ahead:
            # Recording takes its time for large outputs; the client reads meanwhile.
            run.audience.show(message, topic)
        run.heard.set()
        shown = run.recorder.add(entry, size)
        if len(shown) == 1 and shown[0] is entry:
            run.blobs.extend(message.buffers)
            if not ahead:
                run.audience.show(message, topic)
        else:
            for other in shown:
                run.audience.show(entry_message(other, message.raw_parent), topic)
        run.audience.recorded(run)
        if run.began is None and not run.expects_reply:
            run.finish_in(QUIET_S)

    def _reply(self, channel: Channel, message: Message, parent: str | None) -> None:
        run = self.runs.get(parent) if parent is not None else None
        if run is None or channel is not run.channel:
            if parent is not None and self._passed is not None:
                self._passed(channel, message, parent)
            return
        if run.expects_reply and run.reply is None:
            run.reply_content = message.content()
            run.reply = message
            self._maybe_finish(run)

    def _stdin(self, message: Message, parent: str | None) -> None:
        run = self.runs.get(parent) if parent is not None else None
        if run is None or message.msg_type != "input_request":
            return
        content = message.content()
        run.asking_password = bool(content.get("password"))
        run.recorder.add(OutputEntry("input_request", content))
        run.audience.ask(run, message)

    def _maybe_finish(self, run: Run) -> None:
        if run.idle is None:
            return
        if run.reply is not None or not run.expects_reply:
            run.finish()
        else:
            run.await_reply()


def entry_message(entry: OutputEntry, parent: bytes, buffers: Sequence[bytes] = ()) -> Message:
    """A recorded entry as a message again."""
    return make(entry.type, entry.content, parent=parent, metadata=entry.metadata, buffers=buffers)


def reply_entry(run: Run) -> OutputEntry | None:
    """The execute_reply as the last entry of a step's record.

    None for a reply that says no more than the outcome does (ok, and its prompt number), which
    is that of nearly every cell: it would cost each of them a row of its own.
    """
    if run.reply is None:
        return None
    content = run.reply_content
    if (
        content.get("status") == "ok"
        and not content.get("user_expressions")
        and not content.get("payload")
        and content.keys() <= {"status", "execution_count", "user_expressions", "payload"}
    ):
        return None
    metadata = parse_object(run.reply.raw_metadata, "metadata")
    # When a request was started is a time of day; it says nothing of the state.
    metadata.pop("started", None)
    metadata.pop("engine", None)
    return OutputEntry(run.reply.msg_type, content, metadata)
