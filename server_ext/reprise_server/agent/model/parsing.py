"""JSON as strictly as what runs must be read: no double keys, no NaN, no half characters (pure)."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

#: Deeper nesting is no tool's input; a parser of another part may take less than Python's.
MAX_DEPTH: Final = 100

_HALF: Final = re.compile("[\ud800-\udfff]")


class NotJson(ValueError):
    """A text that is not one JSON value, or one that two readers may read in two ways."""


def strict(text: str, *, halves: bool = False) -> Any:
    """The value of a JSON text.

    Refused besides what is no JSON: a key that stands twice (what a person is shown and what runs
    could differ), NaN and infinities, numbers too large for a float, halves of a surrogate pair
    (no UTF-8 holds them; `halves` lets them pass, for texts that come in pieces), nesting deeper
    than MAX_DEPTH. Raises NotJson.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_constant, parse_float=_finite
        )
    except NotJson:
        raise
    except ValueError as error:
        # Of a JSONDecodeError the text would stand in `doc`: kept out of what is raised.
        where = getattr(error, "pos", None)
        raise NotJson("it is no JSON" + ("" if where is None else f" (at {where})")) from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    _check(value, halves)
    return value


def whole_text(text: str) -> str:
    """The text with halves of a pair joined, and what stays half marked as such."""
    if text.isascii() or not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise NotJson("a key stands twice in it")
    return found


def _no_constant(name: str) -> Any:
    raise NotJson(f"{name} is no JSON value")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NotJson("a number in it is too large")
    return value


def _check(value: Any, halves: bool) -> None:
    waiting: list[tuple[Any, int]] = [(value, 0)]
    while waiting:
        one, depth = waiting.pop()
        if isinstance(one, str):
            if not halves and not one.isascii() and _HALF.search(one):
                raise NotJson("half a character stands in it")
        elif isinstance(one, dict | list):
            if depth >= MAX_DEPTH:
                raise NotJson("it is nested too deeply")
            if isinstance(one, dict):
                waiting.extend((key, depth + 1) for key in one)
                waiting.extend((item, depth + 1) for item in one.values())
            else:
                waiting.extend((item, depth + 1) for item in one)
