"""What a content is called: in the scopes of the catalog that whoever asks is in, and by us."""

from __future__ import annotations

import asyncio

from reprise.log.postgres import Log
from reprise.sandbox.named_skills import SHIPPED
from reprise.skills.shipped import shipped, shipped_digests


async def known_as(log: Log, digest: str) -> list[tuple[str, str]]:
    """(scope, name) of each place that has this content, the nearest first.

    Only versions that stand where they are: a draft in a team's scope is nobody's word yet.
    """
    rows = await log.query(
        "SELECT scope, name FROM reprise.find_skills(NULL, NULL, NULL, %s)"
        " WHERE state = 'published' OR starts_with(scope, 'personal')",
        [digest],
    )
    found = [("personal" if scope.startswith("personal") else scope, name) for scope, name in rows]
    if await asyncio.to_thread(lambda: digest in shipped_digests()):
        every = await asyncio.to_thread(shipped)
        found += [(SHIPPED, skill.name) for skill, _ in every if skill.tree.digest == digest]
    return list(dict.fromkeys(found))


async def in_team(log: Log, team: str) -> bool:
    """Whether whoever asks is a member of that team."""
    [(scopes,)] = await log.query("SELECT reprise.skill_scopes_read()")
    return team in scopes
