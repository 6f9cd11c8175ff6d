"""Promotion: a version asked for in a wider scope, decided by another person, released."""

from __future__ import annotations

import uuid

from reprise.errors import BadSkill, SkillNotFound
from reprise.skills.contract import Promotion, Reference, Scope, Version
from reprise.skills.reading import Reading, listed
from reprise.skills.refusals import storable
from reprise.skills.rows import promotion_of, version_of
from reprise.skills.shipped import shipped_digests

_VERSION = (
    "scope, name, number, digest, description, state, standing, deprecated, by, at, origin, note"
)


class Promotions(Reading):
    """What moves a version from draft to published, and back."""

    async def request_promotion(self, ref: Reference | str, to: Scope, note: str = "") -> Promotion:
        """Ask that a version become part of a team or the organisation; a draft of it stands there.

        Its members may ask. Raises NotAllowed, SkillNotFound, SkillRevoked; UsageError when that
        content is there already or somebody has asked.
        """
        version = await self.find(ref)
        identity = uuid.uuid4()
        await self._ask(
            "SELECT reprise.ask_skill_promotion(%s, %s, %s, %s, %s, %s)",
            [
                identity,
                str(version.scope),
                version.name,
                version.number,
                str(to),
                storable(note),
            ],
        )
        return await self.promotion(identity)

    async def promotions(self, *, everything: bool = False) -> list[Promotion]:
        """Those that one asked for or may decide: the open ones, or all; oldest first."""
        rows = await self._ask(
            "SELECT * FROM reprise.skill_promotions_seen(NULL, %s)", [everything]
        )
        return [promotion_of(row, await self._version(row[1], row[2], row[3])) for row in rows]

    async def promotion(self, identity: uuid.UUID) -> Promotion:
        """Raises SkillNotFound."""
        rows = await self._ask("SELECT * FROM reprise.skill_promotions_seen(%s, true)", [identity])
        if not rows:
            raise SkillNotFound(
                f"You asked for no promotion {identity}, and it is not yours to decide. "
                "`reprise skills promotions` lists those that are."
            )
        [row] = rows
        return promotion_of(row, await self._version(row[1], row[2], row[3]))

    async def _version(self, scope: str, name: str, number: int) -> Version:
        [version] = await self._found(scope, name, number, None)
        return version

    async def base(self, promotion: Promotion) -> Version | None:
        """What the asked-for version is compared with: the one published in that scope before it.

        None when there is none.
        """
        asked = promotion.version
        for version in await self._found(str(asked.scope), asked.name, None, None):
            if version.number < asked.number and version.state == "published":
                return version
        return None

    async def decide(
        self,
        identity: uuid.UUID,
        approve: bool,
        reason: str = "",
        release: bool = False,
    ) -> Promotion:
        """Approve a promotion, and release it at once if told so, or refuse it.

        A reviewer or admin of the scope may, but who asked for it or added the content may not
        approve. What is approved is read once more: its files must have its digest, and its
        SKILL.md must say the name and the description that the catalog lists. Raises NotAllowed,
        SkillNotFound, SkillRevoked, BadSkill; UsageError when it is decided already.
        """
        promotion = await self.promotion(identity)
        version = promotion.version
        if approve:
            skill = await self.skill(version)
            if (skill.name, listed(skill.description)) != (version.name, version.description):
                raise BadSkill(
                    f"{version.reference} is listed as {version.name!r} ({version.description!r}), "
                    f"but its SKILL.md says {skill.name!r} ({skill.description!r}). Nothing was "
                    f"changed. Refuse it: `reprise skills refuse {identity}`."
                )
        await self._ask(
            "SELECT reprise.decide_skill_promotion(%s, %s, %s, %s, %s)",
            [identity, version.digest, approve, storable(reason), release],
        )
        return await self.promotion(identity)

    async def withdraw(self, identity: uuid.UUID) -> Promotion:
        """Take one's own request back. Raises SkillNotFound; UsageError when it is decided."""
        await self._ask("SELECT reprise.withdraw_skill_promotion(%s)", [identity])
        return await self.promotion(identity)

    async def release(self, ref: Reference | str) -> Version:
        """Publish a version: a reviewed one of a scope, or one of one's own.

        Without a number: the newest that waits for it. Raises NotAllowed, SkillNotFound,
        SkillRevoked.
        """
        version = await self._meant(ref, "reviewed")
        return await self._act("release_skill(%s, %s, %s)", version)

    async def deprecate(
        self, ref: Reference | str, reason: str = "", *, undo: bool = False
    ) -> Version:
        """Mark a version as one that is better not used any more, or take the mark away.

        It stays what others get, until another is released; whoever looks sees the mark and the
        reason. Raises NotAllowed, SkillNotFound; UsageError without a reason.
        """
        version = await self.find(ref)
        return await self._act(
            "deprecate_skill(%s, %s, %s, %s, %s)", version, storable(reason), undo
        )

    async def restore(self, ref: Reference | str) -> Version:
        """A new version with the content of an old one, which was published there.

        Raises NotAllowed, SkillNotFound; SkillRevoked for a content that was taken back.
        """
        return await self._act("restore_skill(%s, %s, %s)", await self.find(ref))

    async def _meant(self, ref: Reference | str, state: str) -> Version:
        """The version that `ref` names; without a number the newest of that scope in `state`."""
        version = await self.find(ref)
        named = Reference.of(ref) if isinstance(ref, str) else ref
        if named.number is None and named.digest is None:
            for each in await self.versions(Reference(version.name, version.scope)):
                if each.state == state or each.scope.kind == "personal":
                    return each
        return version

    async def _act(self, call: str, version: Version, *more: object) -> Version:
        rows = await self._ask(
            f"SELECT {_VERSION} FROM reprise.{call}",  # noqa: S608 - `call` is ours
            [str(version.scope), version.name, version.number, *more],
        )
        return version_of(rows[0], shipped_digests())
