"""After a server died, a turn goes on from its entries: nothing runs twice, what may have is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from reprise.errors import LeaseHeld
from reprise.log.conversations import Conversations
from reprise.log.model import NewOutcome, NewStep, Outcome, OutputEntry, Step
from reprise.log.store import StepRecord
from reprise_server.agent.scripted import Call, Reply, reply, says
from tests.agent.test_turn import asked, notes, words
from tests.fixtures.conversations import Doing, Gate, MakeTalk


def step(seq: int, status: Any, shown: str = "") -> StepRecord:
    new = NewStep("command", {"shell": "x"}, "0" * 64, 1)
    outputs = (OutputEntry("stream", {"name": "stdout", "text": shown}),) if shown else ()
    outcome = None
    if status is not None:
        ended = NewOutcome(status, "0" * 64, 2)
        outcome = Outcome(seq, 2, ended, b"")
    return StepRecord(Step(seq, 1, new, b""), outcome, outputs)


TWO = [
    reply(Call("note", {"text": "a"}, id="toolu_a"), Call("note", {"text": "b"}, id="toolu_b")),
    says("Done."),
]


@pytest.mark.parametrize(
    ("kind", "number", "ran", "lost"),
    [
        ("said", 1, ["a", "b"], []),
        ("asked", 1, ["a", "b"], []),
        ("answered", 1, ["a", "b"], []),
        ("called", 1, ["a", "b"], []),
        ("running", 1, ["a", "b"], ["toolu_a"]),
        ("result", 1, ["a", "b"], []),
        ("called", 2, ["a", "b"], []),
        ("running", 2, ["a", "b"], ["toolu_b"]),
        ("result", 2, ["a", "b"], []),
        ("asked", 2, ["a", "b"], []),
    ],
)
async def test_it_dies_after_each_kind_of_entry(
    talk: MakeTalk, kind: str, number: int, ran: list[str], lost: list[str]
) -> None:
    def script(asked: Any) -> Reply:
        return TWO[min(asked.answers, 1)]

    note = Doing()
    made = await talk(script, [note])
    made.die_after(kind, number)
    await made.gone("Note both.")
    await made.here.go_on("tester")
    assert (await made.end())["status"] == "done"
    assert [given["text"] for given in note.ran] == ran
    found = {body["id"]: body for body in await made.bodies("result")}
    assert sorted(found) == ["toolu_a", "toolu_b"]
    assert [name for name, body in sorted(found.items()) if body["status"] == "lost"] == lost
    ends = [body["status"] for body in await made.bodies("ended")]
    assert ends == ["interrupted", "done"]
    called = [body["id"] for body in await made.bodies("called")]
    assert sorted(called) == ["toolu_a", "toolu_b"]


@pytest.mark.parametrize("status", ["ok", "error", "interrupted", "died", "lost", None])
async def test_what_the_log_says_of_a_lost_call_is_told(talk: MakeTalk, status: Any) -> None:
    made = await talk(lambda asked: TWO[min(asked.answers, 1)], [Doing("note", "run")])
    made.steps.records["toolu_a"] = [step(12, status, "it showed this")]
    made.steps.taints = [("network", "a.example")]
    made.die_after("running")
    await made.gone("Note both.")
    await made.here.go_on("tester")
    await made.end()
    result = next(body for body in await made.bodies("result") if body["id"] == "toolu_a")
    assert result["steps"] == [12]
    assert "Step 12" in words(result)
    assert ("it showed this" in words(result)) == (status is not None)
    assert result["taints"] == [{"kind": "network", "source": "a.example"}]


async def test_who_says_something_new_instead_leaves_no_call_without_an_end(
    talk: MakeTalk,
) -> None:
    note = Doing()
    made = await talk(lambda asked: TWO[min(asked.answers, 1)], [note])
    made.die_after("running")
    await made.gone("Note both.")
    assert (await made.turn("Forget it."))["status"] == "done"
    assert len(note.ran) == 1
    content = asked(made)[-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text"]
    ends = {body["id"]: body["status"] for body in await made.bodies("result")}
    assert ends == {"toolu_a": "lost", "toolu_b": "cancelled"}


async def test_an_approval_that_was_given_before_it_died_still_stands(talk: MakeTalk) -> None:
    send = Doing("send", "outside", carries_out=True)
    answers = [reply(Call("send", {"text": "a"})), says("Done.")]
    made = await talk(lambda asked: answers[min(asked.answers, 1)], [send])
    made.die_after("decided")
    await made.here.say("Send.", "tester")
    made.questions.decide((await made.question())["id"], "once", how="terminal")
    await made.gone(None)
    await made.here.go_on("tester")
    assert (await made.end())["status"] == "done"
    assert len(send.ran) == 1
    assert len(await made.bodies("question")) == 1


@pytest.mark.parametrize("expired", [False, True])
async def test_a_question_that_waited_is_put_again_only_if_its_time_has_run_out(
    talk: MakeTalk, expired: bool
) -> None:
    send = Doing("send", "outside", carries_out=True)
    answers = [reply(Call("send", {"text": "a"})), says("Done.")]
    made = await talk(lambda asked: answers[min(asked.answers, 1)], [send])
    made.die_after("question")
    await made.gone("Send.")
    if expired:
        late = made.clock() + 3600 * 1_000_000
        made.clock = lambda: late
    await made.here.go_on("tester")
    question = await made.question(2 if expired else 1)
    made.questions.decide(question["id"], "once", how="terminal")
    assert (await made.end())["status"] == "done"
    assert len(send.ran) == 1
    assert len(await made.bodies("question")) == (2 if expired else 1)


async def test_one_process_at_a_time_goes_on_with_a_conversation(talk: MakeTalk) -> None:
    made = await talk([notes("a"), says("Done."), says("Again.")], [Doing()])
    writer = await Conversations(made.log).open(made.id, {"pid": 7, "host": "elsewhere"})
    with pytest.raises(LeaseHeld, match="elsewhere"):
        await made.here.say("Do it.", "tester")
    await writer.close()
    assert (await made.turn())["status"] == "done"
    # Between turns nobody holds it.
    writer = await Conversations(made.log).open(made.id, {"pid": 7})
    await writer.append(writer.turn, "waiting", {"why": "another", "seconds": 0, "attempt": 1})
    await writer.close()
    assert (await made.turn("More."))["status"] == "done"


async def test_who_lost_the_conversation_meanwhile_writes_no_more(talk: MakeTalk) -> None:
    gate = Gate()
    made = await talk([notes("a"), says("Done.")], [Doing(do=gate)])
    await made.here.say("Do it.", "tester")
    await gate.begun()
    made.lose_connections()
    writer = await Conversations(made.log).open(made.id, {"pid": 7})
    gate.open()
    await made.until(lambda told: told["type"] == "cut")
    async with asyncio.timeout(60):
        await made.here.done()
    await writer.close()
    assert (await made.kinds())[-1] == "running"
    made.again()
    await made.here.go_on("tester")
    assert (await made.end())["status"] == "done"
    [result] = await made.bodies("result")
    assert result["status"] == "lost"
