"""What the Messages API refuses of tools and of the choice among them (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from jsonschema import Draft202012Validator, SchemaError

from reprise_server.agent.scripted.refusal import Invalid, known, object_of, text_of

_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_FIELDS: Final = {
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "description",
    "eager_input_streaming",
    "input_examples",
    "input_schema",
    "name",
    "strict",
    "type",
}
#: Bounds of a request's strict schemas together (docs of structured outputs, "schema complexity").
STRICT_TOOLS: Final = 20
STRICT_OPTIONAL: Final = 24
STRICT_UNIONS: Final = 16
#: Keywords that a strict schema may not have: grammars cannot keep them (same page).
_UNSUPPORTED: Final = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "contains",
        "minContains",
        "maxContains",
        "minProperties",
        "maxProperties",
        "patternProperties",
        "propertyNames",
        "prefixItems",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
    }
)


def check_tools(given: Mapping[str, Any], marks: list[Any]) -> set[str]:
    """The names of a request's tools, whose cache marks are added. Raises Invalid."""
    tools = given.get("tools")
    names: set[str] = set()
    strict: list[Mapping[str, Any]] = []
    if tools is not None:
        if not isinstance(tools, list):
            raise Invalid("tools: Input should be a valid list")
        for number, tool in enumerate(tools):
            where = f"tools.{number}"
            _check_tool(object_of(tool, where), where)
            if tool["name"] in names:
                raise Invalid("tools: Tool names must be unique.")
            names.add(tool["name"])
            if tool.get("cache_control") is not None:
                marks.append(tool["cache_control"])
            if tool.get("strict"):
                strict.append(tool["input_schema"])
    _check_strict(strict)
    _check_choice(given.get("tool_choice"), names)
    return names


def _check_tool(tool: Mapping[str, Any], where: str) -> None:
    if tool.get("type") not in (None, "custom"):
        raise Invalid(f"{where}.type: '{tool.get('type')}' is a tool that this server does not run")
    known(tool, _FIELDS, f"{where}.custom")
    name = text_of(tool, "name", f"{where}.custom")
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{where}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
        )
    if "description" in tool:
        text_of(tool, "description", f"{where}.custom")
    place = f"{where}.custom.input_schema"
    if "input_schema" not in tool:
        raise Invalid(f"{place}: Field required")
    schema = object_of(tool["input_schema"], place)
    if schema.get("type") != "object":
        raise Invalid(f"{place}.type: Input should be 'object'")
    for combining in ("oneOf", "allOf", "anyOf"):
        if combining in schema:
            raise Invalid(
                f"{place}: input_schema does not support oneOf, allOf, or anyOf at the top level"
            )
    if (wrong := _wrong_schema(json.dumps(schema))) is not None:
        raise Invalid(
            f"{place}: JSON schema is invalid. It must match JSON Schema draft 2020-12 ({wrong})"
        )
    if tool.get("strict"):
        for part in _schemas(schema):
            _check_strict_part(part, place)


@lru_cache(maxsize=1024)
def _wrong_schema(text: str) -> str | None:
    """What is wrong with a schema. Remembered: every request has the same ones."""
    try:
        Draft202012Validator.check_schema(json.loads(text))
    except SchemaError as error:
        return f"{error.json_path}: {error.message}"
    return None


def _check_strict_part(schema: Mapping[str, Any], where: str) -> None:
    kind = schema.get("type")
    if (kind == "object" or "properties" in schema) and schema.get(
        "additionalProperties"
    ) is not False:
        raise Invalid(
            f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false"
        )
    if bad := sorted(_UNSUPPORTED & schema.keys()):
        raise Invalid(f"{where}: For '{kind}' type, properties {', '.join(bad)} are not supported")
    if schema.get("minItems", 0) not in (0, 1):
        raise Invalid(
            f"{where}: For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        )


def _check_strict(schemas: list[Mapping[str, Any]]) -> None:
    parts = [part for schema in schemas for part in _schemas(schema)]
    if len(schemas) > STRICT_TOOLS:
        raise Invalid(f"Too many strict tools ({len(schemas)}). The maximum is {STRICT_TOOLS}.")
    optional = sum(
        len(set(part.get("properties") or {}) - set(part.get("required") or [])) for part in parts
    )
    if optional > STRICT_OPTIONAL:
        raise Invalid(
            f"Schemas contain too many optional parameters ({optional}), which would make grammar "
            f"compilation inefficient. Reduce the number of optional parameters in your tool "
            f"schemas (limit: {STRICT_OPTIONAL})."
        )
    unions = sum("anyOf" in part or isinstance(part.get("type"), list) for part in parts)
    if unions > STRICT_UNIONS:
        raise Invalid(
            f"Schemas contain too many parameters with union types ({unions} parameters with type "
            f"arrays or anyOf). Reduce the number of nullable or union-typed parameters "
            f"(limit: {STRICT_UNIONS} parameters with unions)."
        )


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """A schema and all that stand in it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for name in ("properties", "$defs", "definitions"):
        for inner in (schema.get(name) or {}).values():
            yield from _schemas(inner)
    for name in ("anyOf", "allOf"):
        for inner in schema.get(name) or []:
            yield from _schemas(inner)
    yield from _schemas(schema.get("items"))


def _check_choice(choice: Any, names: set[str]) -> None:
    if choice is None:
        return
    kind = object_of(choice, "tool_choice").get("type")
    if kind not in ("auto", "any", "tool", "none"):
        raise Invalid("tool_choice.type: Input should be 'auto', 'any', 'none' or 'tool'")
    if kind != "none" and not names:
        raise Invalid("tool_choice: may only be specified while providing tools.")
    fields = {"type"} if kind == "none" else {"type", "disable_parallel_tool_use"}
    known(choice, fields | {"name"} if kind == "tool" else fields, "tool_choice")
    if kind == "tool" and choice.get("name") not in list(names):
        raise Invalid(f"tool_choice.name: Tool '{choice.get('name')}' not found in provided tools")
