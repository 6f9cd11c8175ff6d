"""How a skill came to be, how it is used, what it costs, how it differs, how it is judged."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from reprise.skills.as_json import event_json, usage_json
from reprise.skills.contract import SkillTree, Version
from reprise.skills.difference import differences
from reprise.workspace.manifest import Manifest
from reprise_server.api.base import Asked, operation
from reprise_server.api.skill_cost import cost_json
from reprise_server.api.skill_named import SkillEndpoint, page, reference


class VersionsEndpoint(SkillEndpoint):
    path = "/skills/{skill}/versions"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        await self.service.login()
        catalog = await self.catalog()
        some, rest = page(await catalog.versions(reference(asked.path["skill"], asked)), asked)
        return {"versions": [self.told(each) for each in some], **rest}


class HistoryEndpoint(SkillEndpoint):
    path = "/skills/{skill}/history"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        some, rest = page(await catalog.history(reference(asked.path["skill"], asked)), asked)
        return {"events": [event_json(each) for each in some], **rest}


class UsageEndpoint(SkillEndpoint):
    path = "/skills/{skill}/usage"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        some, rest = page(await catalog.usage(reference(asked.path["skill"], asked)), asked)
        versions = [
            {"reference": version.reference, **usage_json(usage)} for version, usage in some
        ]
        return {"versions": versions, **rest}


class UsingEndpoint(SkillEndpoint):
    path = "/skills/{skill}/sessions"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        version = await self.found(asked)
        some, rest = page(await catalog.sessions_using(version.digest), asked)
        return {"digest": version.digest, "sessions": [str(each) for each in some], **rest}


class CostEndpoint(SkillEndpoint):
    path = "/skills/{skill}/cost"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        seen = await self.seen(asked)
        skill = await self.skill(seen)
        costs = await asyncio.to_thread(
            lambda: cost_json(skill, seen.reference, seen.standing, deprecated=seen.deprecated)
        )
        return {"reference": seen.reference, "digest": seen.digest, "counted": False, **costs}


class DifferencesEndpoint(SkillEndpoint):
    path = "/skill-differences"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        old = await catalog.find(asked.query["old"])
        new = await catalog.find(asked.query["new"])
        return await compared(self, old, new, asked)


async def compared(
    endpoint: SkillEndpoint, old: Version | None, new: Version, asked: Asked
) -> dict[str, Any]:
    """How two versions differ, a page of files at a time: what is not shown is not computed."""
    before = None if old is None else await endpoint.tree(old)
    after = await endpoint.tree(new)
    was = {} if before is None else before.manifest.by_path
    now = after.manifest.by_path
    paths = sorted(path for path in {*was, *now} if was.get(path) != now.get(path))
    some, rest = page(paths, asked)
    wanted = frozenset(some)
    found = await asyncio.to_thread(
        lambda: differences(None if before is None else _only(before, wanted), _only(after, wanted))
    )
    return {
        "old": None if old is None else endpoint.told(old),
        "new": endpoint.told(new),
        "files": [each.to_json() for each in found],
        **rest,
    }


def _only(tree: SkillTree, paths: frozenset[str]) -> SkillTree:
    entries = [entry for entry in tree.manifest if entry.path in paths]
    return SkillTree(Manifest.of(entries), tree.contents)


class StandingsEndpoint(SkillEndpoint):
    path = "/skill-standings"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        return {"standings": await catalog.standings(asked.query["digest"])}


ENDPOINTS: Final = (
    VersionsEndpoint,
    HistoryEndpoint,
    UsageEndpoint,
    UsingEndpoint,
    CostEndpoint,
    DifferencesEndpoint,
    StandingsEndpoint,
)
