"""How many tokens a text is to a model, estimated from its characters (pure).

Anthropic publishes no tokenizer for its current models; its API counts (`counting.py`). Without a
key a text is estimated, and said to be. The estimate adds up what each word, number, sign and
character costs, so the parts of a text tell what the whole takes at most. It leans to too much:
whoever holds a budget by it stays below.

Where the costs come from: 1,155 files (10.7 million characters: SKILL.md files, scripts, data and
references of six public collections of skills, November 2026), counted by three tokenizers: the one
that Anthropic published for Claude 2, and two that the package ctok 1.3 reconstructs for Claude 3
to 4.6 and for Claude 4.7 to 5. docs/skill-disclosure.md has what came out.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

#: Characters that are looked at; the rest of a longer text is taken to be like them. No model
#: reads more at once, and a megabyte takes a second.
MAX_LOOKED_AT = 1 << 20

_PIECE = re.compile(
    r"""(?P<word>[A-Z]?[a-z]+)
      | (?P<capitals>[A-Z]+(?![a-z]))
      | (?P<digits>[0-9]+)
      | (?P<blank>\n+|\t+|[ ]{2,})
      | (?P<space>[ ])
      | (?P<sign>(?P<same>[\x00-\x1f!-/:-@\[-`{-\x7f])(?P=same)*)
      | (?P<other>[^\x00-\x7f])""",
    re.VERBOSE,
)
_VOWEL = re.compile("[aeiouy]", re.IGNORECASE)

#: Of non-ASCII characters, by the last code point of each range. What a tokenizer has not seen
#: takes its bytes in UTF-8, and now and then a mark.
_OTHER: tuple[tuple[int, float], ...] = (
    (0x024F, 2.0),  # accented Latin letters
    (0x036F, 2.0),  # phonetic letters and combining marks
    (0x03FF, 1.4),  # Greek
    (0x07FF, 1.1),  # Cyrillic, Armenian, Hebrew, Arabic and others of two bytes
    (0x0DFF, 1.6),  # scripts of India
    (0x0EFF, 1.9),  # Thai, Lao
    (0x1FFF, 3.4),  # scripts that tokenizers have seen little of
    (0x2026, 2.0),  # dashes, typographic quotation marks, bullets
    (0x24FF, 3.4),  # symbols, arrows
    (0x257F, 1.0),  # lines of boxes, which come in runs
    (0x2E7F, 3.0),
    (0xABFF, 1.2),  # Chinese, Japanese
    (0xD7A3, 1.4),  # Korean
    (0xF8FF, 3.0),
    (0xFAFF, 2.0),
    (0xFFFF, 3.0),
)


@dataclass(frozen=True)
class Tokens:
    """What a text takes. counted: by the model's own API; otherwise estimated, and too many."""

    number: int
    counted: bool = False

    def __str__(self) -> str:
        return f"{self.number:,}" if self.counted else f"~{self.number:,}"


def estimate(text: str) -> int:
    """Tokens of a text, rounded up. Texts one after the other never take more than their sum."""
    looked_at = text[:MAX_LOOKED_AT]
    cost = sum(map(_cost, _PIECE.finditer(looked_at)))
    if len(text) > MAX_LOOKED_AT:
        cost *= len(text) / MAX_LOOKED_AT
    # A sum of floats may stand a hair above the whole number that it is.
    return math.ceil(round(cost, 6))


def _cost(piece: re.Match[str]) -> float:
    size = piece.end() - piece.start()
    match piece.lastgroup:
        case "word":
            return _word(piece.group(), size)
        case "capitals":
            return 1.25 + 0.85 * size
        case "digits":
            return 1.3 + 0.4 * (size - 1)
        case "space":
            # It comes with the word behind it.
            return 0.05
        case "blank":
            return 1.4
        case "sign":
            return 1.0 + 0.2 * (size - 1)
        case _:
            return _character(ord(piece.group()))


def _word(word: str, size: int) -> float:
    """One token for a short word; long ones are split, and what is no word letter by letter."""
    begins = 1.0 if word[0].isupper() else 0.0
    if size > 16 or (size > 2 and not _VOWEL.search(word)):
        return begins + size
    return begins + 1.3 + 0.25 * max(min(size, 12) - 4, 0) + max(size - 12, 0)


def _character(code: int) -> float:
    for last, cost in _OTHER:
        if code <= last:
            return cost
    return 4.0
