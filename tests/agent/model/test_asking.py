"""Whatever a model's endpoint does, an answer is whole or told to be none, and waits are seen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprise_server.agent.contract import ModelFailed
from reprise_server.agent.model.failures import ContextFull
from reprise_server.agent.model.pictures import LEFT_OUT
from reprise_server.agent.scripted import (
    HANG_UP,
    Break,
    Call,
    Hold,
    Raw,
    ScriptedModel,
    Send,
    Thought,
    calls,
    error,
    overloaded,
    rate_limited,
    reply,
    says,
)
from tests.agent.model.speaking import PATIENCE, Heard, prompt, speaking, until
from tests.agent.model.stream import WHOLE, call, end, start, wire
from tests.agent.model.test_prices import GIVEN

PRICES = {"claude-sonnet-5-5": GIVEN}


@pytest.fixture
async def scripted() -> Any:
    async with ScriptedModel() as model:
        yield model


async def test_an_answer_comes_whole_with_what_it_took(scripted: ScriptedModel) -> None:
    scripted.then(reply(Thought("Hm."), "I run it.", Call("run_cells", {"cells": ["a", "ü"]})))
    heard = Heard()
    async with speaking(scripted, prices=PRICES) as model:
        answered = await model.respond(prompt(), heard.listener())
    assert answered.stop_reason == "tool_use"
    assert [part["type"] for part in answered.content] == ["thinking", "text", "tool_use"]
    assert answered.content[2]["input"] == {"cells": ["a", "ü"]}
    assert answered.usage["input_tokens"] > 0
    assert answered.cost is not None
    assert answered.cost.endswith(" USD")
    assert answered.request_id
    assert heard.asked == [1]
    assert "".join(d["text"] for d in heard.deltas if d["type"] == "text") == "I run it."
    (request,) = scripted.requests
    assert request.body["stream"] is True
    assert request.body["thinking"] == {"type": "adaptive"}
    assert request.headers["accept-encoding"] == "identity"


async def test_bytes_that_come_in_crumbs_are_the_same_answer(scripted: ScriptedModel) -> None:
    scripted.then(says("Größe 😀 " * 20, ragged=3, pings=1))
    async with speaking(scripted) as model:
        answered = await model.respond(prompt(), Heard().listener())
    assert answered.content == [{"type": "text", "text": "Größe 😀 " * 20}]


@pytest.mark.parametrize(
    ("wrong", "words", "status", "billed"),
    [
        (overloaded("7"), "is overloaded", 529, False),
        (rate_limited("7"), "too many requests", 429, False),
        (error(500, "api_error", "Internal"), "Internal", 500, False),
        (HANG_UP, "cannot be reached", None, False),
        (says("It is " * 9, broken=Break(5, "end")), "ended before its end", None, True),
        (says("It is " * 9, broken=Break(5, "reset")), "ended before its end", None, True),
        (says("It is " * 9, broken=Break(5, "error")), "is overloaded", 529, True),
        (
            says("It is " * 9, broken=Break(5, "error", "api_error", "Oops")),
            "status 500): Oops",
            500,
            True,
        ),
        (Raw(b"<html>"), "ended before its end", None, False),
        (Raw(b"data: {\n\n"), "cannot be read", None, False),
        (Raw(b"data: \xff\n\n"), "cannot be read", None, False),
        (Raw(b"event: message_stop\ndata: {}\n\n"), "cannot be read", None, False),
        (calls("run_cells", {}, broken=Break(3, "end")), "ended before its end", None, True),
        (
            reply(Call("run_cells", {}, json='{"cells": ["a"')),
            "the input of 'run_cells' cannot be read",
            None,
            True,
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:20],
)
async def test_what_may_pass_is_waited_for_where_it_is_seen(
    scripted: ScriptedModel, wrong: Any, words: str, status: int | None, billed: bool
) -> None:
    scripted.next(wrong)
    scripted.then(says("Done."))
    heard = Heard()
    async with speaking(scripted) as model:
        answered = await model.respond(prompt(), heard.listener())
    assert answered.content == [{"type": "text", "text": "Done."}]
    assert heard.asked == [1, 2]
    (wait,) = heard.waits
    assert words in wait.why
    assert wait.status == status
    assert wait.attempt == 2
    if status in (429, 529) and not billed:
        assert wait.seconds == 7.0
    assert bool(answered.usage.get("lost")) is billed
    if billed:
        assert answered.usage["lost"][0]["estimated"] is True
        assert answered.usage["lost"][0]["input_tokens"] > 0


async def test_a_wait_is_never_longer_than_was_set(scripted: ScriptedModel) -> None:
    scripted.next(overloaded("86400"))
    scripted.then(says("Done."))
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with speaking(scripted, sleep=sleep, longest_wait=11.0) as model:
        await model.respond(prompt(), Heard().listener())
    assert waited == [11.0]


async def test_after_so_many_attempts_it_is_given_up(scripted: ScriptedModel) -> None:
    scripted.next(*[overloaded()] * 3)
    heard = Heard()
    async with speaking(scripted, attempts=3) as model:
        with pytest.raises(ModelFailed, match=r"is overloaded .* tried 3 times") as failed:
            await model.respond(prompt(), heard.listener())
    assert failed.value.again
    assert failed.value.usage is None
    assert heard.asked == [1, 2, 3]
    assert len(heard.waits) == 2


async def test_what_cannot_be_read_is_not_paid_for_eight_times(scripted: ScriptedModel) -> None:
    scripted.then(*[reply("So:", Call("run_cells", {}, json="{"))] * 8)
    async with speaking(scripted, prices=PRICES) as model:
        with pytest.raises(ModelFailed, match="cannot be read") as failed:
            await model.respond(prompt(), Heard().listener())
    assert len(scripted.exchanges) == 3
    assert failed.value.partial == ({"type": "text", "text": "So:"},)
    assert failed.value.usage is not None
    assert len(failed.value.usage["lost"]) == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (error(400, "invalid_request_error", "messages: no"), "messages: no"),
        (error(401, "authentication_error", "invalid x-api-key"), "Set a key that fits"),
        (error(402, "billing_error", ""), "cannot pay"),
        (error(404, "not_found_error", "model: x"), r"c\.RepriseAgent\.model"),
        (error(529, "overloaded_error", "x", x_should_retry="false"), "overloaded"),
        (
            says("It is", broken=Break(3, "error", "invalid_request_error", "No")),
            "does not take this request",
        ),
    ],
)
async def test_what_does_not_pass_is_not_tried_again(
    scripted: ScriptedModel, wrong: Any, words: str
) -> None:
    scripted.next(wrong)
    heard = Heard()
    async with speaking(scripted) as model:
        with pytest.raises(ModelFailed, match=words) as failed:
            await model.respond(prompt(), heard.listener())
    assert not failed.value.again
    assert "Nothing of its answer was done" in str(failed.value)
    assert heard.waits == []


async def test_a_full_context_is_told_apart(scripted: ScriptedModel) -> None:
    scripted.next(error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"))
    async with speaking(scripted) as model:
        with pytest.raises(ContextFull, match="compact"):
            await model.respond(prompt(), Heard().listener())


@pytest.mark.parametrize(
    "stop", ["end_turn", "max_tokens", "pause_turn", "refusal", "model_context_window_exceeded"]
)
async def test_why_it_stopped_is_told_and_no_call_is_left(
    scripted: ScriptedModel, stop: Any
) -> None:
    cut = Call("run_cells", {}, json='{"cells": ["a"')
    scripted.then(reply("Well", cut, stop=stop, refusal="cyber" if stop == "refusal" else None))
    async with speaking(scripted) as model:
        answered = await model.respond(prompt(), Heard().listener())
    assert answered.stop_reason == stop
    assert answered.content == [{"type": "text", "text": "Well"}]
    assert answered.why == ("cyber" if stop == "refusal" else None)


async def test_a_turn_that_paused_goes_on_when_it_is_sent_back(scripted: ScriptedModel) -> None:
    """Only tools that run at the API's side pause a turn."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    scripted.then(reply("Half", Send(search), stop="pause_turn"), says(" and half"))
    async with speaking(scripted) as model:
        first = await model.respond(prompt(), Heard().listener())
        assert [part["type"] for part in first.content] == ["text", "server_tool_use"]
        await model.respond(prompt("Run it", first.content), Heard().listener())
    sent = scripted.exchanges[1].asked.messages[-1]
    assert sent["role"] == "assistant"
    assert [
        {k: v for k, v in part.items() if k != "cache_control"} for part in sent["content"]
    ] == [*first.content]


# Cancelling ---------------------------------------------------------------------------------------


async def test_cancelling_closes_the_connection_and_says_what_came(scripted: ScriptedModel) -> None:
    hold = Hold()
    long = says("word " * 40, broken=Break(6, "hold", hold=hold))
    scripted.then(long)
    heard = Heard()
    async with speaking(scripted) as model:
        asking = asyncio.create_task(model.respond(prompt(), heard.listener()))
        await until(lambda: bool(heard.deltas) and hold.reached.is_set())
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: scripted.exchanges[0].ended == "gone")
    ((content, usage),) = heard.cut
    assert content[0]["text"].startswith("word")
    assert usage["estimated"] is True
    assert usage["input_tokens"] > 0
    assert usage["output_tokens"] > 0


async def test_cancelling_before_the_first_word_counts_what_was_sent(
    scripted: ScriptedModel,
) -> None:
    hold = Hold()
    scripted.then(says("word", broken=Break(0, "hold", hold=hold)))
    heard = Heard()
    async with speaking(scripted) as model:
        asking = asyncio.create_task(model.respond(prompt(), heard.listener()))
        await until(hold.reached.is_set)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: scripted.exchanges[0].ended == "gone")
    ((content, usage),) = heard.cut
    assert content == []
    assert usage["input_tokens"] > 0


async def test_a_wait_can_be_cancelled(scripted: ScriptedModel) -> None:
    scripted.next(overloaded("3000"))
    heard = Heard()
    waiting = asyncio.Event()
    heard.then = lambda _: waiting.set()
    async with speaking(scripted, sleep=asyncio.sleep, longest_wait=3000.0) as model:
        asking = asyncio.create_task(model.respond(prompt(), heard.listener()))
        async with asyncio.timeout(PATIENCE):
            await waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert heard.cut == [([], None)], "a refused attempt took nothing"


async def test_the_connection_is_used_again(scripted: ScriptedModel) -> None:
    scripted.then(says("One"), says("Two"))
    async with speaking(scripted) as model:
        await model.respond(prompt(), Heard().listener())
        pool = model._client.sdk._client._transport._pool
        await model.respond(prompt(), Heard().listener())
        assert len(pool.connections) == 1


# Compaction ---------------------------------------------------------------------------------------

LOADED = [
    "Please",
    [{"type": "tool_use", "id": "t1", "name": "load_skill", "input": {"name": "plots"}}],
    [{"type": "tool_result", "tool_use_id": "t1", "content": "Use blue. " * 9}],
]


def loaded_prompt() -> Any:
    given = prompt(*LOADED)
    tool = {"name": "load_skill", "input_schema": {"type": "object", "properties": {}}}
    return type(given)([*given.tools, tool], given.system, given.messages)


async def test_the_api_compacts_and_skills_survive() -> None:
    from reprise_server.agent.model.compaction import CARRIED, opening

    async with ScriptedModel([says("On.")], compact=lambda _: "We plotted.") as scripted:
        async with speaking(scripted, prices=PRICES) as model:
            compacted = await model.compact(loaded_prompt(), Heard().listener())
            first, carried, said = compacted.content
            assert said["text"].endswith("Please")
            assert first["type"] == "compaction"
            assert first["content"] == "We plotted."
            assert first["signature"]
            assert carried["text"] == CARRIED + "Use blue. " * 9
            assert compacted.cost is not None
            after = loaded_prompt()
            after = type(after)(after.tools, after.system, opening(compacted.content))
            await model.respond(after, Heard().listener())
        asked, went_on = (one.asked.body for one in scripted.exchanges)
    assert asked["compaction"] == {"type": "summarize"}
    assert "context_management" not in asked
    assert went_on["messages"][0]["content"][0]["signature"] == first["signature"]
    assert went_on["context_management"]["edits"][0]["exclude_tools"]


async def test_without_the_api_the_model_itself_gives_a_summary(scripted: ScriptedModel) -> None:
    from reprise_server.agent.model.compaction import SUMMARY

    scripted.then(says("We plotted."))
    async with speaking(scripted, context_management="own") as model:
        before = model.body(loaded_prompt())
        compacted = await model.compact(loaded_prompt(), Heard().listener())
    assert compacted.content[0] == {"type": "text", "text": SUMMARY + "We plotted."}
    assert "Use blue" in compacted.content[1]["text"]
    (exchange,) = scripted.exchanges
    assert exchange.asked.body["messages"][:-1] == before["messages"], "the cached prefix"
    assert "anthropic-beta" not in exchange.asked.headers


@pytest.mark.parametrize("managed", ["api", "own"])
@pytest.mark.parametrize("answer", [says("No.", stop="refusal"), calls("run_cells", {})])
async def test_no_summary_is_no_summary(scripted: ScriptedModel, managed: str, answer: Any) -> None:
    scripted.then(answer)
    async with speaking(scripted, context_management=managed) as model:
        with pytest.raises(ModelFailed, match="gave no summary") as failed:
            await model.compact(loaded_prompt(), Heard().listener())
    assert failed.value.usage


async def test_tokens_are_counted_by_the_api_or_estimated(scripted: ScriptedModel) -> None:
    async with speaking(scripted) as model:
        counted = await model.count(prompt())
        assert scripted.requests[-1].path.endswith("count_tokens")
        scripted.next(overloaded())
        assert await model.count(prompt()) == model.size(prompt())
        assert counted > 0
        assert model.full(10**9)
        assert not model.full(counted)


# Bytes --------------------------------------------------------------------------------------------


@settings(
    max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 2500), st.binary(max_size=5), st.integers(0, 50)),
        min_size=1,
        max_size=3,
    )
)
async def test_any_stream_ends_in_an_answer_or_a_failure(
    scripted: ScriptedModel, edits: list[tuple[int, bytes, int]]
) -> None:
    data = wire(WHOLE)
    for at, put, out in edits:
        data = data[:at] + put + data[at + out :]
    scripted.next(Raw(data))
    found: Sequence[Mapping[str, Any]]
    async with speaking(scripted, attempts=1) as model, asyncio.timeout(PATIENCE):
        try:
            answered = await model.respond(prompt(), Heard().listener())
            found, stopped = answered.content, answered.stop_reason
        except ModelFailed as failed:
            found, stopped = failed.partial, "failed"
    assert any(part["type"] == "tool_use" for part in found) == (stopped == "tool_use")


async def test_what_comes_after_the_end_changes_nothing(scripted: ScriptedModel) -> None:
    more = call(0, "{}", called="toolu_9")
    scripted.next(Raw(wire([start(), *end(), *more, {"type": "error", "error": {}}])))
    async with speaking(scripted, attempts=1) as model:
        answered = await model.respond(prompt(), Heard().listener())
    assert answered.stop_reason == "end_turn"
    assert answered.content == []


async def test_usage_that_an_endpoint_leaves_out_is_estimated(scripted: ScriptedModel) -> None:
    begun = start()
    del begun["message"]["usage"]
    scripted.next(Raw(wire([begun, *WHOLE[1:-2], {**WHOLE[-2], "usage": None}, WHOLE[-1]])))
    async with speaking(scripted, attempts=1, prices=PRICES) as model:
        answered = await model.respond(prompt(), Heard().listener())
    assert answered.usage["estimated"] is True
    assert answered.usage["input_tokens"] > 0
    assert answered.usage["output_tokens"] > 0


async def test_an_image_that_the_endpoint_refuses_does_not_stop_the_conversation(
    scripted: ScriptedModel,
) -> None:
    """Neither in this request nor in later ones; other refusals stay what they are."""
    source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    image = {"type": "image", "source": source}
    use = {"type": "tool_use", "id": "toolu_1", "name": "read_notebook", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Look."}, image]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    asked = replace(prompt(), messages=messages)
    refusal = error(400, "invalid_request_error", "Could not process image")
    scripted.then(refusal, says("I see none."), says("Still none."))
    async with speaking(scripted) as model:
        first = await model.respond(asked, Heard().listener())
        second = await model.respond(replace(asked), Heard().listener())
        assert "image" not in str(model.body(asked)["messages"]).replace(LEFT_OUT, "")
        scripted.then(error(400, "invalid_request_error", "messages: roles must alternate"))
        with pytest.raises(ModelFailed, match="alternate"):
            await model.respond(asked, Heard().listener())
    assert [first.content[0]["text"], second.content[0]["text"]] == ["I see none.", "Still none."]
    bodies = [str(request.body) for request in scripted.requests]
    assert [body.count("aGVsbG8=") for body in bodies] == [2, 0, 0, 0]
    assert bodies[1].count(LEFT_OUT) == 2


async def test_a_refusal_that_goes_on_without_images_ends(scripted: ScriptedModel) -> None:
    scripted.then(error(400, "invalid_request_error", "image: no"))
    async with speaking(scripted) as model:
        with pytest.raises(ModelFailed, match="image: no"):
            await model.respond(prompt(), Heard().listener())
    assert len(scripted.requests) == 1
