"""What is done with skills: promotion, release, trust and its opposite; scopes and who is in them.

Each act goes through `governance.admit`, and names exactly what it is about: the digest of what
was looked at. Where that name leads to something else by now, nothing is done.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any, Final, Literal, cast

from reprise.errors import SkillNotFound, UsageError
from reprise.log.model import Json
from reprise.skills.as_json import member_json, membership_json, promotion_json, version_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import (
    EXECUTABLE,
    PERSONAL,
    Promotion,
    Reference,
    Scope,
    SkillTree,
    Version,
)
from reprise.skills.members import Role
from reprise.skills.rows import is_current
from reprise_server.api import governance
from reprise_server.api.base import Answer, Asked, operation
from reprise_server.api.governance import WIDENING, Act, Verb
from reprise_server.api.refusals import Refused
from reprise_server.api.skill_named import SkillEndpoint, page, reference
from reprise_server.api.skill_past import compared

_RESOURCE: Final = "reprise-skill-governance"


class GovernanceEndpoint(SkillEndpoint):
    auth_resource = _RESOURCE

    async def exactly(self, asked: Asked) -> Version:
        """The version that the path names by its number, and that has the digest of the body.

        Raises UsageError without a number, Refused (409) for another digest.
        """
        named = reference(asked.path["skill"], asked)
        if named.number is None:
            raise UsageError(
                "Say which version is meant: NAME@NUMBER. What is newest may be another one by the"
                " time this is done."
            )
        version = await (await self.catalog()).find(named)
        _same(version.digest, asked.body["digest"], version.reference)
        return version

    async def act(
        self, verb: Verb, scope: Scope, what: str, version: Version | None = None
    ) -> Catalog:
        """The catalog, once the act was let through. version: whose files are to be seen before an
        act that widens rights is pressed. Raises NotAllowed."""
        shown: tuple[tuple[str, str], ...] = ()
        if version is not None and verb in WIDENING and self.from_browser:
            shown = _shown(version, await self.tree(version))
        await governance.admit(self, Act(verb, str(scope), what, shown))
        return await self.catalog()

    def told_of(self, action: str, version: Version, **more: str) -> dict[str, Json]:
        """Tell listeners what was done with a version; the version as JSON."""
        said = {
            "action": action,
            "scope": str(version.scope),
            "name": version.name,
            "number": version.number,
            "digest": version.digest,
        }
        self.emit("skill", {**said, **more})
        return version_json(version)


def _same(now: str, looked_at: str, what: str) -> None:
    if now != looked_at:
        raise Refused(
            409,
            "content-changed",
            f"{what} has the digest {now}, not the one that was looked at. Nothing was changed."
            " Look at it again.",
        )


def _shown(version: Version, tree: SkillTree) -> tuple[tuple[str, str], ...]:
    """A digest says which files are meant; people read their names."""
    files = [
        f"{entry.path}  {entry.size:,} B{', can run' if entry.mode == EXECUTABLE else ''}"
        for entry in tree.manifest
    ]
    number = f"{len(files):,} file{'' if len(files) == 1 else 's'}, and no other"
    return (("The skill", version.reference), (f"Exactly {number}", "\n".join(files)))


def _pinned(version: Version) -> Reference:
    return Reference(version.name, version.scope, version.number)


# versions -----------------------------------------------------------------------------------------


class AskEndpoint(GovernanceEndpoint):
    path = "/skills/{skill}/promotions"
    # Whoever may add a skill may ask that others get it; they decide.
    auth_resource = "reprise-skills"

    @operation("write", status=201)
    async def post(self, asked: Asked) -> Any:
        version, to = await self.exactly(asked), Scope.of(asked.body["to"])
        catalog = await self.act("ask for promotion", to, version.digest)
        found = await catalog.request_promotion(_pinned(version), to, asked.body.get("note", ""))
        self.told_of("promotion-requested", found.version, promotion=str(found.id))
        return promotion_json(found)


class ReleaseEndpoint(GovernanceEndpoint):
    path = "/skills/{skill}/release"

    @operation("write", widens=True)
    async def post(self, asked: Asked) -> Any:
        version = await self.exactly(asked)
        catalog = await self.act("release", version.scope, version.digest, version)
        return self.told_of("released", await catalog.release(_pinned(version)))


class DeprecationEndpoint(GovernanceEndpoint):
    path = "/skills/{skill}/deprecation"

    @operation("write")
    async def post(self, asked: Asked) -> Any:
        version, undo = await self.exactly(asked), asked.body.get("undo", False)
        catalog = await self.act("deprecate", version.scope, version.digest)
        found = await catalog.deprecate(_pinned(version), asked.body.get("reason", ""), undo=undo)
        return self.told_of("undeprecated" if undo else "deprecated", found)


class RestorationEndpoint(GovernanceEndpoint):
    path = "/skills/{skill}/restoration"

    @operation("write", status=201, widens=True)
    async def post(self, asked: Asked) -> Any:
        version = await self.exactly(asked)
        catalog = await self.act("restore", version.scope, version.digest, version)
        return self.told_of("restored", await catalog.restore(_pinned(version)))


# contents -----------------------------------------------------------------------------------------


class JudgementEndpoint(GovernanceEndpoint):
    """trust, distrust, revoke, reinstate: of a content, in a scope."""

    async def judge(
        self, asked: Asked, verb: Literal["trust", "distrust", "revoke", "reinstate"], done: str
    ) -> Any:
        body = asked.body
        digest, scope, reason = body["digest"], Scope.of(body["scope"]), body.get("reason", "")
        named = Reference.of(asked.path["skill"])
        version: Version | None = None
        if named.digest is None:
            version = await self.found(asked)
            _same(version.digest, digest, version.reference)
        else:
            _same(named.digest, digest, "What the path names")
            # A content can be revoked before anybody here has it.
            with suppress(SkillNotFound):
                version = await self.found(asked)
        catalog = await self.act(verb, scope, digest, version)
        match verb:
            case "trust":
                await catalog.trust(digest, scope=scope, reason=reason)
            case "distrust":
                await catalog.distrust(digest, scope=scope, reason=reason)
            case "revoke":
                await catalog.revoke(digest, scope=scope, reason=reason)
            case "reinstate":
                await catalog.reinstate(digest, scope=scope, reason=reason)
        self.emit("skill", {"action": done, "scope": str(scope), "digest": digest})
        return {"digest": digest, "standing": (await catalog.standings([digest]))[digest]}


class TrustEndpoint(JudgementEndpoint):
    path = "/skills/{skill}/trust"

    @operation("write", widens=True)
    async def post(self, asked: Asked) -> Any:
        return await self.judge(asked, "trust", "trusted")


class DistrustEndpoint(JudgementEndpoint):
    path = "/skills/{skill}/distrust"

    @operation("write")
    async def post(self, asked: Asked) -> Any:
        return await self.judge(asked, "distrust", "distrusted")


class RevokeEndpoint(JudgementEndpoint):
    path = "/skills/{skill}/revoke"

    @operation("write")
    async def post(self, asked: Asked) -> Any:
        return await self.judge(asked, "revoke", "revoked")


class ReinstateEndpoint(JudgementEndpoint):
    path = "/skills/{skill}/reinstate"

    @operation("write", widens=True)
    async def post(self, asked: Asked) -> Any:
        return await self.judge(asked, "reinstate", "reinstated")


# promotions ---------------------------------------------------------------------------------------


class PromotionEndpoints(GovernanceEndpoint):
    async def promotion(self, asked: Asked) -> Promotion:
        return await (await self.catalog()).promotion(uuid.UUID(asked.path["promotion"]))


class PromotionsEndpoint(PromotionEndpoints):
    path = "/skill-promotions"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        some, rest = page(await catalog.promotions(everything=asked.query["everything"]), asked)
        return {"promotions": [promotion_json(each) for each in some], **rest}


class PromotionEndpoint(PromotionEndpoints):
    path = "/skill-promotions/{promotion}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        return promotion_json(await self.promotion(asked))


class PromotionDifferencesEndpoint(PromotionEndpoints):
    path = "/skill-promotions/{promotion}/differences"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """Beside what that scope has now: the newest published version before this one."""
        new = (await self.promotion(asked)).version
        versions = await (await self.catalog()).versions(Reference(new.name, new.scope))
        before = [
            each
            for each in versions
            if each.state == "published" and is_current(each) and each.number < new.number
        ]
        await self.service.login()
        return await compared(self, before[0] if before else None, new, asked)


class DecisionEndpoint(PromotionEndpoints):
    path = "/skill-promotions/{promotion}/decision"

    @operation("write", widens=True)
    async def post(self, asked: Asked) -> Any:
        promotion, body = await self.promotion(asked), asked.body
        version, approve = promotion.version, body["approve"]
        _same(version.digest, body["digest"], version.reference)
        verb: Verb = "approve" if approve else "refuse"
        catalog = await self.act(verb, promotion.to, version.digest, version)
        release = body.get("release", False)
        found = await catalog.decide(promotion.id, approve, body.get("reason", ""), release)
        done = "approved" if approve else "refused"
        self.told_of(done, found.version, promotion=str(found.id))
        if approve and release:
            self.told_of("released", found.version)
        return promotion_json(found)


class WithdrawalEndpoint(PromotionEndpoints):
    path = "/skill-promotions/{promotion}/withdrawal"
    auth_resource = "reprise-skills"

    @operation("write")
    async def post(self, asked: Asked) -> Any:
        promotion = await self.promotion(asked)
        catalog = await self.act("withdraw", promotion.to, promotion.version.digest)
        found = await catalog.withdraw(promotion.id)
        self.told_of("withdrawn", found.version, promotion=str(found.id))
        return promotion_json(found)


# scopes -------------------------------------------------------------------------------------------


class ScopesEndpoint(GovernanceEndpoint):
    path = "/skill-scopes"
    auth_resource = "reprise-skills"

    @operation("read")
    async def get(self, _: Asked) -> Any:
        found = await (await self.catalog()).scopes()
        return {"scopes": [membership_json(each) for each in found]}


class TeamsEndpoint(GovernanceEndpoint):
    path = "/skill-teams"

    @operation("write", status=201, widens=True)
    async def post(self, asked: Asked) -> Any:
        name = asked.body["team"]
        catalog = await self.act("create team", Scope("organisation"), name)
        scope = str(await catalog.create_team(name))
        self.emit("skill", {"action": "team-created", "scope": scope})
        return {"scope": scope, "role": "admin"}


class MembersEndpoint(GovernanceEndpoint):
    path = "/skill-members"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        catalog = await self.catalog()
        some, rest = page(await catalog.members(Scope.of(asked.query["scope"])), asked)
        return {"members": [member_json(each) for each in some], **rest}

    @operation("write", status=200, widens=True)
    async def put(self, asked: Asked) -> Any:
        body = asked.body
        scope, login, role = Scope.of(body["scope"]), body["login"], cast(Role, body["role"])
        if scope == PERSONAL:
            raise UsageError("A personal scope is its owner's alone; nobody is appointed there.")
        catalog = await self.act("appoint", scope, f"{login}: {role}")
        await catalog.appoint(login, scope, role)
        self.emit("skill", {"action": "appointed", "scope": str(scope), "login": login})
        return {"login": login, "role": role}

    @operation("write", status=204)
    async def delete(self, asked: Asked) -> Any:
        scope, login = Scope.of(asked.query["scope"]), asked.query["login"]
        catalog = await self.act("dismiss", scope, login)
        await catalog.dismiss(login, scope)
        self.emit("skill", {"action": "dismissed", "scope": str(scope), "login": login})
        return Answer(None, 204)


ENDPOINTS: Final = (
    AskEndpoint,
    ReleaseEndpoint,
    DeprecationEndpoint,
    RestorationEndpoint,
    TrustEndpoint,
    DistrustEndpoint,
    RevokeEndpoint,
    ReinstateEndpoint,
    PromotionsEndpoint,
    PromotionEndpoint,
    PromotionDifferencesEndpoint,
    DecisionEndpoint,
    WithdrawalEndpoint,
    ScopesEndpoint,
    TeamsEndpoint,
    MembersEndpoint,
)
