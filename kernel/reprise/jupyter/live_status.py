"""How a kernel's session stands, for the toolbar of its notebook: the content of a `status_reply`.

Everything is known already, or is not waited for: asking wakes nothing and is answered at once,
while a step runs and while a resume does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from reprise.errors import RepriseError
from reprise.jupyter.static.screen import Screen
from reprise.log.as_json import iso
from reprise.log.model import Json
from reprise.replay.condition import UNUSUAL, Condition, Kept, State
from reprise.replay.deaths import why
from reprise.replay.engine import LiveSession
from reprise.replay.plan import Plan
from reprise.sandbox.contract import Backend

#: Seconds for which the memory that was counted last is told again: counting it exactly reads
#: every page table of the sandbox.
MEMORY_KEPT_S: Final = 2.0
#: Seconds that an answer waits for the count; a guest that is slower is told of next time.
MEMORY_WAIT_S: Final = 0.2


@dataclass(frozen=True)
class Around:
    """What code of this kernel runs in, which stays as it is while the kernel lives.

    environment, language: their names.  hosts: that rules let it reach; ("*",) where nothing holds
    it back.  memory: the limit, bytes, 0 for none.
    """

    backend: Backend
    environment: str
    language: str
    hosts: tuple[str, ...]
    memory: int

    def to_json(self, workspace: str) -> dict[str, Json]:
        """As `client.results.Surroundings` reads it."""
        return {
            "environment": self.environment,
            "isolated": self.backend.isolated,
            "network": list(self.hosts),
            "workspace": workspace,
        }


class LiveStatus:
    """session: the one that there is by then.  starting: what the start of a sandbox is doing."""

    def __init__(
        self,
        around: Around,
        screen: Screen,
        session: Callable[[], LiveSession],
        starting: Callable[[], str | None],
    ) -> None:
        self._around = around
        self._screen = screen
        self._session = session
        self._starting = starting
        self._told: State | None = None
        self._memory: int | None = None
        self._counted_at = 0.0
        self._counting: asyncio.Task[None] | None = None

    async def asked(self) -> dict[str, Json]:
        """The whole answer."""
        await self._count()
        return self.known()

    def news(self) -> dict[str, Json] | None:
        """What pages are to be told unasked: that something unusual began, or is over."""
        state, told = self._session().state, self._told
        self._told = state
        if state == told or not UNUSUAL & {state, told}:
            return None
        return self.known()

    def known(self) -> dict[str, Json]:
        """The answer as far as it is known now."""
        session, around = self._session(), self._around
        condition, state = session.condition, session.state
        return {
            "session": None if session.session is None else str(session.session),
            "state": state,
            "text": self._text(state, condition),
            "backend": {
                "name": around.backend.name,
                "isolated": around.backend.isolated,
                "isolation": around.backend.isolation,
            },
            "environment": {"name": around.environment, "digest": session.environment_digest},
            "language": around.language,
            "network": self._network(session),
            "memory": {
                "used": self._memory if session.live else None,
                "limit": around.memory or None,
            },
            "steps": session.steps,
            "running": session.running,
            "since": None if session.running_since is None else iso(session.running_since),
            "output": self._screen.to_json(),
            **_way_back(state, condition),
            "death": _death(condition),
            "held": None if state != "held" else dict(condition.held_by or {}),
        }

    def _text(self, state: State, condition: Condition) -> str | None:
        if state in ("failed", "held") and condition.problem is not None:
            return str(condition.problem)
        return self._starting()

    def _network(self, session: LiveSession) -> dict[str, Json]:
        shut = session.vouched.shut
        return network_json(
            self._around.hosts,
            None if shut is None else shut[1],
            isolated=self._around.backend.isolated,
        )

    async def _count(self) -> None:
        """Count the memory in use, if it was not lately, and wait a moment for the answer."""
        if not self._session().live or time.monotonic() - self._counted_at < MEMORY_KEPT_S:
            return
        if self._counting is None or self._counting.done():
            self._counting = asyncio.get_running_loop().create_task(self._ask())
        await asyncio.wait([self._counting], timeout=MEMORY_WAIT_S)

    async def _ask(self) -> None:
        try:
            usage, _ = await self._session().link.guest.call("usage")
        except RepriseError:
            self._memory = None  # the sandbox went meanwhile, or says no: then it is not known
        else:
            counted: list[Json] = [usage.get(name) for name in ("memory", "files")]
            # What a guest says may be anything.
            known = all(type(each) is int and 0 <= each < 1 << 60 for each in counted)
            self._memory = sum(counted) if known else None
        self._counted_at = time.monotonic()


def _way_back(state: State, condition: Condition) -> dict[str, Json]:
    plan, going, resumed, kept = (
        condition.plan,
        condition.going(),
        condition.resumed,
        condition.kept,
    )
    told = state in ("resuming", "stopped")
    return {
        "snapshot": kept_json(kept),
        "plan": plan_json(plan) if state in ("waiting", "stopped", "resuming", "failed") else None,
        "resume": None
        if going is None or not told
        else {
            "done": going.done,
            "total": going.total,
            "estimate_s": round(going.estimate_s, 3),
            "elapsed_s": round(going.elapsed_s, 3),
            "remaining_s": round(going.remaining_s, 3),
            "start_seq": going.start_seq,
        },
        "last_resume": None
        if resumed is None
        else {
            "at": iso(resumed.at),
            "seconds": round(resumed.seconds, 3),
            "seq": resumed.seq,
            "steps": resumed.steps,
            "left_out": list(resumed.left_out),
        },
    }


def _death(condition: Condition) -> Json:
    death = condition.death
    if death is None:
        return None
    return {
        "seq": death.seq,
        "at": iso(death.at),
        "what": death.killed or death.cause.what,
        "text": why(death.cause, death.killed),
        "limit": death.cause.limit,
    }


def network_json(hosts: Sequence[str], shut: str | None, *, isolated: bool) -> dict[str, Json]:
    """What a session's code can reach, and the same in words. shut: why nothing is connected."""
    if not isolated:
        text = "Not isolated: code reaches whatever this machine reaches."
    elif not hosts:
        text = "None."
    else:
        text = f"Only {', '.join(hosts)}." if shut is None else f"None: {shut}."
    is_open = bool(hosts) and (shut is None or not isolated)
    return {"open": is_open, "hosts": list(hosts), "text": text}


def kept_json(kept: Kept | None) -> dict[str, Json] | None:
    """The last saved state of a session."""
    return None if kept is None else {"seq": kept.seq, "at": iso(kept.at), "kind": kept.kind}


def plan_json(plan: Plan | None) -> dict[str, Json] | None:
    """What coming back takes."""
    if plan is None:
        return None
    estimate = round(plan.estimate_s, 3)
    return {"steps": len(plan.run), "estimate_s": estimate, "start_seq": plan.start_seq}
