"""JSON from strangers: read only when it is canonical and fits into memory once it is parsed."""

from __future__ import annotations

import json
import re
from typing import Final

from reprise.errors import BadBundle
from reprise.log.model import Json, canonical

#: Deeper nesting is nobody's output, and would exhaust the recursion of readers later on.
MAX_DEPTH: Final = 200
#: Values in one text. Each takes about 100 bytes in memory, ten times what it takes here.
MAX_VALUES: Final = 4_000_000

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_BRACKET: Final = re.compile(rb"[\[\]{}]")
_OPEN: Final = frozenset((b"[", b"{"))


def parse_canonical(text: bytes, what: str) -> Json:
    """The value whose canonical form is exactly `text`. Raises BadBundle, naming `what`."""
    _check_structure(text, what)
    try:
        value = json.loads(text)
        same = canonical(value) == text
    except (ValueError, RecursionError) as error:
        # ValueError also for NaN, a number of too many digits and bytes that are no text.
        raise BadBundle(f"{what} is not JSON in canonical form") from error
    if not same:
        # Other spaces or order, a key that stands twice, another spelling of a number or a letter.
        raise BadBundle(f"{what} is not in canonical form")
    return value


def _check_structure(text: bytes, what: str) -> None:
    opened = text.count(b"[") + text.count(b"{")
    # Nearly every text passes here: brackets and commas within strings count too, which errs on
    # the safe side.
    if opened <= MAX_DEPTH and text.count(b",") <= MAX_VALUES:
        return
    bare = _STRING.sub(b"", text)
    if bare.count(b",") + bare.count(b"[") + bare.count(b"{") > MAX_VALUES:
        raise BadBundle(f"{what} holds more than {MAX_VALUES:,} values")
    depth = 0
    for match in _BRACKET.finditer(bare):
        depth += 1 if match.group() in _OPEN else -1
        if depth > MAX_DEPTH:
            raise BadBundle(f"{what} is nested more than {MAX_DEPTH} deep")
