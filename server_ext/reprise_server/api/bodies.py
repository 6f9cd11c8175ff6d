"""JSON from a request: within bounds, without anything that some later part could not bear."""

from __future__ import annotations

import json
from typing import Any, Final

from reprise_server.api.refusals import Refused

#: No request of this API nests deeper.
MAX_DEPTH: Final = 32
#: Values in one body. Each takes about 100 bytes in memory.
MAX_VALUES: Final = 200_000


def parse_json(body: bytes | bytearray) -> Any:
    """The value. Raises Refused (400)."""
    value = parse_any_json(body)
    check_json(value)
    return value


def parse_any_json(body: bytes | bytearray) -> Any:
    """The value, of any size that `body` has. Raises Refused (400)."""
    try:
        return json.loads(
            body.decode(), object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer
        )
    except (ValueError, RecursionError):
        # RecursionError: nested so deeply that not even the parser followed.
        raise _bad("The body is not JSON, or is nested too deep.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        # Parsers differ in which of the two counts; so does what a person was shown.
        raise ValueError("a field stands twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _integer(text: str) -> int:
    # No work to convert; what an answer of a page may hold.
    if len(text) > 400:
        raise ValueError("a number of too many digits")
    return int(text)


def check_json(value: Any) -> None:
    """Raises Refused (400) for what some later part could not bear."""
    left: list[tuple[Any, int]] = [(value, 1)]
    count = 0
    while left:
        each, depth = left.pop()
        count += 1
        if depth > MAX_DEPTH:
            raise _bad(f"The body is nested more than {MAX_DEPTH} deep.")
        if count + len(left) > MAX_VALUES:
            raise _bad(f"The body holds more than {MAX_VALUES:,} values.")
        if isinstance(each, str):
            _check_text(each)
        elif isinstance(each, int) and not -(2**63) <= each < 2**63:
            raise _bad("The body holds a number of too many digits.")
        elif isinstance(each, list):
            left.extend((one, depth + 1) for one in each)
        elif isinstance(each, dict):
            for name, one in each.items():
                _check_text(name)
                left.append((one, depth + 1))


def _check_text(text: str) -> None:
    """Half of a surrogate pair is no text, and Postgres holds no NUL."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _bad("The body holds half of a surrogate pair, which is no text.") from None
    if "\0" in text:
        raise _bad("The body holds a NUL character in a text.")


def _bad(message: str) -> Refused:
    return Refused(400, "bad-json", message)
