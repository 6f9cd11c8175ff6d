"""A turn is stopped at any point: what runs is ended first, and the conversation says what was."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from reprise_server.agent import conversation
from reprise_server.agent.contract import Call as Made
from reprise_server.agent.contract import Result, text
from reprise_server.agent.scripted import Break, Call, Hold, overloaded, reply, says
from tests.agent.test_turn import asked, notes, words
from tests.fixtures.conversations import PATIENCE, Doing, Gate, MakeTalk


async def test_while_the_model_answers(talk: MakeTalk) -> None:
    hold = Hold()
    answer = reply("I think that", Call("note", {"text": "x"}), broken=Break(6, "hold", hold=hold))
    note = Doing()
    made = await talk([answer, says("Done.")], [note])
    await made.here.say("Do it.", "tester")
    await asyncio.to_thread(hold.reached.wait, 60)
    assert made.here.stop()
    assert (await made.end())["status"] == "cancelled"
    [answered] = await made.bodies("answered")
    assert answered["partial"] is True
    assert answered["usage"]["input_tokens"] > 0
    assert note.ran == []
    await made.here.go_on("tester")
    assert (await made.end())["status"] == "done"
    [message] = asked(made)
    assert "had stopped you" in message["content"][-1]["text"]


async def test_while_an_overload_is_waited_for(talk: MakeTalk) -> None:
    made = await talk([overloaded("3600"), says("Done.")])
    await made.here.say("Do it.", "tester")
    assert (await made.kind("waiting"))["seconds"] > 60
    made.here.stop()
    assert (await made.end())["status"] == "cancelled"
    assert (await made.kinds())[-3:] == ["waiting", "answered", "ended"]


async def test_while_a_question_waits(talk: MakeTalk) -> None:
    note = Doing("send", "outside", carries_out=True)
    answer = reply(Call("send", {"text": "a"}), Call("send", {"text": "b"}))
    made = await talk([answer, says("Done.")], [note])
    await made.here.say("Do it.", "tester")
    await made.question()
    made.here.stop()
    assert (await made.end())["status"] == "cancelled"
    assert note.ran == []
    [decided] = await made.bodies("decided")
    assert (decided["how"], decided["decision"]) == ("cancelled", "deny")
    found = await made.bodies("result")
    assert [body["status"] for body in found] == ["cancelled", "cancelled"]
    await made.turn("Something else.")
    content = asked(made)[-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "tool_result", "text"]


async def test_while_a_call_runs_and_before_the_next_one(talk: MakeTalk) -> None:
    gate = Gate()
    made = await talk([notes("a", "b"), says("Done.")], [Doing(do=gate)])
    await made.here.say("Do it.", "tester")
    await gate.begun()
    made.here.stop()
    assert (await made.end())["status"] == "cancelled"
    assert gate.cancelled == 1
    assert (await made.kinds())[-4:] == ["running", "result", "result", "ended"]
    first, second = await made.bodies("result")
    assert "stopped the turn while this call ran" in words(first)
    assert "before this call ran" in words(second)


async def test_what_a_cancelled_call_came_to_all_the_same_is_told(talk: MakeTalk) -> None:
    async def do(call: Made) -> Result:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Result([text("half of it is done")], "cancelled", (7,))
        raise AssertionError

    begun = asyncio.Event()
    made = await talk([notes("a")], [Doing(do=do)])
    await made.here.say("Do it.", "tester")
    await begun.wait()
    made.here.stop()
    await made.end()
    [result] = await made.bodies("result")
    assert (words(result), result["steps"]) == ("half of it is done", [7])


async def test_a_call_that_does_not_end_is_left_when_asked_twice(talk: MakeTalk) -> None:
    async def do(call: Made) -> Result:
        begun.set()
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                cancelled.set()
        return Result([text("late")])

    begun, over, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()
    made = await talk([notes("a")], [Doing(do=do)])
    await made.here.say("Do it.", "tester")
    await begun.wait()
    made.here.stop()
    await cancelled.wait()
    assert made.here.running
    made.here.stop()
    assert (await made.end())["status"] == "cancelled"
    over.set()
    assert "may go on" in words((await made.bodies("result"))[-1])


async def test_a_call_that_does_not_end_holds_up_no_shutdown(
    talk: MakeTalk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def do(call: Made) -> Result:
        begun.set()
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return Result([text("late")])

    monkeypatch.setattr(conversation, "CLOSING_S", 0.1)
    begun, over = asyncio.Event(), asyncio.Event()
    made = await talk([notes("a")], [Doing(do=do)])
    await made.here.say("Do it.", "tester")
    await begun.wait()
    async with asyncio.timeout(PATIENCE):
        await made.here.close()
    assert (await made.end())["status"] == "interrupted"
    over.set()


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_stop_comes_before_what_has_not_begun(talk: MakeTalk, when: str) -> None:
    """It is heard between any two entries, not only where something is waited for."""
    note = Doing()
    made = await talk([notes("a"), says("Done.")], [note])
    wanted = "answered" if when == "before" else "result"

    def stop(told: Any) -> None:
        if told["type"] == "entry" and told["entry"]["kind"] == wanted:
            made.here.stop()

    made.listen = stop
    await made.here.say("Do it.", "tester")
    assert (await made.end())["status"] == "cancelled"
    assert len(note.ran) == (0 if when == "before" else 1)
    assert len(made.model.exchanges) == 1


async def test_a_server_that_shuts_down_leaves_a_turn_that_goes_on(talk: MakeTalk) -> None:
    send = Doing("send", "outside", carries_out=True)
    made = await talk([reply(Call("send", {"text": "a"})), says("Done.")], [send])
    await made.here.say("Do it.", "tester")
    question = await made.question()
    await made.here.close()
    assert (await made.end())["status"] == "interrupted"
    assert await made.bodies("decided") == []
    made.again()
    await made.here.go_on("tester")
    assert await made.bodies("question") == [question]
    await made.waits(question["id"])
    made.questions.decide(question["id"], "once", how="terminal")
    assert (await made.end())["status"] == "done"
    assert len(send.ran) == 1
