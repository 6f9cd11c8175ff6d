"""A text as a person has to see it before deciding on it: to its last byte, nothing unseen (pure).

What a terminal obeys, what has no shape or turns the order of the rest around is written out as an
escape (`\\x1b`, `\\u202e`). A line feed stays a line feed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final, NamedTuple

#: Categories of Unicode without a shape of their own: controls, formats (marks of direction, tags,
#: joiners), halves of pairs, private and unassigned ones, separators.
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_MARKS: Final = frozenset({"Mn", "Me"})
#: Shapeless, whatever their category: fillers, selectors, the blank of Braille (Unicode's
#: Default_Ignorable_Code_Point, and what fonts draw as nothing).
_BLANK: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
#: Marks over one letter; more of them are drawn over what stands beside it.
_MOST_MARKS: Final = 2
_SHORT: Final = {"\t": "\\t", "\r": "\\r"}
_PLAIN: Final = re.compile("[ -~\n]+")


class Piece(NamedTuple):
    """A part of a text. escaped: whether `shown` stands for something that cannot be seen."""

    shown: str
    escaped: bool


def pieces(text: str) -> Iterator[Piece]:
    """The text in order, what can be seen apart from what is written out.

    Joined with a distinct look for what is escaped, no two texts look the same, letters that look
    like each other apart. A space at the end of a line and a line feed at the end of the text are
    written out too.
    """
    last = len(text)
    for line in re.finditer(r"[^\n]*\n?", text):
        whole = line.group()
        body = whole.removesuffix("\n")
        bare = body.rstrip(" ")
        yield from _of_line(bare)
        if len(bare) < len(body):
            yield Piece("\\x20" * (len(body) - len(bare)), escaped=True)
        if body != whole:
            if line.end() == last:
                yield Piece("\\n", escaped=True)
            yield Piece("\n", escaped=False)


def _of_line(line: str) -> Iterator[Piece]:
    at, marks = 0, 0
    seen: list[str] = []
    while at < len(line):
        plain = _PLAIN.match(line, at)
        if plain is not None:
            seen.append(plain.group())
            at, marks = plain.end(), 0
            continue
        letter = line[at]
        at += 1
        category = unicodedata.category(letter)
        marks = marks + 1 if category in _MARKS else 0
        if category in _UNSEEN or marks > _MOST_MARKS or _BLANK.match(letter):
            if seen:
                yield Piece("".join(seen), escaped=False)
                seen = []
            yield Piece(_escape(letter), escaped=True)
        else:
            seen.append(letter)
    if seen:
        yield Piece("".join(seen), escaped=False)


def escaped(text: str) -> str:
    """The text for a place that has one look only, such as a terminal; backslashes are doubled, so
    that what is written out cannot be mistaken."""
    return "".join(
        each.shown if each.escaped else each.shown.replace("\\", "\\\\") for each in pieces(text)
    )


def _escape(letter: str) -> str:
    code = ord(letter)
    if letter in _SHORT:
        return _SHORT[letter]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
