"""A skill as a request names it, found for who may see it; lists in pages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise.errors import SkillNotFound
from reprise.log.model import Json
from reprise.log.store import Standing
from reprise.skills.as_json import version_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Reference, Scope, Skill, SkillTree, Version
from reprise.skills.read import read_skill
from reprise.skills.shipped import find_shipped
from reprise_server.api.base import Asked, Endpoint

RESOURCE: Final = "reprise-skills"


@dataclass(frozen=True)
class Seen:
    """A skill that may be looked at. version: None for one that comes with Reprise and that nobody
    has added; its reference is its name."""

    version: Version | None
    name: str
    reference: str
    digest: str
    standing: Standing
    deprecated: bool
    tree: SkillTree


class SkillEndpoint(Endpoint):
    """What works on one skill, named by the path and, where it is not the nearest, a scope."""

    auth_resource = RESOURCE

    async def catalog(self) -> Catalog:
        return Catalog(await self.service.log())

    async def found(self, asked: Asked) -> Version:
        """The version that the request names. Raises SkillNotFound, DatabaseUnavailable."""
        return await (await self.catalog()).find(reference(asked.path["skill"], asked))

    async def seen(self, asked: Asked) -> Seen:
        """The skill that the request names, also one that comes with Reprise and was not added.

        Raises SkillNotFound, DatabaseUnavailable.
        """
        named = reference(asked.path["skill"], asked)
        try:
            version = await (await self.catalog()).find(named)
        except SkillNotFound:
            if named != Reference(named.name):
                raise
            skill = await asyncio.to_thread(find_shipped, named.name or "")
            if skill is None:
                raise
            (standing,) = (await (await self.catalog()).standings([skill.digest])).values()
            return Seen(None, skill.name, skill.name, skill.digest, standing, False, skill.tree)
        return Seen(
            version,
            version.name,
            version.reference,
            version.digest,
            version.standing,
            version.deprecated,
            await self.tree(version),
        )

    async def tree(self, version: Version) -> SkillTree:
        """Its files, each time only for who may see them: `version` was just found."""
        kept = self.service.trees.get(version.digest)
        if kept is None:
            kept = await (await self.catalog()).tree(version)
            self.service.trees.put(kept)
        return kept

    async def skill(self, seen: Seen) -> Skill:
        """What its files say."""
        return await asyncio.to_thread(lambda: read_skill(seen.tree, folder=seen.name))

    def told(self, version: Version) -> dict[str, Json]:
        """A version as JSON; a path on somebody else's machine is nobody's business."""
        said = version_json(version)
        if version.origin.kind in ("folder", "archive") and version.by != self.login:
            said["origin"] = {**version.origin.to_json(), "where": ""}
        return said

    @property
    def login(self) -> str | None:
        return self.service.known_login


def reference(text: str, asked: Asked) -> Reference:
    """NAME, NAME@NUMBER or sha256:DIGEST, in the scope that the query names."""
    found = Reference.of(text)
    scope = asked.query.get("scope")
    if scope is None:
        return found
    if found.digest is not None:
        return found
    return Reference(found.name, Scope.of(scope), found.number)


def page(items: Sequence[Any], asked: Asked) -> tuple[list[Any], dict[str, Any]]:
    """The part of a list that was asked for, and where the next one begins."""
    offset, limit = asked.query["offset"], asked.query["limit"]
    end = offset + limit
    return list(items[offset:end]), {
        "total": len(items),
        "next_offset": end if end < len(items) else None,
    }
