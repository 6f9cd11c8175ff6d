"""The guest's end of the byte stream: frames in and out, credit on both sides, never blocking."""

from __future__ import annotations

import socket
import time
from collections import deque
from collections.abc import Sequence

from reprise.sandbox.frames import (
    WINDOWS,
    Channel,
    Decoder,
    Frame,
    FrameError,
    ReceiveCredit,
    SendCredit,
    decode_grant,
    encode,
    encode_grant,
)

_CHUNK = 1 << 18

#: Seconds without a word of the host after which it counts as gone where the end of its stream is
#: not seen. It pings every ten.
SILENCE = 60.0


class StreamClosed(Exception):
    """The host has gone, or said goodbye: the sandbox has no reason to live on."""


class Stream:
    """Frames over a connected socket.

    silence: seconds without a word of the host after which it counts as gone; None: never.
    `send` keeps what cannot go yet: per channel while the host has given no credit, and as
    bytes while the socket is full. `queued` says how much that is, so that the caller can stop
    producing.
    """

    def __init__(self, sock: socket.socket, silence: float | None = None) -> None:
        sock.setblocking(False)
        self._sock = sock
        self.silence = silence
        self._heard = time.monotonic()
        self._decoder = Decoder()
        self._send = {channel: SendCredit(window) for channel, window in WINDOWS.items()}
        self._receive = {channel: ReceiveCredit(window) for channel, window in WINDOWS.items()}
        self._waiting: dict[Channel, deque[tuple[Channel, bytes]]] = {
            channel: deque() for channel in WINDOWS
        }
        self._waiting_size = dict.fromkeys(WINDOWS, 0)
        self._out: deque[memoryview] = deque()
        self._out_size = 0

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def writable_wanted(self) -> bool:
        """Whether bytes wait for room in the socket."""
        return bool(self._out)

    def queued(self, channel: Channel) -> int:
        """Bytes of this channel's frames that wait for credit, and all that wait for the socket."""
        return self._waiting_size[channel] + self._out_size

    def receive(self) -> list[Frame]:
        """Frames that have arrived. Raises StreamClosed at the end of the stream."""
        try:
            data = self._sock.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return []
        except OSError as error:
            raise StreamClosed(str(error)) from error
        if not data:
            raise StreamClosed("the host closed the stream")
        self._heard = time.monotonic()
        found = []
        try:
            for frame in self._decoder.feed(data):
                if frame.channel is Channel.CREDIT:
                    channel, size = decode_grant(frame.parts)
                    self._send[channel].grant(size)
                    self._release(channel)
                    continue
                if frame.channel in self._receive:
                    self._receive[frame.channel].receive(frame.size)
                found.append(frame)
        except FrameError as error:
            raise StreamClosed(f"the host broke the protocol: {error}") from error
        return found

    def wait_for_word(self) -> float | None:
        """Seconds until a host that stays silent counts as gone; None: it never does.

        Raises StreamClosed when it does.
        """
        if self.silence is None:
            return None
        left = self._heard + self.silence - time.monotonic()
        if left <= 0 and not self._has_word():
            raise StreamClosed(f"the host said nothing for {self.silence:.0f} s")
        return max(left, 0.0)

    def _has_word(self) -> bool:
        """Whether something is there to receive: it came while we were stopped or starved."""
        try:
            return bool(self._sock.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True  # `receive` says what is the matter

    def consume(self, frame: Frame) -> None:
        """Give the frame's credit back: it was dealt with."""
        credit = self._receive[frame.channel]
        credit.consume(frame.size)
        if granted := credit.due():
            self._write(encode_grant(frame.channel, granted))

    def send(self, channel: Channel, parts: Sequence[bytes], behind: Channel | None = None) -> None:
        """Send a frame, or keep it until it can go.

        behind: it must not overtake what waits on this other channel now.
        """
        data = encode(channel, parts)
        if behind is not None and self._waiting[behind]:
            self._waiting[behind].append((channel, data))
            self._waiting_size[behind] += len(data)
        else:
            self._send_encoded(channel, data)

    def _send_encoded(self, channel: Channel, data: bytes) -> None:
        credit = self._send.get(channel)
        if credit is not None:
            if self._waiting[channel] or not credit.open():
                self._waiting[channel].append((channel, data))
                self._waiting_size[channel] += len(data)
                return
            credit.spend(len(data))
        self._write(data)

    def _release(self, channel: Channel) -> None:
        waiting, credit = self._waiting[channel], self._send[channel]
        while waiting and (waiting[0][0] is not channel or credit.open()):
            target, data = waiting.popleft()
            self._waiting_size[channel] -= len(data)
            if target is not channel:
                self._send_encoded(target, data)
                continue
            credit.spend(len(data))
            self._write(data)

    def _write(self, data: bytes) -> None:
        if not self._out:
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError as error:
                raise StreamClosed(str(error)) from error
            if sent == len(data):
                return
            self._out.append(memoryview(data)[sent:])
            self._out_size += len(data) - sent
            return
        self._out.append(memoryview(data))
        self._out_size += len(data)

    def flush(self) -> None:
        """Write what waits, as far as the socket takes it."""
        while self._out:
            head = self._out[0]
            try:
                sent = self._sock.send(head)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                raise StreamClosed(str(error)) from error
            self._out_size -= sent
            if sent == len(head):
                self._out.popleft()
            else:
                self._out[0] = head[sent:]
