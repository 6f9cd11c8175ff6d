"""A skill as a request names it, found for who may see it; lists in pages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from reprise.log.model import Json
from reprise.skills.as_json import version_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Reference, Scope, Skill, SkillTree, Version
from reprise.skills.read import read_skill
from reprise_server.api.base import Asked, Endpoint

RESOURCE: Final = "reprise-skills"


class SkillEndpoint(Endpoint):
    """What works on one skill, named by the path and, where it is not the nearest, a scope."""

    auth_resource = RESOURCE

    async def catalog(self) -> Catalog:
        return Catalog(await self.service.log())

    async def found(self, asked: Asked) -> Version:
        """The version that the request names. Raises SkillNotFound, DatabaseUnavailable."""
        return await (await self.catalog()).find(reference(asked.path["skill"], asked))

    async def tree(self, version: Version) -> SkillTree:
        """Its files, each time only for who may see them: `version` was just found."""
        kept = self.service.trees.get(version.digest)
        if kept is None:
            kept = await (await self.catalog()).tree(version)
            self.service.trees.put(kept)
        return kept

    async def skill(self, version: Version) -> Skill:
        """What its files say."""
        tree = await self.tree(version)
        return await asyncio.to_thread(lambda: read_skill(tree, folder=version.name))

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
