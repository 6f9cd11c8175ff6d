"""Inputs of tools held against their schemas, and what is wrong told so that a model can mend it.

Schemas stay within what strict tool use of the Messages API takes (no bounds on lengths or numbers,
`additionalProperties` false everywhere); bounds are told by the tools themselves.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from reprise.log.model import Json
from reprise_server.agent.contract import BadCall

#: Levels of an input, things and characters in it; no tool's schema is as deep.
DEPTH: Final = 24
THINGS: Final = 20_000
CHARACTERS: Final = 2 << 20

_TOLD: Final = 120
_PROBLEMS: Final = 5


def fields(required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    """The schema of an object with these fields and no other."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def texts(description: str) -> Json:
    return {"type": "string", "description": description}


def check_input(name: str, schema: Mapping[str, Any], given: object) -> Mapping[str, Json]:
    """The input when it fits its tool's schema. Raises BadCall naming each field that does not."""
    if not isinstance(given, Mapping):
        raise BadCall(f"{name}: its input is an object with named fields, not {_kind(given)}.")
    _bounded(name, given)
    problems = list(_problems(schema, given))
    if problems:
        listed = " ".join(problems[:_PROBLEMS])
        raise BadCall(f"{name}: {listed} Nothing was done. It takes {_takes(schema)}.")
    return given


def _bounded(name: str, given: object) -> None:
    """Raises BadCall for what is too deep or too much to look at, and for halves of characters."""
    things, characters = 0, 0
    waiting: list[tuple[object, int]] = [(given, 0)]
    while waiting:
        value, depth = waiting.pop()
        things += 1
        if isinstance(value, str):
            characters += len(value)
            if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
                raise BadCall(f"{name}: a text holds half a character (a lone surrogate).")
        elif isinstance(value, Mapping):
            waiting += [(key, depth + 1) for key in value]
            waiting += [(each, depth + 1) for each in value.values()]
        elif isinstance(value, list):
            waiting += [(each, depth + 1) for each in value]
        if depth > DEPTH or things > THINGS or characters > CHARACTERS:
            raise BadCall(
                f"{name}: the input is too large: {CHARACTERS:,} characters in {THINGS:,} values,"
                f" {DEPTH} deep, are the most. Do it in parts."
            )


def _problems(schema: Mapping[str, Any], given: Mapping[str, Json]) -> Iterator[str]:
    for error in Draft202012Validator(schema).iter_errors(given):
        yield _problem(error)


def _problem(error: ValidationError) -> str:
    at = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.path)
    where = f"`{at.lstrip('.')[:_TOLD]}`" if at else "the input"
    schema: Mapping[str, Any] = error.schema if isinstance(error.schema, Mapping) else {}
    wanted: Any = error.validator_value
    instance: Any = error.instance
    match error.validator:
        case "required":
            absent = [each for each in schema["required"] if each not in instance]
            return f"{where} lacks {', '.join(f'`{each}`' for each in absent)}."
        case "additionalProperties":
            known = list(schema["properties"])
            more = [str(each) for each in instance if each not in known]
            return f"{where} has no field {', '.join(_unknown(each, known) for each in more[:3])}."
        case "type":
            kind = wanted if isinstance(wanted, str) else " or ".join(map(str, wanted))
            return f"{where} is {_kind(instance)}; it must be {_article(kind)}."
        case "enum":
            listed = ", ".join(json.dumps(each) for each in wanted)
            return f"{where} is {_shown(instance)}; it must be one of {listed}."
        case _:
            return f"{where} does not fit ({error.validator})."


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name[:_TOLD], known, n=1)
    return f"{_shown(name)}" + (f" (`{near[0]}`?)" if near else "")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return f"the text {_shown(value)}"
        case list():
            return "a list"
        case _:
            return "an object"


def _article(kind: str) -> str:
    words = {"string": "a text", "array": "a list", "boolean": "true or false"}
    return words.get(kind, f"an {kind}" if kind[0] in "aeio" else f"a {kind}")


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= _TOLD else f"{text[:_TOLD]}…"


def _takes(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", [])
    listed = [
        f"`{name}`" + ("" if name in required else " (optional)") for name in schema["properties"]
    ]
    return ", ".join(listed) or "no fields"
