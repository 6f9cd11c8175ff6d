"""What each part of a skill costs a model in tokens, estimated, as JSON (pure)."""

from __future__ import annotations

from typing import Any

from reprise.log.store import Standing
from reprise.skills.choosing import Offer
from reprise.skills.contract import Skill
from reprise.skills.costs import estimated, parts


def cost_json(
    skill: Skill, reference: str, standing: Standing, *, deprecated: bool = False
) -> dict[str, Any]:
    """Its line in the catalog, its body once it is loaded, and each further file: null for what is
    no text."""
    offer = Offer(skill.name, reference, skill.digest, skill.description, standing, deprecated)
    found = parts(offer, skill)
    tokens = [None if each is None else each.number for each in estimated([p.text for p in found])]
    listed, body, *files = zip(found, tokens, strict=True)
    return {
        "listed": listed[1],
        "loaded": body[1],
        "files": [{"path": part.path, "tokens": number} for part, number in files],
    }
