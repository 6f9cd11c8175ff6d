"""Images that an endpoint refused are left out of later requests, and said to be (pure).

Images are checked before they enter a conversation, and yet an endpoint may refuse one (its own
decoder, a smaller bound). It would stand in every later request, so the conversation could never go
on. Which one it was is not told in a form that could be relied on, so all of the request go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

LEFT_OUT: Final = "[An image stood here, which the model's endpoint did not take.]"

Messages = Sequence[Mapping[str, Any]]


def names(messages: Messages) -> frozenset[str]:
    """The images of messages, each by a hash of its source."""
    return frozenset(_name(block) for block in _images(messages))


def blamed(status: int | None, said: str) -> bool:
    """Whether a refusal speaks of an image; the API has no code of its own (November 2026)."""
    return status == 400 and "image" in said.lower()


def without(messages: Messages, refused: Collection[str]) -> list[dict[str, Any]]:
    """The messages with a text in the place of each image that was refused."""
    return [
        {**message, "content": _without(message.get("content"), refused)} for message in messages
    ]


def _without(content: Any, refused: Collection[str]) -> Any:
    if not isinstance(content, list):
        return content
    found = []
    for block in content:
        if block.get("type") == "tool_result":
            found.append({**block, "content": _without(block.get("content"), refused)})
        elif block.get("type") == "image" and _name(block) in refused:
            # Where the cache is told to end here, it does so still.
            kept = {name: block[name] for name in ("cache_control",) if name in block}
            found.append({"type": "text", "text": LEFT_OUT, **kept})
        else:
            found.append(block)
    return found


def _images(content: Any) -> Iterator[Mapping[str, Any]]:
    for each in content if isinstance(content, list | tuple) else ():
        # What an answer brought may hold anything.
        if not isinstance(each, Mapping):
            continue
        if each.get("type") == "image":
            yield each
        else:
            yield from _images(each.get("content"))


def _name(image: Mapping[str, Any]) -> str:
    source = image.get("source") or {}
    return hashlib.sha256(repr(sorted(source.items())).encode()).hexdigest()
