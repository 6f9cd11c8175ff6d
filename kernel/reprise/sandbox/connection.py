"""The host's end of the byte stream: sends messages, makes calls, and notices every death."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

from reprise.errors import GuestCallFailed, ProtocolViolation, SandboxDied, SandboxError, TooLarge
from reprise.sandbox.commands import (
    MAX_STDIN,
    BackgroundCommand,
    Command,
    CommandEnd,
    Listening,
    OnOutput,
    background_commands,
)
from reprise.sandbox.contract import (
    MOUNT_PLACES,
    Backend,
    Container,
    DeathCause,
    Said,
    SandboxSpec,
    silent,
)
from reprise.sandbox.frames import (
    MAX_BODY,
    PROTOCOL,
    WINDOWS,
    Channel,
    Decoder,
    Frame,
    FrameError,
    ReceiveCredit,
    SendCredit,
    decode_grant,
    decode_id,
    encode,
    encode_grant,
    encode_id,
)

#: Read from the socket at once; small enough that other work of the loop is not kept waiting.
_CHUNK = 1 << 18

#: What may wait to be sent to one guest, in bytes, before `send` refuses.
MAX_QUEUED = 128 << 20

#: Calls that may be unanswered at once.
MAX_CALLS = 256

#: Seconds between pings, and how long a guest may say nothing before it counts as hung. A
#: machine under heavy load delays answers by seconds, not by a minute.
PING_INTERVAL = 10.0
PING_PATIENCE = 60.0

#: Seconds that a container has to end by itself once its stream is closed.
END_PATIENCE = 1.0

#: Seconds that a guest which was told goodbye has to take what was sent before, to end what runs,
#: and its container to end (a Dagger engine keeps its files then).
GOODBYE_PATIENCE = 30.0

#: Room for what is not payload in the largest iopub message a guest may send, in bytes.
_SLACK = 1 << 16

#: What cells and commands show; its receiver can hold it.
_SHOWN = (Channel.IOPUB, Channel.COMMAND)

Answer = TypeVar("Answer")

_MESSAGES = frozenset({Channel.SHELL, Channel.CONTROL, Channel.STDIN, Channel.IOPUB})


class GuestListener(Protocol):
    """Hears what a guest sends. Called in the event loop, in order; must not block."""

    def message(self, channel: Channel, parts: list[bytes]) -> None:
        """A Jupyter message: client (or topic), header, parent, metadata, content, *buffers."""

    def died(self, cause: DeathCause) -> None:
        """Once: the language kernel died, the stream closed, the guest broke the protocol."""


class TunnelListener(Protocol):
    """Hears what a guest sends on TUNNEL (`reprise.egress`). Called in the loop, in order."""

    def frame(self, parts: list[bytes]) -> None:
        """A frame as it came. Must not block; raises FrameError for one against the rules."""

    def over(self) -> None:
        """Once: the sandbox has ended."""


@dataclass
class _Call:
    """An unanswered call. read: what the answer means; raises FrameError for what is none."""

    answer: asyncio.Future[Any]
    read: Callable[[dict[str, Any], list[bytes]], Any]
    listening: Listening | None = None


class Guest:
    """A started sandbox as the engine uses it.

    kernel_info: content of the language kernel's kernel_info_reply once it is ready.
    ended: done with the cause when the sandbox is over; never cancelled, never an exception.
    tunnels: who carries connections of programs inside; None refuses them all.
    """

    def __init__(self, container: Container, spec: SandboxSpec, listener: GuestListener) -> None:
        self.container = container
        self.kernel_info: Mapping[str, Any] | None = None
        self.tunnels: TunnelListener | None = None
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[DeathCause] = self._loop.create_future()
        self._listener = listener
        self._socket = container.stream
        self._socket.setblocking(False)
        self._ready: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()
        self._expected_ready = 1
        self._heard_hello = False
        largest = dict(MAX_BODY)
        if spec.limits.message:
            largest[Channel.IOPUB] = min(largest[Channel.IOPUB], spec.limits.message + _SLACK)
        self._decoder = Decoder(largest)
        self._send = {channel: SendCredit(window) for channel, window in WINDOWS.items()}
        self._receive = {channel: ReceiveCredit(window) for channel, window in WINDOWS.items()}
        self._waiting: dict[Channel, deque[bytes]] = {channel: deque() for channel in WINDOWS}
        self._out: deque[memoryview] = deque()
        self._queued = 0
        self._calls: dict[int, _Call] = {}
        self._next_call = 0
        self._ping: bytes | None = None
        self._heard = self._loop.time()
        self._tick_due = self._heard + PING_INTERVAL
        self._timer = self._loop.call_at(self._tick_due, self._tick)
        self._closed = False
        self._closing: asyncio.Task[None] | None = None
        self._leaving = False
        #: Set when nothing waits to be sent.
        self._sent_all = asyncio.Event()

    @classmethod
    async def start(
        cls,
        backend: Backend,
        spec: SandboxSpec,
        listener: GuestListener,
        said: Said = silent,
    ) -> Guest:
        """Launch a sandbox; returns before its language kernel is ready. Raises SandboxError."""
        container = await launch(backend, spec, said)
        return cls.of(container, spec, listener)

    @classmethod
    def of(cls, container: Container, spec: SandboxSpec, listener: GuestListener) -> Guest:
        """The guest in a container that `launch` has started."""
        guest = cls(container, spec, listener)
        guest._loop.add_reader(guest._socket, guest._on_readable)
        return guest

    async def ready(self) -> Mapping[str, Any]:
        """Wait until the language kernel answers. Raises SandboxDied."""
        return await asyncio.shield(self._ready)

    # Sending

    def send(self, channel: Channel, parts: Sequence[bytes]) -> None:
        """Send a client's message: client, header, parent, metadata, content, *buffers.

        Never blocks. Raises TooLarge for a message over the frame's bound, SandboxDied after
        the end, SandboxError when the guest has not taken what was sent before.
        """
        if self.ended.done():
            raise self._death_error()
        try:
            data = encode(channel, parts)
        except FrameError as error:
            raise TooLarge(f"The message was not sent to the language kernel: {error}.") from error
        self._send_frame(channel, data)

    def send_tunnel(self, tunnel: bytes, verb: bytes, data: bytes = b"") -> None:
        """Send a TUNNEL frame; after the end nothing. A guest that opens tunnels and takes no
        answers is ended."""
        if self.ended.done():
            return
        try:
            self._send_frame(Channel.TUNNEL, encode(Channel.TUNNEL, [tunnel, verb, data]))
        except SandboxError:
            self._violation("it opened tunnels and did not take their answers")

    def _send_frame(self, channel: Channel, data: bytes) -> None:
        if self._queued + len(data) > MAX_QUEUED:
            raise SandboxError(
                f"The sandbox has not taken {self._queued:,} bytes that were sent to it, so "
                "this message was not sent. It may be busy: wait, interrupt it or restart it."
            )
        credit = self._send[channel]
        if self._waiting[channel] or not credit.open():
            self._waiting[channel].append(data)
            self._queued += len(data)
            return
        credit.spend(len(data))
        self._write(data)

    def _write(self, data: bytes) -> None:
        sent = 0
        if not self._out:
            try:
                sent = self._socket.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                # The reader sees the end of the stream and says why.
                return
            if sent == len(data):
                return
            self._loop.add_writer(self._socket, self._on_writable)
        self._out.append(memoryview(data)[sent:])
        self._queued += len(data) - sent

    def _on_writable(self) -> None:
        while self._out:
            head = self._out[0]
            try:
                sent = self._socket.send(head)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                sent = len(head)
            self._queued -= sent
            if sent == len(head):
                self._out.popleft()
            else:
                self._out[0] = head[sent:]
        self._loop.remove_writer(self._socket)
        self._look_whether_all_is_sent()

    def _look_whether_all_is_sent(self) -> None:
        if not self._queued:
            self._sent_all.set()

    async def call(
        self, name: str, arguments: Mapping[str, Any] | None = None, data: Sequence[bytes] = ()
    ) -> tuple[dict[str, Any], list[bytes]]:
        """Ask the guest for something (`contract`: Calls); its answer and the data with it.

        Raises GuestCallFailed when the guest says no, SandboxDied when it ends meanwhile.
        """
        return await self._ask(name, arguments or {}, data, lambda body, parts: (body, parts))

    async def run_command(self, command: Command, stdin: bytes, on_output: OnOutput) -> CommandEnd:
        """Run a command to its end, or in the background to its begin (`commands.BEGUN`).

        on_output hears what it writes, in order, called in the event loop; it must not block.
        `hold` makes the command wait when it writes more. Giving up this call does not end the
        command; `signal_command` does.

        Raises GuestCallFailed when it could not be started (kind "program" or "cwd", "name" when
        one of that name runs, "many"), TooLarge, SandboxDied.
        """
        if len(stdin) > MAX_STDIN:
            raise TooLarge(
                f"The command was not run: its standard input of {len(stdin):,} bytes is over "
                f"{MAX_STDIN:,}. Upload it as a file and read that."
            )
        listening = Listening(command, on_output)
        data = [stdin] if stdin else []
        try:
            return await self._ask("run", command.arguments(), data, listening.end, listening)
        finally:
            listening.forget()

    async def signal_command(self, name: str, number: int) -> None:
        """Signal the process group of a running command; with SIGKILL its whole tree, and then
        this returns when nothing of it is left. Raises GuestCallFailed (kind "ended")."""
        await self.call("signal_command", {"name": name, "signal": number})

    async def commands(self) -> list[BackgroundCommand]:
        """Background commands since the language kernel started, ended ones among them."""
        return await self._ask("commands", {}, (), background_commands)

    async def programs(self, names: Collection[str]) -> frozenset[str]:
        """Those of the names, or absolute paths, by which a command would find a program."""
        wanted = list(names)
        body, _ = await self.call("programs", {"names": wanted})
        found = body.get("found")
        # It can lie about what is there, and about nothing else.
        return frozenset(name for name in wanted if isinstance(found, list) and name in found)

    async def _ask(
        self,
        name: str,
        arguments: Mapping[str, Any],
        data: Sequence[bytes],
        read: Callable[[dict[str, Any], list[bytes]], Answer],
        listening: Listening | None = None,
    ) -> Answer:
        if self.ended.done():
            raise self._death_error()
        if len(self._calls) >= MAX_CALLS:
            raise SandboxError(f"{MAX_CALLS} calls to the sandbox are unanswered; try again later.")
        number = self._next_call
        self._next_call = (self._next_call + 1) & 0xFFFFFFFF
        body = json.dumps({**arguments, "call": name}).encode()
        try:
            frame = encode(Channel.CALL, [encode_id(number), body, *data])
        except FrameError as error:
            raise TooLarge(f"The call {name!r} was not made: {error}.") from error
        if name == "restart_kernel":
            self._expected_ready += 1
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._calls[number] = _Call(answer, read, listening)
        try:
            self._send_frame(Channel.CALL, frame)
        except SandboxError:
            del self._calls[number]
            raise
        # Shielded: a caller that gives up must not make a late answer look like one never asked.
        return await asyncio.shield(answer)

    def hold(self) -> None:
        """Stop giving credit for what cells and commands show: without it the guest stops the
        language kernel, and a command waits in its pipe."""
        for channel in _SHOWN:
            self._receive[channel].held = True

    def release(self) -> None:
        """Give credit again."""
        for channel in _SHOWN:
            credit = self._receive[channel]
            credit.held = False
            if not self.ended.done():
                self._grant(channel, credit)

    def _grant(self, channel: Channel, credit: ReceiveCredit) -> None:
        if granted := credit.due():
            self._write(encode_grant(channel, granted))

    # Receiving

    def _on_readable(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._socket)
            self._closing = self._loop.create_task(self._on_closed())
            return
        self._heard = self._loop.time()
        try:
            for frame in self._decoder.feed(data):
                self._receive_frame(frame)
                if self.ended.done():
                    return
        except FrameError as error:
            self._violation(str(error))

    def _receive_frame(self, frame: Frame) -> None:
        channel = frame.channel
        credit = self._receive.get(channel)
        if not self._heard_hello and channel is not Channel.HELLO:
            raise FrameError(f"a {channel.name} frame before HELLO")
        if credit is not None:
            credit.receive(frame.size)
            if channel in _MESSAGES:
                if len(frame.parts) < 5:
                    raise FrameError(f"a {channel.name} message of {len(frame.parts)} parts")
                self._listener.message(channel, frame.parts)
            elif channel is Channel.ANSWER:
                self._receive_answer(frame.parts)
            elif channel is Channel.EVENT:
                self._receive_event(frame.parts)
            elif channel is Channel.COMMAND:
                self._receive_output(frame.parts)
            elif channel is Channel.TUNNEL:
                self._receive_tunnel(frame.parts)
            else:
                raise FrameError(f"a {channel.name} frame, which only the host sends")
            credit.consume(frame.size)
            if not self.ended.done():
                self._grant(channel, credit)
        elif channel is Channel.CREDIT:
            which, size = decode_grant(frame.parts)
            self._send[which].grant(size)
            self._send_waiting(which)
        elif channel is Channel.PONG:
            if self._ping is None or frame.parts != [self._ping]:
                raise FrameError("a PONG for no PING")
            self._ping = None
        elif channel is Channel.HELLO:
            if self._heard_hello or frame.parts != [str(PROTOCOL).encode(), b""]:
                raise FrameError("a HELLO that is wrong or came twice")
            self._heard_hello = True
        else:
            raise FrameError(f"a {channel.name} frame, which only the host sends")

    def _send_waiting(self, channel: Channel) -> None:
        waiting, credit = self._waiting[channel], self._send[channel]
        while waiting and credit.open():
            data = waiting.popleft()
            self._queued -= len(data)
            credit.spend(len(data))
            self._write(data)
        self._look_whether_all_is_sent()

    def _receive_answer(self, parts: list[bytes]) -> None:
        number = decode_id(parts[0]) if len(parts) >= 2 else -1
        call = self._calls.get(number)
        if call is None:
            raise FrameError("an answer to no call")
        body = _json_object(parts[1])
        answer = call.answer
        if body.get("ok") is True:
            del body["ok"]
            # May raise: the call is still among those that the sandbox's end fails then.
            found = call.read(body, parts[2:])
            del self._calls[number]
            if not answer.done():
                answer.set_result(found)
            return
        del self._calls[number]
        message = str(body.get("error", "no reason given"))[:4000]
        kind = str(body.get("kind", ""))[:40]
        if not answer.done():
            answer.set_exception(GuestCallFailed(f"The sandbox answered: {message}.", kind))
            answer.exception()  # whoever asked may have gone

    def _receive_output(self, parts: list[bytes]) -> None:
        call = self._calls.get(decode_id(parts[0])) if parts else None
        if call is None or call.listening is None:
            raise FrameError("output of no running command")
        call.listening.output(parts[1:])

    def _receive_tunnel(self, parts: list[bytes]) -> None:
        if self.tunnels is not None:
            self.tunnels.frame(parts)
        elif len(parts) != 3 or len(parts[0]) != 4:
            raise FrameError("a malformed TUNNEL frame")
        elif parts[1] == b"o":
            said = {"status": 403, "text": "this sandbox has no network"}
            self.send_tunnel(parts[0], b"r", json.dumps(said).encode())

    def _receive_event(self, parts: list[bytes]) -> None:
        body = _json_object(parts[0]) if len(parts) == 1 else {}
        match body.get("event"):
            case "ready":
                info = body.get("kernel_info")
                if not self._expected_ready or not isinstance(info, dict):
                    raise FrameError("a ready event that nothing led to")
                self._expected_ready -= 1
                self.kernel_info = info
                if not self._ready.done():
                    self._ready.set_result(info)
            case "died":
                self._end(self._sharpened(_death_cause(body)))
            case _:
                raise FrameError("an event that does not exist")

    # Ending

    def _sharpened(self, cause: DeathCause) -> DeathCause:
        """A SIGKILL that the cgroup's memory limit sent says so."""
        if cause.what != "vanished" and cause.signal != signal.SIGKILL:
            return cause
        limit = self.container.memory_exceeded()
        if limit is not None:
            return DeathCause("memory", signal=cause.signal, limit=limit, detail=cause.detail)
        return cause

    def _violation(self, what: str) -> None:
        self._end(DeathCause("violation", detail=what))

    async def _on_closed(self) -> None:
        """The stream is closed: the container's own end, if there is one, says why."""
        try:
            async with asyncio.timeout(GOODBYE_PATIENCE if self._leaving else END_PATIENCE):
                found = await self.container.wait()
        except TimeoutError:
            await self.container.kill()
            # One on another machine takes longer to say how it ended.
            found = await self.container.wait()
        if self._leaving:
            self._end(DeathCause("killed"))
            return
        if found.what not in ("signal", "exit"):
            found = DeathCause("vanished", detail=found.detail or "the guest closed its stream")
        self._end(self._sharpened(found))

    def _end(self, cause: DeathCause) -> None:
        """Tell everyone once, and throw the container away."""
        if self.ended.done():
            return
        self.ended.set_result(cause)
        self._close()
        error = self._death_error()
        waiting = [*(call.answer for call in self._calls.values()), self._ready]
        for future in waiting:
            if not future.done():
                future.set_exception(error)
                future.exception()  # nobody may be waiting
        self._calls.clear()
        if self._closing is None:
            self._closing = self._loop.create_task(self.container.kill())
        if self.tunnels is not None:
            self.tunnels.over()
        self._listener.died(cause)

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._out.clear()
        for waiting in self._waiting.values():
            waiting.clear()
        self._sent_all.set()

    def _death_error(self) -> SandboxDied:
        cause = self.ended.result()
        if cause.what == "violation":
            return ProtocolViolation(
                f"The sandbox broke the protocol ({cause.detail}) and was ended.", cause
            )
        return SandboxDied(f"The sandbox has ended ({describe(cause)}).", cause)

    async def goodbye(self) -> None:
        """Ask the guest to end, behind all that was sent to it; kill it when it does not.

        A container that keeps its files (Dagger's) keeps them only if it ended by itself. Returns
        when every process of it is gone. Idempotent.
        """
        if not self.ended.done() and not self._leaving:
            self._leaving = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_PATIENCE):
                    self._sent_all.clear()
                    self._look_whether_all_is_sent()
                    await self._sent_all.wait()
                    if not self.ended.done():
                        self._write(encode(Channel.GOODBYE, []))
                    await asyncio.shield(self.ended)
        if self.ended.done() and self._closing is not None:
            await asyncio.shield(self._closing)
        else:
            await self.kill()

    async def kill(self) -> None:
        """End the sandbox; returns when every process of it is gone. Idempotent."""
        self._end(DeathCause("killed"))
        await self.container.kill()
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _tick(self) -> None:
        """Ping; notice a guest that says nothing, unless it is us who were asleep."""
        now = self._loop.time()
        if now - self._tick_due > PING_INTERVAL:
            # This process was stopped or starved: the guest gets its time anew.
            self._heard = now
        if now - self._heard > PING_PATIENCE and self._heard_hello:
            silence = f"the guest said nothing for {now - self._heard:.0f} s"
            self._end(DeathCause("vanished", detail=silence))
            return
        if self._ping is None and self._heard_hello:
            self._ping = os.urandom(8)
            self._write(encode(Channel.PING, [self._ping]))
        self._tick_due = now + PING_INTERVAL
        self._timer = self._loop.call_at(self._tick_due, self._tick)


async def launch(backend: Backend, spec: SandboxSpec, said: Said = silent) -> Container:
    """Start a container and tell its guest what to run. Raises SandboxError."""
    container = await backend.start(spec, said)
    await greet(container, backend, spec)
    return container


async def greet(container: Container, backend: Backend, spec: SandboxSpec) -> None:
    """Tell the guest of a started container what to run. Raises SandboxError."""
    settings = json.dumps(settings_for(spec, container.workspace, backend.isolated)).encode()
    hello = encode(Channel.HELLO, [str(PROTOCOL).encode(), settings])
    container.stream.setblocking(False)
    try:
        sent = container.stream.send(hello)
    except OSError as error:
        await container.kill()
        raise SandboxError(f"The sandbox ended as soon as it was started: {error}.") from error
    if sent != len(hello):
        # It fits into any socket's buffer many times over, unless the settings are absurd.
        await container.kill()
        raise SandboxError(
            f"The sandbox's settings are {len(hello):,} bytes, more than its stream takes at once. "
            "Shorten the environment's variables."
        )


def settings_for(spec: SandboxSpec, workspace: str, isolated: bool) -> dict[str, Any]:
    """The settings the guest hears first (`guest.settings.Settings`)."""
    kernel, limits = spec.kernel, spec.limits
    return {
        "argv": list(kernel.argv),
        "name": kernel.name,
        "language": kernel.language,
        "interrupt_mode": kernel.interrupt_mode,
        "env": dict(kernel.env),
        "resource_dir": kernel.resource_dir,
        "workspace": workspace,
        "cwd": spec.cwd,
        "isolated": isolated,
        "memory": limits.memory,
        "processes": limits.processes,
        "open_files": limits.open_files,
        "message": limits.message,
        "in_memory": _in_memory(spec, workspace) if isolated else [],
        # Without isolation the proxy would stand on this machine's own loopback, open to all of its
        # users, and hold nothing back: the process has the machine's network.
        "network": asdict(spec.network) if isolated and spec.network is not None else None,
    }


def _in_memory(spec: SandboxSpec, workspace: str) -> list[str]:
    """Folders whose files lie in memory. Data that is mounted at one of them lies on a disk."""
    data = {mount.target for mount in spec.mounts}
    mounted = [place for place in MOUNT_PLACES if place not in data]
    return [workspace, "/tmp", "/dev/shm", *mounted]  # noqa: S108


def describe(cause: DeathCause) -> str:
    """One clause for people: why it ended."""
    match cause.what:
        case "memory":
            of = f" of {cause.limit:,} bytes" if cause.limit else ""
            return f"it went over its memory limit{of}"
        case "signal":
            return f"signal {cause.signal}"
        case "exit":
            return f"exit code {cause.code}"
        case "violation":
            return f"it broke the protocol: {cause.detail}"
        case "killed":
            return "it was ended by Reprise"
        case "vanished":
            return f"it vanished: {cause.detail}" if cause.detail else "it vanished"


def _json_object(data: bytes) -> dict[str, Any]:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise FrameError("a body that is not JSON") from None
    if not isinstance(body, dict):
        raise FrameError("a body that is not a JSON object")
    return body


def _death_cause(body: Mapping[str, Any]) -> DeathCause:
    what = body.get("what")
    numbers = {
        name: value
        for name in ("signal", "code", "limit")
        if isinstance(value := body.get(name), int) and abs(value) < 1 << 63
    }
    detail = str(body.get("detail", ""))[:4096]
    match what:
        case "memory" | "signal" | "exit":
            return DeathCause(what, detail=detail, **numbers)
        case _:
            raise FrameError("a death without a cause")
