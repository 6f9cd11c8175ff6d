"""What a guest may send in tunnels, however hostile: it is refused, bounded, or ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from reprise.egress.contract import NotReached
from reprise.guest import proxy
from reprise.sandbox.contract import TUNNEL_WINDOW
from tests.fixtures.egress import Peer, serving
from tests.fixtures.sandbox import PATIENCE

StartPeer = Callable[..., Awaitable[Peer]]


async def here(host: str) -> list[str]:
    return ["127.0.0.1"]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


def test_both_ends_have_the_same_window() -> None:
    assert proxy.WINDOW == TUNNEL_WINDOW


async def test_bytes_go_through_and_both_ways_end(peer: StartPeer) -> None:
    async with serving(echo) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.egress.begin(3)
        guest.open(1, "A.test.", server.port)
        await guest.accepted(1)
        guest.tell(1, b"d", b"hello")
        assert await guest.hear() == (1, b"d", b"hello")
        guest.tell(1, b"e")
        assert await guest.hear() == (1, b"e", b"")
        guest.tell(1, b"x")
        assert await guest.hear() == (1, b"x", b"")
        await until(lambda: bool(guest.rows))
        [row] = guest.rows
        assert (row.seq, row.host, row.address) == (3, "a.test", "127.0.0.1")
        assert (row.verdict, row.reason) == ("allowed", "")
        assert (row.bytes_up, row.bytes_down) == (5, 5)
        assert not guest.guest.ended.done()


MALFORMED = {
    "an id of three bytes": [b"\0\0\1", b"o", b"{}"],
    "two parts": [b"\0\0\0\1", b"o"],
    "no JSON": [b"\0\0\0\1", b"o", b"x"],
    "deep JSON": [b"\0\0\0\1", b"o", b"[" * 8000],
    "no object": [b"\0\0\0\1", b"o", b"[]"],
    "no port": [b"\0\0\0\1", b"o", b'{"host": "a", "via": "connect"}'],
    "port 0": [b"\0\0\0\1", b"o", b'{"host": "a", "port": 0, "via": "connect"}'],
    "port true": [b"\0\0\0\1", b"o", b'{"host": "a", "port": true, "via": "connect"}'],
    "port 65536": [b"\0\0\0\1", b"o", b'{"host": "a", "port": 65536, "via": "connect"}'],
    "another way": [b"\0\0\0\1", b"o", b'{"host": "a", "port": 1, "via": "udp"}'],
    "too long": [b"\0\0\0\1", b"o", json.dumps({"host": "a" * 9000, "port": 1, "via": "http"}).encode()],
    "id 0": [b"\0\0\0\0", b"o", b'{"host": "a", "port": 1, "via": "http"}'],
    "id 2 before 1": [b"\0\0\0\2", b"o", b'{"host": "a", "port": 1, "via": "http"}'],
    "data of nothing": [b"\0\0\0\1", b"d", b"x"],
    "a window of nothing": [b"\0\0\0\1", b"w", b"\0\0\0\1"],
    "an end of nothing": [b"\0\0\0\1", b"e", b""],
    "a cut of nothing": [b"\0\0\0\1", b"x", b""],
    "a verb of the host": [b"\0\0\0\1", b"a", b""],
    "no verb": [b"\0\0\0\1", b"", b""],
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_frame_that_is_none_ends_the_sandbox(peer: StartPeer, name: str) -> None:
    from reprise.sandbox.frames import Channel, encode

    guest = await peer({"allow": ["a"]})
    guest._writer.write(encode(Channel.TUNNEL, MALFORMED[name]))
    assert await guest.broken()


async def test_an_id_is_never_used_twice(peer: StartPeer) -> None:
    guest = await peer({})
    guest.open(1, "example.org")
    await guest.refusal(1)
    guest.open(1, "example.org")
    assert "twice" in await guest.broken()


async def test_nothing_comes_under_an_id_that_is_over(peer: StartPeer) -> None:
    guest = await peer({})
    guest.open(1, "example.org")
    await guest.refusal(1)
    guest.tell(1, b"d", b"x")
    assert "not there" in await guest.broken()


@pytest.mark.parametrize("verb", [b"d", b"e", b"w"])
async def test_nothing_is_sent_before_a_tunnel_is_accepted(peer: StartPeer, verb: bytes) -> None:
    async def never(host: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    guest = await peer({"allow": ["example.org"]}, resolver=never)
    guest.open(1, "example.org")
    guest.tell(1, verb, b"\0\0\0\1")
    assert "not accepted" in await guest.broken()


@pytest.mark.parametrize("verb", [b"d", b"e"])
async def test_nothing_follows_the_end(peer: StartPeer, verb: bytes) -> None:
    async with serving(echo) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        guest.tell(1, b"e")
        guest.tell(1, verb, b"x")
        assert "after a tunnel's end" in await guest.broken()


@pytest.mark.parametrize(
    ("verb", "data"),
    [
        (b"d", b""),
        (b"d", b"x" * 65537),
        (b"w", b""),
        (b"w", b"\0\0\0\0"),
        (b"w", b"\0\0\0\1"),
        (b"w", b"\xff\xff\xff\xff"),
        (b"w", b"\0\0\0\0\1"),
    ],
)
async def test_sizes_are_held_to(peer: StartPeer, verb: bytes, data: bytes) -> None:
    async with serving(echo) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        guest.tell(1, verb, data)
        assert await guest.broken()


async def test_a_window_that_is_overrun_ends_the_sandbox(peer: StartPeer) -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with serving(deaf) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        # Beyond what sockets and our own buffers take on the way to a host that reads nothing.
        for _ in range(1000):
            guest.tell(1, b"d", bytes(65536))
        assert "window" in await guest.broken()


async def test_the_host_keeps_to_the_window_of_the_guest(peer: StartPeer) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(64):
            writer.write(bytes(65536))
            await writer.drain()
        writer.write_eof()
        await reader.read()

    async with serving(flood) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        got = held = 0
        while got < 64 * 65536:
            number, verb, data = await guest.hear()
            assert (number, verb) == (1, b"d")
            assert len(data) <= 65536
            got += len(data)
            held += len(data)
            assert held <= TUNNEL_WINDOW
            if held == TUNNEL_WINDOW:
                guest.tell(1, b"w", held.to_bytes(4, "big"))
                held = 0
        assert await guest.hear() == (1, b"e", b"")


async def test_a_guest_that_hears_no_ends_is_ended(
    peer: StartPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reprise.egress import connections

    monkeypatch.setattr(connections, "UNANSWERED", 10)
    guest = await peer({})
    for number in range(1, 12):
        guest.open(number, "example.org")
        assert (await guest.hear())[:2] == (number, b"r")
    guest.open(12, "example.org")
    assert "not heard" in await guest.broken()


async def test_a_program_that_gives_up_ends_the_look_up(peer: StartPeer) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def never(host: str) -> list[str]:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()
        return []

    guest = await peer({"allow": ["example.org"], "connections": 1}, resolver=never)
    guest.open(1, "example.org")
    async with asyncio.timeout(PATIENCE):
        await asked.wait()
        guest.tell(1, b"x")
        assert await guest.hear() == (1, b"x", b"")
        await gone.wait()
    # Given up before it was so much as begun.
    guest.open(2, "example.org")
    guest.tell(2, b"x")
    assert await guest.hear() == (2, b"x", b"")
    await until(lambda: len(guest.rows) == 1)
    assert [(row.verdict, row.reason) for row in guest.rows] == [("failed", "the program gave up")]
    # Neither counts as open any more.
    guest.open(3, "example.net")
    assert (await guest.refusal(3))[0] == 403


async def test_without_rules_a_tunnel_is_refused_in_words(peer: StartPeer) -> None:
    guest = await peer({})
    guest.egress.begin(0)
    guest.open(1, "example.org")
    status, text = await guest.refusal(1)
    assert status == 403
    assert text.endswith("allow it with: reprise env allow example.org")
    assert guest.said == [("network-refused", f"{text[0].upper()}{text[1:]}.")]
    assert [(row.verdict, row.reason) for row in guest.rows] == [("refused", text)]


async def test_a_sandbox_without_an_egress_has_no_network(peer: StartPeer) -> None:
    guest = await peer({"allow": ["example.org"]})
    guest.guest.tunnels = None
    guest.open(1, "example.org")
    assert (await guest.refusal(1))[0] == 403


async def test_a_host_that_is_none_is_refused_in_words(peer: StartPeer) -> None:
    guest = await peer({"allow": ["example.org"]})
    guest.open(1, "exa mple.org")
    assert (await guest.refusal(1))[0] == 400
    guest.open(2, "a\ud800.org")
    assert (await guest.refusal(2))[0] == 400


async def test_a_host_that_cannot_be_found_is_told(peer: StartPeer) -> None:
    async def nowhere(host: str) -> list[str]:
        raise NotReached(f"no address of {host} was found: it is unknown")

    guest = await peer({"allow": ["example.org"]}, resolver=nowhere)
    guest.open(1, "example.org")
    assert await guest.refusal(1) == (502, "no address of example.org was found: it is unknown")
    assert guest.rows[0].verdict == "failed"
    assert guest.said == []


async def test_the_end_of_the_sandbox_cuts_every_connection(peer: StartPeer) -> None:
    ended = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            ended.set()

    async with serving(handle) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        await guest.guest.kill()
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
        await guest.egress.close()
        assert [row.verdict for row in guest.rows] == ["allowed"]
