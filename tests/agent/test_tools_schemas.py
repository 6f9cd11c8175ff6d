"""Schemas are what strict tool use takes and the same in every request; wrong inputs are told why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reprise_server.agent.contract import BadCall, Tool
from reprise_server.agent.tools.schemas import check_input
from tests.agent.toolboxes import all_tools

ORDER = [
    *("read_notebook", "edit_notebook", "run_cells", "run_command", "read_file", "write_file"),
    *("list_files", "search_files", "search_skills", "load_skill", "read_skill_file", "run_skill"),
    *("save_artifact", "ask_user", "fork_session", "rewind_session"),
]

#: What a schema may say where the API holds calls to it (strict tool use).
ALLOWED = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "description"),
    *("anyOf", "const"),
}
#: Optional fields over all tools of one request, the API's bound.
MOST_OPTIONAL = 24

TOOLS = all_tools()


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """All schemas in a schema."""
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from objects(inner)
    if "items" in schema:
        yield from objects(schema["items"])
    for inner in schema.get("anyOf", []):
        yield from objects(inner)


def test_the_tools_stand_in_one_order() -> None:
    assert [tool.name for tool in TOOLS] == ORDER


def test_a_second_conversation_sends_the_same_bytes() -> None:
    def sent(tools: list[Tool]) -> str:
        return json.dumps([[tool.name, tool.description, tool.schema] for tool in tools])

    assert sent(TOOLS) == sent(all_tools())


@pytest.mark.parametrize("tool", TOOLS, ids=[tool.name for tool in TOOLS])
def test_a_schema_is_one_that_is_held_strictly(tool: Tool) -> None:
    Draft202012Validator.check_schema(tool.schema)
    for schema in objects(tool.schema):
        assert set(schema) <= ALLOWED, tool.name
        if schema.get("type") == "object":
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) <= set(schema["properties"])
        # Part of what every request begins with: no field is unexplained.
        for inner in schema.get("properties", {}).values():
            assert {"description", "items", "enum"} & set(inner), tool.name
    assert 40 < len(tool.description) < 1_024


def test_optional_fields_of_all_tools_are_within_the_apis_bound() -> None:
    optional = sum(
        len(set(schema["properties"]) - set(schema["required"]))
        for tool in TOOLS
        for schema in objects(tool.schema)
        if schema.get("type") == "object"
    )
    assert optional <= MOST_OPTIONAL


def test_no_tool_approves_trusts_or_promotes() -> None:
    words = ("approve", "trust", "promot", "polic", "allow", "revoke", "environment")
    assert not [tool.name for tool in TOOLS for word in words if word in tool.name]


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ([], "its input is an object with named fields, not a list."),
        ("x", 'not the text "x".'),
        ({}, "the input lacks `path`."),
        ({"path": 3}, "`path` is a number; it must be a text."),
        ({"path": None}, "`path` is null; it must be a text."),
        ({"path": "a", "start_line": "3"}, '`start_line` is the text "3"; it must be an integer.'),
        ({"path": "a", "line": 3}, 'the input has no field "line" (`lines`?).'),
        ({"path": "a", "start_line": True}, "`start_line` is true or false; it must be an integer"),
        ({"path": "\ud800"}, "a lone surrogate"),
        ({"path": "a" * (3 << 20)}, "the input is too large"),
    ],
)
def test_a_wrong_input_is_told_field_by_field(given_: Any, said: str) -> None:
    tool = next(tool for tool in TOOLS if tool.name == "read_file")
    with pytest.raises(BadCall) as caught:
        check_input(tool.name, tool.schema, given_)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 2_000


def test_a_nested_field_is_named_by_its_place() -> None:
    tool = next(tool for tool in TOOLS if tool.name == "write_file")
    edits = [{"old": "a", "new": "b"}, {"old": 1, "new": "b"}]
    with pytest.raises(BadCall, match=r"`edits\[1\].old` is a number; it must be a text."):
        check_input(tool.name, tool.schema, {"path": "a", "edits": edits})


NAMES = sorted({name for tool in TOOLS for name in tool.schema["properties"]})
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=20)
    | st.sampled_from(["\ud800", "a\0b", "../x", "x" * 300]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5) | st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.sampled_from(TOOLS), VALUES | st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_any_input_fits_or_is_refused_in_words(tool: Tool, given_: Any) -> None:
    problem = ""
    try:
        assert check_input(tool.name, tool.schema, given_) is given_
    except BadCall as error:
        problem = str(error)
    assert len(problem) < 4_000
    problem.encode("utf-8")
