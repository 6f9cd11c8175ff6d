"""The guest's loop: one thread that serves stream, language kernel and limits, never blocking."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import zmq

from reprise.guest import cut, venv, watch
from reprise.guest.calls import EXPECTED, WRONG, kind_and_message, perform
from reprise.guest.commands import Commands
from reprise.guest.files import Files
from reprise.guest.language import LanguageKernel, end_tree, reap_all
from reprise.guest.network import Listener
from reprise.guest.proxy import Proxy
from reprise.guest.relay import Relay
from reprise.guest.settings import Settings
from reprise.guest.stream import Stream, StreamClosed
from reprise.guest.tree import descendants, others_in_namespace
from reprise.sandbox.frames import MAX_BODY, PROTOCOL, Channel, Frame

#: Output waiting for the host above which the language kernel is stopped, and below which it
#: goes on, in bytes.
PAUSE_ABOVE = 16 << 20
RESUME_BELOW = 4 << 20

#: How much more an interrupted kernel may say before it is stopped again: enough to raise.
_INTERRUPT_ROOM = 8 << 20

#: Seconds between two looks at the tree's memory.
_WATCH_INTERVAL = 0.2

#: Milliseconds of silence after which an ended kernel's sockets count as empty.
_DRAIN_SILENCE = 20

#: Seconds that the news of a death waits for output the host has given no credit for yet.
_DEATH_PATIENCE = 10.0

#: The end of what the language kernel wrote to its own stdout and stderr is kept for its death
#: report; bytes.
_TAIL = 4096


#: Seconds after which nobody is still bringing in an upload.
_ABANDONED = 3600.0

_MESSAGES = (Channel.SHELL, Channel.CONTROL, Channel.STDIN)


def _wake_up(_number: int, _frame: object) -> None:
    """SIGCHLD needs a handler, or the wakeup descriptor hears nothing of it."""


class Service:
    """Everything the guest does once the language kernel has been started."""

    def __init__(
        self,
        stream: Stream,
        settings: Settings,
        language: LanguageKernel,
        proxy: list[Listener] | None = None,
    ) -> None:
        self._stream = stream
        self._settings = settings
        self._language = language
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context(io_threads=1)
        self._poller = zmq.Poller()
        self._pending: dict[Channel, deque[Frame]] = {channel: deque() for channel in _MESSAGES}
        self._restarting: list[bytes] = []
        self._death: dict[str, Any] | None = None
        self._death_due = 0.0
        self._memory_used: int | None = None
        self._pause_above = PAUSE_ABOVE
        self._tail = b""
        self._next_watch = 0.0
        self._in_memory = watch.in_memory(settings.in_memory)
        self._message_limit = settings.message or MAX_BODY[Channel.IOPUB]
        self._skeleton = {
            f"{venv.FOLDER}/{path}": (kind, text)
            for path, kind, text in (
                venv.skeleton(settings.argv[0])
                if settings.isolated and settings.language == "python"
                else []
            )
        }
        self._files = Files(settings.workspace, self._is_skeleton)
        if not settings.isolated:
            self._files.clear_stages(_ABANDONED)
        self._commands = Commands(
            settings,
            language,
            self._files,
            stream,
            self._poller,
            self._answer_run,
            self._answer,
            self._refuse,
        )
        self._proxy = None if proxy is None else Proxy(proxy, stream, self._poller)
        self._relay = self._connect()
        self._woken, wake = socket.socketpair()
        self._woken.setblocking(False)
        wake.setblocking(False)
        self._wake = wake
        signal.signal(signal.SIGCHLD, _wake_up)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def _connect(self) -> Relay:
        relay = Relay(
            self._context,
            self._poller,
            self._language.endpoint,
            self._language.key,
            self._deliver,
        )
        relay.ask_kernel_info()
        self._poller.register(self._language.output, zmq.POLLIN)
        return relay

    # The loop

    def run(self) -> None:
        """Serve until the host goes away (StreamClosed)."""
        self._poller.register(self._woken.fileno(), zmq.POLLIN)
        stream = self._stream
        waiting_flags = 0
        self._reap()  # it may have died before anyone listened for SIGCHLD
        while True:
            flags = zmq.POLLIN | (zmq.POLLOUT if stream.writable_wanted else 0)
            if flags != waiting_flags:
                self._poller.register(stream.fileno(), flags)
                waiting_flags = flags
            for source, event in self._poller.poll(self._timeout()):
                if source == stream.fileno():
                    if event & zmq.POLLOUT:
                        stream.flush()
                    if event & ~zmq.POLLOUT:
                        for frame in stream.receive():
                            self.take(frame)
                elif source == self._language.output:
                    self._read_tail()
                elif source == self._woken.fileno():
                    self._drain_wakeups()
                    self._reap()
                elif self._proxy is not None and self._proxy.owns(source):
                    self._proxy.handle(source, event)
                elif isinstance(source, int):
                    self._commands.handle(source)
                elif not source.closed:
                    self._relay.readable(source)
            self._after()

    def _timeout(self) -> int | None:
        waits = [self._commands.timeout()]
        if any(self._pending.values()):
            waits.append(5)  # there is no event for room in a socket that we also read from
        elif self._death is not None or self._language.stopped:
            waits.append(20)
        elif self._settings.memory and self._language.pid:
            waits.append(max(0, int((self._next_watch - time.monotonic()) * 1000) + 1))
        left = self._stream.wait_for_word()
        if left is not None:
            waits.append(int(left * 1000) + 1)
        return min((wait for wait in waits if wait is not None), default=None)

    def _after(self) -> None:
        self._forward_pending()
        self._commands.after()
        if self._proxy is not None:
            self._proxy.after()
        if self._relay.kernel_info is not None:
            self._announce(self._relay.kernel_info)
            self._relay.kernel_info = None
        if self._language.stopped and self._stream.queued(Channel.IOPUB) < RESUME_BELOW:
            self._pause_above = PAUSE_ABOVE
            self._language.unpause()
        if self._death is not None:
            self._tell_death()
        elif self._settings.memory and time.monotonic() >= self._next_watch:
            self._watch_memory()

    def take(self, frame: Frame) -> None:
        """Do what one frame of the host asks."""
        channel = frame.channel
        if channel in _MESSAGES:
            pending = self._pending[channel]
            if pending or not self._forward(frame):
                pending.append(frame)
        elif channel is Channel.CALL:
            self._call(frame.parts)
            self._stream.consume(frame)
        elif channel is Channel.TUNNEL:
            if self._proxy is not None:
                self._proxy.take(frame.parts)
            self._stream.consume(frame)
        elif channel is Channel.PING:
            self._stream.send(Channel.PONG, frame.parts)
        elif channel is Channel.GOODBYE:
            raise StreamClosed("the host said goodbye")

    def _forward(self, frame: Frame) -> bool:
        if not self._relay.forward(frame.channel, frame.parts):
            return False
        self._stream.consume(frame)
        return True

    def _forward_pending(self) -> None:
        for pending in self._pending.values():
            while pending and self._forward(pending[0]):
                pending.popleft()

    # What comes out of the language kernel

    def _deliver(self, channel: Channel, parts: list[bytes]) -> None:
        size = sum(map(len, parts))
        if channel is Channel.IOPUB:
            if size > self._message_limit or len(parts) > 4000:
                parts = [parts[0][:1024], *cut.cut(parts[1:], self._message_limit)]
            self._stream.send(channel, parts)
            if not self._language.stopped and self._stream.queued(channel) > self._pause_above:
                self._language.pause()
            return
        bound = MAX_BODY[channel] - (1 << 16)
        if size > bound or len(parts) > 4000:
            parts = [parts[0], *cut.refuse_reply(parts[1:], bound)]
        self._stream.send(channel, parts)

    def _announce(self, content: bytes) -> None:
        try:
            info = json.loads(content)
        except ValueError:
            info = {}
        event = {"event": "ready", "kernel_info": info, "protocol": PROTOCOL}
        self._stream.send(Channel.EVENT, [json.dumps(event).encode()])
        for call in self._restarting:
            self._answer(call, {"kernel_info": info})
        self._restarting.clear()

    def _read_tail(self) -> None:
        try:
            data = os.read(self._language.output, 1 << 16)
        except BlockingIOError:
            return
        if not data:
            self._poller.unregister(self._language.output)
            return
        self._tail = (self._tail + data)[-_TAIL:]

    # Life and death

    def _drain_wakeups(self) -> None:
        try:
            while self._woken.recv(4096):
                pass
        except BlockingIOError:
            return

    def _reap(self) -> None:
        for pid, status in reap_all(os.WUNTRACED):
            if os.WIFSTOPPED(status):
                self._commands.stopped(pid)
            elif pid == self._language.pid:
                self._died(status)
            else:
                self._commands.reaped(pid, status)

    def _died(self, status: int) -> None:
        """The language kernel ended by itself: keep what it said, then tell."""
        self._language.pid = 0
        self._language.stopped = False
        self._relay.drain(_DRAIN_SILENCE)
        self._read_last_tail()
        event: dict[str, Any] = {"event": "died"}
        if self._memory_used is not None:
            event |= {"what": "memory", "limit": self._settings.memory, "used": self._memory_used}
            self._tail += b"\n%d bytes were in use" % self._memory_used
        elif os.WIFSIGNALED(status):
            event |= {"what": "signal", "signal": os.WTERMSIG(status)}
        else:
            event |= {"what": "exit", "code": os.waitstatus_to_exitcode(status)}
        event["detail"] = self._tail.decode("utf-8", "replace")
        self._death = event
        self._death_due = time.monotonic() + _DEATH_PATIENCE
        for call in self._restarting:
            self._refuse(call, "died", "the language kernel ended while it started again")
        self._restarting.clear()

    def _read_last_tail(self) -> None:
        try:
            while data := os.read(self._language.output, 1 << 16):
                self._tail = (self._tail + data)[-_TAIL:]
        except BlockingIOError:
            return

    def _tell_death(self) -> None:
        late = time.monotonic() >= self._death_due
        if self._death and (late or not self._stream.queued(Channel.IOPUB)):
            self._stream.send(Channel.EVENT, [json.dumps(self._death).encode()])
            self._death = None

    def _watch_memory(self) -> None:
        self._next_watch = time.monotonic() + _WATCH_INTERVAL
        if not self._language.pid:
            return
        # Where the file systems lie in memory, what is in them counts.
        files = watch.filled(self._in_memory)
        used = watch.over(self._tree(), self._settings.memory, files)
        if used is not None:
            self._memory_used = used
            self._language.kill()

    def _tree(self) -> list[int]:
        if self._settings.isolated:
            return others_in_namespace()
        return descendants(os.getpid())

    def _restart(self, call: bytes) -> None:
        self._poller.unregister(self._language.output)
        self._relay.close()
        self._language.end()
        self._commands.all_killed()
        for pending in self._pending.values():
            pending.clear()
        self._death = None
        self._memory_used = None
        self._tail = b""
        self._restarting.append(call)
        self._language.start()
        self._relay = self._connect()

    # Calls

    def _call(self, parts: list[bytes]) -> None:
        call = parts[0]
        try:
            arguments = json.loads(parts[1])
            name = arguments.pop("call")
            match name:
                # Answered later.
                case "restart_kernel":
                    self._restart(call)
                case "run":
                    self._commands.run(call, arguments, parts[2:])
                case "signal_command":
                    self._commands.signal(call, arguments)
                case _:
                    answer, data = self._perform(name, arguments, parts[2:])
                    self._answer(call, answer, data)
        except (*EXPECTED, *WRONG) as error:
            self._refuse(call, *kind_and_message(error))

    def _perform(
        self, name: str, arguments: dict[str, Any], data: list[bytes]
    ) -> tuple[dict[str, Any], list[bytes]]:
        match name:
            case "ping":
                return {}, []
            case "interrupt":
                self._interrupt()
                return {}, []
            case "commands":
                return {"commands": self._commands.listed()}, []
            case "programs":
                names = arguments["names"]
                return {"found": [name for name in names if self._language.finds(name)]}, []
            case "usage":
                tree = self._tree()
                used = watch.filled([self._settings.workspace]) if self._settings.isolated else 0
                return {
                    "memory": watch.proportional(tree),
                    "files": watch.filled(self._in_memory),
                    "processes": len(tree),
                    "workspace": used,
                }, []
            case _:
                return perform(self._files, name, arguments, data)

    def _interrupt(self) -> None:
        if self._settings.interrupt_mode == "message":
            self._relay.request_interrupt()
        else:
            self._language.interrupt()
        if self._language.stopped:
            # It must run to notice; give it room so that it is not stopped again at once.
            self._pause_above = self._stream.queued(Channel.IOPUB) + _INTERRUPT_ROOM
            self._language.unpause()

    def _answer(self, call: bytes, answer: dict[str, Any], data: Sequence[bytes] = ()) -> None:
        body = json.dumps({"ok": True, **answer}).encode()
        self._stream.send(Channel.ANSWER, [call, body, *data])

    def _answer_run(self, call: bytes, answer: dict[str, Any]) -> None:
        """Not before all that the command wrote has gone to the host."""
        body = json.dumps({"ok": True, **answer}).encode()
        self._stream.send(Channel.ANSWER, [call, body], behind=Channel.COMMAND)

    def _refuse(self, call: bytes, kind: str, message: str) -> None:
        body = json.dumps({"ok": False, "error": message, "kind": kind}).encode()
        self._stream.send(Channel.ANSWER, [call, body])

    def _is_skeleton(self, path: str) -> bool:
        """Whether a path is an untouched part of the session's empty Python environment."""
        made = self._skeleton.get(path)
        if made is None:
            return False
        kind, text = made
        full = os.path.join(self._settings.workspace, path)
        try:
            if kind == "link":
                return os.readlink(full) == text
            with open(full, encoding="utf-8", errors="surrogateescape") as file:
                return file.read(len(text) + 1) == text
        except OSError:
            return False


def serve(
    stream: Stream,
    settings: Settings,
    language: LanguageKernel,
    early: Sequence[Frame] = (),
    proxy: list[Listener] | None = None,
) -> None:
    """Serve until the host goes away, then end everything below us.

    early: frames that came before there was a service.  proxy: where programs connect to.
    """
    try:
        service = Service(stream, settings, language, proxy)
        for frame in early:
            service.take(frame)
        service.run()
    finally:
        language.forget()
        end_tree(settings.isolated)
