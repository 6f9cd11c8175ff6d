"""What each part of a skill costs a conversation in tokens: its line, its body, its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reprise.errors import UnavailableError
from reprise.skills.choosing import WHOLE, Offer, line
from reprise.skills.contract import Skill
from reprise.skills.counting import Counter
from reprise.skills.loaded import loaded
from reprise.skills.part import text_of
from reprise.skills.read import skill_file
from reprise.skills.tokens import Tokens, estimate

#: Texts that are counted at once; of more, each takes a request, and the API allows some hundred
#: a minute.
MOST_COUNTED = 200

#: line: in the catalog, always.  body: once it is loaded, with the list of its files.  file: once
#: it is asked for.
Kind = Literal["line", "body", "file"]


@dataclass(frozen=True)
class Part:
    """One part of a skill. text: what a model is shown of it; None where it is no text."""

    kind: Kind
    path: str
    text: str | None


@dataclass(frozen=True)
class Cost:
    """A part, and what it takes; None where it is no text, which a model is not shown."""

    part: Part
    tokens: Tokens | None


def parts(offer: Offer, skill: Skill) -> list[Part]:
    """What a model may be shown of a skill, in the order in which it is."""
    own = skill_file(skill.tree)
    return [
        Part("line", "", line(offer, WHOLE)),
        Part("body", own, loaded(skill, offer.reference, offer.standing).text),
        *(
            Part("file", entry.path, text_of(skill, entry))
            for entry in skill.tree.manifest
            if entry.type == "file" and entry.path != own
        ),
    ]


def estimated(texts: Sequence[str | None]) -> list[Tokens | None]:
    return [None if text is None else Tokens(estimate(text)) for text in texts]


async def counted(
    texts: Sequence[str | None], counter: Counter | None
) -> tuple[list[Tokens | None], str]:
    """Tokens of each text, and why they were not counted, "" when they were or nobody asked."""
    if counter is None:
        return estimated(texts), ""
    asked = [text for text in texts if text is not None]
    if len(asked) > MOST_COUNTED:
        return estimated(texts), (
            f"{len(asked):,} texts are more than the API is asked for at once "
            f"({MOST_COUNTED}); name fewer skills."
        )
    try:
        numbers = iter(await counter.count(asked))
    except UnavailableError as error:
        return estimated(texts), str(error)
    return [None if text is None else next(numbers) for text in texts], ""


def total(costs: Sequence[Tokens | None]) -> Tokens:
    """The sum; counted when each of them was."""
    known = [cost for cost in costs if cost is not None]
    return Tokens(sum(cost.number for cost in known), all(cost.counted for cost in known))
