"""The planner against a brute-force model of what state each route leads to."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from reprise.log.model import STATUSES, STEP_KINDS
from reprise.log.store import StepSummary
from reprise.replay.plan import Costs, Plan, StartPoint, plan

COSTS = Costs(start=1.0, tree=0.5, restart=0.25, step=0.0625)


@dataclass
class Machine:
    """What a sandbox holds: what touched its variables, its files and its mounts, in order."""

    variables: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    mounts: list[int] = field(default_factory=list)

    def run(self, step: StepSummary) -> None:
        if step.kind == "restart":
            self.variables = []
        elif step.kind == "mount":
            self.mounts.append(step.seq)
        elif step.kind == "upload":
            self.files.append(step.seq)
        else:
            self.variables.append(step.seq)
            self.files.append(step.seq)


def played(steps: list[StepSummary], stop: int, *, cut_short: bool) -> Machine:
    """The state after steps[:stop]; with or without what interrupted ones did."""
    machine = Machine()
    for step in steps[:stop]:
        if step.status in ("ok", "error") or (
            cut_short and step.status in ("interrupted", "timeout")
        ):
            machine.run(step)
    return machine


def follow(steps: list[StepSummary], route: Plan) -> Machine:
    """The state that a plan leads to, doing as an executor does."""
    machine = Machine()
    if route.start in ("live", "snapshot"):
        assert route.start_seq is not None
        machine = played(steps, route.start_seq + 1, cut_short=True)
    elif route.start == "tree":
        assert route.start_seq is not None
        restart = steps[route.start_seq]
        assert restart.kind == "restart"
        assert restart.tree == route.name
        for seq in route.mounts:
            machine.run(steps[seq])
        machine.files = played(steps, route.start_seq + 1, cut_short=True).files
    for seq in route.run:
        machine.run(steps[seq])
    return machine


def cost(steps: list[StepSummary], seqs: list[int]) -> float:
    return sum(
        COSTS.restart if steps[seq].kind == "restart" else steps[seq].duration_us / 1e6 + COSTS.step
        for seq in seqs
    )


@st.composite
def logs(draw: st.DrawFn) -> list[StepSummary]:
    size = draw(st.integers(0, 14))
    steps = []
    for seq in range(size):
        kind = draw(st.sampled_from(["cell", "cell", "cell", "restart", *STEP_KINDS]))
        status = draw(st.sampled_from(["ok", "ok", "ok", None, *STATUSES]))
        tree = draw(st.sampled_from([None, f"tree{seq}"])) if kind == "restart" else None
        # Binary fractions, so that sums are exact.
        steps.append(StepSummary(seq, kind, status, draw(st.integers(0, 64)) * 125_000, tree))
    return steps


@given(logs(), st.integers(-2, 15), st.sets(st.integers(0, 14)), st.data())
def test_the_plan_is_the_best_route_to_the_right_state(
    steps: list[StepSummary], live_at: int, kept: set[int], data: st.DataObject
) -> None:
    live = None if live_at < -1 else min(live_at, len(steps) - 1)
    trees = {f"tree{seq}" for seq in kept}
    snapshots = [
        StartPoint("snapshot", seq, seconds / 8, f"snap{seq}")
        for seq, seconds in data.draw(
            st.lists(st.tuples(st.integers(0, 14), st.integers(0, 32)), max_size=2)
        )
    ]
    route = plan(steps, live=live, trees=trees, costs=COSTS, points=snapshots)

    # Never a step that was rolled back or cut short; in order; nothing of the rest left out.
    assert all(steps[seq].status in ("ok", "error") for seq in route.run)
    assert list(route.run) == sorted(set(route.run))
    begin = -1 if route.start_seq is None else route.start_seq
    lost_mounts = [
        s.seq
        for s in steps[: begin + 1]
        if route.start == "tree" and s.kind == "mount" and s.status in ("interrupted", "timeout")
    ]
    assert sorted([*route.run, *(s.seq for s in route.skipped)]) == [
        *lost_mounts,
        *range(begin + 1, len(steps)),
    ]
    for skipped in route.skipped:
        assert bool(skipped.word) == (skipped.status in ("interrupted", "timeout"))

    # The state is that of the log, without what interrupted steps of the replayed part did.
    expected = Machine()
    for step in steps:
        if step.status in ("ok", "error") or (
            step.seq <= begin
            and step.status in ("interrupted", "timeout")
            and step.seq not in lost_mounts
        ):
            expected.run(step)
    if route.start == "base":
        assert begin == -1
    assert follow(steps, route) == expected

    # No other start point does better.
    options: list[tuple[int, float]] = []

    def offer(seq: int, seconds: float, mounts: bool = False) -> None:
        tail = [s.seq for s in steps[seq + 1 :] if s.status in ("ok", "error")]
        if mounts:
            tail += [
                s.seq for s in steps[: seq + 1] if s.kind == "mount" and s.status in ("ok", "error")
            ]
        missed = sum(
            s.status in ("interrupted", "timeout")
            for s in steps
            if s.seq > seq or (mounts and s.kind == "mount")
        )
        options.append((missed, seconds + cost(steps, tail)))

    offer(-1, COSTS.start)
    if live is not None:
        offer(live, 0.0)
    for point in snapshots:
        if point.seq < len(steps):
            offer(point.seq, point.cost_s)
    for step in steps:
        if step.kind == "restart" and step.tree in trees and step.status in ("ok", "error"):
            offer(step.seq, COSTS.start + COSTS.tree, mounts=True)
    missed = sum(bool(each.word) for each in route.skipped)
    assert (missed, route.estimate_s) == min(options)


def steps_of(*ends: tuple[str, str | None]) -> list[StepSummary]:
    return [
        StepSummary(seq, kind, status, 1_000_000, "tree" if kind == "restart" else None)  # type: ignore[arg-type]
        for seq, (kind, status) in enumerate(ends)
    ]


def test_an_empty_log_starts_at_the_base_or_stays_live() -> None:
    assert plan([]).start == "base"
    assert plan([]).run == ()
    assert plan([], live=-1).start == "live"


def test_a_living_sandbox_only_runs_what_it_has_not_consumed() -> None:
    route = plan(steps_of(("cell", "ok"), ("cell", "error"), ("cell", "ok")), live=1)
    assert (route.start, route.start_seq, route.run) == ("live", 1, (2,))


def test_a_kept_tree_spares_the_cells_and_uploads_before_a_restart() -> None:
    steps = steps_of(("upload", "ok"), ("cell", "ok"), ("restart", "ok"), ("cell", "ok"))
    route = plan(steps, trees={"tree"})
    assert (route.start, route.start_seq, route.name, route.run) == ("tree", 2, "tree", (3,))
    assert plan(steps).run == (0, 1, 2, 3)


def test_a_tree_keeps_the_files_of_an_interrupted_cell_even_if_replay_were_cheaper() -> None:
    steps = [
        StepSummary(0, "cell", "interrupted", 1, None),
        StepSummary(1, "restart", "ok", 1, "tree"),
    ]
    assert plan(steps, trees={"tree"}).start == "tree"


def test_interrupted_steps_are_told_and_lost_ones_are_not() -> None:
    steps = steps_of(
        ("cell", "interrupted"),
        ("cell", "timeout"),
        ("cell", "died"),
        ("cell", "lost"),
        ("cell", None),
    )
    route = plan(steps)
    assert route.run == ()
    assert [each.status for each in route.skipped] == [
        "interrupted",
        "timeout",
        "died",
        "lost",
        "lost",
    ]
    assert [bool(each.word) for each in route.skipped] == [True, True, False, False, False]
    assert "step 1 (cell) reached its time limit" in route.skipped[1].word


def test_steps_that_end_every_sandbox_can_be_left_out() -> None:
    route = plan(steps_of(("cell", "ok"), ("cell", "interrupted"), ("cell", "ok"))).without({2})
    assert route.run == (0,)
    assert [(each.seq, each.status) for each in route.skipped] == [(1, "interrupted"), (2, "died")]


def test_a_hundred_thousand_steps_are_planned_at_once() -> None:
    steps = [
        StepSummary(
            seq,
            "restart" if seq % 100 == 0 else "cell",
            "ok" if seq % 7 else "died",
            1000,
            f"tree{seq}" if seq % 100 == 0 else None,
        )
        for seq in range(100_000)
    ]
    trees = {f"tree{seq}" for seq in range(0, 100_000, 300)}
    best = min(_timed(steps, trees) for _ in range(3))
    assert best <= 0.3


def _timed(steps: list[StepSummary], trees: set[str]) -> float:
    began = time.perf_counter()
    plan(steps, trees=trees)
    return time.perf_counter() - began
