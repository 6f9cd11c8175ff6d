"""How large a request is in tokens, quickly and rather too much (pure).

The API counts exactly, but takes a request for it. The estimate of `reprise.skills.tokens` leans to
too much; of a long text it looks at the beginning, the middle and the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from reprise.skills.tokens import estimate
from reprise_server.agent.model.prices import input_tokens

#: Characters that are looked at of each part: a text of 3,000 takes some 3 ms.
_PART: Final = 1_000
#: An image takes at most so many (documentation of vision: 1568 pixels a side).
_IMAGE: Final = 1_600
#: What stands around a block.
_AROUND: Final = 8


@lru_cache(maxsize=4096)
def of_text(text: str) -> int:
    """Tokens of a text, estimated."""
    if len(text) <= 3 * _PART:
        return estimate(text)
    middle = len(text) // 2
    looked_at = text[:_PART] + text[middle : middle + _PART] + text[-_PART:]
    return -(-estimate(looked_at) * len(text) // len(looked_at))


def of_blocks(content: Any) -> int:
    """Of a message's content: a text, or blocks of any type."""
    size, waiting = 0, [content]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            size += of_text(one)
        elif isinstance(one, Mapping):
            if one.get("type") in ("image", "document") and isinstance(one.get("source"), Mapping):
                size += _IMAGE
                continue
            size += _AROUND + 2 * len(one)
            # A signature is no text to the model.
            waiting.extend(value for name, value in one.items() if name != "signature")
        elif isinstance(one, list | tuple):
            waiting.extend(one)
        else:
            size += 1
    return size


def of_request(tools: Iterable[Any], system: Iterable[Any], messages: Iterable[Any]) -> int:
    """Of a whole request."""
    return sum(of_blocks(one) for part in (tools, system, messages) for one in part)


def after(usage: Mapping[str, Any], added: Iterable[Any]) -> int:
    """Of the next request of a conversation: what the API counted of the latest one and its answer,
    and an estimate of the blocks or messages that were added since."""
    known = input_tokens(usage) + int(usage.get("output_tokens") or 0)
    return known + sum(of_blocks(one) for one in added)
