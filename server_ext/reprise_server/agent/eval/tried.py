"""What came of one trial, as data (pure)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reprise.log.model import Json
from reprise_server.agent.eval.evidence import Spent
from reprise_server.agent.eval.judging import Outcome

#: with: the skills of the catalog are there.  without: none are, and no tools for any.
Arm = Literal["with", "without"]


@dataclass(frozen=True)
class Trial:
    """What came of one. ended: how its turn ended.  asked: questions that nobody answered.
    seconds: from what was said to the turn's end."""

    task: str
    skill: str
    arm: Arm
    number: int
    session: uuid.UUID
    conversation: uuid.UUID
    ended: str
    why: str
    completion: tuple[Outcome, ...]
    workflow: tuple[Outcome, ...]
    spent: Spent
    seconds: float
    asked: int

    @property
    def counts(self) -> bool:
        """Whether it says something of the skill: the model was there to the end."""
        return self.ended not in ("failed", "interrupted")

    @property
    def completed(self) -> bool:
        return all(outcome.passed for outcome in self.completion)

    @property
    def followed(self) -> bool | None:
        """None where nothing of the workflow could be asked."""
        return all(outcome.passed for outcome in self.workflow) if self.workflow else None

    def to_json(self) -> dict[str, Json]:
        def listed(outcomes: Sequence[Outcome]) -> list[Json]:
            return [{"check": o.name, "passed": o.passed, "why": o.why} for o in outcomes]

        return {
            "task": self.task,
            "skill": self.skill,
            "arm": self.arm,
            "number": self.number,
            "session": str(self.session),
            "conversation": str(self.conversation),
            "ended": self.ended,
            "why": self.why,
            "counts": self.counts,
            "completed": self.completed,
            "followed": self.followed,
            "completion": listed(self.completion),
            "workflow": listed(self.workflow),
            "requests": self.spent.requests,
            "input_tokens": self.spent.input_tokens,
            "output_tokens": self.spent.output_tokens,
            "cost": {name: str(amount) for name, amount in self.spent.cost.items()},
            "seconds": round(self.seconds, 3),
            "asked": self.asked,
        }
