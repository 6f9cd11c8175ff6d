"""What a call is bound by: the policies, what its session holds, and where it would run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reprise.client import KernelGone
from reprise.errors import SessionNotFound
from reprise.log.postgres import Log
from reprise.log.store import StepRecord
from reprise_server.agent.contract import Act, Grant, Situation, Taint, TaintKind, Verdict
from reprise_server.agent.parts import Rule
from reprise_server.agent.policy.engine import evaluate
from reprise_server.agent.policy.levels import levels
from reprise_server.agent.policy.offers import pattern_rule, session_rule
from reprise_server.agent.settings import RepriseAgent
from reprise_server.agent.tools.history import fork_of
from reprise_server.agent.tools.place import Place


@dataclass(frozen=True)
class BoundPolicies:
    """The policies that bind whoever the log belongs to, read anew for each verdict."""

    log: Log
    settings: RepriseAgent

    async def judge(self, act: Act, situation: Situation, grants: Sequence[Grant]) -> Verdict:
        return evaluate(await levels(self.log, self.settings), grants, act, situation)

    def offers(self, act: Act, situation: Situation) -> tuple[Rule | None, Rule | None]:
        return session_rule(act, situation), pattern_rule(act, situation)


@dataclass(frozen=True)
class LoggedSession:
    """The session's log, as a turn asks it."""

    place: Place

    async def of_call(self, key: str) -> Sequence[StepRecord]:
        return await self.place.of_call(key)

    async def tainted(self) -> Sequence[tuple[TaintKind, str]]:
        return (*(await self.place.sources()).taints(), *(await self.place.named()))

    async def went_over(self, key: str) -> str | None:
        fork = fork_of(key)
        try:
            info = await (await self.place.log.reader(fork)).info()
        except SessionNotFound:
            return None
        led = info.holder is not None or fork in await self.place.log.bound()
        if not led:
            return None
        await self.place.went_over(fork)
        return str(fork)


@dataclass(frozen=True)
class Surrounded:
    """What a verdict depends on besides the act, as the kernel says it now."""

    settings: RepriseAgent
    place: Place
    who: str | None
    notebook: str | None

    async def situation(self, taints: tuple[Taint, ...]) -> Situation:
        try:
            found = await self.place.surroundings()
        except KernelGone:
            # It asked a kernel that had just gone. Nothing runs by asking: the next one is asked.
            found = await self.place.surroundings()
        return Situation(
            self.who,
            found.environment,
            found.isolated,
            found.network,
            self.notebook,
            taints,
            tuple(self.settings.untrusted_paths),
        )
