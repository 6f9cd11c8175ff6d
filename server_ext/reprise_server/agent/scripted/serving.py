"""One connection of the scripted model: requests read, answers and streams written, breaks made."""

from __future__ import annotations

import json
import select
import socket
import struct
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, Protocol

from reprise_server.agent.scripted import event_stream, wire
from reprise_server.agent.scripted.exchange import Ended, Exchange, Request
from reprise_server.agent.scripted.replies import Break, Failure, Raw, Reply

#: The API's own bound of a request.
MAX_BODY: Final = 32 << 20
_SSE: Final = "text/event-stream; charset=utf-8"


@dataclass(frozen=True)
class Json:
    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False

    @classmethod
    def of(cls, failure: Failure) -> Json:
        return cls(failure.status, failure.body, failure.headers, failure.hang_up)


@dataclass(frozen=True)
class Raws:
    """Bytes that the script wants sent as they are."""

    exchange: Exchange
    raw: Raw


@dataclass(frozen=True)
class Replied:
    """A reply of the script. whole: without a stream.  aws: in Amazon's event stream."""

    exchange: Exchange
    reply: Reply
    message: wire.Message
    whole: bool
    aws: bool


Answer = Json | Raws | Replied


class Answering(Protocol):
    """What a connection asks for answers, and tells how they ended."""

    @property
    def closing(self) -> threading.Event: ...

    def answer(self, request: Request, keys: set[str]) -> Answer: ...

    def begin(self, exchange: Exchange) -> None: ...

    def ended(self, exchange: Exchange, how: Ended) -> None: ...


class _Gone(Exception):
    """The client closed the connection."""


def handler(server: Answering) -> type[BaseHTTPRequestHandler]:
    """The class whose objects serve the connections of `server`."""

    class Handler(_Handler):
        model = server

    return Handler


class _Handler(BaseHTTPRequestHandler):
    model: Answering
    protocol_version = "HTTP/1.1"
    # A client that asks and waits on one connection must not wait for Nagle.
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self._serve()

    def do_GET(self) -> None:
        self._serve()

    def _serve(self) -> None:
        said = self.headers.get("content-length", "0")
        if not (said.isascii() and said.isdigit() and len(said) < len(str(MAX_BODY)) + 1):
            self.close_connection = True
            message = "content-length: a number of bytes is needed"
            self._send(Json(400, wire.error_event("invalid_request_error", message)))
            return
        length = int(said)
        if length > MAX_BODY:
            self.close_connection = True
            message = "Request exceeds the maximum size"
            self._send(Json(413, wire.error_event("request_too_large", message)))
            return
        body = _parsed(self.rfile.read(length))
        headers = {name.lower(): value for name, value in self.headers.items()}
        keys = set()
        if given := headers.pop("x-api-key", None):
            keys.add(given)
        if given := headers.pop("authorization", None):
            keys.add(given.removeprefix("Bearer "))
        path = self.path.partition("?")[0]
        answer = self.model.answer(Request(self.command, path, headers, body), keys)
        try:
            if isinstance(answer, Json):
                self._send(answer)
            elif isinstance(answer, Raws):
                self._raw(answer)
            else:
                self._answer(answer)
        except (_Gone, BrokenPipeError, ConnectionResetError):
            self.close_connection = True
            if not isinstance(answer, Json):
                self.model.ended(answer.exchange, "gone")

    def _send(self, answer: Json) -> None:
        if answer.hang_up:
            self.close_connection = True
            return
        number = wire.drawn("req")
        told = {**answer.body, "request_id": number} if answer.status >= 400 else answer.body
        data = json.dumps(told).encode()
        self._begin(answer.status, "application/json", number, answer.headers, len(data))
        self.wfile.write(data)

    def _begin(
        self,
        status: int,
        content_type: str,
        number: str,
        headers: Mapping[str, str],
        length: int | None,
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", content_type)
        if length is None:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(length))
        self.send_header("request-id", number)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _raw(self, answer: Raws) -> None:
        self.model.begin(answer.exchange)
        self._begin(200, answer.raw.content_type, wire.drawn("req"), {}, None)
        if answer.raw.body:
            self._chunk(answer.raw.body)
        self._chunk(b"")
        self.model.ended(answer.exchange, "broken")

    def _answer(self, stream: Replied) -> None:
        exchange = stream.exchange
        exchange.answer = wire.whole(stream.message)
        if stream.whole:
            broken = stream.reply.broken
            if broken is not None and not self._whole_break(broken):
                self.model.ended(exchange, "broken")
                return
            self.model.begin(exchange)
            self._send(Json(200, exchange.answer))
            self.model.ended(exchange, "whole")
            return
        content_type = event_stream.CONTENT_TYPE if stream.aws else _SSE
        self._begin(200, content_type, wire.drawn("req"), {}, None)
        broken_off = self._stream(stream)
        self.model.ended(exchange, "broken" if broken_off else "whole")

    def _whole_break(self, broken: Break) -> bool:
        """A break of an answer without a stream. True when it is sent nevertheless."""
        if broken.how == "hold":
            self._hold(broken)
            return True
        if broken.how == "reset":
            self._reset()
        elif broken.how == "error":
            body = wire.error_event(broken.kind, broken.message)
            self._send(Json(529 if broken.kind == "overloaded_error" else 500, body))
        else:
            self.close_connection = True
        return False

    def _stream(self, stream: Replied) -> bool:
        """Write the events. True when it broke off, as the script wanted."""
        reply = stream.reply
        broken = reply.broken
        for number, event in enumerate(wire.events(stream.message)):
            if broken is not None and number == broken.after and not self._broken(stream, broken):
                return True
            if number == 0:
                self.model.begin(stream.exchange)
            elif reply.pings and (number - 2) % reply.pings == 0 and not stream.aws:
                self._piece(wire.sse({"type": "ping"}), reply)
            self._look()
            if reply.pause and self.model.closing.wait(reply.pause):
                raise _Gone
            self._piece(event_stream.chunk(event) if stream.aws else wire.sse(event), reply)
        self._chunk(b"")
        return False

    def _broken(self, stream: Replied, broken: Break) -> bool:
        """What goes wrong at this place. True when the stream goes on after it."""
        if broken.how == "hold":
            self._hold(broken)
            return True
        if broken.how == "reset":
            self._reset()
            return False
        if broken.how == "error":
            if stream.aws:
                self._chunk(event_stream.exception("modelStreamErrorException", broken.message))
            else:
                self._chunk(wire.sse(wire.error_event(broken.kind, broken.message)))
        self._chunk(b"")
        return False

    def _hold(self, broken: Break) -> None:
        if broken.hold is None:
            raise ValueError("A break by holding needs its Hold.")
        broken.hold.reached.set()
        while not broken.hold.go.wait(0.02):
            self._look()
            if self.model.closing.is_set():
                raise _Gone

    def _look(self) -> None:
        """Raises _Gone when the client has closed: it sends nothing while it is answered."""
        readable, _, _ = select.select([self.connection], [], [], 0)
        if readable and not self.connection.recv(1, socket.MSG_PEEK):
            raise _Gone

    def _reset(self) -> None:
        """Tear the connection: the client gets a reset, not an end."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _piece(self, data: bytes, reply: Reply) -> None:
        for part in _cut(data, reply.ragged):
            self._chunk(part)

    def _chunk(self, data: bytes) -> None:
        """One chunk of the body; the empty one ends it."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def log_message(self, *args: Any) -> None:
        """Not on the terminal; `requests` has them."""


def _parsed(raw: bytes) -> Any:
    """None for what is no JSON, which the checks refuse as such; so are NaN and its like."""
    try:
        return json.loads(raw, parse_constant=_no_number)
    except ValueError:
        return None


def _no_number(name: str) -> None:
    raise ValueError(name)


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    if not size:
        yield data
        return
    for start in range(0, len(data), size):
        yield data[start : start + size]
