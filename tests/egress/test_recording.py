"""What hosts answered is recorded before the program has it whole, and served again to replays."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import h11
import pytest

from reprise.egress import recording
from reprise.egress.contract import Moment, NotReached, Refused, StreamGone
from reprise.errors import DatabaseUnavailable
from reprise.log.postgres import Log
from reprise.log.store import RecordedResponse
from reprise.log.writer import Writer
from tests.fixtures.reading import Got, Heard, Reading, answer, site
from tests.fixtures.sandbox import PATIENCE
from tests.log.words import cell, ok

MakeReading = Callable[..., Awaitable[Reading]]
LIVE, REPLAY = Moment(0, False, 0), Moment(0, True, 0)


@pytest.fixture
async def writer(log: Log) -> AsyncIterator[Writer]:
    """A session of three steps, held for writing."""
    session = await log.begin(kernel="python3")
    held = await log.acquire(session, {"name": "fixture"})
    for number in range(3):
        step = await held.append_step(cell(str(number)))
        await held.record_outcome(step.seq, ok())
    yield held
    await held.close()


@pytest.fixture
async def reading(writer: Writer) -> AsyncIterator[MakeReading]:
    """Makes proxies that record into that session."""
    made: list[Reading] = []

    async def write(response: RecordedResponse, pieces: Sequence[bytes]) -> None:
        await writer.blobs.put_many(pieces)
        await writer.record_response(response)

    async def make(*, writes: bool = True, **more: object) -> Reading:
        made.append(Reading({"record": True, **more}))
        made[-1].proxy.record.bind(writer, write if writes else None)
        return made[-1]

    yield make
    for each in made:
        await each.close()
        await each.proxy.record.settled()


async def fresh(heard: Heard, writer: asyncio.StreamWriter) -> bool:
    """Never answers the same twice."""
    body = f"{heard.method} {heard.target} {heard.body.decode()} {uuid.uuid4()}".encode()
    writer.write(answer(body, headers={"X-Number": str(uuid.uuid4())}))
    return True


def same(one: Got, two: Got) -> bool:
    return vars(one) == vars(two)


async def rows(writer: Writer) -> list[RecordedResponse]:
    return [each async for each in writer.all_recorded()]


async def test_a_replay_gets_what_the_first_run_got(reading: MakeReading) -> None:
    net = await reading()
    asks: list[dict[str, object]] = [
        {"target": "/a"},
        {"target": "/a"},
        {"target": "/a", "headers": {"Range": "bytes=0-1"}},
        {"target": "/a", "method": "POST", "body": b"one"},
        {"target": "/a", "method": "POST", "body": b"two"},
        {"target": "/a", "method": "HEAD"},
    ]
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        first = [await program.ask(**each) for each in asks]  # type: ignore[arg-type]
    assert len({got.headers["x-number"] for got in first}) == len(asks)
    other = await reading(writes=False)
    other.moment = REPLAY
    program = await other.program()
    # Another order of requests that differ changes nothing.
    order = [3, 0, 5, 4, 1, 2]
    for at in order:
        assert same(await program.ask(**asks[at]), first[at])  # type: ignore[arg-type]
    assert other.dialled == 0
    assert {report.verdict for report in other.reports} == {"served"}
    assert all(report.moment.replay for report in other.reports)


async def test_requests_at_once_get_each_their_own(reading: MakeReading) -> None:
    net = await reading()
    async with site(fresh) as host:
        net.places["host.test"] = host.port

        async def one(number: int) -> Got:
            return await (await net.program()).ask(f"/{number % 3}")

        first = await asyncio.gather(*(one(number) for number in range(9)))
    net.moment = REPLAY

    async def again(number: int) -> Got:
        return await (await net.program()).ask(f"/{number}")

    for path in range(3):
        wanted = sorted(got.body for got in first[path::3])
        assert sorted([(await again(path)).body for _ in range(3)]) == wanted


async def test_where_the_record_has_no_answer_there_is_a_sentence(reading: MakeReading) -> None:
    net = await reading()
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        await (await net.program()).ask("/a")
    net.moment = REPLAY
    program = await net.program()
    await program.ask("/a")
    got = await program.ask("/a")
    assert got.status == 502
    assert "In step 0 the record has no answer to GET https://host.test/a" in got.text
    assert "asked for the 2nd time" in got.text
    assert "does not touch the network" in got.text
    for changed in ({"target": "/b"}, {"method": "POST", "body": b""}):
        got = await (await net.program()).ask(**changed)  # type: ignore[arg-type]
        assert got.status == 502
    assert net.dialled == 1
    assert [code for code, _ in net.said] == ["network-not-recorded"] * 3
    assert net.reports[-1].verdict == "failed"


async def test_other_steps_have_answers_of_their_own(reading: MakeReading) -> None:
    net = await reading()
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        got = []
        for step in range(3):
            net.moment = Moment(step, False, step)
            got.append(await program.ask("/a"))
    program = await net.program()
    for step in (2, 0, 1):
        net.moment = Moment(step, True, step)
        assert same(await program.ask("/a"), got[step])


async def test_a_connection_of_a_replay_goes_on_in_a_step_that_runs(reading: MakeReading) -> None:
    net = await reading()
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        await (await net.program()).ask("/a")
        net.moment = REPLAY
        program = await net.program()
        await program.ask("/a")
        assert net.dialled == 1
        net.moment = Moment(1, False, 1)
        assert (await program.ask("/a")).status == 200
        assert net.dialled == 2
        net.moment = Moment(1, True, 1)
        assert (await program.ask("/a")).status == 200
    assert len(host.heard) == 2


async def test_between_steps_the_nearest_answer_counts(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        net.moment = Moment(None, False, 0)
        first, second = await program.ask("/a"), await program.ask("/a")
        # Another process of the session, after the same step.
        later = await reading()
        later.places = net.places
        later.moment = Moment(None, False, 0)
        third = await (await later.program()).ask("/a")
    assert [(each.seq, each.idle, each.nth) for each in await rows(writer)] == [
        (0, True, 0),
        (0, True, 1),
        (0, True, 2),
    ]
    replay = await reading(writes=False)
    replay.moment = Moment(None, True, 0)
    program = await replay.program()
    assert same(await program.ask("/a"), first)
    # The thread is slower this time: it asks while the next step runs.
    replay.moment = Moment(1, True, 1)
    assert same(await program.ask("/a"), first)
    replay.moment = Moment(None, True, 0)
    assert same(await program.ask("/a"), second)
    assert same(await program.ask("/a"), third)


async def test_a_large_body_is_kept_in_pieces_and_comes_back(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()
    body = b"".join(hashlib.sha256(n.to_bytes(4)).digest() for n in range(100_000))

    async def large(_: Heard, out: asyncio.StreamWriter) -> bool:
        out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
        for at in range(0, len(body), 50_000):
            piece = body[at : at + 50_000]
            out.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await out.drain()
        out.write(b"0\r\nX-Sum: 7\r\n\r\n")
        return True

    async with site(large) as host:
        net.places["host.test"] = host.port
        first = await (await net.program()).ask()
    assert first.body == body
    [row] = await rows(writer)
    assert (row.state, row.size, len(row.pieces)) == ("whole", len(body), 4)
    net.moment = REPLAY
    assert same(await (await net.program()).ask(), first)


async def test_what_is_over_the_bound_passes_and_is_said(
    reading: MakeReading, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "RECORDED_BYTES", 10_000)
    net = await reading()

    async def large(_: Heard, out: asyncio.StreamWriter) -> bool:
        out.write(answer(b"x" * 10_001))
        return True

    async with site(large) as host:
        net.places["host.test"] = host.port
        assert len((await (await net.program()).ask()).body) == 10_001
    assert "over 9.8 KiB" in net.reports[0].reason
    [row] = await rows(writer)
    assert (row.state, row.pieces) == ("absent", ())
    net.moment = REPLAY
    got = await (await net.program()).ask()
    assert got.status == 502
    assert "was not recorded: its body is over 9.8 KiB" in got.text


async def test_an_answer_is_in_the_record_before_the_program_has_it_whole(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()
    storing, go = asyncio.Event(), asyncio.Event()

    async def write(response: RecordedResponse, pieces: Sequence[bytes]) -> None:
        storing.set()
        await asyncio.wait_for(go.wait(), PATIENCE)
        await writer.blobs.put_many(pieces)
        await writer.record_response(response)

    net.proxy.record.bind(writer, write)
    for data in (
        answer(b"hello"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ):

        async def one(_: Heard, out: asyncio.StreamWriter, data: bytes = data) -> bool:
            out.write(data)
            return True

        storing.clear()
        go.clear()
        async with site(one) as host:
            net.places["host.test"] = host.port
            program = await net.program()
            asking = asyncio.create_task(program.ask())
            await asyncio.wait_for(storing.wait(), PATIENCE)
            assert not asking.done()
            go.set()
            assert (await asyncio.wait_for(asking, PATIENCE)).status in (200, 204)


async def test_what_cannot_be_recorded_is_not_given_out_as_whole(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()

    async def write(_response: RecordedResponse, _pieces: Sequence[bytes]) -> None:
        raise DatabaseUnavailable("Postgres cannot be reached.")

    net.proxy.record.bind(writer, write)
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        got = await (await net.program()).ask()
    assert (got.status, got.text) == (502, "Postgres cannot be reached.\n")
    assert net.reports[0].verdict == "failed"


async def test_without_a_session_nothing_is_asked(reading: MakeReading, writer: Writer) -> None:
    net = await reading(writes=False)
    got = await (await net.program()).ask()
    assert got.status == 502
    assert "log is not open" in got.text
    assert net.dialled == 0


@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_what_a_program_did_not_read_to_its_end_is_there_for_a_replay(
    reading: MakeReading, writer: Writer, how: str
) -> None:
    net = await reading()
    left = asyncio.Event()

    async def endless(_: Heard, out: asyncio.StreamWriter) -> bool:
        out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nevent\n\r\n")
        await out.drain()
        await asyncio.wait_for(left.wait(), PATIENCE)
        return False

    async with site(endless) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        await program.request("/events")
        await program.head()
        event = await program.event()
        assert isinstance(event, h11.Data)
        if how == "abort":
            program.stream.abort()
        else:
            net.ends[0].cancel()
        await asyncio.wait({net.ends[0]}, timeout=PATIENCE)
        await net.proxy.record.settled()
        left.set()
    [row] = await rows(writer)
    assert (row.state, row.size) == ("part", 6)
    net.moment = REPLAY
    program = await net.program()
    await program.request("/events")
    await program.head()
    event = await program.event()
    assert isinstance(event, h11.Data)
    assert event.data == b"event\n"
    # One that wants more than was recorded is told that this is not all.
    with pytest.raises((StreamGone, h11.RemoteProtocolError)):
        await program.event()


async def test_what_was_given_up_before_an_answer_has_none_in_a_replay(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()
    asked, left = asyncio.Event(), asyncio.Event()

    async def never(_: Heard, _out: asyncio.StreamWriter) -> bool:
        asked.set()
        await asyncio.wait_for(left.wait(), PATIENCE)
        return False

    async with site(never) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        await program.request()
        await asyncio.wait_for(asked.wait(), PATIENCE)
        program.stream.abort()
        await asyncio.wait({net.ends[0]}, timeout=PATIENCE)
        await net.proxy.record.settled()
        left.set()
    net.moment = REPLAY
    got = await (await net.program()).ask()
    assert got.status == 502
    assert "gave up before there was one" in got.text


async def test_an_answer_that_broke_off_breaks_off_again(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()

    async def broken(_: Heard, out: asyncio.StreamWriter) -> bool:
        out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        return False

    async with site(broken) as host:
        net.places["host.test"] = host.port
        first = await (await net.program()).ask()
    assert first.cut
    net.moment = REPLAY
    second = await (await net.program()).ask()
    assert second.cut
    assert (second.status, second.body) == (first.status, first.body)


@pytest.mark.parametrize(
    ("error", "status"), [(Refused("no, says a rule"), 403), (NotReached("nobody answers"), 502)]
)
async def test_that_a_host_was_not_reached_is_recorded_too(
    reading: MakeReading, error: Refused | NotReached, status: int
) -> None:
    net = await reading()
    net.refused = error
    first = await (await net.program()).ask()
    assert (first.status, first.text) == (status, f"{error}\n")
    net.moment, net.refused = REPLAY, None
    assert same(await (await net.program()).ask(), first)
    assert net.dialled == 1


async def test_a_record_holds_the_answer_itself(reading: MakeReading, writer: Writer) -> None:
    """Not that somebody had it: a replay may have lost the cache that the program had."""
    net = await reading()
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        program = await net.program()
        await program.ask(headers={"If-None-Match": '"x"', "If-Modified-Since": "y", "X": "z"})
    [heard] = host.heard
    assert not {"if-none-match", "if-modified-since"} & set(heard.headers)
    assert heard.headers["x"] == "z"


async def test_no_header_of_a_request_and_no_cookie_is_recorded(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()
    secret = "s3cr3t-of-the-sandbox"

    async def cookies(_: Heard, out: asyncio.StreamWriter) -> bool:
        lines = {"Set-Cookie": f"id={secret}; Path=/", "X-Auth-Token": secret}
        out.write(answer(b"hello", headers=lines))
        return True

    async with site(cookies) as host:
        net.places["host.test"] = host.port
        got = await (await net.program()).ask(
            f"/?api_key={secret}",
            headers={"Authorization": secret, "Cookie": secret, "X-Mine": secret},
        )
    assert got.headers["set-cookie"] == f"id={secret}; Path=/"
    [row] = await rows(writer)
    assert secret not in repr(row)
    assert secret not in repr(net.reports)
    net.moment = REPLAY
    got = await (await net.program()).ask(f"/?api_key={secret}")
    assert got.headers["set-cookie"] == "id=not-recorded; Path=/"


async def test_a_credential_that_the_host_repeats_is_not_recorded(
    reading: MakeReading, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_TEST_KEY", "a-key-that-nobody-sees")
    secret = {"host": "host.test", "header": "X-Key", "prefix": "", "source": "env:A_TEST_KEY"}
    net = await reading(secrets=[secret])

    async def echo(heard: Heard, out: asyncio.StreamWriter) -> bool:
        out.write(answer(heard.headers["x-key"].encode()))
        return True

    async with site(echo) as host:
        net.places["host.test"] = host.port
        first = await (await net.program()).ask()
    assert host.heard[0].headers["x-key"] == "a-key-that-nobody-sees"
    assert first.body == b"*" * len("a-key-that-nobody-sees")
    [row] = await rows(writer)
    assert [await writer.blobs.get(piece) for piece in row.pieces] == [first.body]
    # And a replay needs none: it is not even read.
    monkeypatch.delenv("A_TEST_KEY")
    net.moment = REPLAY
    assert same(await (await net.program()).ask(), first)


async def test_a_replay_of_a_step_that_was_not_recorded_asks_and_keeps_nothing(
    reading: MakeReading, writer: Writer
) -> None:
    net = await reading()
    net.moment = Moment(0, True, 0, recorded=False)
    async with site(fresh) as host:
        net.places["host.test"] = host.port
        assert (await (await net.program()).ask()).status == 200
    assert len(host.heard) == 1
    assert await rows(writer) == []
    assert [report.verdict for report in net.reports] == ["allowed"]
