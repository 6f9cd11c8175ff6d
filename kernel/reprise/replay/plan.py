"""Finds the cheapest valid route to the state at the end of a log (pure).

Every start point is the state after some step (-1: before the first), with what it costs to
get there. A route is a start point and the replay of what follows it. Live sandbox, restart
tree and base are start points; a snapshot will be one more (`points`).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from reprise.log.model import REPLAYED
from reprise.log.store import StepSummary

Start = Literal["live", "snapshot", "tree", "base"]

#: Ends that keep what the step did until the state has to be rebuilt: no replay can
#: reproduce the moment of the cut, so the step is skipped and the user is told.
_CUT_SHORT: Final = frozenset({"interrupted", "timeout"})

#: Among equally good routes.
_PREFERENCE: Final[dict[Start, int]] = {"live": 0, "snapshot": 1, "tree": 2, "base": 3}


@dataclass(frozen=True)
class Costs:
    """What the parts of a route take, seconds; defaults from bubblewrap on two slow cores.

    start: a fresh sandbox with its language kernel.
    tree: putting a restart's tree into the workspace, beyond `start`.
    restart: restarting the interpreter in place (its recorded duration also saved the tree).
    step: what each replayed step costs beside its own recorded duration.
    """

    start: float = 1.0
    tree: float = 0.5
    restart: float = 0.8
    step: float = 0.005


@dataclass(frozen=True)
class StartPoint:
    """The state after step `seq` (-1: before the first step), for `cost_s` seconds.

    It carries everything that steps up to `seq` left behind, interrupted ones too, except, for
    a "tree", what `mount` steps put outside the workspace. `name`: of the tree or the snapshot.
    """

    kind: Start
    seq: int
    cost_s: float
    name: str | None = None


@dataclass(frozen=True)
class Skipped:
    """A step of the route that is not run again; `word` is for the user, empty when rolled back."""

    seq: int
    status: str
    word: str = ""


@dataclass(frozen=True)
class Plan:
    """A route: take `start` (the state after `start_seq`), then run the steps `run` in order.

    start_seq: None for "base".
    name: the tree (sha256) or snapshot to start from.
    mounts: mount steps before the start that have to be put in place again before its tree.
    skipped: the steps after the start that are not run, and mounts before it that were cut short.
    """

    start: Start
    start_seq: int | None
    run: tuple[int, ...]
    skipped: tuple[Skipped, ...]
    estimate_s: float
    name: str | None = None
    mounts: tuple[int, ...] = ()

    def without(self, seqs: Container[int]) -> Plan:
        """The same route with some steps left out: those that end each sandbox they run in.

        They are listed under `skipped` as "died"; the estimate stays as an upper bound.
        """
        left_out = tuple(Skipped(seq, "died") for seq in self.run if seq in seqs)
        return replace(
            self,
            run=tuple(seq for seq in self.run if seq not in seqs),
            skipped=tuple(sorted(self.skipped + left_out, key=lambda each: each.seq)),
        )


def plan(
    steps: Sequence[StepSummary],
    *,
    live: int | None = None,
    trees: Container[str] = (),
    costs: Costs = Costs(),
    points: Sequence[StartPoint] = (),
) -> Plan:
    """The route to the state after the last of `steps`.

    steps: a gapless prefix of a log, in order; pass fewer to rewind. Without an outcome a step
      counts as lost.
    live: the last step that a running sandbox has consumed (-1: none yet); None without one.
    trees: the restart trees (sha256) that can still be restored.
    points: further start points (snapshots of the session's lineage). The caller vouches that
      each really is the state after its step: nothing after it was rolled back into it.

    A route that keeps what an interrupted step did goes before a cheaper one that has to skip
    it; then the cheapest wins. Linear in the number of steps.
    """
    candidates = list(points)
    if live is not None:
        candidates.append(StartPoint("live", live, 0.0))
    candidates += [
        StartPoint("tree", step.seq, costs.start + costs.tree, step.tree)
        for step in steps
        if step.kind == "restart"
        and step.tree is not None
        and step.status in REPLAYED
        and step.tree in trees
    ]

    first = steps[0].seq if steps else 0
    last = first + len(steps) - 1
    # after[i]: steps cut short, and seconds of replay, from position i to the end.
    after: list[tuple[int, float]] = [(0, 0.0)] * (len(steps) + 1)
    missed, seconds = 0, 0.0
    for position in range(len(steps) - 1, -1, -1):
        step = steps[position]
        if step.status in REPLAYED:
            seconds += cost(step, costs)
        elif step.status in _CUT_SHORT:
            missed += 1
        after[position] = (missed, seconds)
    mounts = [step for step in steps if step.kind == "mount" and _counts(step)]

    best = StartPoint("base", -1, costs.start)
    best_key = _key(best, *after[0])
    mounted, mount_s, mounts_missed = 0, 0.0, 0
    for point in sorted(candidates, key=lambda each: each.seq):
        if point.seq > last:
            break  # states later than the one asked for
        while mounted < len(mounts) and mounts[mounted].seq <= point.seq:
            if mounts[mounted].status in REPLAYED:
                mount_s += cost(mounts[mounted], costs)
            else:
                mounts_missed += 1
            mounted += 1
        missed, seconds = after[max(point.seq + 1 - first, 0)]
        if point.kind == "tree":
            missed, seconds = missed + mounts_missed, seconds + mount_s
        key = _key(point, missed, seconds)
        if key < best_key:
            best, best_key = point, key

    again = [step for step in mounts if step.seq <= best.seq] if best.kind == "tree" else []
    run: list[int] = []
    skipped = [_skipped(step) for step in again if step.status not in REPLAYED]
    for step in steps[max(best.seq + 1 - first, 0) :]:
        if step.status in REPLAYED:
            run.append(step.seq)
        else:
            skipped.append(_skipped(step))
    return Plan(
        start=best.kind,
        start_seq=None if best.kind == "base" else best.seq,
        run=tuple(run),
        skipped=tuple(skipped),
        estimate_s=best_key[1],
        name=best.name,
        mounts=tuple(step.seq for step in again if step.status in REPLAYED),
    )


def _key(point: StartPoint, missed: int, replay_s: float) -> tuple[int, float, int, int]:
    return (missed, point.cost_s + replay_s, _PREFERENCE[point.kind], -point.seq)


def _counts(step: StepSummary) -> bool:
    return step.status in REPLAYED or step.status in _CUT_SHORT


def cost(step: StepSummary, costs: Costs = Costs()) -> float:
    """Seconds that playing a step is expected to take."""
    if step.kind == "restart":
        return costs.restart
    return step.duration_us / 1e6 + costs.step


def _skipped(step: StepSummary) -> Skipped:
    status = step.status or "lost"
    if status not in _CUT_SHORT:
        return Skipped(step.seq, status)
    how = "was interrupted" if status == "interrupted" else "reached its time limit"
    return Skipped(
        step.seq,
        status,
        f"step {step.seq} ({step.kind}) {how} at its first run; what it had done by then cannot"
        " be replayed, so it is left out. Run it again if later cells need it.",
    )
