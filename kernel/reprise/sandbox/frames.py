"""The frames on the byte stream between host and guest: a codec and credit accounting (pure).

Standard library only: this file is copied into sandboxes, and both ends use it.

    frame  = u32 length of what follows, u8 channel, u16 number of parts,
             u32 length of each part, the parts
    credit = bytes of a channel's frames that its receiver still has room for

All numbers are big-endian. A sender may send a frame on a channel while its balance there is
above zero; the frame may take the balance below zero, so one frame larger than the window still
passes and a receiver holds at most a window and a frame. A receiver gives credit back with
CREDIT frames after it has dealt with what it received. CREDIT, HELLO, GOODBYE, PING and PONG
carry no payload worth accounting and have rules of their own (one HELLO, a PONG only for a
PING, a grant never over the window), so none of them can be used to flood.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

#: Spoken in HELLO by both ends; an end that hears another number ends the stream.
PROTOCOL = 1


class Channel(IntEnum):
    """What a frame is about; the shape of each is in `sandbox.contract`."""

    SHELL = 1
    CONTROL = 2
    STDIN = 3
    IOPUB = 4
    CALL = 5
    ANSWER = 6
    EVENT = 7
    CREDIT = 8  # u8 channel, u32 bytes
    HELLO = 9  # guest: protocol, token; host: protocol, JSON settings
    GOODBYE = 10  # the sender closes the stream on purpose; no parts
    PING = 11  # host → guest: opaque, at most 16 bytes
    PONG = 12  # guest → host: the same bytes
    COMMAND = 13  # guest → host: what a running command writes
    TUNNEL = 14  # connections of programs inside, see `sandbox.contract`


class Frame(NamedTuple):
    """One received frame; `size` is what it took on the wire (what credit counts)."""

    channel: Channel
    parts: list[bytes]
    size: int


class FrameError(Exception):
    """The peer sent bytes, or used credit, against the rules; the stream cannot go on."""


_HEAD = struct.Struct(">IBH")
_GRANT = struct.Struct(">BI")
_U32 = struct.Struct(">I")
HEAD_SIZE = _HEAD.size
#: What follows the length field before the part lengths: channel and part count.
_FIXED = HEAD_SIZE - 4

#: A message has few parts (a widget with many buffers: hundreds); more is refused.
MAX_PARTS = 4096

_MIB = 1 << 20

#: The longest frame body on each channel. Messages: the largest reply or request that passes
#: whole; CALL and ANSWER: files travel in pieces far below this.
MAX_BODY: Mapping[Channel, int] = {
    Channel.SHELL: 64 * _MIB,
    Channel.CONTROL: 64 * _MIB,
    Channel.STDIN: 64 * _MIB,
    Channel.IOPUB: 64 * _MIB,
    Channel.CALL: 16 * _MIB,
    Channel.ANSWER: 16 * _MIB,
    Channel.EVENT: 2 * _MIB,
    Channel.CREDIT: 64,
    Channel.HELLO: _MIB,
    Channel.GOODBYE: 64,
    Channel.PING: 64,
    Channel.PONG: 64,
    Channel.COMMAND: _MIB,
    Channel.TUNNEL: 128 << 10,
}

#: Credit a sender starts with on each accounted channel, in either direction.
WINDOWS: Mapping[Channel, int] = {
    Channel.SHELL: 8 * _MIB,
    Channel.CONTROL: 8 * _MIB,
    Channel.STDIN: _MIB,
    Channel.IOPUB: 4 * _MIB,
    Channel.CALL: 8 * _MIB,
    Channel.ANSWER: 8 * _MIB,
    Channel.EVENT: _MIB,
    # Its own, so that a command that floods waits in its pipe and holds up no cell's output.
    Channel.COMMAND: _MIB,
    # Each tunnel has a window of its own; this one is given back as fast as frames are read.
    Channel.TUNNEL: 4 * _MIB,
}

_CHANNELS: Mapping[int, Channel] = {int(channel): channel for channel in Channel}


def frame_size(parts: Sequence[bytes | memoryview]) -> int:
    """What a frame with these parts takes on the wire, in bytes."""
    return HEAD_SIZE + 4 * len(parts) + sum(len(part) for part in parts)


def encode(channel: Channel, parts: Sequence[bytes]) -> bytes:
    """A frame as bytes. Raises FrameError if it is over the bounds the peer will hold us to."""
    size = frame_size(parts)
    if size - 4 > MAX_BODY[channel] or len(parts) > MAX_PARTS:
        raise FrameError(
            f"a {channel.name} frame of {size} bytes in {len(parts)} parts is over the bounds "
            f"({MAX_BODY[channel]} bytes, {MAX_PARTS} parts)"
        )
    lengths = struct.pack(f">{len(parts)}I", *map(len, parts))
    return b"".join((_HEAD.pack(size - 4, channel, len(parts)), lengths, *parts))


class Decoder:
    """Turns received bytes into frames, however they were cut on the way.

    Holds at most one incomplete frame (bounded by `max_body`) and what one `feed` brought.
    After a FrameError it refuses everything.
    """

    def __init__(self, max_body: Mapping[Channel, int] = MAX_BODY) -> None:
        self._max_body = max_body
        self._buffer = bytearray()
        #: Bytes that must have arrived before another look is worth it.
        self._need = HEAD_SIZE
        self._broken: str | None = None

    @property
    def pending(self) -> int:
        """Bytes held of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[Frame]:
        """The frames completed by `data`. Raises FrameError at the first broken one."""
        if self._broken is not None:
            raise FrameError(self._broken)
        source: bytes | bytearray | memoryview = data
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._need:
                return []
            source = self._buffer
        frames: list[Frame] = []
        with memoryview(source) as view:
            used = self._parse(view, frames)
            rest = None if source is self._buffer else bytes(view[used:])
        if rest is None:
            # bytearray forgets its front in constant time.
            del self._buffer[:used]
        else:
            self._buffer += rest
        return frames

    def _parse(self, view: memoryview, frames: list[Frame]) -> int:
        start, end = 0, len(view)
        while True:
            if end - start < HEAD_SIZE:
                self._need = HEAD_SIZE
                # A wrong length is told from its first four bytes on; the rest of the head
                # follows or the stream is closed, so waiting for seven is no gap.
                return start
            body, number, count = _HEAD.unpack_from(view, start)
            channel = _CHANNELS.get(number)
            if channel is None:
                raise self._broke(f"a frame on channel {number}, which does not exist")
            if body > self._max_body.get(channel, 0):
                raise self._broke(f"a {channel.name} frame of {body} bytes, over its bound")
            if count > MAX_PARTS or _FIXED + 4 * count > body:
                raise self._broke(
                    f"a {channel.name} frame of {body} bytes that claims {count} parts"
                )
            self._need = 4 + body
            if end - start < self._need:
                return start
            at = start + HEAD_SIZE
            lengths = struct.unpack_from(f">{count}I", view, at)
            at += 4 * count
            if _FIXED + 4 * count + sum(lengths) != body:
                raise self._broke(f"a {channel.name} frame whose parts do not add up to its length")
            parts = []
            for length in lengths:
                parts.append(bytes(view[at : at + length]))
                at += length
            frames.append(Frame(channel, parts, 4 + body))
            start = at

    def _broke(self, what: str) -> FrameError:
        self._broken = what
        return FrameError(what)


class SendCredit:
    """What the sender of one channel may still send."""

    __slots__ = ("balance", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.balance = window

    def open(self) -> bool:
        return self.balance > 0

    def spend(self, size: int) -> None:
        self.balance -= size

    def grant(self, size: int) -> None:
        """The receiver gives `size` back. Raises FrameError if that is more than was used."""
        if size <= 0 or self.balance + size > self.window:
            raise FrameError(f"a grant of {size} bytes of credit that was never used")
        self.balance += size


class ReceiveCredit:
    """What the receiver of one channel has allowed, and what it owes back."""

    __slots__ = ("balance", "held", "owed", "window")

    def __init__(self, window: int) -> None:
        self.window = window
        self.balance = window
        self.owed = 0
        #: While true nothing is given back: the peer stops when its balance is used up.
        self.held = False

    def receive(self, size: int) -> None:
        """Account a frame that arrived. Raises FrameError if it was sent without credit."""
        if self.balance <= 0:
            raise FrameError("a frame sent without credit")
        self.balance -= size

    def consume(self, size: int) -> None:
        """The frame was dealt with: its credit may go back."""
        self.owed += size

    def due(self) -> int:
        """Credit to give back now, in bytes: 0, or at least a quarter of the window."""
        if self.held or self.owed * 4 < self.window:
            return 0
        granted, self.owed = self.owed, 0
        self.balance += granted
        return granted


def encode_grant(channel: Channel, size: int) -> bytes:
    """The CREDIT frame that gives `size` bytes back on `channel`."""
    return encode(Channel.CREDIT, [_GRANT.pack(channel, size)])


def decode_grant(parts: Sequence[bytes]) -> tuple[Channel, int]:
    """Channel and bytes of a CREDIT frame. Raises FrameError when it is malformed."""
    if len(parts) != 1 or len(parts[0]) != _GRANT.size:
        raise FrameError("a malformed CREDIT frame")
    number, size = _GRANT.unpack(parts[0])
    channel = _CHANNELS.get(number)
    if channel is None or channel not in WINDOWS:
        raise FrameError(f"credit for channel {number}, which has none")
    return channel, size


def encode_id(number: int) -> bytes:
    """The id of a call: four bytes."""
    return _U32.pack(number & 0xFFFFFFFF)


def decode_id(part: bytes) -> int:
    """The id of a call. Raises FrameError when it is not four bytes."""
    if len(part) != 4:
        raise FrameError("a call id that is not four bytes")
    number: int = _U32.unpack(part)[0]
    return number
