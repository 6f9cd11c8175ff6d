"""Bytes of a stream of server-sent events, cut into events of bounded size (pure).

Written anew since the SDK's decoder keeps what comes until a blank line does, whatever its size.
The format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Of one event. The API's own are below 100 kB: one holds a few tokens, or a signature.
MAX_EVENT: Final = 4 << 20
#: Of one answer on the wire. An event takes some 120 bytes around each few characters; the longest
#: answers (128,000 tokens) stay below 30 MB.
MAX_STREAM: Final = 64 << 20


class BadStream(ValueError):
    """The stream is none that the API would send, or is over its bound."""


@dataclass(frozen=True)
class Event:
    """name: of its `event:` line, "" without one.  data: its `data:` lines, joined."""

    name: str
    data: str


class Events:
    """Takes bytes as they come and gives the events that are whole: `feed(bytes) -> [Event]`."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0
        self._total = 0
        self._after_return = False

    def feed(self, data: bytes) -> list[Event]:
        """Raises BadStream."""
        self._total += len(data)
        if self._total > MAX_STREAM:
            raise BadStream(f"The answer is over {MAX_STREAM >> 20} MiB")
        found: list[Event] = []
        for byte_line in self._lines(data):
            event = self._line(byte_line)
            if event is not None:
                found.append(event)
        return found

    def _lines(self, data: bytes) -> list[bytes]:
        """Whole lines, which end with LF, CR or CR LF; a CR at the end may be half of a CR LF."""
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
        if data:
            self._after_return = data.endswith(b"\r")
        self._rest += data
        if not (b"\n" in data or b"\r" in data):
            if len(self._rest) + self._size > MAX_EVENT:
                raise BadStream(f"One event is over {MAX_EVENT >> 20} MiB")
            return []
        lines = bytes(self._rest).splitlines(keepends=True)
        # bytes.splitlines splits at \n, \r and \r\n only, as the format does.
        self._rest.clear()
        if lines and not lines[-1].endswith((b"\n", b"\r")):
            self._rest += lines.pop()
            if len(self._rest) > MAX_EVENT:
                raise BadStream(f"One event is over {MAX_EVENT >> 20} MiB")
        return [line.rstrip(b"\r\n") for line in lines]

    def _line(self, line: bytes) -> Event | None:
        if not line:
            return self._end()
        self._size += len(line)
        if self._size > MAX_EVENT:
            raise BadStream(f"One event is over {MAX_EVENT >> 20} MiB")
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value
        elif field == b"data":
            self._data.append(value)
        # A comment, an id, a retry time: nothing that is meant here.
        return None

    def _end(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data, self._size = b"", [], 0
        if not data:
            return None
        try:
            return Event(name.decode("utf-8"), b"\n".join(data).decode("utf-8"))
        except UnicodeDecodeError:
            raise BadStream("An event is no UTF-8") from None
