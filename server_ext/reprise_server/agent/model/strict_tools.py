"""Which tools a request declares strict: those whose schema the API can keep, in order (pure).

A strict tool's input is held to its schema while the model writes it. The API takes a part of JSON
Schema for this, and so much of it in one request; a request over these bounds is refused whole. So
a tool is declared strict only where it surely fits; all inputs are checked here as well.
https://platform.claude.com/docs/en/build-with-claude/structured-outputs
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

#: Of one request, all strict tools together.
MAX_TOOLS: Final = 20
MAX_OPTIONAL: Final = 24
MAX_UNIONS: Final = 16

_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
#: Keywords that are kept, or say nothing that could be broken.
_KEPT: Final = frozenset(
    {
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "items",
        "minItems",
        "properties",
        "required",
        "title",
        "type",
    }
)
_MAX_DEPTH: Final = 12


@dataclass(frozen=True)
class _Load:
    optional: int = 0
    unions: int = 0

    def __add__(self, other: _Load) -> _Load:
        return _Load(self.optional + other.optional, self.unions + other.unions)


class _Unfit(Exception):
    """The schema says more than the API keeps."""


def declared(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools, those that fit with `strict`. What a tool says of it itself stands."""
    found: list[dict[str, Any]] = []
    many, load = 0, _Load()
    for tool in tools:
        given = dict(tool)
        fits = None if given.get("strict") is False else _fits(given.get("input_schema"))
        if fits is not None:
            more = load + fits
            within = more.optional <= MAX_OPTIONAL and more.unions <= MAX_UNIONS
            if many < MAX_TOOLS and within:
                many, load = many + 1, more
                given["strict"] = True
        found.append(given)
    return found


def _fits(schema: Any) -> _Load | None:
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return None
    try:
        return _load(schema, 0)
    except _Unfit:
        return None


def _load(schema: Any, depth: int) -> _Load:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or not _KEPT.issuperset(schema):
        raise _Unfit
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if not ("anyOf" in schema or "enum" in schema or "const" in schema or kind is not None):
        raise _Unfit
    if kind is not None and not all(isinstance(one, str) and one in _TYPES for one in kinds):
        raise _Unfit
    if schema.get("minItems", 0) not in (0, 1):
        raise _Unfit
    values = schema.get("enum", [])
    if not isinstance(values, list) or any(isinstance(one, dict | list) for one in values):
        raise _Unfit
    load = _Load(0, int("anyOf" in schema or isinstance(kind, list)))
    if "object" in kinds or "properties" in schema:
        load += _object(schema, depth)
    if "array" in kinds or "items" in schema:
        load += _load(schema.get("items"), depth + 1)
    if "anyOf" in schema:
        parts = schema["anyOf"]
        if not isinstance(parts, list) or not parts:
            raise _Unfit
        for part in parts:
            load += _load(part, depth + 1)
    return load


def _object(schema: Mapping[str, Any], depth: int) -> _Load:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("additionalProperties") is not False or not isinstance(properties, Mapping):
        raise _Unfit
    if not isinstance(required, list) or not all(
        isinstance(name, str) and name in properties for name in required
    ):
        raise _Unfit
    load = _Load(len(properties) - len(set(required)))
    for inner in properties.values():
        load += _load(inner, depth + 1)
    return load
