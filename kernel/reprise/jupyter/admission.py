"""Decides whether a skill may be mounted in this session, and records that it was."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from reprise.errors import NotAllowed, RepriseError, SkillNotTrusted, SkillRevoked
from reprise.jupyter.steps import StepRequest
from reprise.log.model import SKILLS, Step
from reprise.log.postgres import Log
from reprise.replay.engine import LiveSession
from reprise.replay.vouched import standings
from reprise.sandbox.named_skills import lets_in
from reprise.sandbox.trust import check_trust

log = logging.getLogger("reprise")


@dataclass(frozen=True)
class Admission:
    """The wall between a catalog of skills and a session; clients may ask before, but not instead.

    isolated, network: whether a wall is around the sandbox, and whether anything may go out of it.
    environment: its name, for the sentences.  skills: what it lets in (`sandbox.named_skills`).
    """

    isolated: bool
    network: bool
    environment: str
    skills: tuple[str, ...] | None = None

    async def admit(self, session: LiveSession, asked: StepRequest) -> StepRequest:
        """The request to mount, with what was found out of a skill's standing.

        Raises SkillRevoked, SkillNotTrusted, UntrustedCode, NotAllowed: nothing was recorded or
        mounted.
        """
        target, tree = str(asked.payload["target"]), str(asked.payload["tree"])
        if not target.startswith(SKILLS):
            return asked
        standing = (await standings(session.writer, [tree]))[tree]
        if standing == "revoked":
            raise SkillRevoked(
                f"{target!a} was not mounted: this content (sha256 {tree[:12]}…) was revoked by "
                "somebody with the right to. Nothing was recorded; what was mounted before stays. "
                f"`reprise skills show sha256:{tree}` says who and why, and `reprise skills list` "
                "has what you can use instead."
            )
        if self.skills is not None:
            await self._check_let_in(session, target, tree)
        if standing == "untrusted":
            if not self.isolated:
                check_trust(target, trusted=False)
            elif self.network:
                raise SkillNotTrusted(
                    f"{target!a} was not mounted: nobody has vouched for this content (sha256 "
                    f"{tree[:12]}…), and the environment {self.environment!r} lets programs reach "
                    "the network. Nothing was recorded. Look at it, then vouch for exactly this "
                    f"content: `reprise skills trust sha256:{tree}`. Or run it in an environment "
                    "without network."
                )
        session.vouch(tree, standing)
        if standing != "trusted":
            return asked
        return replace(asked, payload={**asked.payload, "trusted": True})

    async def _check_let_in(self, session: LiveSession, target: str, tree: str) -> None:
        """By what the catalog and Reprise call this content; a request's word is nothing."""
        # Few environments have a list, and need not load what reads the shipped skills.
        from reprise.skills.known import known_as  # noqa: PLC0415

        names = await known_as(session.database, tree)
        if not lets_in(self.skills, tree, names):
            known = ", ".join(f"{scope}:{name}" for scope, name in names) or "nowhere in a catalog"
            raise NotAllowed(
                f"{target!a} was not mounted: the environment {self.environment!r} lets in the "
                f"skills {', '.join(self.skills or ()) or '(none)'}, and this content (sha256 "
                f"{tree[:12]}…) is {known}. Nothing was recorded. Whoever keeps the environment "
                f"can let it in: `reprise env skills {self.environment} …`."
            )


async def admit_person(log: Log, team: str, environment: str) -> None:
    """Whether whoever this kernel's login is may use a team's environment.

    Raises NotAllowed: no session was begun, nothing runs.
    """
    from reprise.skills.known import in_team  # noqa: PLC0415

    if not await in_team(log, team):
        raise NotAllowed(
            f"The environment {environment!r} is for members of {team}, and this login of the "
            "database is none of them, so nothing was run. An admin of the team can appoint you "
            f"(`reprise skills appoint`); or use another environment (REPRISE_ENVIRONMENT). The "
            "embedded database knows no teams: they need a server with a login for each person."
        )


async def record_mount(session: LiveSession, step: Step) -> None:
    """Count the use of a skill that was just mounted; what cannot be counted is not missed."""
    target, tree = str(step.payload["target"]), str(step.payload["tree"])
    if not target.startswith(SKILLS):
        return
    # Most kernels mount no skill, and need not load what counts them.
    from reprise.skills.trust import Trust  # noqa: PLC0415

    try:
        await Trust(session.database).used(tree, "mount", session=session.session, seq=step.seq)
    except RepriseError as error:
        log.warning("The mount of %s was not counted: %s", target, error)
