"""Adds skills that were found elsewhere to the catalog, each a draft that nobody trusts yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from reprise.errors import BadSkill
from reprise.skills.catalog import Catalog
from reprise.skills.contract import PERSONAL, Scope, Version
from reprise.skills.sources import Found

#: "new": no version of that name was there.  "changed": there was one with other files.
What = Literal["new", "changed", "unchanged", "refused"]


@dataclass(frozen=True)
class Arrival:
    """What became of one skill.

    version: the one that it is now, or the one that was there; None where there is none.
    problem: why it was refused.
    """

    found: Found
    what: What
    version: Version | None = None
    problem: str = ""


async def newest(catalog: Catalog, scope: Scope = PERSONAL) -> Mapping[str, Version]:
    """The newest version of each skill in a scope, whatever its state, by name."""
    found: dict[str, Version] = {}
    for version in await catalog.list(scope, everything=True):
        before = found.get(version.name)
        if before is None or before.number < version.number:
            found[version.name] = version
    return found


async def bring_in(
    catalog: Catalog,
    found: Iterable[Found],
    *,
    scope: Scope = PERSONAL,
    note: str = "",
    only_look: bool = False,
) -> list[Arrival]:
    """Add these skills; one that cannot be taken keeps no other from coming.

    only_look: say what would become of each, and add nothing.
    Raises NotAllowed for a scope that nothing can be added to at once.
    """
    before = await newest(catalog, scope)
    arrivals = []
    for each in found:
        if each.skill is None:
            arrivals.append(Arrival(each, "refused", problem=each.problem))
            continue
        held = before.get(each.skill.name)
        if held is not None and held.digest == each.skill.digest:
            arrivals.append(Arrival(each, "unchanged", held))
            continue
        what: What = "new" if held is None else "changed"
        if only_look:
            arrivals.append(Arrival(each, what, held))
            continue
        try:
            version = await catalog.add(each.skill, each.origin, scope=scope, note=note)
        except BadSkill as error:
            arrivals.append(Arrival(each, "refused", held, str(error)))
            continue
        arrivals.append(Arrival(each, what, version))
    return arrivals
