"""An answer is whole or none: nothing cut off, malformed or doubled ever runs."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reprise_server.agent.model import accumulate as module
from reprise_server.agent.model.accumulate import Accumulator, Malformed, StreamError
from reprise_server.agent.model.events import BadStream, Events
from reprise_server.agent.model.parsing import NotJson, strict
from tests.agent.model.stream import WHOLE, Event, block, call, end, start, text, thought, wire


def taken(events: list[Event]) -> Accumulator:
    answer = Accumulator()
    for event in events:
        answer.take(event)
    return answer


def refused(events: list[Event]) -> str:
    with pytest.raises(Malformed) as found:
        taken(events)
    return str(found.value)


def test_a_whole_answer_is_put_together() -> None:
    answer = taken(WHOLE)
    assert answer.whole
    assert answer.stop_reason == "tool_use"
    assert answer.content == [
        {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbg=="},
        {"type": "text", "text": "I run it: ü€😀"},
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "run_cells",
            "input": {"cells": ["a", "b"], "why": "ü"},
        },
    ]
    assert answer.usage == {"input_tokens": 10, "output_tokens": 7}


def test_what_is_shown_while_it_comes_is_what_came() -> None:
    answer = Accumulator()
    shown = [delta for event in WHOLE for delta in answer.take(event)]
    said = "".join(d["text"] for d in shown if d["type"] == "text")
    assert said == answer.content[1]["text"]
    piece = "".join(d["text"] for d in shown if d["type"] == "tool")
    assert json.loads(piece) == answer.content[2]["input"]
    assert next(d.get("name") for d in shown if d["type"] == "tool") == "run_cells"


@pytest.mark.parametrize("kept", range(len(WHOLE)))
def test_a_stream_that_ends_early_is_never_whole(kept: int) -> None:
    answer = taken(WHOLE[:kept])
    assert not answer.whole
    assert all(part["type"] != "tool_use" for part in answer.partial())
    # What was shown can be kept and sent back: no empty text is in it.
    assert all(part["text"].strip() for part in answer.partial() if part["type"] == "text")


@pytest.mark.parametrize("left_out", [at for at, e in enumerate(WHOLE) if "delta" not in e["type"]])
def test_an_event_that_is_missing_is_noticed(left_out: int) -> None:
    events = [event for at, event in enumerate(WHOLE) if at != left_out]
    if WHOLE[left_out]["type"] == "ping":
        assert taken(events).whole
        return
    try:
        assert not taken(events).whole
    except Malformed:
        return


@pytest.mark.parametrize("doubled", [at for at, e in enumerate(WHOLE) if "delta" not in e["type"]])
def test_an_event_that_comes_twice_is_noticed(doubled: int) -> None:
    events = WHOLE[: doubled + 1] + WHOLE[doubled:]
    if WHOLE[doubled]["type"] == "ping":
        assert taken(events).whole
    else:
        refused(events)


@pytest.mark.parametrize(
    "pieces",
    [
        ('{"cells": ["a"',),
        ('{"cells": [], "cells": ["b"]}',),
        ('["a"]',),
        ("NaN",),
        ('{"a": 1}', '{"b": 2}'),
        ('{"a": "\\ud800"}',),
        ("null",),
    ],
    ids=["cut", "twice", "list", "nan", "two", "half", "null"],
)
def test_an_input_that_is_not_one_object_runs_nothing(pieces: tuple[str, ...]) -> None:
    assert "the input of 'run_cells'" in refused([start(), *call(0, *pieces), *end("tool_use")])


def test_a_call_without_any_piece_has_an_empty_input() -> None:
    answer = taken([start(), *call(0), *end("tool_use")])
    assert answer.content[0]["input"] == {}


@pytest.mark.parametrize(
    "reason", ["max_tokens", "end_turn", "refusal", "pause_turn", "model_context_window_exceeded"]
)
def test_no_call_is_left_where_it_stopped_for_another_reason(reason: str) -> None:
    """The SDK's own stream gives such calls with keys missing."""
    for pieces in (('{"cells": ["a"',), ('{"cells": ["a"]}',)):
        answer = taken([start(), *text(0, "So:"), *call(1, *pieces), *end(reason)])
        assert answer.whole
        assert answer.stop_reason == reason
        assert answer.content == [{"type": "text", "text": "So:"}]


def test_stopping_for_a_call_needs_one() -> None:
    assert "has none" in refused([start(), *text(0, "So:"), *end("tool_use")])


def test_texts_of_nothing_are_not_sent_back() -> None:
    answer = taken([start(), *text(0), *text(1, " \n"), *text(2, "a"), *end()])
    assert answer.content == [{"type": "text", "text": "a"}]


def test_an_error_in_mid_stream_has_its_kind() -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(StreamError) as found:
        taken([*WHOLE[:5], error])
    assert found.value.kind == "overloaded_error"
    with pytest.raises(StreamError) as odd:
        taken([{"type": "error", "error": 3}])
    assert odd.value.kind == "api_error"


def test_new_kinds_of_events_are_passed_over_and_new_kinds_of_parts_are_not() -> None:
    assert taken([WHOLE[0], {"type": "news", "x": 1}, *WHOLE[1:]]).whole
    part = {"type": "content_block_delta", "index": 0, "delta": {"type": "news_delta", "x": 1}}
    assert "does not know" in refused([start(), text(0)[0], part])


def test_parts_of_other_blocks_are_kept_to_be_sent_back() -> None:
    cited = {"type": "char_location", "cited_text": "x"}
    answer = taken(
        [
            start(),
            *block(0, {"type": "redacted_thinking", "data": "abc"}),
            *block(
                1,
                {"type": "text", "text": "", "citations": []},
                {"type": "text_delta", "text": "as said"},
                {"type": "citations_delta", "citation": cited},
            ),
            *block(
                2,
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
            ),
            *block(
                3,
                {"type": "compaction", "content": None},
                {"type": "compaction_delta", "content": "All.", "encrypted_content": "e"},
            ),
            *end("pause_turn"),
        ]
    )
    assert answer.content == [
        {"type": "redacted_thinking", "data": "abc"},
        {"type": "text", "text": "as said", "citations": [cited]},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "x"},
        },
        {"type": "compaction", "content": "All.", "encrypted_content": "e"},
    ]


@pytest.mark.parametrize(
    "begun",
    [
        {"type": "tool_use", "id": "a b", "name": "x", "input": {}},
        {"type": "tool_use", "id": "", "name": "x", "input": {}},
        {"type": "tool_use", "id": "a\n", "name": "x", "input": {}},
        {"type": "tool_use", "id": "a", "name": "x/../y", "input": {}},
        {"type": "tool_use", "id": "a", "name": "x" * 129, "input": {}},
        {"type": "tool_use", "id": "a", "name": "x", "input": []},
        {"type": "text", "text": 3},
        {"type": 3},
        {"type": "\x1b[2J"},
        {"type": "tool_result", "tool_use_id": {}, "content": [1]},
        {"type": "image", "source": 3},
        {},
    ],
    ids=lambda begun: json.dumps(begun)[:60],
)
def test_blocks_that_could_not_be_sent_back_are_refused(begun: dict[str, Any]) -> None:
    refused([start(), *block(0, begun), *end()])


def test_a_reason_is_a_word() -> None:
    refused([start(), *text(0, "x"), *end("\x1b[2J")])


def test_two_calls_have_two_ids() -> None:
    assert "same id" in refused([start(), *call(0, "{}"), *call(1, "{}"), *end("tool_use")])


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "7", 1 << 60, [], {}])
def test_a_count_that_is_none_is_refused(wrong: Any) -> None:
    refused([start(input_tokens=wrong)])
    refused([start(), *end(output_tokens=wrong)])


def test_counts_are_the_newest_ones() -> None:
    answer = taken(
        [start(cache_read_input_tokens=5), *end(input_tokens=11, cache_read_input_tokens=None)]
    )
    assert answer.usage == {
        "input_tokens": 11,
        "output_tokens": 7,
        "cache_read_input_tokens": 5,
    }


def test_what_one_answer_brings_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONTENT", 1000)
    for many in (
        text(0, *["x" * 100] * 11),
        call(0, '"' + "x" * 990, *["x" * 100] * 11),
        thought(0, "y", "s" * 1001),
        block(0, {"type": "text", "text": "x" * 1001}),
        block(0, {"type": "odd", "deep": [[{"x": "y" * 1001}]]}),
    ):
        assert "over 1,000 characters" in refused([start(), *many, *end()])
    blocks = [event for at in range(module.MAX_BLOCKS + 1) for event in block(at, {"type": "o"})]
    monkeypatch.setattr(module, "MAX_CONTENT", 10**9)
    assert "more than" in refused([start(), *blocks, *end()])


def can_be_sent_back(answer: Accumulator) -> None:
    """What is kept of an answer, broken or not, is JSON, and a call in it is whole."""
    json.dumps(answer.partial(), ensure_ascii=False).encode("utf-8")
    assert all(part["type"] != "tool_use" for part in answer.partial())
    if not answer.whole:
        return
    json.dumps(answer.content, ensure_ascii=False).encode("utf-8")
    calls = [part for part in answer.content if part["type"] == "tool_use"]
    assert all(isinstance(part["input"], dict) and part["id"] for part in calls)
    assert bool(calls) == (answer.stop_reason == "tool_use")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "index", "delta", "content_block", "usage", "text", "input"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def changed(draw: st.DrawFn, value: Any, junk: Any) -> Any:
    """The value with one place in it, drawn, replaced or taken out."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        if draw(st.integers(0, 5)) == 0:
            return {k: v for k, v in value.items() if k != key}
        return value | {key: changed(draw, value[key], junk)}
    return junk


@st.composite
def broken_streams(draw: st.DrawFn) -> list[Any]:
    events: list[Any] = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(events) - 1))
        match draw(st.sampled_from(["drop", "double", "swap", "change", "insert"])):
            case "drop" if len(events) > 1:
                del events[at]
            case "double":
                events.insert(at, copy.deepcopy(events[at]))
            case "swap":
                other = draw(st.integers(0, len(events) - 1))
                events[at], events[other] = events[other], events[at]
            case "change":
                events[at] = changed(draw, events[at], draw(JUNK))
            case _:
                events.insert(at, draw(st.dictionaries(st.just("type"), JUNK, max_size=1)))
    return events


@given(broken_streams())
def test_a_broken_stream_is_refused_or_an_answer_that_can_be_sent_back(events: list[Any]) -> None:
    answer = Accumulator()
    try:
        for event in events:
            if isinstance(event, dict):
                answer.take(event)
    except (Malformed, StreamError):
        pass
    can_be_sent_back(answer)


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.binary(max_size=6), st.integers(0, 60)), max_size=6)
)
@example([(0, b"", 3000)])
def test_any_bytes_in_the_stream_are_survived(edits: list[tuple[int, bytes, int]]) -> None:
    data = wire(WHOLE)
    for at, put, out in edits:
        data = data[:at] + put + data[at + out :]
    events, answer = Events(), Accumulator()
    try:
        for event in events.feed(data):
            given_event = strict(event.data, halves=True)
            if isinstance(given_event, dict):
                answer.take(given_event)
    except (BadStream, NotJson, Malformed, StreamError):
        pass
    can_be_sent_back(answer)
