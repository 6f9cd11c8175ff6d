"""A credential goes to exactly its host, over TLS, and is never seen: not inside, not in any record."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.egress.contract import Destination, Moment, Refused
from reprise.egress.exchange import Denied, Origin
from reprise.egress.secrets import Mask, Secrets
from reprise.errors import UsageError
from reprise.sandbox.network import HostSecret, parse_rules
from tests.fixtures.reading import Heard, Program, Reading, answer, site
from tests.fixtures.sandbox import PATIENCE

KEY = "sk-0123456789-the-key"
RULE = {"host": "api.test", "header": "Authorization", "prefix": "Bearer ", "source": "env:API_KEY"}
MakeReading = Callable[..., Reading]


@pytest.fixture
async def reading() -> AsyncIterator[MakeReading]:
    made: list[Reading] = []

    def make(**more: object) -> Reading:
        rules = more.pop("rules", {"secrets": [RULE]})
        made.append(Reading(rules, **{"environ": {"API_KEY": KEY}, **more}))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        assert KEY not in repr(each.reports)
        assert KEY not in repr(each.said)
        await each.close()


async def echo(heard: Heard, writer: asyncio.StreamWriter) -> bool:
    """Answers with all that it was sent."""
    body = json.dumps({"headers": heard.headers, "body": heard.body.decode()}).encode()
    writer.write(answer(body, headers={"X-Echo": heard.headers.get("authorization", "none")}))
    return True


async def test_it_is_added_in_place_of_what_the_sandbox_sent(reading: MakeReading) -> None:
    net = reading()
    async with site(echo, host="api.test") as host:
        net.places["api.test"] = host.port
        program = await net.program("api.test")
        for headers in ({}, {"authorization": "Bearer guess"}, {"AUTHORIZATION": "x", "X": "y"}):
            assert (await program.ask(host="api.test", headers=headers)).status == 200
    for heard in host.heard:
        assert heard.headers["authorization"] == f"Bearer {KEY}"
        assert heard.headers["accept-encoding"] == "identity"
    assert host.heard[2].headers["x"] == "y"


async def test_it_is_masked_where_the_host_repeats_it(reading: MakeReading) -> None:
    net = reading()
    async with site(echo, host="api.test") as host:
        net.places["api.test"] = host.port
        got = await (await net.program("api.test")).ask(host="api.test")
    assert KEY not in str(got)
    assert got.headers["x-echo"] == f"Bearer {'*' * len(KEY)}"
    said = json.loads(got.body)
    assert said["headers"]["authorization"] == f"Bearer {'*' * len(KEY)}"


@pytest.mark.parametrize("cut", [1, 5, len(KEY) - 1])
async def test_it_is_masked_however_the_host_cuts_it(reading: MakeReading, cut: int) -> None:
    net = reading()

    async def pieces(_: Heard, writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        text = f"before {KEY} after {KEY}".encode()
        for at in range(0, len(text), cut):
            piece = text[at : at + cut]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        writer.write(f"0\r\nX-Key: {KEY}\r\n\r\n".encode())
        return True

    async with site(pieces, host="api.test") as host:
        net.places["api.test"] = host.port
        got = await (await net.program("api.test")).ask(host="api.test")
    hidden = "*" * len(KEY)
    assert got.text == f"before {hidden} after {hidden}"
    assert got.trailers == {"x-key": hidden}


@pytest.mark.parametrize("host", ["other.test", "api.test.other.test", "sub.api.test", "127.0.0.1"])
async def test_no_other_host_gets_it(reading: MakeReading, host: str) -> None:
    """Nor one at the same address: the name decides."""
    net = reading()
    moment = Moment(0, False, 0)
    assert net.proxy.wants(Destination("api.test", 443, "connect"), moment)
    assert not net.proxy.wants(Destination(host, 443, "connect"), moment)


async def test_no_other_port_gets_it(reading: MakeReading) -> None:
    net = reading()
    moment = Moment(0, False, 0)
    assert not net.proxy.wants(Destination("api.test", 8443, "connect"), moment)
    one = reading(rules={"secrets": [{**RULE, "host": "api.test:8443"}]})
    assert one.proxy.wants(Destination("api.test", 8443, "connect"), moment)
    assert not one.proxy.wants(Destination("api.test", 443, "connect"), moment)


async def test_where_all_is_read_other_hosts_still_do_not_get_it(reading: MakeReading) -> None:
    """Recording reads every host; the credential is that of one."""
    secrets = Secrets([HostSecret(**RULE)], {"API_KEY": KEY})
    assert [each.value for each in await secrets.of(Origin("https", "api.test", 443))] == [
        f"Bearer {KEY}".encode()
    ]
    for origin in (
        Origin("https", "other.test", 443),
        Origin("https", "api.test", 8443),
        Origin("https", "127.0.0.1", 443),
    ):
        assert await secrets.of(origin) == ()


async def test_a_request_that_names_another_host_is_not_passed_on(reading: MakeReading) -> None:
    """No fronting: the connection is to the host of the credential, the request for another."""
    net = reading()
    async with site(echo, host="api.test") as host:
        net.places["api.test"] = host.port
        got = await (await net.program("api.test")).ask(host="other.test")
    assert got.status == 421
    assert host.heard == []


async def test_a_redirect_takes_it_nowhere(reading: MakeReading) -> None:
    """The program follows with a connection of its own, which is another host's."""
    net = reading()

    async def redirect(_: Heard, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer(b"", "302 Found", {"Location": "https://evil.test/"}))
        return True

    async with site(redirect, host="api.test") as host:
        net.places["api.test"] = host.port
        program = await net.program("api.test")
        got = await program.ask(host="api.test")
        assert (got.status, got.headers["location"]) == (302, "https://evil.test/")
        assert (await program.ask("https://evil.test/", host="api.test")).status == 421
    assert not net.proxy.wants(Destination("evil.test", 443, "connect"), net.moment)
    assert len(host.heard) == 1


@pytest.mark.parametrize("via", ["http", "socks", "connect"])
async def test_it_is_never_sent_without_tls(reading: MakeReading, via: str) -> None:
    net = reading()
    async with site(echo, host=None) as host:
        net.places["api.test"] = host.port
        end = net.connect("api.test", 80, via)  # type: ignore[arg-type]
        got = await Program(end).ask(host="api.test")
    assert got.status == 403
    assert "over TLS only" in got.text
    assert host.heard == []


async def test_on_the_loopback_it_may_be_sent_in_the_clear(reading: MakeReading) -> None:
    net = reading(rules={"secrets": [{**RULE, "host": "127.0.0.2:8080"}]})
    async with site(echo, host=None) as host:
        net.places["127.0.0.2"] = host.port
        end = net.connect("127.0.0.2", 8080, "http")
        assert (await Program(end).ask(host="127.0.0.2:8080")).status == 200
    assert host.heard[0].headers["authorization"] == f"Bearer {KEY}"


async def test_trace_is_not_passed_on(reading: MakeReading) -> None:
    net = reading()
    got = await (await net.program("api.test")).ask(host="api.test", method="TRACE")
    assert got.status == 501
    assert net.dialled == 0


async def test_a_handshake_for_another_name_is_refused(reading: MakeReading) -> None:
    net = reading()
    with pytest.raises(Exception, match="unrecognized name"):
        await net.program("api.test", named="other.test")
    assert isinstance(await net.end(), Refused)


# where it is read ----------------------------------------------------------------------------------


async def credential(source: str, environ: dict[str, str], prefix: str = "") -> bytes:
    secret = HostSecret("api.test", "X-Key", prefix, source)
    [found] = await Secrets([secret], environ).of(Origin("https", "api.test", 443))
    assert KEY not in repr(found)
    return found.value


async def test_it_is_read_anew_for_each_request(reading: MakeReading, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    source = f"file:{path}"
    assert await credential(source, {}) == KEY.encode()
    path.write_text("another-key-of-today")
    assert await credential(source, {}, "Token ") == b"Token another-key-of-today"


@pytest.mark.parametrize(
    "value",
    ["", " \n", "two\nlines", "a\rb", "a\0b", "ünicode", "x" * 20_000],
    ids=repr,
)
async def test_what_is_no_line_of_ascii_is_not_sent(value: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(value)
    for source, environ in ((f"file:{path}", {}), ("env:K", {"K": value})):
        with pytest.raises(Denied) as denied:
            await credential(source, environ)
        assert denied.value.status == 502
        assert not value.strip() or value.strip() not in str(denied.value)


@pytest.mark.parametrize(
    "source", ["env:MISSING", "file:/missing/key", "file:/proc", "file:/dev/zero"]
)
async def test_where_there_is_none_the_request_is_not_sent(
    reading: MakeReading, source: str
) -> None:
    net = reading(rules={"secrets": [{**RULE, "source": source}]})
    async with site(echo, host="api.test") as host:
        net.places["api.test"] = host.port
        got = await (await net.program("api.test")).ask(host="api.test")
    assert got.status == 502
    assert source.partition(":")[2] in got.text
    assert host.heard == []


async def test_a_pipe_is_no_file_to_wait_for(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Denied, match="no file"):
        await asyncio.wait_for(credential(f"file:{tmp_path / 'pipe'}", {}), PATIENCE)


async def test_what_basic_wraps_is_masked_as_well() -> None:
    wrapped = base64.b64encode(b"somebody:a-long-password").decode()
    secret = HostSecret("api.test", "Authorization", "Basic ", "env:PAIR")
    found = await Secrets([secret], {"PAIR": wrapped}).of(Origin("https", "api.test", 443))
    mask = Mask.of(found)
    for text in (wrapped, "a-long-password", "somebody:a-long-password"):
        assert mask.whole(f"<{text}>".encode()) == b"<" + b"*" * len(text) + b">"


@pytest.mark.parametrize(
    "secret",
    [
        {"host": "*.api.test"},
        {"header": "Host"},
        {"header": "Content-Length"},
        {"header": "X Y"},
        {"prefix": "a\r\n"},
        {"prefix": "ü "},
        {"source": "API_KEY"},
        {"source": "file:key"},
        {"source": "env:A B"},
    ],
    ids=str,
)
def test_rules_that_make_no_sense_are_refused(secret: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        parse_rules({"secrets": [{**RULE, **secret}]})


# masking -------------------------------------------------------------------------------------------

TEXTS = st.lists(st.binary(min_size=3, max_size=8), min_size=1, max_size=3)


@given(TEXTS, st.lists(st.binary(max_size=10), max_size=8), st.data())
def test_no_text_comes_through_a_mask(
    texts: list[bytes], parts: list[bytes], data: st.DataObject
) -> None:
    for at in range(len(parts) + 1):
        parts.insert(at * 2, data.draw(st.sampled_from(texts)))
    stream = b"".join(parts)
    mask, cut, shown = Mask(texts), 0, b""
    while cut < len(stream):
        size = data.draw(st.integers(1, 12))
        shown += mask.feed(stream[cut : cut + size])
        cut += size
    shown += mask.end()
    assert len(shown) == len(stream)
    assert not any(text in shown for text in texts if set(text) != {0x2A})
    kept = [(one, two) for one, two in zip(stream, shown, strict=True) if one != two]
    assert all(two == 0x2A for _, two in kept)


@given(st.binary(max_size=200), st.binary(min_size=4, max_size=8))
def test_a_mask_changes_nothing_else(stream: bytes, text: bytes) -> None:
    mask = Mask([text])
    shown = b"".join(mask.feed(stream[at : at + 3]) for at in range(0, len(stream), 3)) + mask.end()
    if text not in stream:
        assert shown == stream
