"""One connection to one kernel process: requests go out, and what belongs to each comes back."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient

from reprise.client.alive import heart_stopped, kernel_pid, process_ended
from reprise.client.failures import ClientClosed, KernelGone, NoAnswer
from reprise.client.results import QUIET, Output, Reply
from reprise.errors import RepriseError, UnavailableError
from reprise.jupyter.sidecar import read_sidecar
from reprise.log.model import Json, canonical

log = logging.getLogger("reprise")

#: Seconds for what a kernel said last to arrive after its process has ended.
LAST_WORDS_S: Final = 0.3
#: Seconds that a step's `idle` may come after its reply. Both are sent together, on two sockets;
#: zmq drops an iopub message only when a reader is hopelessly behind.
IDLE_S: Final = 30.0

#: Seconds between two looks for something that nobody tells of.
LOOK_S: Final = 0.05
#: A connection file larger than this is none.
CONNECTION_BYTES: Final = 64 << 10

OnOutput = Callable[[Output], None]
#: Asked for input(): the prompt, and whether it is a password.
OnInput = Callable[[str, bool], Awaitable[str]]


@dataclass
class _Waiting:
    """A request on its way."""

    reply: asyncio.Future[Reply]
    on_output: OnOutput | None = None
    on_input: OnInput | None = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)


class Line:
    """Made by `open_line`. Use it on the event loop that opened it."""

    def __init__(
        self, client: AsyncKernelClient, context: zmq.asyncio.Context, connection: Path
    ) -> None:
        self.connection = connection
        self._session = client.session
        self._context = context
        identity = client.session.bsession
        self._sockets: dict[str, zmq.asyncio.Socket] = {
            "iopub": _asynchronous(client.connect_iopub()),
            "shell": _asynchronous(client.connect_shell(identity=identity)),
            "control": _asynchronous(client.connect_control(identity=identity)),
            "stdin": _asynchronous(client.connect_stdin(identity=identity)),
        }
        self._client = client
        self._waiting: dict[str, _Waiting] = {}
        self._heard = asyncio.Event()
        self._pid: int | None = None
        self._gone: RepriseError | None = None
        self._ended = asyncio.Event()
        self._tasks = {self._begin(self._read(name)) for name in self._sockets}
        #: Called with what belongs to no request of ours: notices, progress, others' outputs.
        self.on_other: Callable[[str, Mapping[str, Json]], None] | None = None

    async def agent_token(self, timeout_s: float) -> str:
        """What an agent's step must name. Raises NoAnswer, KernelGone."""
        return str((await self.said(timeout_s))["agent_token"])

    async def said(self, timeout_s: float) -> Mapping[str, Json]:
        """What the kernel says of itself in the file beside the connection file, its token too.

        It writes it when it has taken its session. Raises NoAnswer, KernelGone.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self.gone:
                    found = read_sidecar(self.connection)
                    # The file may be of the process before, until this one has its session.
                    pid = kernel_pid(self.connection)
                    if (
                        found is not None
                        and isinstance(found.get("agent_token"), str)
                        and pid is not None
                        and found.get("pid") == pid
                        and self._pid in (None, pid)
                    ):
                        return found
                    # Nobody tells of a file's being written.
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise NoAnswer(
                f"The kernel of {self.connection} left no token that an agent could show. Only a"
                " process of the same user on the same machine can act as one."
            ) from None
        raise KernelGone("The kernel has ended.")

    @property
    def gone(self) -> bool:
        return self._gone is not None

    # asking -------------------------------------------------------------------------------------

    async def ask(
        self,
        msg_type: str,
        content: Mapping[str, Json],
        *,
        channel: str = "control",
        timeout_s: float | None,
    ) -> Reply:
        """One request and its reply. Raises KernelGone, NoAnswer."""
        waiting = self._new()
        msg_id = await self._send(channel, msg_type, content, (), waiting)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting.reply
        except TimeoutError:
            raise NoAnswer(
                f"The kernel did not answer a {msg_type} within {timeout_s:g} s. It lives; ask"
                " again, or give it more time."
            ) from None
        finally:
            self._waiting.pop(msg_id, None)

    async def step(
        self,
        content: Mapping[str, Json],
        buffers: Sequence[bytes] = (),
        *,
        on_output: OnOutput | None = None,
        on_input: OnInput | None = None,
    ) -> Reply:
        """A step_request, to its reply and its idle. Raises KernelGone."""
        waiting = self._new(on_output, on_input)
        msg_id = await self._send("shell", "step_request", content, buffers, waiting)
        try:
            reply = await waiting.reply
            try:
                async with asyncio.timeout(IDLE_S):
                    await waiting.idle.wait()
            except TimeoutError:
                # Some of its output is lost with it; the record has all of it.
                raise KernelGone(
                    "The kernel answered, but the end of the step's output did not arrive."
                ) from None
            return reply
        finally:
            self._waiting.pop(msg_id, None)

    def _new(self, on_output: OnOutput | None = None, on_input: OnInput | None = None) -> _Waiting:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        return _Waiting(reply, on_output, on_input)

    async def _send(
        self,
        channel: str,
        msg_type: str,
        content: Mapping[str, Json],
        buffers: Sequence[bytes],
        waiting: _Waiting | None,
        parent: Mapping[str, Json] | None = None,
    ) -> str:
        if self._gone is not None:
            raise self._gone
        header = self._session.msg_header(msg_type)
        msg_id = str(header["msg_id"])
        frames = self._session.serialize(
            {
                "header": header,
                "parent_header": parent or {},
                "metadata": {},
                # ASCII, so that names of any bytes arrive as they are.
                "content": canonical(content),
            }
        )
        if waiting is not None:
            self._waiting[msg_id] = waiting
        try:
            await self._sockets[channel].send_multipart([*frames, *buffers])
        except zmq.ZMQError as error:
            self._waiting.pop(msg_id, None)
            # Closed meanwhile, by the kernel's end or by the caller.
            raise KernelGone(f"The kernel cannot be reached: {error}.") from error
        return msg_id

    # hearing ------------------------------------------------------------------------------------

    async def _read(self, name: str) -> None:
        socket = self._sockets[name]
        while True:
            frames = await socket.recv_multipart()
            try:
                _, frames = self._session.feed_identities(frames)
                message = self._session.deserialize(frames)
                self._take(name, message)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                log.warning("A message of the kernel on %s was dropped: %s", name, error)

    def _take(self, channel: str, message: Mapping[str, Any]) -> None:
        kind = str(message["header"]["msg_type"])
        content: Mapping[str, Json] = message["content"]
        if kind == "iopub_welcome":
            self._heard.set()
            return
        waiting = self._waiting.get(str(message["parent_header"].get("msg_id")))
        if waiting is None:
            if channel == "iopub" and self.on_other is not None:
                self.on_other(kind, content)
            return
        if channel in ("shell", "control"):
            if not waiting.reply.done():
                waiting.reply.set_result(Reply(content, _buffers(message)))
        elif channel == "stdin":
            if kind == "input_request":
                self._tasks.add(task := self._begin(self._answer(waiting, message)))
                task.add_done_callback(self._tasks.discard)
        elif kind == "status":
            if content.get("execution_state") == "idle":
                waiting.idle.set()
        elif kind not in QUIET and waiting.on_output is not None:
            metadata = message.get("metadata") or {}
            waiting.on_output(Output(kind, content, metadata, _buffers(message)))

    async def _answer(self, waiting: _Waiting, question: Mapping[str, Any]) -> None:
        content = question["content"]
        value = ""
        if waiting.on_input is not None:
            prompt, password = str(content.get("prompt", "")), content.get("password") is True
            value = await waiting.on_input(prompt, password)
        with suppress(RepriseError):  # the kernel is gone: the step's own wait tells
            await self._send("stdin", "input_reply", {"value": value}, (), None, question["header"])

    # beginning and end --------------------------------------------------------------------------

    async def ready(self, timeout_s: float) -> None:
        """Return when the kernel answers and we miss nothing of its iopub.

        Raises KernelGone, NoAnswer.
        """
        ended = self._begin(self._watch_heard())
        try:
            async with asyncio.timeout(timeout_s):
                await ended
        except TimeoutError:
            raise NoAnswer(
                f"The kernel of {self.connection} did not answer within {timeout_s:g} s of its"
                " start. `reprise doctor` says what this machine lacks."
            ) from None
        finally:
            ended.cancel()

    async def _watch_heard(self) -> None:
        await self.ask("kernel_info_request", {}, timeout_s=None)
        await self._heard.wait()

    def watch(self, pid: int | None, patience_s: float) -> None:
        """Notice the kernel's end from now on, by its process id or else its heartbeat."""
        self._pid = pid
        self._tasks.add(self._begin(self._watch(pid, patience_s)))

    async def _watch(self, pid: int | None, patience_s: float) -> None:
        if pid is not None:
            await process_ended(pid)
            text = f"The kernel process (pid {pid}) has ended."
        else:
            await heart_stopped(_asynchronous(self._client.connect_hb()), patience_s)
            text = f"The kernel did not answer its heartbeat for {patience_s:g} s."
        await asyncio.sleep(LAST_WORDS_S)
        self._end(KernelGone(f"{text} What was acknowledged is in the session's log."))

    def _end(self, why: RepriseError) -> None:
        if self._gone is None:
            self._gone = why
            self._ended.set()
        for waiting in self._waiting.values():
            if not waiting.reply.done():
                waiting.reply.set_exception(why)
            else:
                waiting.idle.set()

    def _begin(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        return task

    async def ended(self, timeout_s: float) -> None:
        """Return when the kernel has ended. Raises NoAnswer."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ended.wait()
        except TimeoutError:
            raise NoAnswer(f"The kernel did not end within {timeout_s:g} s.") from None

    async def close(self, why: RepriseError | None = None) -> None:
        """Close the sockets; whoever waits for an answer gets `why`."""
        self._end(why or ClientClosed("The client was closed. What ran is in the session's log."))
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._context.destroy(linger=0)


async def open_line(
    connection: Path, *, pid: int | None = None, timeout_s: float, heartbeat_s: float
) -> Line:
    """Connect to the kernel of a connection file; it may still be starting.

    pid: of its process, when the caller started it; else its sidecar says.
    Raises KernelGone when nothing serves the file, NoAnswer, UnavailableError.
    """
    found = pid or kernel_pid(connection)
    context = zmq.asyncio.Context()
    # No bound on what waits: what the kernel shows is bounded there, and a message that zmq drops
    # here would be one that a caller waits for.
    context.setsockopt(zmq.RCVHWM, 0)
    context.setsockopt(zmq.SNDHWM, 0)
    try:
        client = AsyncKernelClient(context=context)
        try:
            client.load_connection_info(json.loads(_read_file(connection)))
        except (OSError, ValueError, AttributeError, TypeError) as error:
            raise UnavailableError(
                f"The connection file {connection} cannot be used: {error}. Name one that a"
                " running kernel wrote (`jupyter --runtime-dir` says where they lie)."
            ) from error
        line = Line(client, context, connection)
    except BaseException:
        context.destroy(linger=0)
        raise
    try:
        line.watch(found, heartbeat_s)
        await line.ready(timeout_s)
    except BaseException:
        await line.close()
        raise
    return line


def _read_file(connection: Path) -> bytes:
    """A connection file is a few hundred bytes: reading it keeps nobody waiting."""
    with connection.open("rb") as file:
        return file.read(CONNECTION_BYTES)


def _asynchronous(socket: object) -> zmq.asyncio.Socket:
    """jupyter_client says `zmq.Socket`, whatever the context makes."""
    return cast(zmq.asyncio.Socket, socket)


def _buffers(message: Mapping[str, Any]) -> tuple[bytes, ...]:
    return tuple(bytes(buffer) for buffer in message.get("buffers") or ())
