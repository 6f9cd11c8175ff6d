"""The scripted model refuses what the Messages API refuses, and takes what it takes."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.scripted.checks import check_betas, check_count, check_create
from reprise_server.agent.scripted.refusal import Invalid
from tests.agent.asking import TOOL, assistant, marked, request, result, used, user

EDITING = ("context-management-2025-06-27", "compact-2026-01-12")


def strict(schema: dict[str, Any], name: str = "run") -> dict[str, Any]:
    return {"name": name, "strict": True, "input_schema": schema}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def loose(many: int) -> dict[str, Any]:
    properties = {f"p{number}": {"type": "string"} for number in range(many)}
    return {"type": "object", "properties": properties, "additionalProperties": False}


TAKEN = {
    "text": request({"role": "user", "content": "hello"}),
    "calls": request(user("go"), assistant("I run.", used()), user(result()), tools=[TOOL]),
    "calls_at_once": request(
        user("go"),
        assistant(used("a"), used("b")),
        user(result("b"), result("a", is_error=True), "and now?"),
        tools=[TOOL],
    ),
    "results_in_two_messages": request(
        user("go"),
        assistant(used("a"), used("b")),
        user(result("a")),
        user(result("b")),
        tools=[TOOL],
    ),
    "image": request(
        user(
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "aGk="},
            }
        )
    ),
    "four_breakpoints": request(
        user(marked("a"), marked("b")), system=[marked("s")], tools=[{**marked(TOOL)}]
    ),
    "hours_first": request(user(marked("a", "1h"), marked("b"))),
    "adaptive": request(thinking={"type": "adaptive"}, output_config={"effort": "xhigh"}),
    "strict_tool": request(tools=[strict(closed(a={"type": "string", "enum": ["x"]}))]),
    "nothing_generated": request(max_tokens=0),
}

REFUSED = {
    "no_json": (None, "not valid JSON"),
    "no_model": ({"max_tokens": 1, "messages": [user("a")]}, "model: Field required"),
    "no_bound": ({"model": "m", "messages": [user("a")]}, "max_tokens: Field required"),
    "temperature": (request(temperature=0.2), "`temperature` is not supported"),
    "top_k": (request(top_k=5), "`top_k` is not supported"),
    "odd_field": (request(colour="red"), "colour: Extra inputs are not permitted"),
    "odd_field_inside": (
        request({"role": "user", "content": "a", "at": 1}),
        r"messages.0.at: Extra inputs",
    ),
    "odd_field_of_a_block": (
        request(user({"type": "text", "text": "a", "id": "1"})),
        r"content.0.text.id: Extra inputs",
    ),
    "beta_field": (request(context_management={"edits": []}), "context_management: Extra inputs"),
    "too_many_tokens": (request(max_tokens=10**7), "maximum allowed number of output tokens"),
    "no_messages": (request(messages=[]), "at least one message"),
    "assistant_first": (request(assistant("a"), user("b")), "first message must use"),
    "prefill": (request(user("a"), assistant("b")), "does not support assistant message prefill"),
    "role": (request({"role": "tool", "content": "a"}), r"messages.0.role: Input should be"),
    "system_inside": (request(user("a"), {"role": "system", "content": "b"}), r"messages.1.role"),
    "blank": (request(user(" \n")), "non-whitespace"),
    "empty": (request(user("")), "must be non-empty"),
    "empty_marked": (request(user("a", marked(""))), "cache_control cannot be set for empty"),
    "no_content": (request({"role": "user", "content": []}), "must have non-empty content"),
    "block_of_the_other_role": (request(user(used()), tools=[TOOL]), "Input tag 'tool_use'"),
    "no_result": (
        request(user("go"), assistant(used()), user("never mind"), tools=[TOOL]),
        "`tool_use` ids were found without `tool_result` blocks",
    ),
    "one_result_missing": (
        request(user("go"), assistant(used("a"), used("b")), user(result("a")), tools=[TOOL]),
        "immediately after: b",
    ),
    "result_not_first": (
        request(user("go"), assistant(used()), user("well", result()), tools=[TOOL]),
        "without `tool_result` blocks",
    ),
    "result_of_nothing": (
        request(user("go"), assistant("ok"), user(result("x")), tools=[TOOL]),
        "unexpected `tool_use_id` found",
    ),
    "result_late": (
        request(
            user("go"),
            assistant(used()),
            user(result()),
            assistant("so"),
            user(result()),
            tools=[TOOL],
        ),
        "unexpected `tool_use_id` found",
    ),
    "result_twice": (
        request(user("go"), assistant(used()), user(result(), result()), tools=[TOOL]),
        "single result",
    ),
    "ids_twice": (
        request(
            user("go"),
            assistant(used()),
            user(result()),
            assistant(used()),
            user(result()),
            tools=[TOOL],
        ),
        "ids must be unique",
    ),
    "id_form": (
        request(user("go"), assistant(used("a b")), user(result("a b")), tools=[TOOL]),
        "should match pattern",
    ),
    "picture_in_an_error": (
        request(
            user("go"),
            assistant(used()),
            user(
                result(
                    content=[
                        {"type": "image", "source": {"type": "url", "url": "https://example.org/a"}}
                    ],
                    is_error=True,
                )
            ),
            tools=[TOOL],
        ),
        'must be type "text"',
    ),
    "calls_without_tools": (
        request(user("go"), assistant(used()), user(result())),
        "must define tools",
    ),
    "image_type": (
        request(
            user(
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/bmp", "data": "aGk="},
                }
            )
        ),
        "media_type",
    ),
    "image_data": (
        request(
            user(
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "%%"},
                }
            )
        ),
        "invalid base64",
    ),
    "tool_twice": (request(tools=[TOOL, TOOL]), "names must be unique"),
    "tool_name": (request(tools=[{**TOOL, "name": "a/b"}]), "should match pattern"),
    "tool_without_schema": (request(tools=[{"name": "a"}]), "input_schema: Field required"),
    "schema_kind": (request(tools=[{"name": "a", "input_schema": {}}]), "should be 'object'"),
    "schema_broken": (
        request(tools=[{"name": "a", "input_schema": {"type": "object", "required": "a"}}]),
        "draft 2020-12",
    ),
    "schema_of_choices": (
        request(tools=[{"name": "a", "input_schema": {"type": "object", "anyOf": []}}]),
        "at the top level",
    ),
    "strict_open": (request(tools=[strict({"type": "object"})]), "must be explicitly set to false"),
    "strict_open_inside": (
        request(tools=[strict(closed(a={"type": "array", "items": {"type": "object"}}))]),
        "must be explicitly set to false",
    ),
    "strict_bound": (
        request(tools=[strict(closed(a={"type": "integer", "maximum": 3}))]),
        "properties maximum are not supported",
    ),
    "strict_optional": (request(tools=[strict(loose(25))]), "too many optional parameters"),
    "strict_many": (
        request(tools=[strict(closed(), f"t{number}") for number in range(21)]),
        "Too many strict tools",
    ),
    "strict_unions": (
        request(
            tools=[strict(closed(**{f"p{n}": {"type": ["string", "null"]} for n in range(17)}))]
        ),
        "too many parameters with union types",
    ),
    "choice_of_nothing": (request(tool_choice={"type": "auto"}), "while providing tools"),
    "choice_unknown": (
        request(tools=[TOOL], tool_choice={"type": "tool", "name": "fly"}),
        "'fly' not found",
    ),
    "forced_and_thinking": (
        request(tools=[TOOL], tool_choice={"type": "any"}, thinking={"type": "adaptive"}),
        "forces tool use",
    ),
    "thinking_budget": (
        request(thinking={"type": "enabled", "budget_tokens": 2000}),
        "not supported for this model",
    ),
    "effort": (request(output_config={"effort": "some"}), "output_config.effort"),
    "five_breakpoints": (
        request(
            user(*[marked("a")] * 3), system=[marked("s")], cache_control={"type": "ephemeral"}
        ),
        r"maximum of 4 blocks with cache_control may be provided. Found 5\.",
    ),
    "hours_last": (request(user(marked("a"), marked("b", "1h"))), "must not come after"),
    "ttl": (request(user(marked("a", "2h"))), "'5m' or '1h'"),
    "mark_on_thinking": (
        request(
            user("a"),
            assistant(marked({"type": "thinking", "thinking": "t", "signature": "s"}), "b"),
            user("c"),
        ),
        "thinking.cache_control: Extra inputs",
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_api_takes_is_taken(name: str) -> None:
    assert check_create(TAKEN[name]) == TAKEN[name]


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_api_refuses_is_refused_with_its_words(name: str) -> None:
    body, words = REFUSED[name]
    with pytest.raises(Invalid, match=words):
        check_create(body)


def test_a_count_takes_no_bound_and_no_stream() -> None:
    body = request()
    del body["max_tokens"]
    assert check_count(body) == body
    with pytest.raises(Invalid, match="max_tokens: Extra inputs"):
        check_count(request())


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ([{"type": "clear_everything"}], "does not match any"),
        ([{"type": "clear_tool_uses_20250919", "keeps": 3}], "keeps: Extra inputs"),
        ([{"type": "clear_tool_uses_20250919"}] * 2, "once"),
        (
            [{"type": "clear_tool_uses_20250919"}, {"type": "clear_thinking_20251015"}],
            "must be the first",
        ),
    ],
    ids=["unknown", "field", "twice", "order"],
)
def test_edits_of_the_context_are_checked(edits: list[Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        check_create(request(context_management={"edits": edits}), EDITING)


def test_a_beta_opens_its_fields_and_no_other_is_known() -> None:
    edits = {"edits": [{"type": "compact_20260112"}]}
    assert check_create(request(context_management=edits), EDITING)
    with pytest.raises(Invalid, match="needs the beta header"):
        check_create(request(context_management=edits), EDITING[:1])
    with pytest.raises(Invalid, match="`time-travel-2030-01-01`"):
        check_betas("compact-2026-01-12, time-travel-2030-01-01")
    both = request(context_management={"edits": []}, compaction={"type": "summarize"})
    with pytest.raises(Invalid, match="cannot be combined"):
        check_create(both, (*EDITING, "compact-2026-09-04"))


FIELDS = [
    "cache_control",
    "context_management",
    "messages",
    "metadata",
    "model",
    "output_config",
    "stop_sequences",
    "system",
    "thinking",
    "tool_choice",
    "tools",
]
KEYS = ["content", "edits", "id", "input", "input_schema", "items", "keep", "name", "properties"]
KEYS += ["role", "source", "strict", "text", "tool_use_id", "trigger", "ttl", "type", "value"]
WORDS = ["assistant", "clear_tool_uses_20250919", "ephemeral", "image", "object", "run", "text"]
WORDS += ["thinking", "tool", "tool_result", "tool_use", "user"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS), inner | st.sampled_from(WORDS), max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, st.sampled_from(FIELDS))
def test_whatever_is_sent_is_taken_or_refused_in_words(odd: Any, field: str) -> None:
    """No request ends the server's thread: it is refused as the API does, or it is a request."""
    for body in (odd, {**request(tools=[TOOL]), field: odd}):
        with contextlib.suppress(Invalid):
            assert check_create(body, EDITING) == body
