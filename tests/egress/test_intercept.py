"""A tunnel that is read: HTTP/1.1 as it should be, whatever a program or a host does."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Callable

import h11
import pytest

from reprise.egress import body as bodies
from reprise.egress import intercept
from reprise.egress.contract import Moment, NotReached, Refused, StreamGone
from reprise.egress.tls import TlsFailed, TlsStream
from tests.fixtures.reading import (
    Heard,
    Reading,
    always,
    answer,
    pipe,
    site,
    trusting_hosts,
)
from tests.fixtures.sandbox import PATIENCE

KEY = {"host": "host.test", "header": "X-Added", "prefix": "", "source": "env:KEY"}
MakeReading = Callable[..., Reading]


@pytest.fixture
async def reading() -> AsyncIterator[MakeReading]:
    """Makes reading proxies that are closed afterwards; by default one that adds a credential."""
    made: list[Reading] = []

    def make(rules: dict[str, object] | None = None, **more: object) -> Reading:
        environ = {"KEY": "an-added-credential"}
        made.append(Reading(rules or {"secrets": [KEY]}, **{"environ": environ, **more}))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_a_request_goes_to_its_host_and_the_answer_comes_back(reading: MakeReading) -> None:
    net = reading()
    async with site(always(answer(headers={"X-Case": "kept", "Server": "s"}))) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        got = await program.ask(
            "/a/b?c=d&e=%20", headers={"User-Agent": "me", "Connection": "X-Hop", "X-Hop": "1"}
        )
    assert (got.status, got.reason, got.body) == (200, "OK", b"hello\n")
    assert "X-Case" in got.names
    [heard] = host.heard
    assert (heard.method, heard.target) == ("GET", "/a/b?c=d&e=%20")
    assert heard.headers["host"] == "host.test"
    assert heard.headers["user-agent"] == "me"
    assert not {"connection", "x-hop"} & set(heard.headers)
    [report] = net.reports
    assert (report.verdict, report.reason, report.moment) == ("allowed", "", Moment(0, False, 0))
    assert report.detail == {
        "method": "GET",
        "url": "https://host.test/a/b?c=d&e=%20",
        "status": 200,
    }
    assert report.bytes_up > 50
    assert report.bytes_down > len("hello\n") + 20


async def test_connections_are_kept_both_ways(reading: MakeReading) -> None:
    net = reading()
    async with site(always(answer())) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        for number in range(3):
            net.moment = Moment(number, False, number)
            assert (await program.ask(f"/{number}")).body == b"hello\n"
    assert [heard.connection for heard in host.heard] == [1, 1, 1]
    assert [report.moment.step for report in net.reports] == [0, 1, 2]
    assert net.dialled == 1


async def test_requests_sent_before_their_turn_are_answered_in_turn(reading: MakeReading) -> None:
    net = reading()

    async def slowly(heard: Heard, writer: asyncio.StreamWriter) -> bool:
        await asyncio.sleep(0)
        writer.write(answer(heard.target.encode()))
        return True

    async with site(slowly) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        await program.stream.write(
            b"".join(b"GET /%d HTTP/1.1\r\nHost: host.test\r\n\r\n" % number for number in range(5))
        )
        answers = b""
        while answers.count(b"HTTP/1.1 200") < 5 or not answers.endswith(b"/4"):
            answers += await asyncio.wait_for(program.stream.read(), PATIENCE)
    assert [line for line in answers.split(b"\r\n") if line.startswith(b"/")][-1:] == [b"/4"]
    assert [heard.target for heard in host.heard] == ["/0", "/1", "/2", "/3", "/4"]


async def test_a_host_that_ended_an_idle_connection_is_asked_once_more(
    reading: MakeReading,
) -> None:
    net = reading()
    go = asyncio.Event()

    async def once(heard: Heard, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer(str(heard.connection).encode()))
        return False

    async with site(once) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        for number in (b"1", b"2", b"3"):
            assert (await program.ask()).body == number
        # A request that may do something gets a connection of its own.
        assert (await program.ask(method="POST", body=b"x")).body == b"4"
        go.set()
    assert {report.verdict for report in net.reports} == {"allowed"}


@pytest.mark.parametrize(
    "framing", [{}, {"Transfer-Encoding": "chunked"}, {"Expect": "100-continue"}]
)
async def test_a_body_reaches_the_host_however_it_is_sent(
    reading: MakeReading, framing: dict[str, str]
) -> None:
    net = reading()
    body = bytes(range(256)) * 40
    async with site(always(answer())) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        lines = {"Host": "host.test", **framing}
        if "Transfer-Encoding" not in framing:
            lines["Content-Length"] = str(len(body))
        await program.send(h11.Request(method="PUT", target="/", headers=list(lines.items())))
        if "Expect" in framing:
            told = await program.event()
            assert isinstance(told, h11.InformationalResponse)
            assert told.status_code == 100
        await program.send(h11.Data(data=body))
        await program.send(h11.EndOfMessage())
        assert (await program.answer()).status == 200
    [heard] = host.heard
    assert heard.body == body
    assert "expect" not in heard.headers


async def test_chunks_and_trailers_come_through(reading: MakeReading) -> None:
    net = reading()
    data = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        b"3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n"
    )
    async with site(always(data)) as host:
        net.places["host.test"] = host.port
        got = await (await net.program()).ask()
    assert got.body == b"abcde"
    assert got.trailers == {"x-sum": "5"}


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", "200 OK"), ("GET", "204 No Content"), ("GET", "304 Old")]
)
async def test_answers_without_a_body_end_with_their_head(
    reading: MakeReading, method: str, status: str
) -> None:
    net = reading()
    length = "" if status.startswith("204") else "Content-Length: 12345\r\n"
    async with site(always(f"HTTP/1.1 {status}\r\n{length}\r\n".encode())) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        for _ in range(2):
            got = await program.ask(method=method)
            assert (f"{got.status} {got.reason}", got.body) == (status, b"")
    assert host.connections == 1


async def test_an_answer_that_ends_with_its_connection_is_whole(reading: MakeReading) -> None:
    net = reading()

    async def old(_: Heard, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nall of it")
        return False

    async with site(old) as host:
        net.places["host.test"] = host.port
        got = await (await net.program()).ask()
    assert (got.body, got.cut) == (b"all of it", False)


@pytest.mark.parametrize("framing", ["Content-Length: 100", "Transfer-Encoding: chunked"])
async def test_an_answer_that_breaks_off_is_never_taken_for_whole(
    reading: MakeReading, framing: str
) -> None:
    net = reading()

    async def broken(_: Heard, writer: asyncio.StreamWriter) -> bool:
        writer.write(f"HTTP/1.1 200 OK\r\n{framing}\r\n\r\n5\r\nhello\r\n".encode())
        return False

    async with site(broken) as host:
        net.places["host.test"] = host.port
        got = await (await net.program()).ask()
    assert got.status == 200
    assert got.cut
    [report] = net.reports
    assert "ended the connection before its answer was whole" in report.reason


async def test_a_large_body_is_never_held_in_memory(reading: MakeReading) -> None:
    """The host has sent no more than windows allow when the program has read nothing yet."""
    net = reading()
    piece, pieces = b"x" * 65536, 2048
    sent = 0

    async def large(_: Heard, writer: asyncio.StreamWriter) -> bool:
        nonlocal sent
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(piece) * pieces}\r\n\r\n".encode())
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()
            sent += 1
        return True

    async with site(large) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        await program.request()
        await program.head()
        total, held = 0, 0
        while not isinstance(event := await program.event(), h11.EndOfMessage):
            assert isinstance(event, h11.Data)
            total += len(event.data)
            held = max(held, sent * len(piece) - total)
    assert total == len(piece) * pieces
    # Sockets of the machine hold some megabytes of these 128.
    assert held < 32 << 20


async def test_what_the_host_sends_is_seen_when_it_is_sent(reading: MakeReading) -> None:
    """A stream of events is no stream if each waits for the next one."""
    net = reading()
    seen = asyncio.Event()

    async def events(_: Heard, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\nevent1\n\r\n")
        await writer.drain()
        await asyncio.wait_for(seen.wait(), PATIENCE)
        writer.write(b"7\r\nevent2\n\r\n0\r\n\r\n")
        return True

    async with site(events) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        await program.request()
        await program.head()
        first = await program.event()
        assert isinstance(first, h11.Data)
        assert first.data == b"event1\n"
        seen.set()
        second = await program.event()
        assert isinstance(second, h11.Data)
        assert second.data == b"event2\n"


async def test_an_answer_before_the_end_of_the_request_comes_through(
    reading: MakeReading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "EARLY_S", 0.05)
    net = reading()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"too much", "413 Content Too Large", {"Connection": "close"}))
        await writer.drain()
        await reader.read()
        writer.close()

    from tests.fixtures.reading import HOSTS

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=HOSTS.context("host.test"))
    async with server:
        net.places["host.test"] = server.sockets[0].getsockname()[1]
        program = await net.program()
        lines = [("Host", "host.test"), ("Content-Length", str(1 << 30))]
        await program.send(h11.Request(method="POST", target="/", headers=lines))
        await program.send(h11.Data(data=b"x" * 1000))
        got = await program.answer()
        assert (got.status, got.body) == (413, b"too much")
        assert await net.end() is None


async def test_a_host_with_a_certificate_that_nobody_trusts_is_not_asked(
    reading: MakeReading,
) -> None:
    net = reading(trusted=ssl.create_default_context)
    async with site(always(answer())) as host:
        net.places["host.test"] = host.port
        got = await (await net.program()).ask()
    assert got.status == 502
    assert "certificate cannot be trusted" in got.text
    assert host.heard == []
    assert net.reports[0].verdict == "failed"


async def test_a_host_whose_certificate_names_another_is_not_asked(reading: MakeReading) -> None:
    net = reading()
    async with site(always(answer()), host="other.test") as host:
        net.places["host.test"] = host.port
        got = await (await net.program()).ask()
    assert got.status == 502
    assert "Hostname mismatch" in got.text
    assert host.heard == []


@pytest.mark.parametrize(
    ("error", "status", "verdict"),
    [(Refused("no, says a rule"), 403, "refused"), (NotReached("nobody answers"), 502, "failed")],
)
async def test_a_dial_that_fails_is_told_in_a_sentence(
    reading: MakeReading, error: Refused | NotReached, status: int, verdict: str
) -> None:
    net = reading()
    net.refused = error
    got = await (await net.program()).ask()
    assert (got.status, got.text) == (status, f"{error}\n")
    [report] = net.reports
    assert (report.verdict, report.reason) == (verdict, str(error))


@pytest.mark.parametrize(
    ("request_", "status", "said"),
    [
        ({"host": "other.test"}, 421, "names another host"),
        ({"host": "host.test:444"}, 421, "names another host"),
        ({"host": "host.test@other.test"}, 421, "names another host"),
        ({"target": "https://other.test/"}, 421, "names another host"),
        ({"target": "http://host.test/"}, 421, "names another host"),
        ({"target": "https://host.test:x/"}, 400, "no URL"),
        ({"method": "TRACE"}, 501, "TRACE"),
        ({"headers": {"Upgrade": "websocket", "Connection": "Upgrade"}}, 501, "websocket"),
    ],
)
async def test_what_cannot_be_passed_on_is_refused_in_a_sentence(
    reading: MakeReading, request_: dict[str, object], status: int, said: str
) -> None:
    net = reading()
    got = await (await net.program()).ask(**request_)  # type: ignore[arg-type]
    assert got.status == status
    assert said in got.text
    assert net.dialled == 0
    assert net.reports[0].verdict == "refused"


async def test_a_tunnel_within_the_connection_is_refused(reading: MakeReading) -> None:
    net = reading()
    program = await net.program()
    await program.stream.write(b"CONNECT other.test:443 HTTP/1.1\r\nHost: host.test\r\n\r\n")
    assert b"501" in await asyncio.wait_for(program.stream.read(), PATIENCE)
    assert net.dialled == 0


@pytest.mark.parametrize("host", ["HOST.test", "host.test.", "host.test:443", "\uff48ost.test"])
async def test_other_spellings_of_the_host_are_the_host(reading: MakeReading, host: str) -> None:
    net = reading()
    async with site(always(answer())) as server:
        net.places["host.test"] = server.port
        program = await net.program()
        if not host.isascii():
            await program.stream.write(b"GET / HTTP/1.1\r\nHost: " + host.encode() + b"\r\n\r\n")
            assert b" 421 " in await asyncio.wait_for(program.stream.read(), PATIENCE)
            return
        assert (await program.ask(host=host)).status == 200
    assert server.heard[0].headers["host"] == "host.test"


async def test_tls_for_another_host_than_the_connection_is_refused(reading: MakeReading) -> None:
    net = reading()
    with pytest.raises(TlsFailed, match="unrecognized name"):
        await net.program(named="other.test")
    error = await net.end()
    assert isinstance(error, Refused)
    assert "another host" in str(error)


async def test_a_program_that_trusts_others_only_is_told_of(reading: MakeReading) -> None:
    net = reading()
    stream = TlsStream(net.connect(), trusting_hosts(), "host.test")
    with pytest.raises(TlsFailed, match="cannot be trusted"):
        await stream.handshake()
    error = await net.end()
    assert isinstance(error, Refused)
    assert "SSL_CERT_FILE" in str(error)
    assert [code for code, _ in net.said] == ["network-not-trusted"]


async def test_http_2_is_not_offered(reading: MakeReading) -> None:
    net = reading()
    program = await net.program()
    stream = program.stream
    assert isinstance(stream, TlsStream)
    assert stream._tls.selected_alpn_protocol() == "http/1.1"


async def test_what_is_no_http_is_answered_once_and_ended(reading: MakeReading) -> None:
    net = reading()
    for data in (b"SSH-2.0-OpenSSH_9\r\n\r\n", b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        end = net.connect(via="socks")
        await end.write(data)
        got = await asyncio.wait_for(end.read(), PATIENCE)
        assert got.startswith(b"HTTP/1.1 400 ")
        assert b"no HTTP/1.1 request" in got + await asyncio.wait_for(end.read(), PATIENCE)
    assert net.dialled == 0


async def test_a_head_without_end_is_refused(reading: MakeReading) -> None:
    net = reading()
    program = await net.program()
    await program.stream.write(b"GET / HTTP/1.1\r\nHost: host.test\r\nX: ")
    with pytest.raises(StreamGone):
        for _ in range(10_000):
            await program.stream.write(b"x" * 65536)
    assert net.reports[0].verdict == "refused"


async def test_a_program_that_waits_for_the_host_to_speak_is_told_so(
    reading: MakeReading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intercept, "FIRST_S", 0.05)
    net = reading()
    net.connect(via="socks")
    error = await net.end()
    assert isinstance(error, Refused)
    assert "only HTTP" in str(error)


async def test_a_program_that_leaves_ends_the_wait_for_the_host(reading: MakeReading) -> None:
    net = reading()
    asked, left = asyncio.Event(), asyncio.Event()

    async def never(_: Heard, _writer: asyncio.StreamWriter) -> bool:
        asked.set()
        await asyncio.wait_for(left.wait(), PATIENCE)
        return False

    async with site(never) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        await program.request()
        await asyncio.wait_for(asked.wait(), PATIENCE)
        program.stream.abort()
        assert isinstance(await net.end(), StreamGone)
        left.set()


async def test_the_sum_of_a_body_is_that_of_what_was_sent() -> None:
    """Through TLS both ways, in pieces of every size."""
    one, two = pipe()
    from tests.fixtures.reading import HOSTS

    ours = TlsStream(one, trusting_hosts(), "host.test")
    theirs = TlsStream(two, HOSTS.context("host.test"))
    await asyncio.gather(ours.handshake(), theirs.handshake())
    data = b"".join(hashlib.sha256(bytes([n % 256])).digest() * n for n in range(200))

    async def send() -> None:
        at = 0
        for size in range(1, 10_000, 37):
            await ours.write(data[at : at + size])
            at += size
        await ours.write(data[at:])
        await ours.end()

    async def receive() -> bytes:
        got = b""
        while piece := await theirs.read(1000):
            got += piece
        return got

    _, got = await asyncio.gather(send(), receive())
    assert got == data
