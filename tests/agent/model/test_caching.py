"""Each request of a conversation begins with the bytes of the one before it, marked where it ended."""

from __future__ import annotations

import copy
import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import canonical
from reprise_server.agent.contract import Prompt
from reprise_server.agent.model.caching import MAX_BREAKPOINTS, Traits, body, digest, prefix
from reprise_server.agent.model.prices import input_tokens
from reprise_server.agent.scripted import Call, ScriptedModel, reply
from tests.agent.model.speaking import Heard, speaking

TRAITS = Traits("m", 1000)
WORDS = st.text(min_size=1, max_size=12)
INPUTS = st.dictionaries(
    WORDS, st.none() | st.integers() | WORDS | st.lists(WORDS, max_size=3), max_size=4
)
ANSWERS = st.lists(
    st.one_of(
        st.builds(lambda t: {"type": "text", "text": t}, WORDS),
        st.builds(lambda t: {"type": "thinking", "thinking": t, "signature": "s"}, WORDS),
        st.builds(lambda i: {"type": "tool_use", "id": "t", "name": "x", "input": i}, INPUTS),
    ),
    min_size=1,
    max_size=4,
)
RESULTS = st.one_of(
    WORDS,
    st.lists(
        st.one_of(
            st.builds(lambda t: {"type": "text", "text": t}, WORDS),
            st.builds(
                lambda t: {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "text", "text": t}],
                },
                WORDS,
            ),
        ),
        min_size=1,
        # More blocks than the cache looks back.
        max_size=30,
    ),
)
TURNS = st.lists(st.tuples(RESULTS, ANSWERS), min_size=1, max_size=6)
TOOLS = st.lists(
    st.builds(lambda n: {"name": n, "description": n, "input_schema": {"type": "object"}}, WORDS),
    max_size=3,
)
SYSTEM = st.lists(st.builds(lambda t: {"type": "text", "text": t}, WORDS), max_size=3)


def marks(sent: dict[str, Any]) -> list[int]:
    """Places of marked blocks in the order of the prefix."""
    blocks = [*sent.get("tools", ()), *sent.get("system", ())]
    for message in sent["messages"]:
        blocks += message["content"]
    return [at for at, block in enumerate(blocks) if "cache_control" in block]


@given(TOOLS, SYSTEM, TURNS)
def test_each_request_has_the_former_one_as_its_prefix(
    tools: list[Any], system: list[Any], turns: list[Any]
) -> None:
    messages: list[dict[str, Any]] = []
    before: list[bytes] = []
    ended = None
    for said, answer in turns:
        messages.append({"role": "user", "content": said})
        sent = body(Prompt(tools, system, messages), TRAITS)
        now = prefix(sent)
        assert now[: len(before)] == before
        placed = marks(sent)
        assert len(placed) <= MAX_BREAKPOINTS
        assert placed[-1] == len(now) - 1
        if ended is not None:
            # Where the former one was marked last, the cache was written: no looking back needed.
            assert ended in placed
        before, ended = now, len(now) - 1
        messages.append({"role": "assistant", "content": answer})


@given(TOOLS, SYSTEM, TURNS)
def test_a_conversation_read_from_the_log_gives_the_same_bytes(
    tools: list[Any], system: list[Any], turns: list[Any]
) -> None:
    messages = []
    for said, answer in turns:
        messages += [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]
    read = json.loads(canonical(messages))
    one, other = (body(Prompt(tools, system, some), TRAITS) for some in (messages, read))
    assert json.dumps(one) == json.dumps(other)
    assert digest(one) == digest(other)


@given(TOOLS, SYSTEM, TURNS)
def test_what_was_given_is_not_touched(
    tools: list[Any], system: list[Any], turns: list[Any]
) -> None:
    messages = [{"role": "user", "content": said} for said, _ in turns]
    given = copy.deepcopy((tools, system, messages))
    body(Prompt(tools, system, messages), TRAITS)
    assert given == (tools, system, messages)


def test_marks_that_were_given_are_taken_off() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    inner = {"type": "text", "text": "x", **mark}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [inner], **mark}
    sent = body(
        Prompt(
            [{"name": "x", **mark}] * 3,
            [{"type": "text", "text": "s", **mark}] * 3,
            [{"role": "user", "content": [result] * 5}],
        ),
        TRAITS,
    )
    assert json.dumps(sent).count("cache_control") == 3


def test_a_thought_is_never_marked() -> None:
    thought = {"type": "thinking", "thinking": "t", "signature": "s"}
    sent = body(
        Prompt(
            [], [], [{"role": "assistant", "content": [{"type": "text", "text": "a"}, thought]}]
        ),
        TRAITS,
    )
    assert marks(sent) == [0]
    only = body(Prompt([], [], [{"role": "assistant", "content": [thought]}]), TRAITS)
    assert marks(only) == []


def test_the_order_of_a_schema_is_kept() -> None:
    """It is the order in which a model fills the properties in."""
    schema = {"type": "object", "properties": {"why": {}, "cell": {}}}
    sent = body(Prompt([{"name": "x", "input_schema": schema}], [], []), TRAITS)
    assert list(sent["tools"][0]["input_schema"]["properties"]) == ["why", "cell"]


def test_what_an_endpoint_does_not_know_is_left_out() -> None:
    plain = Traits("m", 5, thinking=False, strict=False)
    sent = body(Prompt([{"name": "x", "strict": True}], [], []), plain)
    assert sent == {
        "model": "m",
        "max_tokens": 5,
        "messages": [],
        "tools": [{"name": "x", "cache_control": {"type": "ephemeral"}}],
    }
    assert body(Prompt([], [], []), Traits("m", 5, effort="low"))["output_config"] == {
        "effort": "low"
    }


async def test_the_cache_has_all_of_the_former_request_also_past_its_look_back() -> None:
    """As the scripted model keeps it: exact prefixes at marks, a minimum, 20 blocks of looking back."""
    many = reply(*[Call("run_cells", {"cells": [str(at)]}) for at in range(15)])
    given = [
        {"name": "run_cells", "description": "Runs. " * 200, "input_schema": {"type": "object"}}
    ]
    system = [{"type": "text", "text": "Be brief. " * 400}, {"type": "text", "text": "Skills: -"}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go"}]
    read = []
    async with ScriptedModel(lambda _: many) as scripted, speaking(scripted) as model:
        for turn in range(5):
            answered = await model.respond(Prompt(given, system, messages), Heard().listener())
            usage = answered.usage
            read.append((usage["cache_read_input_tokens"], input_tokens(usage)))
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": f"{turn} " * 50}
                for call in answered.content
            ]
            messages += [
                {"role": "assistant", "content": list(answered.content)},
                {"role": "user", "content": results},
            ]
    for (_, former), (hit, _) in itertools.pairwise(read):
        assert hit == former
