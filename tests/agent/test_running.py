"""Whoever watches a conversation is told of every entry, in order and once, on whatever loop it is."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprise.errors import UnavailableError, UsageError
from reprise.log.conversations import ConversationNotFound, Conversations
from reprise.log.postgres import Log
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.questions import NotWaiting
from reprise_server.agent.running import MOST_WAITING, Running, Told
from reprise_server.agent.scripted import Break, Hold, ScriptedModel, reply, says
from reprise_server.agent.settings import RepriseAgent

PATIENCE = 60.0


@pytest.fixture
async def running(talks_dsn: str, tmp_path: Path, model: ScriptedModel) -> AsyncIterator[Running]:
    async def connect() -> Log:
        return await Log.connect(talks_dsn, owner="tester", home=tmp_path / "home")

    settings = RepriseAgent(base_url=model.url, api_key=model.key)
    made = Running(connect, Assembly(settings, skills=False), linger_s=0.05)
    yield made
    await made.close()


async def begun(running: Running, talks_log: Log) -> uuid.UUID:
    return await running.begin(await talks_log.begin(kernel="python3"), title="test")


async def collected(told: AsyncIterator[Told], until: str = "ended") -> list[Mapping[str, Any]]:
    found = []
    async with asyncio.timeout(PATIENCE):
        async for each in told:
            found.append(each)
            if each["type"] == until:
                return found
    raise AssertionError


def seqs(found: list[Mapping[str, Any]]) -> list[int]:
    return [each["entry"]["seq"] for each in found if each["type"] == "entry"]


async def test_each_watcher_is_told_of_every_entry_once_whenever_it_came(
    running: Running, talks_log: Log, model: ScriptedModel
) -> None:
    hold = Hold()
    model.then(reply("One, two, three.", broken=Break(4, "hold", hold=hold)), says("Four."))
    conversation = await begun(running, talks_log)
    async with running.subscribe(conversation) as early:
        await running.say(conversation, "Count.")
        await asyncio.to_thread(hold.reached.wait, PATIENCE)
        async with running.subscribe(conversation, after=1) as late:
            hold.go.set()
            first, second = await collected(early), await collected(late)
    assert seqs(first) == list(range(len(seqs(first))))
    assert seqs(second) == seqs(first)[2:]
    shown = "".join(each["delta"].get("text", "") for each in first if each["type"] == "delta")
    assert shown == "One, two, three."
    stored = await Conversations(talks_log).entries(conversation)
    assert [each["entry"] for each in first if each["type"] == "entry"] == [
        entry.to_json() for entry in stored
    ]


async def test_it_is_driven_from_other_threads_and_loops(
    running: Running, talks_log: Log, model: ScriptedModel
) -> None:
    model.then(*[says("Done.") for _ in range(4)])
    conversations = [await begun(running, talks_log) for _ in range(4)]

    async def drive(conversation: uuid.UUID) -> None:
        async with running.subscribe(conversation) as told:
            await running.say(conversation, "Do it.")
            ends.append((await collected(told))[-1]["status"])

    ends: list[str] = []
    threads = [
        threading.Thread(target=lambda one=one: asyncio.run(drive(one))) for one in conversations
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join, PATIENCE)
    assert ends == ["done"] * 4


async def test_a_watcher_that_reads_nothing_misses_no_entry_and_holds_up_nobody(
    running: Running, talks_log: Log, model: ScriptedModel
) -> None:
    model.then(reply("word " * 20_000, ragged=0), says("Again."))
    conversation = await begun(running, talks_log)
    async with running.subscribe(conversation) as slow:
        async with running.subscribe(conversation) as told:
            await running.say(conversation, "Talk.")
            await collected(told)
        found = await collected(slow)
    assert seqs(found) == list(range(len(seqs(found))))
    assert sum(each["type"] == "delta" for each in found) <= MOST_WAITING


async def test_a_watcher_whose_loop_is_gone_harms_nobody(
    running: Running, talks_log: Log, model: ScriptedModel
) -> None:
    model.then(says("Done."))
    conversation = await begun(running, talks_log)

    async def leave() -> None:
        loop = asyncio.get_running_loop()
        await running.watch(conversation, lambda told: loop.call_soon_threadsafe(told.get, "x"))

    await asyncio.to_thread(asyncio.run, leave())
    async with running.subscribe(conversation) as told:
        await running.say(conversation, "Do it.")
        assert (await collected(told))[-1]["status"] == "done"


async def test_a_closed_one_stops_its_turns_and_refuses_new_ones(
    running: Running, talks_log: Log, model: ScriptedModel
) -> None:
    hold = Hold()
    model.then(reply("Long", broken=Break(3, "hold", hold=hold)))
    conversation = await begun(running, talks_log)
    await running.say(conversation, "Talk.")
    await asyncio.to_thread(hold.reached.wait, PATIENCE)
    await running.close()
    await running.close()
    last = (await Conversations(talks_log).entries(conversation))[-1]
    assert (last.kind, last.body["status"]) == ("ended", "interrupted")
    with pytest.raises(UnavailableError):
        await running.say(conversation, "More.")


async def test_what_is_not_there_is_refused(running: Running, talks_log: Log) -> None:
    nobody = uuid.uuid4()
    for ask in (running.say(nobody, "Hello."), running.go_on(nobody), running.undo(nobody)):
        with pytest.raises(ConversationNotFound):
            await ask
    assert not await running.cancel(nobody)
    with pytest.raises(NotWaiting):
        await running.decide(nobody, "q1", "once", how="terminal")
    conversation = await begun(running, talks_log)
    for words in ("", " \n", "x" * 300_000):
        with pytest.raises(UsageError):
            await running.say(conversation, words)
    assert len(await Conversations(talks_log).entries(conversation)) == 2


async def test_what_was_opened_is_closed_some_time_after_the_turn(
    running: Running, talks_log: Log, model: ScriptedModel
) -> None:
    model.then(says("Done."), says("Again."))
    conversation = await begun(running, talks_log)
    async with running.subscribe(conversation) as told:
        await running.say(conversation, "Do it.")
        await collected(told)
    async with asyncio.timeout(PATIENCE):
        while running._live:
            await asyncio.sleep(0.01)
    async with running.subscribe(conversation, after=1) as told:
        await running.say(conversation, "Again.")
        assert (await collected(told))[-1]["status"] == "done"
