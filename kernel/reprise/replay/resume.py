"""The way back of a live session: what is played on a fresh sandbox, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping
from typing import Protocol

from reprise.errors import SandboxDied
from reprise.failpoints import failpoint
from reprise.log.model import Json
from reprise.log.postgres import now_us
from reprise.log.store import SessionLog, StepSummary
from reprise.replay.condition import Condition, Resumed
from reprise.replay.executor import Played, Player, advance_prompt, died_on_replay
from reprise.replay.link import KernelLink
from reprise.replay.pace import Pace
from reprise.replay.plan import Plan, cost, plan
from reprise.replay.restarts import next_prompt, trees
from reprise.replay.surroundings import Progress, Router, SessionPlan

#: A step that keeps killing its sandbox on replay is left out after so many tries.
TRIES_PER_STEP = 2


class Say(Protocol):
    """Keeps a notice of the session and shows it."""

    def __call__(
        self, seq: int | None, code: str, text: str, detail: Mapping[str, Json] | None = None
    ) -> Awaitable[None]: ...


class Resume:
    """Brings sandboxes to the head of one session, and learns which steps no sandbox survives."""

    def __init__(self, start: SessionPlan, router: Router, say: Say, condition: Condition) -> None:
        self._start = start
        self._router = router
        self._say = say
        self._condition = condition
        self._tries: dict[int, int] = {}
        self._player: Player | None = None

    def plan(self, steps: list[StepSummary]) -> Plan:
        """The route to the state after the last of `steps`."""
        kept = trees(steps, isolated=self._start.backend.isolated)
        chosen = plan(steps, live=None, trees=kept)
        hopeless = {seq for seq, tries in self._tries.items() if tries >= TRIES_PER_STEP}
        return chosen.without(hopeless) if hopeless else chosen

    async def play(
        self, link: KernelLink, opened: SessionLog, chosen: Plan, steps: list[StepSummary]
    ) -> int:
        """Play a plan; returns what has to be added to the language kernel's prompt numbers.

        Raises SandboxDied; tell `failed` then.
        """
        self._player = player = Player(
            link,
            opened,
            self._start.spec.limits,
            isolated=self._start.backend.isolated,
            ask_password=self._router.ask_password,
        )
        first = steps[0].seq if steps else 0
        pace = Pace({seq: cost(steps[seq - first]) for seq in chosen.run})
        began = time.monotonic()
        if chosen.run:
            self._comes(chosen, pace, began)
        async for played in player.play(chosen, opened.next_seq):
            failpoint("replayed")
            pace.played(played.record.step.seq)
            self._comes(chosen, pace, began)
            await self._tell_of(played, opened)
        wanted = next_prompt(steps)
        return await advance_prompt(link, wanted) if wanted > 1 else 0

    def _comes(self, chosen: Plan, pace: Pace, began: float) -> None:
        elapsed = time.monotonic() - began
        total = len(chosen.run)
        progress = Progress(
            total - pace.left,
            total,
            chosen.estimate_s,
            elapsed,
            pace.remaining_s(elapsed),
            chosen.start_seq,
        )
        self._condition.comes(progress)
        self._router.progress(progress)

    async def _tell_of(self, played: Played, opened: SessionLog) -> None:
        seq = played.record.step.seq
        if played.problem is not None:
            await self._say(
                seq, "not-replayed", f"Step {seq} was not replayed: {played.problem.rstrip('.')}."
            )
        elif played.comparison is not None and played.comparison.verdict == "different":
            await self._say(
                seq,
                "divergence",
                f"Step {seq} gave other output when it was replayed. The record keeps the "
                f"first one; `reprise verify {opened.session}` shows the difference.",
            )

    async def failed(self, error: SandboxDied) -> None:
        """The sandbox died while a plan was played. Raises SandboxDied when that is hopeless."""
        seq = self._player.current if self._player is not None else None
        key = -1 if seq is None else seq
        self._tries[key] = self._tries.get(key, 0) + 1
        if seq is None and self._tries[key] >= TRIES_PER_STEP:
            raise SandboxDied(died_on_replay(seq, error), error.cause) from error
        if self._tries[key] >= TRIES_PER_STEP:
            await self._say(
                seq,
                "not-replayed",
                f"Step {seq} ends its sandbox each time it is replayed ({error}). It is left "
                "out; later steps that need it will fail.",
            )

    async def done(self, chosen: Plan, last: int, took_s: float) -> None:
        """The sandbox stands at step `last`: tell how long it took and what was left out."""
        # What a step that was replayed now had to do with a death is over: two kills from outside
        # that happen to meet the same step, hours apart, are no reason to leave it out.
        self._tries = {seq: n for seq, n in self._tries.items() if n >= TRIES_PER_STEP}
        if not chosen.run and chosen.start == "base":
            return
        left_out = tuple(s.seq for s in chosen.skipped if s.status in ("interrupted", "timeout"))
        self._condition.resumed = Resumed(now_us(), took_s, last, len(chosen.run), left_out)
        text = f"Back at step {last} in {took_s:.1f} s."
        if left_out:
            names = ", ".join(str(seq) for seq in left_out[:20])
            text += (
                f" Left out, because a cut cannot be played again: interrupted step(s) {names}."
                " Steps that need what they had done will fail."
            )
        await self._say(None, "resumed", text, {"seconds": round(took_s, 3)})
