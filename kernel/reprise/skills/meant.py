"""Which version a name means where shipped skills count, too, which nobody has to add first.

What comes with Reprise is in nobody's scope before it is used. By its name it can be told of,
loaded, mounted and run all the same: it is added to one's own scope then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from reprise import __version__
from reprise.errors import SkillNotFound, UnavailableError
from reprise.skills.catalog import Catalog
from reprise.skills.contract import PERSONAL, Origin, Reference, Skill, Version
from reprise.skills.shipped import find_shipped, shipped


async def meant(catalog: Catalog, ref: Reference | str) -> Version:
    """The version that a reference means.

    A shipped skill is added to one's own scope when it is not there, and again when an upgrade
    brought another content. Raises SkillNotFound.
    """
    named = Reference.of(ref) if isinstance(ref, str) else ref
    try:
        version = await catalog.find(named)
    except SkillNotFound:
        version = None
        if named.name is None or named.scope not in (None, PERSONAL) or named.number is not None:
            raise
    pinned = named.name is None or named.number is not None
    if version is not None and (pinned or version.origin.kind != "shipped"):
        return version
    found = await asyncio.to_thread(_shipped, named.name or "")
    if found is not None and (version is None or version.digest != found.digest):
        added = await catalog.add(found, Origin("shipped"))
        if added.standing == "trusted":
            # An upgrade may bring another content. Who used this one goes on with what is trusted.
            await catalog.trust(added.digest, reason=f"It came with Reprise {__version__}.")
        return added
    return version or await catalog.find(named)


async def not_yet_added(versions: Sequence[Version]) -> list[Skill]:
    """The shipped skills that no version here has the name of, or only an older content of it."""
    known = {version.name: version for version in versions}
    return [
        skill
        for skill in await asyncio.to_thread(_all_shipped)
        if skill.name not in known
        or (known[skill.name].origin.kind == "shipped" and known[skill.name].digest != skill.digest)
    ]


def _shipped(name: str) -> Skill | None:
    try:
        return find_shipped(name)
    except UnavailableError:
        return None  # an installation without any; doctor says so


def _all_shipped() -> list[Skill]:
    try:
        return [skill for skill, _ in shipped()]
    except UnavailableError:
        return []
