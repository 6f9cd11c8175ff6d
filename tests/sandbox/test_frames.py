"""The frame codec: round trips however the bytes are cut, and garbage is refused, never endured."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.sandbox.frames import (
    HEAD_SIZE,
    MAX_BODY,
    MAX_PARTS,
    WINDOWS,
    Channel,
    Decoder,
    FrameError,
    ReceiveCredit,
    SendCredit,
    decode_grant,
    decode_id,
    encode,
    encode_grant,
    encode_id,
    frame_size,
)

MESSAGES = st.sampled_from([Channel.SHELL, Channel.IOPUB, Channel.CALL, Channel.EVENT])
FRAMES = st.lists(
    st.tuples(MESSAGES, st.lists(st.binary(max_size=300), max_size=8)), min_size=1, max_size=10
)


@given(FRAMES, st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[tuple[Channel, list[bytes]]], data: st.DataObject
) -> None:
    wire = b"".join(encode(channel, parts) for channel, parts in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=12)))
    decoder = Decoder()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True):
        found += decoder.feed(wire[start:end])
    assert [(frame.channel, frame.parts) for frame in found] == frames
    assert [frame.size for frame in found] == [frame_size(parts) for _, parts in frames]
    assert decoder.pending == 0


@given(st.lists(st.binary(max_size=600), max_size=20))
def test_garbage_gives_frames_or_an_error_and_little_is_held(chunks: list[bytes]) -> None:
    bounds = dict.fromkeys(Channel, 1000)
    decoder = Decoder(bounds)
    try:
        for chunk in chunks:
            for frame in decoder.feed(chunk):
                assert frame.size <= 1004
            assert decoder.pending <= 1004 + len(chunk)
    except FrameError:
        # Refused once, refused for good: nothing resynchronises on hostile bytes.
        with pytest.raises(FrameError):
            decoder.feed(encode(Channel.SHELL, [b"x"]))


@given(FRAMES, st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_never_gives_more_bytes_than_were_sent(
    frames: list[tuple[Channel, list[bytes]]], at: int, value: int
) -> None:
    wire = bytearray(b"".join(encode(channel, parts) for channel, parts in frames))
    wire[at % len(wire)] = value
    decoder = Decoder()
    try:
        found = decoder.feed(bytes(wire))
    except FrameError:
        return
    assert sum(frame.size for frame in found) + decoder.pending == len(wire)


@pytest.mark.parametrize(
    ("wire", "says"),
    [
        (struct.pack(">IBH", 3, 99, 0), "does not exist"),
        (struct.pack(">IBH", 0, 0, 0), "does not exist"),
        (struct.pack(">IBH", 0xFFFFFFFF, Channel.IOPUB, 1), "over its bound"),
        (struct.pack(">IBH", 65, Channel.PONG, 1), "over its bound"),
        (struct.pack(">IBH", 2, Channel.SHELL, 0), "claims 0 parts"),
        (struct.pack(">IBH", 6, Channel.SHELL, 1), "claims 1 parts"),
        (struct.pack(">IBH", 40_000, Channel.SHELL, MAX_PARTS + 1), "claims"),
        (struct.pack(">IBHI", 7, Channel.SHELL, 1, 9), "do not add up"),
        (struct.pack(">IBHI", 8, Channel.SHELL, 1, 0) + b"x", "do not add up"),
    ],
)
def test_a_lie_about_lengths_is_refused(wire: bytes, says: str) -> None:
    with pytest.raises(FrameError, match=says):
        Decoder().feed(wire)


def test_a_lie_is_refused_from_the_head_before_its_bytes_are_awaited() -> None:
    decoder = Decoder()
    head = struct.pack(">IBH", MAX_BODY[Channel.SHELL] + 1, Channel.SHELL, 1)
    assert decoder.feed(head[:-1]) == []
    with pytest.raises(FrameError):
        decoder.feed(head[-1:])
    assert decoder.pending <= HEAD_SIZE


def test_a_large_frame_in_small_pieces_costs_linear_work() -> None:
    size = 8 << 20
    wire = encode(Channel.IOPUB, [b"t", bytes(size)])
    decoder = Decoder()
    found = []
    copied = 0
    view = memoryview(wire)
    for start in range(0, len(wire), 1 << 12):
        before = decoder.pending
        found += decoder.feed(view[start : start + (1 << 12)])
        copied += max(0, decoder.pending - before)
    assert [len(part) for part in found[0].parts] == [1, size]
    assert copied <= len(wire)


def test_what_is_too_large_is_refused_at_the_sender() -> None:
    with pytest.raises(FrameError, match="over the bounds"):
        encode(Channel.EVENT, [bytes(MAX_BODY[Channel.EVENT])])
    with pytest.raises(FrameError, match="over the bounds"):
        encode(Channel.SHELL, [b""] * (MAX_PARTS + 1))


@given(st.lists(st.integers(1, 5000), max_size=200), st.booleans())
def test_an_honest_sender_is_never_refused_and_never_starves(
    sizes: list[int], consumed_late: bool
) -> None:
    window = 4096
    sender, receiver = SendCredit(window), ReceiveCredit(window)
    unread = 0
    for size in sizes:
        if not sender.open():
            receiver.consume(unread)
            unread = 0
            granted = receiver.due()
            assert granted, "everything was consumed and yet nothing is granted"
            sender.grant(granted)
            assert sender.open()
        sender.spend(size)
        receiver.receive(size)
        unread += size
        if not consumed_late:
            receiver.consume(unread)
            unread = 0
            if granted := receiver.due():
                sender.grant(granted)
        assert sender.balance == receiver.balance


def test_a_sender_without_credit_is_caught_and_so_is_credit_from_nowhere() -> None:
    receiver = ReceiveCredit(100)
    receiver.receive(150)
    with pytest.raises(FrameError, match="without credit"):
        receiver.receive(1)
    sender = SendCredit(100)
    for size in (1, 0, -5):
        with pytest.raises(FrameError, match="never used"):
            sender.grant(size)


def test_a_held_receiver_gives_nothing_until_released() -> None:
    receiver = ReceiveCredit(100)
    receiver.held = True
    receiver.receive(90)
    receiver.consume(90)
    assert receiver.due() == 0
    receiver.held = False
    assert receiver.due() == 90


@given(st.sampled_from(sorted(WINDOWS)), st.integers(1, 1 << 31))
def test_grants_round_trip(channel: Channel, size: int) -> None:
    (frame,) = Decoder().feed(encode_grant(channel, size))
    assert decode_grant(frame.parts) == (channel, size)


@pytest.mark.parametrize(
    "parts", [[], [b""], [b"12345", b""], [struct.pack(">BI", 99, 1)], [struct.pack(">BI", 8, 1)]]
)
def test_malformed_grants_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(FrameError):
        decode_grant(parts)


def test_ids_are_four_bytes() -> None:
    assert decode_id(encode_id(7)) == 7
    with pytest.raises(FrameError):
        decode_id(b"123")
