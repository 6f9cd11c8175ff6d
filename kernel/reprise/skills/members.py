"""Who is in which scope of the catalog, and who appoints whom."""

from __future__ import annotations

from typing import Literal

from reprise.skills.contract import Scope
from reprise.skills.refusals import Asking, storable
from reprise.skills.rows import Member, Membership, scope_of

Role = Literal["member", "reviewer", "admin"]


class Members(Asking):
    """Scopes, teams and roles, as reprise.skill_members says."""

    async def scopes(self) -> list[Membership]:
        """The scopes of whoever asks and his role in each, nearest first.

        In the embedded database that is the personal one only.
        """
        rows = await self._ask("SELECT scope, role FROM reprise.my_skill_scopes()")
        return [Membership(scope_of(scope), role) for scope, role in rows]

    async def members(self, scope: Scope) -> list[Member]:
        """Everybody who was appointed in a scope, admins first.

        Of the organisation every login is a member, so only those with a role stand here. Raises
        NotAllowed for a scope that one is not in.
        """
        rows = await self._ask("SELECT login, role FROM reprise.skill_members_of(%s)", [str(scope)])
        return [Member(login, role) for login, role in rows]

    async def appoint(self, login: str, scope: Scope, role: Role) -> None:
        """Give a login a role in a scope, instead of the one it has there.

        An admin of the scope may, an admin of the organisation, and a member of reprise_owner;
        nobody appoints himself (but the last). Raises NotAllowed; UsageError for an unknown login.
        """
        await self._ask(
            "SELECT reprise.appoint_for_skills(%s, %s, %s)", [storable(login), str(scope), role]
        )

    async def dismiss(self, login: str, scope: Scope) -> None:
        """Take a login's role in a scope away; anybody may leave. Raises NotAllowed."""
        await self._ask("SELECT reprise.dismiss_from_skills(%s, %s)", [storable(login), str(scope)])

    async def create_team(self, name: str) -> Scope:
        """A new team, whose first admin is who asks: an admin of the organisation, or operator.

        Raises NotAllowed; UsageError for a name that is taken or is none.
        """
        await self._ask("SELECT reprise.create_skill_team(%s)", [storable(name)])
        return Scope("team", name)
