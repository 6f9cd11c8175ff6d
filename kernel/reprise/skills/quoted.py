"""A stranger's text as it stands before a model: one quoted line, or a block within tags (pure).

A description and a body are written by whoever wrote the skill. Here they lose what nobody can see
and what could pass for the end of their place: a description can be no second line, no closing tag
and no message of somebody else's, whatever it says.
"""

from __future__ import annotations

import json
import re
import unicodedata

#: Put where text was left out.
CUT = "…"
#: Stands for a run of characters that cannot be seen.
UNSEEN = "�"

_JOINERS = "\u200c\u200d"
_VARIATION = "\ufe0e\ufe0f"
#: Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties) that are no format characters,
#: and letters and signs that are drawn as nothing.
_DRAWN_AS_NOTHING = frozenset(
    (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
).union(range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0000, 0xE1000))
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_SPACES = re.compile(r"\s+")
#: Marks that are put on a letter: more than any language writes one on the other is a smear.
_MOST_MARKS = 4
#: The tags that frame what a model is shown of skills.
_TAG = re.compile(r"<(?=\s*/?\s*skill)", re.IGNORECASE)
#: A sentence's end and what follows: a blank, or nothing between signs of East Asia.
_SENTENCE = re.compile(r"[.!?](?=\s)|[\u3002\uff01\uff1f]")


def seen(text: str) -> str:
    """The text with each run of characters that nobody sees as one mark; line breaks and tabs stay.

    Control and format characters (those that turn the direction of text among them), tags, private
    and unassigned characters, more than four marks on one letter. A joiner or a variation selector
    between two other characters beyond ASCII stays: scripts and emoji need them.
    """
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    out: list[str] = []
    marks = 0
    last = len(text) - 1
    for at, char in enumerate(text):
        if char in "\n\t" or (char.isascii() and char.isprintable()):
            marks = 0
            out.append(char)
            continue
        joins = char in _JOINERS or char in _VARIATION
        after = text[at + 1] if at < last else " "
        if joins and out and _joinable(out[-1]) and (char in _VARIATION or _joinable(after)):
            out.append(char)
            continue
        category = unicodedata.category(char)
        hidden = category in _UNSEEN_CATEGORIES or ord(char) in _DRAWN_AS_NOTHING
        marks = marks + 1 if category in ("Mn", "Me") and not hidden else 0
        if hidden or marks > _MOST_MARKS:
            if not out or out[-1] != UNSEEN:
                out.append(UNSEEN)
        elif category in ("Zl", "Zp"):
            out.append("\n")
        else:
            out.append(char)
    return "".join(out)


def _joinable(char: str) -> bool:
    return not char.isascii() and char not in _JOINERS and char != UNSEEN and char not in _VARIATION


def one_line(text: str) -> str:
    """The text as one line, its blanks single, nothing unseen in it."""
    return _SPACES.sub(" ", seen(text)).strip()


def quoted(line: str) -> str:
    """One line as a JSON string that holds no `<`, so it closes nothing that stands around it."""
    return json.dumps(line, ensure_ascii=False).replace("<", "\\u003c")


def cut(line: str, most: int) -> str:
    """At most `most` characters (at least 1) of one line; a mark where something is left out.

    Cut behind a sentence where one ends in the second half, else before a word, else anywhere.
    """
    if len(line) <= most:
        return line
    room = line[: most - 1]
    ends = [match.end() for match in _SENTENCE.finditer(line, 0, most)]
    ends = [end for end in ends if end <= len(room)]
    if ends and ends[-1] * 2 >= most:
        return room[: ends[-1]] + CUT
    before = room.rfind(" ") if not line[len(room)].isspace() else len(room)
    kept = room[:before] if before * 2 >= most else room
    return kept.rstrip() + CUT


def block(text: str) -> str:
    """A body as it stands between tags: what is unseen marked, and none of our tags in it."""
    return _TAG.sub("&lt;", seen(text))
