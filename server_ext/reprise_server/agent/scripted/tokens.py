"""How many tokens the scripted model takes a block for: a tokenizer of its own (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

#: What the API adds around one block of text.
AROUND: Final = 7
#: Of an image, whatever it shows: the most that one of 1568 pixels takes.
IMAGE: Final = 1_600

_PIECES: Final = re.compile(r"[A-Za-z]{1,4}|[0-9]{1,3}|[^\sA-Za-z0-9]")


@lru_cache(maxsize=8192)
def tokens(text: str) -> int:
    """Words in pieces of four letters, each sign, each byte beyond ASCII."""
    pieces = _PIECES.findall(text)
    if text.isascii():
        return len(pieces)
    return sum(len(p.encode("utf-8", "surrogatepass")) if not p.isascii() else 1 for p in pieces)


def block_tokens(block: Mapping[str, Any]) -> int:
    """Of one block of content, whatever its type, with what is around it."""
    kind = block.get("type")
    if kind == "text":
        return AROUND + tokens(block["text"])
    if kind in ("image", "document"):
        return AROUND + IMAGE
    if kind == "tool_result":
        content = block.get("content", "")
        if isinstance(content, str):
            return 2 * AROUND + tokens(content)
        return AROUND + sum(map(block_tokens, content))
    if kind == "thinking":
        return AROUND + tokens(block["thinking"])
    return AROUND + tokens(json.dumps(block, ensure_ascii=False))
