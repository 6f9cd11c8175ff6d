"""A turn keeps its order: an entry before each act, every call its end, whatever the model does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest

from reprise.errors import UnavailableError
from reprise_server.agent.contract import BadCall, Result, text
from reprise_server.agent.contract import Call as Made
from reprise_server.agent.conversation import NothingToContinue, TurnRuns
from reprise_server.agent.messages import CUT_SHORT
from reprise_server.agent.notebook.cells import snapshot
from reprise_server.agent.notebook.file import FileNotebook
from reprise_server.agent.scripted import Break, Call, Send, Thought, error, overloaded, reply, says
from tests.agent import notebooks
from tests.fixtures.conversations import Doing, Gate, MakeTalk, Talk

PRICE = {
    "input": "3.00",
    "output": "15.00",
    "cache_write": "3.75",
    "cache_read": "0.30",
    "currency": "USD",
}


def notes(*texts: str) -> Any:
    """An answer that calls `note` with each of these."""
    return reply(*(Call("note", {"text": each}) for each in texts))


def words(body: Mapping[str, Any]) -> str:
    """The text of a result's entry."""
    return "\n".join(block["text"] for block in body["content"] if block["type"] == "text")


def asked(talk: Talk) -> list[Mapping[str, Any]]:
    """The messages of the newest request."""
    return list(talk.model.exchanges[-1].asked.messages)


# The order ----------------------------------------------------------------------------------------


async def test_each_thing_is_recorded_before_it_happens(talk: MakeTalk) -> None:
    async def look(call: Made) -> Result:
        seen.extend(await made.kinds())
        return Result([text("noted")])

    seen: list[str] = []
    made = await talk([notes("a"), says("Done.")], [Doing(do=look)])
    assert (await made.turn("Note a."))["status"] == "done"
    kinds = ["begun", "session", "said", "asked", "answered", "called", "running"]
    assert seen == kinds
    assert await made.kinds() == [*kinds, "result", "asked", "answered", "ended"]
    [result] = made.model.exchanges[-1].asked.results
    assert result.text == "noted"


async def test_results_of_one_answer_are_one_message_in_its_order(talk: MakeTalk) -> None:
    """One fails, one is denied, one cannot be: the others run all the same."""

    async def do(call: Made) -> Result:
        match call.input["text"]:
            case "bad":
                raise BadCall("no such note")
            case "away":
                raise UnavailableError("the kernel is away")
            case "fault":
                raise ZeroDivisionError
        return Result([text(f"noted {call.input['text']}")])

    note, secret = Doing(do=do), Doing("secret")
    answer = reply(
        Call("note", {"text": "a"}),
        Call("secret", {"text": "no"}),
        Call("nothing", {"text": "unknown"}),
        Call("note", {"text": 7}),
        Call("note", {"text": "bad"}),
        Call("note", {"text": "away"}),
        Call("note", {"text": "fault"}),
        Call("note", {"text": "z"}),
    )
    made = await talk([answer, says("Done.")], [note, secret])
    made.policies.rules = [{"name": "no-secret", "decision": "deny", "tool": ["secret"]}]
    assert (await made.turn())["status"] == "done"
    *_, sent, message = asked(made)
    assert message["role"] == "user"
    assert [block["type"] for block in message["content"]] == ["tool_result"] * 8
    ids = [block["id"] for block in sent["content"] if block["type"] == "tool_use"]
    assert [block["tool_use_id"] for block in message["content"]] == ids
    found = await made.bodies("result")
    ends = [body["status"] for body in found]
    assert ends == ["ok", "denied", "error", "error", "error", "error", "error", "ok"]
    wrong = [bool(block.get("is_error")) for block in message["content"]]
    assert wrong == [end != "ok" for end in ends]
    assert "personal/no-secret" in words(found[1])
    assert "There is no tool 'nothing'" in words(found[2])
    assert words(found[4]) == "no such note"
    assert words(found[5]) == "the kernel is away"
    assert "ZeroDivisionError" in words(found[6])
    assert secret.ran == []
    assert [given["text"] for given in note.ran] == ["a", "bad", "away", "fault", "z"]


async def test_a_turn_stores_the_notebook_as_it_was_before(talk: MakeTalk, tmp_path: Path) -> None:
    file = tmp_path / "a.ipynb"
    nbformat.write(nbformat.from_dict(notebooks.of(notebooks.code("one", "x = 1"))), file)
    document = FileNotebook(file, tmp_path / "home")
    made = await talk([says("Done."), says("Again.")], document=document)
    await made.turn()
    [stored] = await made.bodies("notebook")
    whole = await made.log.blobs.get(stored["sha256"])
    assert whole == snapshot(await document.read())
    assert (stored["path"], stored["where"]) == ("a.ipynb", "file")
    await made.turn()
    assert len(await made.bodies("notebook")) == 2


async def test_a_notebook_that_cannot_be_read_stops_no_turn(talk: MakeTalk, tmp_path: Path) -> None:
    document = FileNotebook(tmp_path / "absent.ipynb", tmp_path / "home")
    made = await talk([says("Done.")], document=document)
    assert (await made.turn())["status"] == "done"
    assert await made.bodies("notebook") == []
    assert any(told["type"] == "note" for told in made.told)


async def test_a_second_turn_waits_for_the_first_ones_end(talk: MakeTalk) -> None:
    gate = Gate()
    made = await talk([notes("a"), says("Done."), says("Twice.")], [Doing(do=gate)])
    await made.here.say("First.", None)
    await gate.begun()
    for again in (made.here.say("Second.", None), made.here.go_on(None)):
        with pytest.raises(TurnRuns):
            await again
    gate.open()
    await made.end()
    with pytest.raises(NothingToContinue):
        await made.here.go_on(None)
    assert await made.here.say("Second.", None) == 2
    await made.end()


async def test_a_conversation_goes_on_with_all_that_was_said(talk: MakeTalk) -> None:
    made = await talk(
        [reply(Thought("Hm."), "First."), notes("a"), says("Second.")],
        [Doing()],
    )
    await made.turn("One.")
    first = asked(made)
    await made.turn("Two.")
    last = asked(made)
    assert [message["role"] for message in last] == [
        *("user", "assistant", "user", "assistant", "user"),
    ]
    assert last[0]["content"][0]["text"] == first[0]["content"][0]["text"] == "One."
    assert [block["type"] for block in last[1]["content"]] == ["thinking", "text"]


# What the model does ------------------------------------------------------------------------------


async def test_an_overload_is_waited_for_where_people_see_it(talk: MakeTalk) -> None:
    made = await talk([overloaded("0"), error(500, "api_error", "Oops"), says("Done.")])
    assert (await made.turn())["status"] == "done"
    waits = await made.bodies("waiting")
    assert [(wait["status"], wait["attempt"]) for wait in waits] == [(529, 2), (500, 3)]
    assert (await made.kinds())[2:] == ["said", "asked", "waiting", "waiting", "answered", "ended"]


@pytest.mark.parametrize("how", ["refused", "end", "reset", "error"])
async def test_a_model_that_fails_ends_the_turn_which_can_be_continued(
    talk: MakeTalk, how: Any
) -> None:
    failing: Any = error(400, "invalid_request_error", "Bad")
    if how != "refused":
        failing = reply(Call("note", {"text": "half"}), broken=Break(5, how))
    note = Doing()
    made = await talk([failing, says("Done.")], [note], attempts=1)
    end = await made.turn()
    assert end["status"] == "failed"
    assert end["why"]
    assert (await made.bodies("answered"))[-1]["partial"] is True
    assert note.ran == []
    await made.here.go_on("tester")
    assert (await made.end())["status"] == "done"
    [message] = asked(made)
    assert "asks you to go on" in message["content"][-1]["text"]


async def test_a_call_that_was_cut_at_the_bound_does_not_run(talk: MakeTalk) -> None:
    cut = reply(
        "I write it.", Call("note", {"text": "x"}, json='{"text": "half of it'), stop="max_tokens"
    )
    note = Doing()
    made = await talk([cut, notes("less"), says("Done.")], [note])
    assert (await made.turn())["status"] == "done"
    assert [given["text"] for given in note.ran] == ["less"]
    told = made.model.exchanges[1].asked.messages
    assert told[-1] == {"role": "user", "content": [marked(CUT_SHORT)]}
    assert [block["type"] for block in told[-2]["content"]] == ["text"]


def marked(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "cache_control": {"type": "ephemeral"}}


async def test_a_model_that_always_writes_past_its_bound_is_not_asked_for_ever(
    talk: MakeTalk,
) -> None:
    made = await talk(lambda asked: reply("more", stop="max_tokens"))
    end = await made.turn()
    assert end["status"] == "failed"
    assert "cut at their bound" in end["why"]
    assert len(made.model.exchanges) == 3
    await made.here.go_on(None)
    await made.end()
    assert len(made.model.exchanges) == 6


async def test_a_paused_answer_is_sent_back_unchanged(talk: MakeTalk) -> None:
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    made = await talk([reply("First part", Send(search), stop="pause_turn"), says("The rest.")])
    assert (await made.turn())["status"] == "done"
    last = asked(made)
    assert [message["role"] for message in last] == ["user", "assistant"]
    first, second = last[-1]["content"]
    assert first["text"] == "First part"
    assert {key: second[key] for key in search} == search


async def test_what_the_model_declined_is_not_sent_again(talk: MakeTalk) -> None:
    made = await talk([reply("I", stop="refusal", refusal="cyber"), says("Hello.")])
    end = await made.turn("Something bad.")
    assert end["status"] == "refused"
    assert (await made.turn("Hello."))["status"] == "done"
    [message] = asked(made)
    assert [block["text"] for block in message["content"]] == ["Hello."]


async def test_two_calls_of_one_id_are_none(talk: MakeTalk) -> None:
    """The id is the key of a call's steps: the second would be given the first one's result."""
    note = Doing()
    first = reply(Call("note", {"text": "a"}, id="toolu_same"))
    second = reply(Call("note", {"text": "b"}, id="toolu_same"))
    made = await talk([first, second, says("Done.")], [note])
    end = await made.turn()
    assert end["status"] == "failed"
    assert "toolu_same" in end["why"]
    assert [given["text"] for given in note.ran] == ["a"]
    await made.here.go_on(None)
    assert (await made.end())["status"] == "done"


# Budgets ------------------------------------------------------------------------------------------


async def test_the_bound_of_requests_holds_and_counts_anew_when_continued(talk: MakeTalk) -> None:
    made = await talk(lambda asked: notes("again"), [Doing()], turn_requests=3)
    end = await made.turn()
    assert end["status"] == "budget"
    assert len(made.model.exchanges) == 3
    await made.here.go_on(None)
    assert (await made.end())["status"] == "budget"
    assert len(made.model.exchanges) == 6


async def test_the_bound_of_tokens_holds(talk: MakeTalk) -> None:
    made = await talk(lambda asked: notes("again"), [Doing()], turn_tokens=100)
    assert (await made.turn())["status"] == "budget"
    assert len(made.model.exchanges) == 1


async def test_money_is_of_the_whole_conversation(talk: MakeTalk) -> None:
    made = await talk(
        lambda asked: says("Done."), money="0.000001 USD", prices={"claude-sonnet-5-5": PRICE}
    )
    assert (await made.turn())["status"] == "done"
    end = await made.turn()
    assert end["status"] == "budget"
    assert "0.000001 USD" in end["why"]
    assert (await made.bodies("answered"))[0]["cost"]["currency"] == "USD"


# A full context -----------------------------------------------------------------------------------


async def test_a_full_context_is_summarised_and_the_turn_goes_on(talk: MakeTalk) -> None:
    def script(asked: Any) -> Any:
        said = asked.messages[-1]["content"][-1].get("text", "")
        return says("They asked for a.") if "summary" in said else next(answers)

    answers = iter(
        [notes("a"), reply("Too much", stop="model_context_window_exceeded"), says("Done.")]
    )
    made = await talk(script, [Doing()])
    assert (await made.turn("Note a."))["status"] == "done"
    [compacted] = await made.bodies("compacted")
    assert "They asked for a." in words(compacted)
    [message] = asked(made)
    assert "They asked for a." in message["content"][0]["text"]
    assert compacted["usage"]["input_tokens"] > 0


async def test_what_was_summarised_is_not_lost_with_what_the_model_declined(
    talk: MakeTalk,
) -> None:
    def script(asked: Any) -> Any:
        said = asked.messages[-1]["content"][-1].get("text", "")
        return says("They asked for a.") if "summary" in said else next(answers)

    answers = iter(
        [
            says("Noted."),
            reply("Too much", stop="model_context_window_exceeded"),
            reply("I", stop="refusal", refusal="cyber"),
            says("Done."),
        ]
    )
    made = await talk(script)
    await made.turn("Note a.")
    assert (await made.turn("Go on."))["status"] == "refused"
    assert (await made.turn("Something else."))["status"] == "done"
    [message] = asked(made)
    assert "They asked for a." in message["content"][0]["text"]
    assert message["content"][-1]["text"] == "Something else."


async def test_a_request_that_is_too_large_is_summarised_once(talk: MakeTalk) -> None:
    full = error(400, "invalid_request_error", "prompt is too long: 9 tokens > 5 maximum")

    def script(asked: Any) -> Any:
        said = asked.messages[-1]["content"][-1].get("text", "")
        return says("A summary.") if "summary" in said else full

    made = await talk(script)
    end = await made.turn()
    assert end["status"] == "failed"
    assert len(await made.bodies("compacted")) == 1
    assert len(made.model.exchanges) == 3
