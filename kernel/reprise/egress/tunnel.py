"""One tunnel at the host's end: a byte stream over TUNNEL frames, with a window each way.

Everything a guest may send in it is checked here (`sandbox.contract`: TUNNEL); what is against the
rules raises FrameError, which ends the sandbox.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections import deque
from collections.abc import Callable

from reprise.egress.contract import Over, StreamGone
from reprise.sandbox.contract import TUNNEL_WINDOW
from reprise.sandbox.frames import FrameError, encode_id

#: Most bytes of one data frame (`sandbox.contract`).
MAX_DATA = 64 << 10

#: Sends a frame of a tunnel: (id, verb, data).
Send = Callable[[bytes, bytes, bytes], None]

#: Told of bytes that pass, (up, down); raises Over.
Count = Callable[[int, int], None]

_U32 = struct.Struct(">I")


class Tunnel:
    """A `ByteStream` whose other end is a program in the sandbox.

    accepted: whether `accept` was called.  over: whether we have ended it, and send nothing more;
    the guest may not have heard yet, and `closed` is set once it has.  was_cut: set when it ended
    before both ways had; `gone` says why.
    """

    def __init__(self, number: int, send: Send, count: Count) -> None:
        self.number = number
        self.accepted = False
        self.over = False
        self.closed = asyncio.Event()
        self.was_cut = asyncio.Event()
        self.gone: StreamGone | None = None
        self._id = encode_id(number)
        self._send = send
        self._count = count
        self._arrived: deque[bytes] = deque()
        self._held = 0
        self._received_end = False
        self._sent_end = False
        #: Bytes that the guest may still send, and that we owe it back; that we may still send.
        self._window = TUNNEL_WINDOW
        self._owed = 0
        self._room = TUNNEL_WINDOW
        self._changed = asyncio.Event()

    # What the guest sends ---------------------------------------------------------------------

    def data(self, data: bytes) -> None:
        self._must_be_open()
        if not data or len(data) > MAX_DATA:
            raise FrameError(f"{len(data)} bytes of a tunnel's data at once")
        if len(data) > self._window:
            raise FrameError("a tunnel's data sent without window")
        self._window -= len(data)
        if self.over:
            return
        self._arrived.append(data)
        self._held += len(data)
        self._changed.set()

    def window(self, data: bytes) -> None:
        if not self.accepted:
            raise FrameError("a window of a tunnel that was not accepted")
        if len(data) != 4:
            raise FrameError("a malformed window of a tunnel")
        (more,) = _U32.unpack(data)
        if not more or self._room + more > TUNNEL_WINDOW:
            raise FrameError("a window of a tunnel that was never used")
        self._room += more
        self._changed.set()

    def ended(self) -> None:
        self._must_be_open()
        self._received_end = True
        self._changed.set()

    def _must_be_open(self) -> None:
        if not self.accepted:
            raise FrameError("data of a tunnel that was not accepted")
        if self._received_end:
            raise FrameError("data after a tunnel's end")

    def cut(self, error: StreamGone) -> None:
        """It is over: whoever reads or writes hears this error; what arrived is dropped."""
        if self.gone is None:
            self.gone = error
        self._arrived.clear()
        self._held = 0
        self.over = True
        self.was_cut.set()
        self._changed.set()

    def finished(self) -> None:
        """The guest says that it is over. What it said before its end is still read."""
        if self._received_end and self._sent_end and not self.over:
            self.over = True
            self._send(self._id, b"x", b"")
        else:
            self.abort()
        self.closed.set()

    # What we answer ---------------------------------------------------------------------------

    def accept(self) -> None:
        if self.over:
            raise self.gone or StreamGone("the tunnel is over")
        self.accepted = True
        self._send(self._id, b"a", b"")

    def refuse(self, status: int, text: str) -> None:
        if self.over:
            return
        body = json.dumps({"status": status, "text": text}).encode()
        self._send(self._id, b"r", body)
        self.cut(StreamGone("the tunnel was refused"))

    # ByteStream -------------------------------------------------------------------------------

    async def read(self, most: int = 65536) -> bytes:
        while not self._arrived:
            if self.gone is not None:
                raise self.gone
            if self._received_end:
                return b""
            self._changed.clear()
            await self._changed.wait()
        if self.gone is not None:
            raise self.gone
        data = self._arrived.popleft()
        if len(data) > most:
            self._arrived.appendleft(data[most:])
            data = data[:most]
        self._held -= len(data)
        self._counted(len(data), 0)
        self._owed += len(data)
        if self._owed * 4 >= TUNNEL_WINDOW and not (self._received_end or self.over):
            self._send(self._id, b"w", _U32.pack(self._owed))
            self._window += self._owed
            self._owed = 0
        return data

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self.gone is not None:
                raise self.gone
            if self._sent_end:
                raise StreamGone("the tunnel has been ended")
            if not self._room:
                self._changed.clear()
                await self._changed.wait()
                continue
            part = view[: min(MAX_DATA, self._room)]
            self._counted(0, len(part))
            self._room -= len(part)
            self._send(self._id, b"d", bytes(part))
            view = view[len(part) :]

    @property
    def ended_here(self) -> bool:
        """Whether we have said that we send no more."""
        return self._sent_end

    async def end(self) -> None:
        if self.gone is not None:
            raise self.gone
        if not self._sent_end:
            self._sent_end = True
            self._send(self._id, b"e", b"")

    def abort(self) -> None:
        self.ended_by(StreamGone("the connection was cut"))

    def ended_by(self, error: StreamGone) -> None:
        """Cut it, and tell the guest; whoever reads or writes hears this error."""
        if not self.over:
            self._send(self._id, b"x", b"")
            self.cut(error)

    def _counted(self, up: int, down: int) -> None:
        try:
            self._count(up, down)
        except Over as error:
            self.ended_by(error)
            raise
