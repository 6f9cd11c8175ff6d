"""How an event and an output stand in a bundle, a line each (pure).

    ["step","<digest, hex>",<canonical step>]
    ["outcome","<chain, hex>",<canonical outcome>]
    ["output",<seq>,<entry>]        before the event that was to come next
    ["late",<seq>,<batch>]          the same, for output that came after its step's end

A line is canonical JSON, and a body stands in it byte for byte as it is hashed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from reprise.bundle.bounded import parse_canonical
from reprise.errors import BadBundle
from reprise.log.model import Json

#: The largest line: a batch of late outputs at its bound (`log.writer`), and its frame.
MAX_LINE: Final = (160 << 20) + 256

_HEX: Final = frozenset("0123456789abcdef")


@dataclass(frozen=True)
class EventLine:
    """A step or an outcome. value: the parsed `body`; link: its digest, or the chain after it."""

    type: Literal["step", "outcome"]
    link: bytes
    body: bytes
    value: dict[str, Json]


@dataclass(frozen=True)
class OutputLine:
    """An entry, or a batch of late ones. value: the parsed `body`."""

    type: Literal["output", "late"]
    seq: int
    body: bytes
    value: Json


def event_line(type_: str, link: bytes, body: bytes) -> bytes:
    return b'["%s","%s",%s]\n' % (type_.encode(), link.hex().encode(), body)


def output_line(type_: str, seq: int, body: bytes) -> bytes:
    return b'["%s",%d,%s]\n' % (type_.encode(), seq, body)


def parse_line(line: bytes, where: str) -> EventLine | OutputLine:
    """What a line (without its newline) says. Raises BadBundle, naming `where` it stands."""
    value = parse_canonical(line, where)
    if not isinstance(value, list) or len(value) != 3:
        raise BadBundle(f"{where} is neither an event nor an output")
    type_, key, content = value
    if type_ in ("step", "outcome"):
        if not is_sha256(key) or not isinstance(content, dict):
            raise BadBundle(f"{where} is no {type_} with its digest")
        start = len(type_) + len(key) + 7
        return EventLine(type_, bytes.fromhex(key), line[start:-1], content)
    if type_ in ("output", "late"):
        if type(key) is not int or key < 0:
            raise BadBundle(f"{where} is an output of no step")
        start = len(type_) + len(str(key)) + 5
        return OutputLine(type_, key, line[start:-1], content)
    raise BadBundle(f"{where} is neither an event nor an output")


def is_sha256(value: object) -> bool:
    """Whether a value is 64 hexadecimal digits as `hexdigest` writes them."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= _HEX
