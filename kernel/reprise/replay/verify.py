"""Verify: replays a session in a fresh sandbox and compares it, step by step, with the record.

Outputs are compared with the record's. What the steps left behind is compared with whatever is
known of it: the running kernel's state, states that were taken down, the trees of restarts; and
with a second replay, which shows what differs from run to run though no output does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Literal

from reprise.errors import SandboxDied, UsageError
from reprise.log.postgres import now_us
from reprise.log.store import LogReader, StepRecord, StepSummary
from reprise.replay.causes import Cause
from reprise.replay.compare import compare
from reprise.replay.executor import IN_PLACE, AskPassword, Played
from reprise.replay.known import Known, known_states
from reprise.replay.passage import Passage, State, first_difference
from reprise.replay.plan import Plan, Skipped, plan
from reprise.replay.reader import Sources, source
from reprise.replay.report import Report, StepReport, Verdict
from reprise.replay.restarts import trees
from reprise.replay.shown import pieces
from reprise.replay.state_report import States
from reprise.sandbox.contract import Backend, SandboxSpec

__all__ = [
    "EVERYTHING",
    "Known",
    "Replays",
    "Report",
    "Scope",
    "StepReport",
    "verify",
]

#: How often to replay: once; twice; or twice if nothing is known of what the steps had left.
Replays = Literal["once", "twice", "as needed"]

#: Characters of the outputs of a step that came out the same, in a report.
_SAME_SHOWN = 6_000

_WORSE: dict[Verdict, int] = {
    "same": 0,
    "skipped": 0,
    "volatile": 1,
    "different": 2,
    "could not run": 3,
}


@dataclass(frozen=True)
class Scope:
    """The steps to compare: start ≤ seq < stop (None: to the last)."""

    start: int = 0
    stop: int | None = None


EVERYTHING = Scope()


async def verify(
    reader: LogReader,
    backend: Backend,
    spec: SandboxSpec,
    *,
    scope: Scope = EVERYTHING,
    live: Known | None = None,
    replays: Replays = "once",
    again: SandboxSpec | None = None,
    outside: Sequence[str] = (),
    on_step: Callable[[StepReport], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    ask_password: AskPassword | None = None,
) -> Report:
    """Replay a session and compare. The live sandbox is not touched.

    scope: steps before its start are brought back by the cheapest way and not compared.
    live: what the running kernel holds now.
    again: what a second sandbox is started with, where that has to be another folder.
    outside: how today's environment differs from the recorded one, in phrases.
    on_step: gets each step as soon as it was played for the first time; the report may know more.

    Raises SandboxError when no sandbox can be started, UsageError for steps that are not there.
    """
    work = _Verification(reader, backend, scope, live, outside, on_step, on_progress, ask_password)
    return await work.run(spec, spec if again is None else again, replays)


class _Verification:
    """One verify on its way."""

    def __init__(
        self,
        reader: LogReader,
        backend: Backend,
        scope: Scope,
        live: Known | None,
        outside: Sequence[str],
        on_step: Callable[[StepReport], None] | None,
        on_progress: Callable[[str], None] | None,
        ask_password: AskPassword | None,
    ) -> None:
        self._reader = reader
        self._backend = backend
        self._scope = scope
        self._live = live
        self._outside = tuple(outside)
        self._on_step = on_step
        self._progress = on_progress or (lambda _: None)
        self._ask_password = ask_password
        self._sources = Sources(reader)
        self._reports: dict[int, StepReport] = {}
        self._first: dict[int, Played] = {}
        self._unsaid: list[str] = []
        self._began = time.monotonic()

    async def run(self, spec: SandboxSpec, again: SandboxSpec, replays: Replays) -> Report:
        began_at = now_us()
        summaries = await self._reader.summaries()
        stop = self._check(summaries)
        steps = summaries[:stop]
        route = self._route(steps)
        for skipped in route.skipped:
            if skipped.seq >= self._scope.start:
                await self._add(await self._skipped(skipped))
        self._states = States(self._reader, self._sources)
        known = await known_states(
            self._reader, steps, self._scope.start, self._live, isolated=self._backend.isolated
        )
        twice = replays == "twice" or (replays == "as needed" and not known)
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(
                self._passage(spec, route, stop, known, watch=twice)
            )
            await first.play()
            if twice and route.run:
                await self._second(stack, first, again, route, stop)
        await self._explain()
        self._unsaid += self._limits(steps, known, twice=twice)
        ordered = tuple(self._reports[seq] for seq in sorted(self._reports))
        return Report(
            session=self._reader.session,
            steps=ordered,
            took_s=time.monotonic() - self._began,
            states=tuple(self._states.reports),
            start=self._scope.start,
            brought_back=sum(seq < self._scope.start for seq in route.run),
            replays=2 if twice else 1,
            began_at=began_at,
            backend=self._backend.name,
            outside=self._outside,
            unsaid=tuple(self._unsaid),
        )

    def _check(self, summaries: Sequence[StepSummary]) -> int:
        count = len(summaries)
        start, stop = self._scope.start, self._scope.stop
        stop = count if stop is None else stop
        if not 0 <= start <= count or not start <= stop <= count or (count and start == stop):
            last = f"its last one is {count - 1}" if count else "it has none yet"
            raise UsageError(
                f"Session {self._reader.session} has no steps {start} to {stop - 1}; {last}."
            )
        return stop

    def _route(self, steps: Sequence[StepSummary]) -> Plan:
        """From the base, not from a restart's tree, so that all of it is proven; but what lies
        before the scope only has to be brought back."""
        start = self._scope.start
        if start == 0:
            return plan(steps)
        before = list(steps[:start])
        back = plan(before, trees=trees(before, isolated=self._backend.isolated))
        rest = plan(steps[start:])
        return replace(
            back,
            run=back.run + rest.run,
            skipped=back.skipped + rest.skipped,
            estimate_s=back.estimate_s + rest.estimate_s,
        )

    def _passage(
        self, spec: SandboxSpec, route: Plan, stop: int, known: Sequence[Known], *, watch: bool
    ) -> Passage:
        # What a step that is not replayed left is what the one before it had.
        at: dict[int, list[Known]] = {}
        for each in known:
            after = max((seq for seq in route.run if seq <= each.seq), default=None)
            if after is not None:
                at.setdefault(after, []).append(each)

        async def on_played(played: Played, took_s: float) -> None:
            seq = played.record.step.seq
            if seq < self._scope.start:
                self._progress(f"brought back step {seq}")
                if played.problem is not None:
                    self._unsaid.append(
                        f"Step {seq}, before what was compared, could not run: {played.problem}."
                    )
                return
            report = await self._report(played, took_s)
            if report.verdict == "different":
                self._first[seq] = played
            await self._add(report)

        async def on_died(seq: int, error: SandboxDied) -> None:
            if seq < self._scope.start:
                self._unsaid.append(f"Step {seq} ends its sandbox each time ({error}).")
                return
            await self._add(await self._died(seq, error))

        async def on_state(seq: int, state: State) -> None:
            for each in at[seq]:
                await self._states.compare(each, state, passage.guest)

        passage = Passage(
            self._reader,
            self._backend,
            spec,
            route,
            stop,
            looks=at.keys(),
            watch=watch,
            on_played=on_played,
            on_died=on_died,
            on_state=on_state,
            ask_password=self._ask_password,
        )
        return passage

    async def _second(
        self, stack: AsyncExitStack, first: Passage, spec: SandboxSpec, route: Plan, stop: int
    ) -> None:
        """Play it once more and compare the two replays, output by output and at the end."""
        left = await first.look()
        self._progress("starting a second sandbox …")

        async def on_played(played: Played, _: float) -> None:
            seq = played.record.step.seq
            self._progress(f"second replay: step {seq}")
            if seq in self._reports:
                self._reports[seq] = await self._compared_again(self._reports[seq], played)

        async def on_died(seq: int, error: SandboxDied) -> None:
            if seq in self._reports and self._reports[seq].verdict != "could not run":
                reason = f"the sandbox died in it at the second replay ({error})"
                self._reports[seq] = replace(
                    self._reports[seq], again="could not run", chance=True, reason=reason
                )

        async def on_state(_seq: int, _state: State) -> None:
            """Only the end is compared; what is between is watched."""

        second = await stack.enter_async_context(
            Passage(
                self._reader,
                self._backend,
                spec,
                route,
                stop,
                watch=True,
                on_played=on_played,
                on_died=on_died,
                on_state=on_state,
                ask_password=self._ask_password,
            )
        )
        await second.play()
        since = first_difference(first.watched, second.watched)
        if not first.watched.to_the_end or not second.watched.to_the_end:
            since = {}  # what happened after we stopped looking may be why
        known = Known(
            stop - 1,
            "second replay",
            left.files,
            left.variables,
            read=lambda entry: self._states.read(first.guest, entry),
            since=since,
        )
        await self._states.compare(known, await second.look(), second.guest)

    async def _compared_again(self, report: StepReport, played: Played) -> StepReport:
        again = _verdict(played)
        first = self._first.pop(report.seq, None)
        chance = again != report.verdict
        if first is not None and again == "different":
            between = compare(first.replayed, played.replayed)
            chance = between.verdict == "different"
        report = replace(report, again=again, chance=chance)
        if _WORSE[again] > _WORSE[report.verdict]:
            worse = await self._report(played, report.took_s)
            return replace(worse, again=again, chance=True)
        return report

    # reports of steps ------------------------------------------------------------------------

    async def _add(self, report: StepReport) -> None:
        self._reports[report.seq] = report
        self._progress(f"step {report.seq}")
        if self._on_step is not None:
            self._on_step(report)

    async def _report(self, played: Played, took_s: float) -> StepReport:
        record = played.record
        verdict = _verdict(played)
        report = _of_record(record, verdict, played.problem or "")
        report = replace(report, comparison=played.comparison, took_s=took_s)
        if verdict in ("same", "skipped"):
            return replace(report, recorded=pieces(record.outputs, _SAME_SHOWN))
        history = await self._sources.upto(record.step.seq)
        causes: tuple[Cause, ...] = ()
        if played.comparison is not None:
            causes = history.of_step(record.step.seq, played.comparison)
        return replace(
            report,
            causes=causes,
            recorded=pieces(record.outputs),
            replayed=pieces(played.replayed),
        )

    async def _skipped(self, skipped: Skipped) -> StepReport:
        reason = skipped.word or f"it ended as {skipped.status}, so its effects were rolled back"
        return await self._alone(skipped.seq, "skipped", reason)

    async def _died(self, seq: int, error: SandboxDied) -> StepReport:
        return await self._alone(seq, "could not run", f"the sandbox died in it ({error})")

    async def _alone(self, seq: int, verdict: Verdict, reason: str) -> StepReport:
        async for record in self._reader.records(seq, seq + 1):
            report = _of_record(record, verdict, reason)
            return replace(report, recorded=pieces(record.outputs, _SAME_SHOWN))
        raise UsageError(f"Session {self._reader.session} has no step {seq}.")

    async def _explain(self) -> None:
        """Causes again, now that it is known which variables differ since when."""
        differing = self._states.differing()
        for seq, report in self._reports.items():
            causes = report.causes
            if differing and report.comparison is not None and report.verdict == "different":
                history = await self._sources.upto(seq)
                causes = history.of_step(seq, report.comparison, differing)
            if report.chance is False and report.verdict == "different":
                causes = (self._states.not_chance(self._outside), *causes)
            self._reports[seq] = replace(report, causes=causes)

    def _limits(
        self, steps: Sequence[StepSummary], known: Sequence[Known], *, twice: bool
    ) -> list[str]:
        """What this verify can say nothing of."""
        found: list[str] = []
        if not known and not twice:
            found.append(
                "Nothing is known of the files and variables that the steps had left; only what"
                " they showed was compared. --twice compares two replays with each other."
            )
        cut = [step.seq for step in steps if step.status in ("interrupted", "timeout")]
        cut = [seq for seq in cut if seq >= self._scope.start]
        if cut:
            named = ", ".join(map(str, cut[:20]))
            found.append(
                f"Step(s) {named} had been cut short; what they had done by then cannot be"
                " replayed, so states after them may differ for that reason alone."
            )
        if any(step.tree == IN_PLACE for step in steps) and self._backend.isolated:
            found.append(
                "Part of this session ran without a sandbox, in the notebook's own folder: its"
                " files are not in the record."
            )
        return found


def _verdict(played: Played) -> Verdict:
    if played.problem is not None:
        return "could not run"
    return "same" if played.comparison is None else played.comparison.verdict


def _of_record(record: StepRecord, verdict: Verdict, reason: str) -> StepReport:
    outcome = record.outcome
    return StepReport(
        record.step.seq,
        record.step.kind,
        None if outcome is None else outcome.status,
        verdict,
        reason,
        source=source(record),
        actor=record.step.new.actor.kind,
        at=record.step.new.at,
        recorded_s=0.0 if outcome is None else outcome.new.duration_us / 1e6,
    )
