"""Where a connection may lead, how much it may carry, and which step it belongs to."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable

import pytest

from reprise.egress import connections, upstream
from reprise.egress.contract import (
    ByteStream,
    Destination,
    Dial,
    Moment,
    NotReached,
    Refused,
    Report,
)
from tests.fixtures.egress import Peer, serving
from tests.fixtures.sandbox import PATIENCE

StartPeer = Callable[..., Awaitable[Peer]]


async def here(host: str) -> list[str]:
    return ["127.0.0.1"]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


# Where it leads ----------------------------------------------------------------------------------


async def test_a_name_that_is_rebound_leads_where_it_was_judged(peer: StartPeer) -> None:
    """A name server that answers with an allowed address first, and with loopback from then on."""
    asked: list[str] = []

    async def rebound(host: str) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    async with serving(echo) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=rebound)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        assert asked == ["a.test"]  # and never again for this connection
        guest.tell(1, b"x")
        assert (await guest.hear())[1] == b"x"
        await until(lambda: bool(guest.rows))
        assert guest.rows[0].address == "127.0.0.1"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00::1", "0.0.0.0"],
)
async def test_an_allowed_name_does_not_lead_into_private_ranges(
    peer: StartPeer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def inwards(host: str) -> list[str]:
        return [address]

    async def dialled(*args: object) -> upstream.Upstream:
        raise AssertionError(f"{args} was dialled")

    monkeypatch.setattr(connections, "dial", dialled)
    guest = await peer({"allow": ["example.org"]}, resolver=inwards)
    guest.open(1, "example.org")
    status, text = await guest.refusal(1)
    assert status == 403
    assert "leads to" in text
    assert [row.verdict for row in guest.rows] == ["refused"]
    assert guest.rows[0].address is None


async def test_of_mixed_answers_only_allowed_ones_are_dialled(
    peer: StartPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[list[str]] = []

    async def mixed(host: str) -> list[str]:
        return ["127.0.0.1", "192.0.0.8", "2606:4700::1", "8.8.8.8", "10.0.0.1"]

    async def dialled(host: str, port: int, addresses: list[str]) -> upstream.Upstream:
        found.append(addresses)
        raise NotReached("far away")

    monkeypatch.setattr(connections, "dial", dialled)
    guest = await peer({"allow": ["example.org"]}, resolver=mixed)
    guest.open(1, "example.org")
    assert await guest.refusal(1) == (502, "far away")
    assert found == [["2606:4700::1", "8.8.8.8"]]


async def test_a_public_address_of_this_machine_is_refused(peer: StartPeer) -> None:
    own = frozenset({ipaddress.ip_address("8.8.8.8")})
    guest = await peer({"allow": ["8.8.8.8"]}, own=lambda: own)
    guest.open(1, "8.8.8.8")
    status, text = await guest.refusal(1)
    assert (status, "an address of this machine" in text) == (403, True)


async def test_an_address_is_not_looked_up(peer: StartPeer) -> None:
    async def nobody(host: str) -> list[str]:
        raise AssertionError(f"{host} was looked up")

    async with serving(echo) as server:
        guest = await peer({"private": [f"127.0.0.1:{server.port}"]}, resolver=nobody)
        guest.open(1, "0x7f.1", server.port)
        await guest.accepted(1)


async def test_an_address_that_does_not_answer_gives_way_to_the_next(peer: StartPeer) -> None:
    async def two(host: str) -> list[str]:
        return ["127.0.0.2", "127.0.0.1"]

    async with serving(echo) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=two)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        guest.tell(1, b"x")
        await until(lambda: bool(guest.rows))
        assert guest.rows[0].address == "127.0.0.1"


async def test_a_port_where_nobody_listens_is_told(peer: StartPeer) -> None:
    async with serving(echo) as server:
        port = server.port
    guest = await peer({"private": [f"127.0.0.1:{port}"]})
    guest.open(1, "127.0.0.1", port)
    status, text = await guest.refusal(1)
    assert status == 502
    assert "Connection refused" in text


# Limits ------------------------------------------------------------------------------------------


async def test_connections_at_once_have_a_limit(peer: StartPeer) -> None:
    async with serving(echo) as server:
        rules = {"private": [f"127.0.0.1:{server.port}"], "connections": 2}
        guest = await peer(rules)
        for number in (1, 2):
            guest.open(number, "127.0.0.1", server.port)
            await guest.accepted(number)
        guest.open(3, "127.0.0.1", server.port)
        status, text = await guest.refusal(3)
        assert (status, "2 connections are open" in text) == (429, True)
        assert guest.said[0][0] == "network-limit"
        guest.tell(1, b"x")
        assert await guest.hear() == (1, b"x", b"")
        await until(lambda: any(row.verdict == "allowed" for row in guest.rows))
        guest.open(4, "127.0.0.1", server.port)
        await guest.accepted(4)


async def test_new_connections_in_a_minute_have_a_limit(peer: StartPeer) -> None:
    guest = await peer({"rate": 3})
    for number in (1, 2, 3):
        guest.open(number, "example.org")
        assert (await guest.refusal(number))[0] == 403
    guest.open(4, "example.org")
    status, text = await guest.refusal(4)
    assert (status, "3 connections were opened in a minute" in text) == (429, True)


@pytest.mark.parametrize("way", ["up", "down"])
async def test_the_bytes_of_a_step_have_a_limit(peer: StartPeer, way: str) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if way == "down":
            writer.write(bytes(200_000))
            await writer.drain()
        await reader.read()

    async with serving(handle) as server:
        rules = {"private": [f"127.0.0.1:{server.port}"], "bytes": 100_000}
        guest = await peer(rules)
        guest.egress.begin(0)
        guest.open(1, "127.0.0.1", server.port)
        await guest.accepted(1)
        if way == "up":
            guest.tell(1, b"d", bytes(60_000))
            guest.tell(1, b"d", bytes(60_000))
        verb = b""
        while verb != b"x":
            _, verb, _ = await guest.hear()
        guest.tell(1, b"x")
        await until(lambda: bool(guest.rows))
        [row] = guest.rows
        assert row.verdict == "allowed"
        assert "this step has moved" in row.reason
        assert row.bytes_up + row.bytes_down < 300_000
        assert [code for code, _ in guest.said] == ["network-limit"]
        guest.open(2, "127.0.0.1", server.port)
        assert (await guest.refusal(2))[0] == 429
        # The next step has its own.
        guest.egress.end(0)
        guest.egress.begin(1)
        guest.open(3, "127.0.0.1", server.port)
        await guest.accepted(3)


async def test_a_silent_connection_is_cut(peer: StartPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.05)
    async with serving(echo) as server:
        guest = await peer({"private": [f"127.0.0.1:{server.port}"]})
        guest.open(1, "127.0.0.1", server.port)
        await guest.accepted(1)
        assert await guest.hear() == (1, b"x", b"")
        await until(lambda: bool(guest.rows))
        assert "nothing passed" in guest.rows[0].reason


# Steps -------------------------------------------------------------------------------------------


async def test_a_connection_that_outlives_its_step_has_a_row_in_each(peer: StartPeer) -> None:
    async with serving(echo) as server:
        guest = await peer({"private": [f"127.0.0.1:{server.port}"]})

        async def exchanged(data: bytes) -> None:
            guest.tell(1, b"d", data)
            assert await guest.hear() == (1, b"d", data)

        guest.egress.begin(4)
        guest.open(1, "127.0.0.1", server.port)
        await guest.accepted(1)
        await exchanged(b"four")
        guest.egress.end(4)
        await exchanged(b"b")
        guest.egress.begin(5)
        guest.egress.end(5)  # in which nothing passes
        guest.egress.begin(6, replay=True)
        await exchanged(b"sixsix")
        guest.tell(1, b"x")
        assert (await guest.hear())[1] == b"x"
        await until(lambda: len(guest.rows) == 3)
        told = [(row.seq, row.bytes_up, row.replay, dict(row.detail)) for row in guest.rows]
        goes_on = {"continued": True}
        assert told == [(4, 4, False, {}), (None, 1, False, goes_on), (6, 6, True, goes_on)]


async def test_what_is_refused_again_is_one_row_that_counts(peer: StartPeer) -> None:
    guest = await peer({})
    guest.egress.begin(0)
    for number in range(1, 6):
        guest.open(number, "example.org")
        await guest.refusal(number)
    guest.egress.end(0)
    assert [(row.seq, dict(row.detail)) for row in guest.rows] == [(0, {}), (0, {"times": 4})]
    assert len({row.id for row in guest.rows}) == 2
    assert len(guest.said) == 1
    guest.egress.begin(1)
    guest.open(6, "example.org")
    await guest.refusal(6)
    assert guest.rows[-1].seq == 1
    assert len(guest.said) == 2


async def test_a_step_of_a_thousand_refusals_has_few_rows(peer: StartPeer) -> None:
    guest = await peer({"rate": 0})
    guest.egress.begin(0)
    for number in range(1, 1001):
        guest.open(number, f"h{number}.example.org")
        await guest.refusal(number)
    guest.egress.end(0)
    assert len(guest.rows) < 210
    last = guest.rows[-1]
    assert (last.host, last.verdict) == ("*", "refused")
    counted = sum(
        1 if "times" not in row.detail else int(str(row.detail["times"])) for row in guest.rows
    )
    assert counted == 1000


async def test_a_replay_tells_nobody_again(peer: StartPeer) -> None:
    guest = await peer({})
    guest.egress.begin(0, replay=True)
    guest.open(1, "example.org")
    await guest.refusal(1)
    assert guest.said == []
    assert guest.rows[0].replay


async def test_of_steps_beside_each_other_the_last_begun_counts(peer: StartPeer) -> None:
    guest = await peer({})
    assert guest.egress.moment == Moment(None, False, -1)
    guest.egress.begin(1)
    guest.egress.begin(2)
    assert guest.egress.moment == Moment(2, False, 2)
    guest.egress.end(2)
    assert guest.egress.moment == Moment(1, False, 2)
    guest.egress.end(1)
    assert guest.egress.moment == Moment(None, False, 2)


# Interceptors ------------------------------------------------------------------------------------


class Reader:
    """An interceptor that answers one request itself, or dials."""

    def __init__(self, *, dials: bool = False, wants: bool = True) -> None:
        self.dials = dials
        self.wanted = wants
        self.moments: list[Moment] = []

    def wants(self, destination: Destination, moment: Moment) -> bool:
        self.moments.append(moment)
        return self.wanted

    async def serve(
        self,
        client: ByteStream,
        destination: Destination,
        now: Callable[[], Moment],
        dial: Dial,
        report: Callable[[Report], None],
    ) -> None:
        request = await client.read()
        if self.dials:
            host = await dial()
            await host.write(request)
            await client.write(await host.read())
            host.abort()
            report(Report(now(), 1, "allowed", "", 1, 2, 3, {"status": 200}))
        else:
            await client.write(b"from the record")
            report(Report(now(), 1, "served", "", 1, 15, 3, {"status": 200}))
        await client.end()


async def test_an_interceptor_serves_what_it_wants(peer: StartPeer) -> None:
    async with serving(echo) as server:
        reader = Reader(dials=True)
        guest = await peer({"private": [f"127.0.0.1:{server.port}"]}, interceptor=reader)
        guest.egress.begin(7)
        guest.open(1, "127.0.0.1", server.port)
        await guest.accepted(1)
        guest.tell(1, b"d", b"hello")
        assert await guest.hear() == (1, b"d", b"hello")
        assert await guest.hear() == (1, b"e", b"")
        guest.tell(1, b"x")
        assert (await guest.hear())[1] == b"x"
        guest.egress.end(7)
        await until(lambda: bool(guest.rows))
        [row] = guest.rows
        assert (row.seq, row.verdict, row.address) == (7, "allowed", "127.0.0.1")
        assert (row.bytes_up, row.bytes_down, row.detail) == (1, 2, {"status": 200})


async def test_a_replay_of_what_is_recorded_touches_no_network(
    peer: StartPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def network(*args: object) -> list[str]:
        raise AssertionError(f"{args}: the network was touched")

    monkeypatch.setattr(connections, "dial", network)
    rules = {"allow": ["example.org"], "record": True}
    guest = await peer(rules, resolver=network, interceptor=Reader())
    guest.egress.begin(2, replay=True)
    guest.open(1, "example.org")
    await guest.accepted(1)
    guest.tell(1, b"d", b"GET")
    assert await guest.hear() == (1, b"d", b"from the record")
    await until(lambda: bool(guest.rows))
    [row] = guest.rows
    assert (row.verdict, row.replay, row.address) == ("served", True, None)


@pytest.mark.parametrize("reader", [Reader(dials=True), Reader(wants=False), None])
async def test_a_replay_that_would_touch_the_network_is_refused(
    peer: StartPeer, reader: Reader | None
) -> None:
    async def network(host: str) -> list[str]:
        raise AssertionError(f"{host} was looked up")

    rules = {"allow": ["example.org"], "record": True}
    guest = await peer(rules, resolver=network, interceptor=reader)
    guest.egress.begin(2, replay=True)
    guest.open(1, "example.org")
    _, verb, _ = await guest.hear()
    if verb == b"a":
        guest.tell(1, b"d", b"GET")
        assert (await guest.hear())[1] == b"x"
    else:
        assert verb == b"r"
    await until(lambda: bool(guest.rows))
    assert [row.verdict for row in guest.rows] == ["refused"]
    assert "replay" in guest.rows[0].reason


async def test_what_the_rules_refuse_no_interceptor_sees(peer: StartPeer) -> None:
    reader = Reader()
    guest = await peer({"allow": ["example.org"]}, interceptor=reader)
    guest.open(1, "example.net")
    assert (await guest.refusal(1))[0] == 403
    assert reader.moments == []


async def test_an_interceptor_that_breaks_harms_nobody_else(
    peer: StartPeer, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Reader):
        def wants(self, destination: Destination, moment: Moment) -> bool:
            raise RuntimeError("broken")

    guest = await peer({"allow": ["example.org"]}, interceptor=Broken())
    guest.open(1, "example.org")
    assert (await guest.refusal(1))[0] == 502
    guest.open(2, "example.net")
    assert (await guest.refusal(2))[0] == 403
    assert "could not be carried" in caplog.text


def test_a_refusal_is_no_failure_to_reach() -> None:
    assert not issubclass(Refused, NotReached)
    assert not issubclass(NotReached, Refused)


# A session whose network is shut -----------------------------------------------------------------


@pytest.mark.parametrize("replayed", [False, True])
async def test_from_a_step_on_nothing_is_connected_whatever_the_rules_say(
    peer: StartPeer, replayed: bool
) -> None:
    async with serving(echo) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.egress.shut(3, "for a reason")
        guest.egress.begin(3, replay=replayed)
        guest.open(1, "a.test", server.port)
        assert await guest.refusal(1) == (403, f"a.test:{server.port} was not asked: for a reason")
        guest.egress.end(3)  # nor between the steps
        guest.open(2, "a.test", server.port)
        assert (await guest.refusal(2))[0] == 403
        guest.egress.begin(4, replay=replayed)
        guest.open(3, "a.test", server.port)
        assert (await guest.refusal(3))[0] == 403
        assert {row.verdict for row in guest.rows} == {"refused"}


async def test_what_an_earlier_step_opened_is_cut_when_the_network_is_shut(peer: StartPeer) -> None:
    async with serving(echo) as server:
        guest = await peer({"private": [f"a.test:{server.port}"]}, resolver=here)
        guest.egress.shut(3, "for a reason")
        guest.egress.begin(2, replay=True)
        guest.open(1, "a.test", server.port)
        await guest.accepted(1)
        guest.tell(1, b"d", b"ping")
        heard = await guest.hear()
        while heard[1] != b"d":
            heard = await guest.hear()
        assert heard == (1, b"d", b"ping")
        guest.egress.begin(4, replay=True)
        while heard[1] != b"x":
            heard = await guest.hear()
        await until(lambda: any(row.reason == "for a reason" for row in guest.rows))
