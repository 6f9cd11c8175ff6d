"""What the scripted model knows of models: the API's documented bounds, by the name's beginning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Traits:
    """context, output: tokens.  cached: the fewest tokens that are kept in the prompt cache.
    system_inside: whether a message of the role `system` may stand among the others."""

    context: int = 200_000
    output: int = 64_000
    cached: int = 4096
    system_inside: bool = False


#: The longest beginning that fits counts. Sizes that the cache keeps: documentation of prompt
#: caching (November 2026); where it says nothing of a model, the largest of its family.
MODELS: Final[dict[str, Traits]] = {
    "claude-opus-5": Traits(1_000_000, 128_000, 1024, system_inside=True),
    "claude-sonnet-5": Traits(1_000_000, 128_000, 1024),
    "claude-haiku-5": Traits(200_000, 64_000, 4096),
    "claude-opus-4-8": Traits(1_000_000, 128_000, 1024, system_inside=True),
    "claude-sonnet-4-6": Traits(1_000_000, 64_000, 1024),
    "claude-haiku-4-5": Traits(200_000, 64_000, 4096),
}

#: What is there without more being said.
OFFERED: Final = frozenset({"claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"})


def traits(model: str) -> Traits:
    """Of a model by its name, also as a cloud writes it (`anthropic.claude-…-v1:0`)."""
    name = model.removeprefix("anthropic.")
    name = name.split(".anthropic.", 1)[-1]
    found = [start for start in MODELS if name.startswith(start)]
    return MODELS[max(found, key=len)] if found else Traits()
