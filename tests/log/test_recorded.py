"""What hosts answered: stored once, append only, found again by replays, through forks too."""

from __future__ import annotations

import dataclasses
import hashlib

import psycopg
import pytest

from reprise.errors import LeaseLost, RepriseError
from reprise.log import recorded as recording
from reprise.log.postgres import Log
from reprise.log.store import RecordedResponse
from reprise.log.writer import Writer
from tests.log.aging import age_blobs
from tests.log.words import cell, ok

KEY = hashlib.sha256(b"a request").hexdigest()
OTHER = hashlib.sha256(b"another").hexdigest()


def answer(seq: int, key: str = KEY, nth: int = 0, **more: object) -> RecordedResponse:
    made = RecordedResponse(
        seq=seq,
        idle=False,
        key=key,
        nth=nth,
        at=1_000,
        state="whole",
        why="",
        method="GET",
        url=f"https://example.org/{seq}/{nth}",
        status=200,
        reason="OK",
        headers=(("Content-Type", "text/plain"), ("X-Twice", "a"), ("X-Twice", "b")),
        trailers=(),
        pieces=(),
        size=0,
    )
    return dataclasses.replace(made, **more)  # type: ignore[arg-type]


async def steps(writer: Writer, count: int) -> None:
    for number in range(count):
        step = await writer.append_step(cell(str(number)))
        await writer.record_outcome(step.seq, ok())


async def test_an_answer_comes_back_as_it_was_stored(writer: Writer) -> None:
    await steps(writer, 1)
    pieces = tuple(await writer.blobs.put_many([b"one", b"two"]))
    stored = [
        answer(-1, idle=True),
        answer(0, reason="näh\0", headers=(("X", "é\x7f"),), trailers=(("T", "1"),)),
        answer(0, nth=1, state="part", why="the host ended it", pieces=pieces, size=6),
        answer(0, OTHER, state="absent", why="too large", size=1 << 40),
    ]
    for each in stored:
        await writer.record_response(each)
    key = lambda each: (each.seq, each.key, each.nth)  # noqa: E731
    assert [each async for each in writer.all_recorded()] == sorted(stored, key=key)
    for each in stored:
        assert await writer.recorded(each.seq, each.key, each.nth) == each
    assert await writer.recorded_count(0, KEY) == 2
    assert await writer.recorded_count(1, KEY) == 0


async def test_one_request_has_one_answer_however_often_it_is_stored(writer: Writer) -> None:
    await steps(writer, 1)
    await writer.record_response(answer(0))
    await writer.record_response(answer(0, status=500))
    found = await writer.recorded(0, KEY, 0)
    assert found is not None
    assert found.status == 200


async def test_only_what_came_between_steps_is_found_from_another_step(writer: Writer) -> None:
    await steps(writer, 4)
    await writer.record_response(answer(1))
    await writer.record_response(answer(3, OTHER, idle=True))
    assert await writer.recorded(2, KEY, 0) is None
    assert await writer.recorded(2, KEY, 0, idle=True) == answer(1)
    assert await writer.recorded(0, OTHER, 0) == answer(3, OTHER, idle=True)
    assert await writer.recorded(0, OTHER, 1, idle=True) is None


async def test_many_answers_are_read_in_pages(
    writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_PAGE_ROWS", 3)
    await steps(writer, 2)
    made = [answer(seq, key, nth) for seq in (0, 1) for key in (KEY, OTHER) for nth in range(4)]
    for each in reversed(made):
        await writer.record_response(each)
    found = [(each.seq, each.key, each.nth) async for each in writer.all_recorded()]
    assert found == sorted((each.seq, each.key, each.nth) for each in made)


async def test_a_fork_sees_the_answers_of_its_steps_and_its_own(log: Log) -> None:
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {"pid": 1})
    await steps(writer, 2)
    await writer.record_response(answer(0))
    await writer.record_response(answer(1, status=201))
    fork = await log.acquire(await log.fork(session, 0), {"pid": 1})
    await steps(fork, 1)
    await fork.record_response(answer(1, status=202))
    assert [each.status async for each in fork.all_recorded()] == [200, 202]
    assert [each.status async for each in writer.all_recorded()] == [200, 201]
    await fork.close()
    await writer.close()


async def test_an_answer_names_no_blob_that_is_not_stored(writer: Writer, dsn: str) -> None:
    await steps(writer, 1)
    with pytest.raises(RepriseError, match="not stored"):
        await writer.record_response(answer(0, pieces=(KEY,)))
    values = recording.values_of(
        writer.session, writer.owner, writer.epoch, answer(0, pieces=(KEY,))
    )
    with pytest.raises(RepriseError, match="names a blob that is not stored"):
        await writer._execute(recording.INSERT, values)
    assert [each async for each in writer.all_recorded()] == []


async def test_who_lost_the_session_records_nothing_more(log: Log) -> None:
    session = await log.begin(kernel="python3")
    first = await log.acquire(session, {"pid": 1})
    await steps(first, 1)
    await first.close()
    with pytest.raises(LeaseLost):
        await first.record_response(answer(0))
    second = await log.acquire(session, {"pid": 1})
    with pytest.raises(RepriseError):
        await second.record_response(answer(7))
    await second.close()


async def test_a_collection_leaves_what_an_answer_names(log: Log, writer: Writer, dsn: str) -> None:
    await steps(writer, 1)
    small, large = b"small", b"x" * (3 << 20)
    pieces = tuple(await writer.blobs.put_many([small, large]))
    [left] = await writer.blobs.put_many([b"nobody names me"])
    await writer.record_response(answer(0, pieces=pieces, size=len(small) + len(large)))
    age_blobs(dsn, log.home)
    assert (await log.collect()).blobs == 1
    assert [await writer.blobs.get(name) for name in pieces] == [small, large]
    assert await writer.blobs.missing([left]) == {left}


@pytest.mark.parametrize(
    "change",
    ["UPDATE reprise.recorded SET status = 1", "DELETE FROM reprise.recorded"],
)
async def test_what_is_recorded_cannot_be_changed(writer: Writer, dsn: str, change: str) -> None:
    await steps(writer, 1)
    await writer.record_response(answer(0))
    with psycopg.connect(dsn, autocommit=True) as connection:
        for role, state in (("reprise_kernel", "42501"), ("reprise_owner", "RP003")):
            connection.execute(f"SET ROLE {role}")
            with pytest.raises(psycopg.Error) as refused:
                connection.execute(change.replace("status = 1", "size = 1"))
            assert refused.value.sqlstate == state
