"""A request never declares more tools strict than the API takes, whatever their schemas are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise_server.agent.model import strict_tools
from reprise_server.agent.model.strict_tools import declared
from reprise_server.agent.scripted.check_tools import check_tools

KEYWORDS = st.sampled_from(
    [
        {"minLength": 1},
        {"maximum": 3},
        {"pattern": "x"},
        {"minItems": 2},
        {"$ref": "#"},
        {"oneOf": [{"type": "null"}]},
        {"enum": ["a", 1, None]},
        {"format": "date"},
        {"title": "t"},
        {},
    ]
)
SCALARS = st.builds(
    lambda kind, more: {"type": kind, **more},
    st.sampled_from(["string", "integer", "boolean", "null"]),
    KEYWORDS,
)


def objects(inner: Any) -> Any:
    return st.builds(
        lambda properties, wanted, open_too: {
            "type": "object",
            "properties": properties,
            "required": [name for at, name in enumerate(properties) if wanted >> at & 1],
            **({} if open_too else {"additionalProperties": False}),
        },
        st.dictionaries(st.sampled_from("abcdef"), inner, max_size=5),
        st.integers(0, 63),
        st.sampled_from([False] * 9 + [True]),
    )


SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: (
        objects(inner)
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=6,
)


@settings(max_examples=40)
@given(st.lists(objects(SCHEMAS), max_size=30))
def test_the_api_takes_what_is_declared(schemas: list[Any]) -> None:
    tools = [{"name": f"t{at}", "input_schema": schema} for at, schema in enumerate(schemas)]
    sent = declared(tools)
    check_tools({"tools": sent}, [])
    assert [{k: v for k, v in tool.items() if k != "strict"} for tool in sent] == tools
    assert sent == declared(tools)


def test_our_own_tools_are_all_strict() -> None:
    from tests.agent.toolboxes import all_tools

    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in all_tools()
    ]
    assert len(tools) == 16
    sent = declared(tools)
    assert [tool["name"] for tool in sent if not tool.get("strict")] == []
    check_tools({"tools": sent}, [])


PLAIN = {"type": "object", "properties": {}, "additionalProperties": False}
OPTIONAL = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}},
    "additionalProperties": False,
}


def strict_ones(*schemas: Any) -> list[bool]:
    given_tools = [{"name": str(at), "input_schema": one} for at, one in enumerate(schemas)]
    return [bool(tool.get("strict")) for tool in declared(given_tools)]


def test_the_bounds_of_a_request_are_kept_in_order() -> None:
    assert strict_ones(*[PLAIN] * 25) == [True] * strict_tools.MAX_TOOLS + [False] * 5
    assert strict_ones(*[OPTIONAL] * 14) == [True] * 12 + [False] * 2
    assert strict_ones(*[OPTIONAL] * 13, PLAIN)[-1] is True


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {},
        {"type": "object"},
        {"type": "string"},
        PLAIN | {"properties": {"a": {}}},
        PLAIN | {"properties": {"a": True}},
        PLAIN | {"properties": {"a": {"type": "array"}}},
        PLAIN | {"properties": {"a": {"type": "tuple"}}},
        PLAIN | {"properties": []},
        PLAIN | {"required": ["b"]},
        PLAIN | {"required": "a"},
        PLAIN | {"anyOf": []},
        PLAIN | {"properties": {"a": {"enum": [{}]}}},
    ],
    ids=str,
)
def test_what_surely_does_not_fit_is_not_declared(schema: Any) -> None:
    assert strict_ones(schema) == [False]


def test_a_schema_without_end_is_not_declared() -> None:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    assert strict_ones(PLAIN | {"properties": {"a": deep}}) == [False]


def test_what_a_tool_says_itself_stands() -> None:
    sent = declared([{"name": "x", "strict": False, "input_schema": PLAIN}])
    assert sent[0]["strict"] is False
