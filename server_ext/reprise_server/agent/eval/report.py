"""What trials come to: rates with their intervals, with and without the skill (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from reprise.log.model import Json
from reprise_server.agent.eval.statistics import Difference, Rate, difference, median
from reprise_server.agent.eval.tried import Arm, Trial

ARMS: tuple[Arm, ...] = ("with", "without")


@dataclass(frozen=True)
class ArmReport:
    """One arm of one task, or of all. broken: trials that do not count.  seconds, input_tokens,
    output_tokens: of the middle trial.  cost: of all."""

    arm: Arm
    completion: Rate
    workflow: Rate
    broken: int
    seconds: float | None
    input_tokens: float | None
    output_tokens: float | None
    cost: dict[str, Decimal]
    checks: dict[str, Rate]

    def to_json(self) -> dict[str, Json]:
        return {
            "arm": self.arm,
            "completion": _rate(self.completion),
            "workflow": _rate(self.workflow),
            "broken": self.broken,
            "median_seconds": self.seconds,
            "median_input_tokens": self.input_tokens,
            "median_output_tokens": self.output_tokens,
            "cost": {name: str(amount) for name, amount in self.cost.items()},
            "checks": {name: _rate(rate) for name, rate in self.checks.items()},
        }


@dataclass(frozen=True)
class TaskReport:
    """task: its name, or "all".  helps: by how much more is completed with the skill."""

    task: str
    skill: str
    arms: tuple[ArmReport, ...]
    helps: Difference | None

    @property
    def sentence(self) -> str:
        """The verdict, no stronger than the trials allow."""
        if self.helps is None:
            return f"{self.task}: one arm has no trial that counts, so nothing can be compared."
        points = f"{self.helps.value * 100:+.0f} points"
        range_ = f"95 %: {self.helps.low * 100:+.0f} to {self.helps.high * 100:+.0f}"
        if not self.helps.shown:
            return (
                f"{self.task}: no difference shown ({points}; {range_}). More trials may show one."
            )
        verb = "completes more" if self.helps.value > 0 else "completes less"
        return f"{self.task}: with skills the agent {verb} ({points}; {range_})."

    def to_json(self) -> dict[str, Json]:
        helps: Json = None
        if self.helps is not None:
            helps = {**vars(self.helps), "shown": self.helps.shown}
        return {
            "task": self.task,
            "skill": self.skill,
            "arms": [arm.to_json() for arm in self.arms],
            "helps": helps,
            "sentence": self.sentence,
        }


def reports(trials: Sequence[Trial]) -> list[TaskReport]:
    """One of each task in the order of its first trial, and one of all if there are several."""
    names = list(dict.fromkeys(trial.task for trial in trials))
    found = [_report(name, [t for t in trials if t.task == name]) for name in names]
    return [*found, _report("all", list(trials))] if len(names) > 1 else found


def _report(task: str, trials: Sequence[Trial]) -> TaskReport:
    arms = {arm: _arm(arm, [t for t in trials if t.arm == arm]) for arm in ARMS}
    skills = dict.fromkeys(trial.skill for trial in trials)
    return TaskReport(
        task,
        ", ".join(skills),
        tuple(arm for arm in arms.values() if arm.completion.trials or arm.broken),
        difference(arms["with"].completion, arms["without"].completion),
    )


def _arm(arm: Arm, trials: Sequence[Trial]) -> ArmReport:
    counted = [trial for trial in trials if trial.counts]
    asked = [trial.followed for trial in counted if trial.followed is not None]
    cost: dict[str, Decimal] = {}
    for trial in trials:
        for currency, amount in trial.spent.cost.items():
            cost[currency] = cost.get(currency, Decimal(0)) + amount
    checks: dict[str, list[bool]] = {}
    for trial in counted:
        for kind, outcomes in (("completion", trial.completion), ("workflow", trial.workflow)):
            for outcome in outcomes:
                checks.setdefault(f"{kind}: {outcome.name}", []).append(outcome.passed)
    return ArmReport(
        arm,
        Rate(sum(trial.completed for trial in counted), len(counted)),
        Rate(sum(asked), len(asked)),
        len(trials) - len(counted),
        median([trial.seconds for trial in counted]),
        median([float(trial.spent.input_tokens) for trial in counted]),
        median([float(trial.spent.output_tokens) for trial in counted]),
        cost,
        {name: Rate(sum(passed), len(passed)) for name, passed in checks.items()},
    )


def _rate(rate: Rate) -> dict[str, Json]:
    low, high = rate.interval
    return {"hits": rate.hits, "trials": rate.trials, "low": low, "high": high}


def shown(rate: Rate) -> str:
    """A rate for people: "4/5 (38–96 %)"."""
    if not rate.trials:
        return "–"
    low, high = rate.interval
    return f"{rate.hits}/{rate.trials} ({low * 100:.0f}–{high * 100:.0f} %)"


def rows(found: Sequence[TaskReport]) -> list[list[str]]:
    """A table's rows: task, skills, completion, workflow, seconds, tokens, cost, broken."""
    return [_row(report.task, arm) for report in found for arm in report.arms]


def _row(task: str, arm: ArmReport) -> list[str]:
    return [
        task,
        arm.arm,
        shown(arm.completion),
        shown(arm.workflow),
        _number(arm.seconds, ".1f"),
        f"{_number(arm.input_tokens, ',.0f')} + {_number(arm.output_tokens, ',.0f')}",
        ", ".join(f"{amount:.4f} {name}" for name, amount in arm.cost.items()) or "–",
        str(arm.broken) if arm.broken else "",
    ]


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def whole(found: Sequence[TaskReport], trials: Sequence[Trial], about: dict[str, Any]) -> Json:
    """All of it, for programs. about: of the model and the environment."""
    return {
        **about,
        "reports": [report.to_json() for report in found],
        "trials": [trial.to_json() for trial in trials],
    }
