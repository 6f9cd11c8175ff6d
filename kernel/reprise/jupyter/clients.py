"""The clients of a kernel: their messages checked and heard, ours signed and sent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from reprise.jupyter.connection import Sockets
from reprise.jupyter.request import Request
from reprise.jupyter.static.screen import Screen
from reprise.jupyter.wire import Signer, join, split
from reprise.log.model import Json
from reprise.replay.message import Malformed, Message, make

log = logging.getLogger("reprise")


#: A client whose stdin is not connected yet is asked again after so many seconds, so many times.
ASK_AGAIN_S = 0.05
ASK_TRIES = 600


class Clients:
    """All that is connected to shell, control, stdin and iopub.

    received: called with each request on shell and control.
    answered: called with each answer on stdin: the client's identity, the message.
    screen: what all passes that came out of a sandbox.
    """

    def __init__(
        self,
        sockets: Sockets,
        signer: Signer,
        received: Callable[[Request], None],
        answered: Callable[[bytes, Message], None],
        screen: Screen,
    ) -> None:
        self._screen = screen
        self._signer = signer
        self._received = received
        self._answered = answered
        self._shell = sockets.listen("shell", lambda frames: self._request("shell", frames))
        self._control = sockets.listen("control", lambda frames: self._request("control", frames))
        self._stdin = sockets.listen("stdin", self._answer)
        self._iopub = sockets.listen("iopub", self._subscribed)

    # what we hear ----------------------------------------------------------------------------

    def _request(self, channel: str, frames: list[bytes]) -> None:
        try:
            idents, message = split(frames, self._signer)
        except Malformed as error:
            log.warning("A message on the %s channel was dropped: %s.", channel, error)
            return
        self._received(Request(channel, idents, message))

    def _answer(self, frames: list[bytes]) -> None:
        try:
            idents, message = split(frames, self._signer)
            message.content()
        except Malformed as error:
            log.warning("A message on the stdin channel was dropped: %s.", error)
            return
        if idents:
            self._answered(idents[0], message)

    def _subscribed(self, frames: list[bytes]) -> None:
        """Welcome a new iopub subscriber (JEP 65)."""
        event = frames[0]
        if event[:1] != b"\x01":
            return
        topic = event[1:]
        try:
            welcome = make("iopub_welcome", {"subscription": topic.decode()})
        except UnicodeDecodeError:
            return
        self._iopub.send(join([topic] if topic else [], welcome, self._signer))

    def drain(self) -> None:
        """Hear every request that has arrived on shell by now."""
        self._shell.drain()

    # what we say -----------------------------------------------------------------------------

    def show(self, message: Message, topic: bytes) -> None:
        """An iopub message of our own, to all."""
        self._iopub.send(join([topic], message, self._signer))

    def publish(self, message: Message, topic: bytes) -> None:
        """An iopub message that came out of a sandbox, to all, as far as they may have it."""
        shown = self._screen.output(message)
        if shown is not None:
            self.show(shown, topic)

    def status(self, request: Request, state: str) -> None:
        message = make("status", {"execution_state": state}, parent=request.message.raw_header)
        self.show(message, b"status")

    def answer(self, request: Request, message: Message) -> None:
        """A sandbox's reply, to the client that asked, on the channel where it asked."""
        reply, before = self._screen.reply(message, request.message.msg_type)
        if before is not None:
            self.show(before, b"stream.stderr")
        self._send(request, reply)

    def _send(self, request: Request, message: Message) -> None:
        socket = self._shell if request.channel == "shell" else self._control
        socket.send(join(request.idents, message, self._signer))

    def reply(self, request: Request, content: Mapping[str, Json], **metadata: Json) -> None:
        """A reply of our own making."""
        kind = request.message.msg_type.removesuffix("_request") + "_reply"
        parent = request.message.raw_header
        self._send(request, make(kind, content, parent=parent, metadata=metadata))

    def locally(self, request: Request, content: Mapping[str, Json]) -> None:
        """A whole answer in the language kernel's place: busy, reply, idle."""
        self.status(request, "busy")
        kind = request.message.msg_type.removesuffix("_request") + "_reply"
        self.answer(request, make(kind, content, parent=request.message.raw_header))
        self.status(request, "idle")

    def refuse(self, request: Request, error: Exception, *, busy: bool = True) -> None:
        """Answer a cell that was not run (or whose outcome could not be stored), and why."""
        name, text = type(error).__name__, str(error)
        parent = request.message.raw_header
        if busy:
            self.status(request, "busy")
        content: dict[str, Json] = {"ename": name, "evalue": text, "traceback": [f"{name}: {text}"]}
        self.show(make("error", content, parent=parent), b"error")
        reply = {"status": "error", "execution_count": 0, "user_expressions": {}, "payload": []}
        self.reply(request, {**reply, **content})
        self.status(request, "idle")

    def abort(self, request: Request) -> bool:
        """Answer a cell that is not run because one before it failed (as ipykernel does).

        False for what is never aborted: a step_request.
        """
        if request.message.msg_type != "execute_request":
            return False
        self.status(request, "busy")
        self.reply(request, {"status": "aborted"}, status="aborted")
        self.status(request, "idle")
        return True

    def ask(self, request: Request, message: Message, tries: int = ASK_TRIES) -> None:
        """An input_request, to the client whose cell asks, as soon as its stdin is connected."""
        asked = self.as_asked(message)
        if self._stdin.send(join(request.idents, asked, self._signer)):
            return
        if tries > 0:
            loop = asyncio.get_running_loop()
            loop.call_later(ASK_AGAIN_S, self.ask, request, message, tries - 1)
        else:
            log.warning("A cell asks for input, but its client has no stdin channel.")

    def as_asked(self, message: Message) -> Message:
        """An input_request as clients may have it. Raises Malformed."""
        return self._screen.question(message)

    def close(self) -> None:
        for socket in (self._shell, self._control, self._stdin, self._iopub):
            socket.close()
