"""`/skills…`: what there is, what it says, its files, how it came to be and is used; adding."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from reprise.errors import BadSkill
from reprise.skills.archive import packed_skills
from reprise.skills.arrival import bring_in
from reprise.skills.as_json import (
    arrival_json,
    files_json,
    finding_json,
    skill_json,
)
from reprise.skills.check import check
from reprise.skills.contract import PERSONAL, Finding, Scope, Version
from reprise.skills.git_address import address
from reprise.skills.loaded import loaded
from reprise.skills.meant import not_yet_added
from reprise.skills.sources import Found, Looked
from reprise_server.api import governance
from reprise_server.api.base import Answer, Asked, File, operation
from reprise_server.api.governance import Act
from reprise_server.api.refusals import Refused
from reprise_server.api.skill_cost import cost_json
from reprise_server.api.skill_named import SkillEndpoint, page
from reprise_server.api.skill_work import importing
from reprise_server.api.uploads import UPLOAD_BYTES, looked_at, sent_tree

#: Of an upload that holds nothing usable, so many reasons are told.
_TOLD: Final = 5


class SkillsEndpoint(SkillEndpoint):
    path = "/skills"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        await self.service.login()
        words, written = asked.query["q"], asked.query["scope"]
        scope = None if written is None else Scope.of(written)
        if words is not None:
            versions = await catalog.search(words, most=asked.query["limit"])
            if scope is not None:
                versions = [each for each in versions if each.scope == scope]
            return {
                "skills": [self.told(each) for each in versions],
                "shipped": [],
                "total": len(versions),
                "next_offset": None,
            }
        versions = await catalog.list(scope, everything=asked.query["everything"])
        some, rest = page(versions, asked)
        own = scope in (None, PERSONAL) and asked.query["offset"] == 0
        more = await not_yet_added(versions) if own else []
        return {
            "skills": [self.told(each) for each in some],
            "shipped": [
                {"name": each.name, "description": each.description, "digest": each.digest}
                for each in more
            ],
            **rest,
        }

    @operation("write", status=201, body_bytes=UPLOAD_BYTES, patience_s=300.0)
    async def post(self, asked: Asked) -> Any:
        note = asked.query["note"] or ""
        looked = await asyncio.to_thread(looked_at, asked)
        await governance.admit(self, Act("add", "personal", ", ".join(_names(looked))))
        arrivals = await bring_in(await self.catalog(), looked.found, note=note)
        for each in arrivals:
            if each.version is not None and each.what in ("new", "changed"):
                self.emit("skill", {"action": "added", **_named(each.version)})
        refused = [each.problem for each in arrivals if each.what == "refused"]
        if len(refused) == len(arrivals):
            raise BadSkill(" ".join(refused[:_TOLD]))
        return {
            "skills": [arrival_json(each) for each in arrivals],
            "notes": list(looked.notes),
        }


class ImportsEndpoint(SkillEndpoint):
    path = "/skill-imports"

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        source = address(asked.body["source"])
        await governance.admit(self, Act("add", "personal", source.shown))
        here, by = asyncio.get_running_loop(), str(self.person)

        def added(version: Version) -> None:
            # A job is done on a loop of its own; events are told on the server's.
            said = {"action": "added", "by": by, **_named(version)}
            here.call_soon_threadsafe(self.service.emit, "skill", said)

        job, new = self.service.workshop.begin(importing(asked.body, added), self.person)
        return Answer(job.to_json(), 202 if new else 200)


class CheckEndpoint(SkillEndpoint):
    path = "/skill-checks"

    @operation("execute", body_bytes=UPLOAD_BYTES, patience_s=300.0)
    async def post(self, asked: Asked) -> Any:
        return await asyncio.to_thread(_checked, asked)


def _checked(asked: Asked) -> dict[str, Any]:
    looked = looked_at(asked)
    return {
        "skills": [
            {
                "folder": each.folder,
                "name": each.name,
                "digest": None if each.skill is None else each.skill.digest,
                "why_not": each.problem or None,
                "findings": [finding_json(one) for one in _findings(each, asked)],
                # As it stands once it is added: nobody trusts it yet.
                "cost": None
                if each.skill is None
                else cost_json(each.skill, each.skill.name, "untrusted"),
            }
            for each in looked.found
        ],
        "notes": list(looked.notes),
    }


def _findings(each: Found, asked: Asked) -> list[Finding]:
    """Whoever writes a skill also learns in which line it is none yet."""
    tree = None if each.skill is None else each.skill.tree
    if tree is None and asked.content_type == "application/json":
        tree = sent_tree(asked.body)
    return [] if tree is None else check(tree, folder=each.folder.rpartition("/")[2] or None)


def _names(looked: Looked) -> list[str]:
    return [each.name for each in looked.found if each.skill is not None]


def _named(version: Version) -> dict[str, Any]:
    return {
        "scope": str(version.scope),
        "name": version.name,
        "number": version.number,
        "digest": version.digest,
    }


class SkillShowEndpoint(SkillEndpoint):
    path = "/skills/{skill}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        await self.service.login()
        seen = await self.seen(asked)
        clashes = [] if seen.version is None else await (await self.catalog()).clashes(seen.version)
        return {
            "version": None if seen.version is None else self.told(seen.version),
            "standing": seen.standing,
            "skill": skill_json(await self.skill(seen)),
            "clashes": [self.told(each) for each in clashes],
        }


class BodyEndpoint(SkillEndpoint):
    path = "/skills/{skill}/body"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        self.check_xsrf_cookie()  # it is counted
        seen = await self.seen(asked)
        skill = await self.skill(seen)
        shown = loaded(skill, seen.reference, seen.standing, deprecated=seen.deprecated)
        await (await self.catalog()).used(seen.digest, "load", detail={"by": "rest"})
        return {
            "reference": seen.reference,
            "digest": seen.digest,
            "standing": seen.standing,
            "body": skill.body,
            # What was taken back is read by people only.
            "shown_to_models": None if seen.standing == "revoked" else shown.text,
        }


class FilesEndpoint(SkillEndpoint):
    path = "/skills/{skill}/files"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        seen = await self.seen(asked)
        some, rest = page(files_json(seen.tree), asked)
        return {"digest": seen.digest, "files": some, **rest}


class FileEndpoint(SkillEndpoint):
    path = "/skills/{skill}/file"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        # As Jupyter does for its own files: a page elsewhere must not have them by a link.
        self.check_xsrf_cookie()
        seen, path = await self.seen(asked), asked.query["path"]
        data = seen.tree.get(path)
        if data is None:
            raise Refused(404, "file-not-found", f"{seen.reference} has no file at that path.")
        return File(path.rpartition("/")[2], data)


class ArchiveEndpoint(SkillEndpoint):
    path = "/skills/{skill}/archive"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        self.check_xsrf_cookie()
        seen = await self.seen(asked)
        name = f"{seen.name}.{asked.query['format']}"
        return File(name, await asyncio.to_thread(packed_skills, {seen.name: seen.tree}, name))


class FindingsEndpoint(SkillEndpoint):
    path = "/skills/{skill}/findings"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        seen = await self.seen(asked)
        found = await asyncio.to_thread(lambda: check(seen.tree, folder=seen.name))
        return {"digest": seen.digest, "findings": [finding_json(each) for each in found]}


ENDPOINTS: Final = (
    SkillsEndpoint,
    ImportsEndpoint,
    CheckEndpoint,
    SkillShowEndpoint,
    BodyEndpoint,
    FilesEndpoint,
    FileEndpoint,
    ArchiveEndpoint,
    FindingsEndpoint,
)
