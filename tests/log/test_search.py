"""Pages of a history hold exactly what a walk over all of it finds, whatever is asked for."""

from __future__ import annotations

import random
import uuid

import pytest

from reprise.errors import UsageError
from reprise.log import search
from reprise.log.model import Actor, During, NewOutcome, NewStep
from reprise.log.postgres import Log
from reprise.log.reader import Reader
from reprise.log.search import (
    StepFilter,
    find_network,
    find_notices,
    find_sessions,
    find_steps,
    searched,
)
from reprise.log.store import NetworkRow, Notice, StepRecord
from reprise.log.writer import Writer
from tests.log.words import ENVIRONMENT, cell, ok

AGENT = Actor("agent", "talk", 3)
SYSTEM = Actor("system")


def command(payload: dict[str, object], **changes: object) -> NewStep:
    return NewStep("command", payload, ENVIRONMENT, 5, **changes)  # type: ignore[arg-type]


def upload(*paths: str) -> NewStep:
    entries = [[path, "file", 0o644, 1, "a" * 64] for path in paths]
    return NewStep(
        "upload", {"root": "", "entries": entries, "removed": ["gone.txt"]}, ENVIRONMENT, 5
    )


STEPS = [
    cell("import pandas as pd"),
    cell('print("Ärger \\0 mit %% und _x_")'),
    cell(
        "x = 1\ny = 2",
        payload={"header": {"msg_type": "execute_request"}, "content": {"code": "z"}},
    ),
    command({"shell": "sort data.csv | uniq"}),
    command({"argv": ["grep", "-r", 'he said "no"', "."]}, actor=AGENT),
    upload("data/train.csv", "notes.md"),
    cell("df.plot()", actor=AGENT),
    NewStep("restart", {"tree": None}, ENVIRONMENT, 5, SYSTEM),
    cell("raise SystemExit"),
]
ENDS = ["ok", "error", "interrupted", "died", "lost"]


@pytest.fixture
async def history(log: Log, writer: Writer) -> Reader:
    """Two sessions' worth: 60 steps, a fork in the middle of them, and a step still open at it."""
    chance = random.Random(7)
    for number in range(40):
        step = await writer.append_step(chance.choice(STEPS))
        await writer.record_outcome(
            step.seq, NewOutcome(chance.choice(ENDS), ok().outputs, 7, number)
        )
    held = await writer.append_step(cell("a long one"))
    beside = await writer.append_step(
        NewStep(
            "comm",
            {"content": {"target_name": "jupyter.widget"}},
            ENVIRONMENT,
            5,
            during=During(held.seq, 0),
        )
    )
    await writer.record_outcome(beside.seq, ok())
    fork = await log.fork(writer.session, beside.seq)
    await writer.record_outcome(held.seq, ok())
    other = await log.acquire(fork, {})  # the step that was open at the fork is lost here
    for _ in range(18):
        step = await other.append_step(chance.choice(STEPS))
        await other.record_outcome(step.seq, ok())
    await other.append_step(cell("x = input()"))  # runs still
    await other.close()
    return await log.reader(fork)


FILTERS = [
    StepFilter(),
    StepFilter(kinds=["command", "upload"]),
    StepFilter(actors=["agent"]),
    StepFilter(actors=["system", "user"], kinds=["restart", "cell"]),
    StepFilter(ended=["lost"]),
    StepFilter(ended=["running"]),
    StepFilter(ended=["error", "died"], kinds=["cell"]),
    StepFilter(text="PANDAS import"),
    StepFilter(text="Ärger"),
    StepFilter(text='"no"'),
    StepFilter(text="%%"),
    StepFilter(text="_x_ und"),
    StepFilter(text="csv"),
    StepFilter(text="gone.txt train"),
    StepFilter(text="msg_type"),  # stands in every message, and nobody asked for it
    StepFilter(text="long", ended=["lost"]),
    StepFilter(text="nothing like this"),
]


def fits(record: StepRecord, wanted: StepFilter) -> bool:
    status = "running" if record.outcome is None else record.outcome.status
    new = record.step.new
    return (
        (not wanted.kinds or new.kind in wanted.kinds)
        and (not wanted.actors or new.actor.kind in wanted.actors)
        and (not wanted.ended or status in wanted.ended)
        and all(word.lower() in searched(record.step).lower() for word in wanted.words)
    )


async def walked(
    reader: Reader, wanted: StepFilter, newest: bool, limit: int
) -> tuple[list[StepRecord], int]:
    """All pages one after the other, and how many there were."""
    found: list[StepRecord] = []
    after, pages = None, 0
    while True:
        page = await find_steps(reader, wanted, after=after, newest=newest, limit=limit)
        assert len(page.rows) <= limit
        found += page.rows
        pages += 1
        if page.next is None:
            return found, pages
        after = page.next


@pytest.mark.parametrize("bounds", ["wide", "narrow"])
async def test_pages_hold_what_a_walk_finds(
    history: Reader, bounds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bounds == "narrow":
        monkeypatch.setattr(search, "SCANNED", 11)
        monkeypatch.setattr(search, "_AT_ONCE", 4)
        monkeypatch.setattr(search, "PAGE_BYTES", 900)
    everything = [record async for record in history.records(outputs=False)]
    assert len(everything) == 61
    for wanted in FILTERS:
        expected = [record for record in everything if fits(record, wanted)]
        for limit in (1, 3, 200):
            assert (await walked(history, wanted, False, limit))[0] == expected, wanted
            newest = await walked(history, wanted, True, limit)
            assert newest[0] == expected[::-1], wanted
    nothing = [wanted for wanted in FILTERS if not any(fits(each, wanted) for each in everything)]
    assert [wanted.text for wanted in nothing] == ["msg_type", "nothing like this"]


async def test_a_search_that_finds_nothing_stops_to_say_so(
    history: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SCANNED", 10)
    monkeypatch.setattr(search, "_AT_ONCE", 5)
    page = await find_steps(history, StepFilter(text="nothing like this"))
    assert (page.rows, page.next) == ((), 9)


@pytest.mark.parametrize("after", [-5, -1, 60, 61, 10**15])
async def test_a_cursor_beyond_the_history_is_no_fault(history: Reader, after: int) -> None:
    for newest in (False, True):
        page = await find_steps(history, StepFilter(), after=after, newest=newest)
        seqs = [record.step.seq for record in page.rows]
        everything = range(60, -1, -1) if newest else range(61)
        assert seqs == [seq for seq in everything if (seq < after if newest else seq > after)]


async def test_too_many_words_are_refused(history: Reader, log: Log) -> None:
    for text in ("a " * 9, "a" * 201):
        with pytest.raises(UsageError, match="8 words of 200 characters"):
            await find_steps(history, StepFilter(text=text))
        with pytest.raises(UsageError):
            await find_sessions(log, text=text)


async def test_sessions_come_in_pages_and_only_those_of_the_owner(log: Log, dsn: str) -> None:
    mine = []
    for number in range(7):
        notebook = f"/home/ada/100% done/part_{number % 2}.ipynb"
        mine.append(await log.begin(kernel="python3", notebook=notebook))
    stranger = await Log.connect(dsn, owner="stranger", home=log.home)
    await stranger.begin(kernel="python3", notebook="/home/ada/100% done/part_0.ipynb")
    await stranger.close()

    found: list[uuid.UUID] = []
    after = None
    while True:
        page = await find_sessions(log, after=after, limit=2)
        found += [info.id for info in page.rows]
        if page.next is None:
            break
        after = page.next
    assert found == [info.id for info in await log.sessions()]
    assert sorted(found) == sorted(mine)

    async def ids(**wanted: str) -> set[uuid.UUID]:
        return {info.id for info in (await find_sessions(log, **wanted)).rows}

    even, odd = set(mine[::2]), set(mine[1::2])
    assert await ids(notebook="part_1.ipynb") == odd
    assert await ids(notebook="/home/ada/100% done/part_0.ipynb") == even
    assert await ids(notebook="art_0.ipynb") == set()
    assert await ids(text="PART_1 python3") == odd
    assert await ids(text="100%") == even | odd
    assert await ids(text="part%1") == set()
    assert await ids(text=str(mine[3])[:13]) == {mine[3]}


async def test_notices_and_network_rows_come_in_pages(log: Log, writer: Writer) -> None:
    async def asked(held: Writer, count: int) -> None:
        step = await held.append_step(cell("get()"))
        await held.append_network(
            [
                NetworkRow(
                    step.seq, 9, f"h{n}.example.org", 443, None, "connect", "allowed", "", n, 1, 1
                )
                for n in range(count)
            ]
        )
        await held.record_outcome(step.seq, ok())

    for number in range(5):
        await writer.note(Notice(None, number, "test", f"notice \0 {number}", {"n": number}))
    await asked(writer, 3)
    await asked(writer, 4)
    fork = await log.fork(writer.session)
    held = await log.acquire(fork, {})
    await asked(held, 5)
    await held.close()

    reader = await log.reader(fork)
    expected = [row async for row in reader.network()]
    assert len(expected) == 12
    for limit in (1, 3, 4, 12, 50):
        found: list[NetworkRow] = []
        after = None
        while True:
            page = await find_network(reader, after=after, limit=limit)
            assert len(page.rows) <= limit
            found += page.rows
            if page.next is None:
                break
            after = page.next
        assert found == expected, limit
    middle = await find_network(reader, 1, 2)
    assert [row.seq for row in middle.rows] == [1] * 4

    reader = await log.reader(writer.session)
    first = await find_notices(reader, limit=2)
    second = await find_notices(reader, after=first.next, limit=3)
    assert [*first.rows, *second.rows] == await reader.notices()
    assert second.next is None
