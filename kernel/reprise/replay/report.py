"""What verify found out, as data: of each step, and of the states it compared (pure)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, Literal, TypeVar

from reprise.log.model import Json
from reprise.replay.causes import Cause
from reprise.replay.difference import Comparison
from reprise.replay.shown import Piece
from reprise.replay.variables import VariableDifference
from reprise.workspace.manifest import Entry

Verdict = Literal["same", "volatile", "different", "could not run", "skipped"]
VERDICTS: Final[tuple[Verdict, ...]] = ("same", "volatile", "different", "could not run", "skipped")

#: What a state of the replay was compared with.
Against = Literal["running kernel", "recorded state", "restart", "second replay"]


@dataclass(frozen=True)
class StepReport:
    """What verify says of one step. `reason`: for what could not run or was skipped.

    again: how a second replay's outputs compare with the record's, and `chance` whether the two
      replays differ from each other; None where there was one replay.
    recorded, replayed: what it showed, for a page; `replayed` only where it is not the same.
    took_s: seconds on this replay.
    """

    seq: int
    kind: str
    status: str | None
    verdict: Verdict
    reason: str = ""
    comparison: Comparison | None = None
    source: str = ""
    actor: str = "user"
    at: int = 0
    recorded_s: float = 0.0
    took_s: float = 0.0
    again: Verdict | None = None
    chance: bool | None = None
    causes: tuple[Cause, ...] = ()
    recorded: tuple[Piece, ...] = ()
    replayed: tuple[Piece, ...] = ()

    def to_json(self) -> dict[str, Json]:
        differences = [] if self.comparison is None else self.comparison.differences
        return {
            "seq": self.seq,
            "kind": self.kind,
            "outcome": self.status,
            "verdict": self.verdict,
            "reason": self.reason or None,
            "source": self.source,
            "recorded_s": round(self.recorded_s, 6),
            "took_s": round(self.took_s, 6),
            "second_replay": self.again,
            "replays_differ": self.chance,
            "causes": [each.to_json() for each in self.causes],
            "differences": [
                {
                    "where": each.where,
                    "kind": each.kind,
                    "volatile": each.volatile,
                    "recorded": each.recorded,
                    "replayed": each.replayed,
                    "diff": each.diff,
                }
                for each in differences
            ],
        }


@dataclass(frozen=True)
class FileDifference:
    """A path of the workspace that is not the same on both sides. None: it is not there.

    diff: unified, of texts that could be read on both sides.  since: the step after which two
    replays first differed in it, where that is known.
    """

    path: str
    kind: Literal["missing", "extra", "content", "mode", "type", "link"]
    before: Entry | None
    after: Entry | None
    diff: str = ""
    volatile: bool = False
    since: int | None = None
    causes: tuple[Cause, ...] = ()

    def to_json(self) -> dict[str, Json]:
        return {
            "path": self.path,
            "kind": self.kind,
            "before": None if self.before is None else self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
            "diff": self.diff,
            "volatile": self.volatile,
            "since": self.since,
            "causes": [each.to_json() for each in self.causes],
        }


@dataclass(frozen=True)
class NameDifference:
    """A variable that is not the same on both sides; see `FileDifference`."""

    found: VariableDifference
    volatile: bool = False
    since: int | None = None
    causes: tuple[Cause, ...] = ()

    def to_json(self) -> dict[str, Json]:
        before, after = self.found.before, self.found.after
        return {
            "name": self.found.name,
            "kind": self.found.kind,
            "before": None if before is None else before.to_json(),
            "after": None if after is None else after.to_json(),
            "volatile": self.volatile,
            "since": self.since,
            "causes": [each.to_json() for each in self.causes],
        }


Item = TypeVar("Item", FileDifference, NameDifference)


@dataclass(frozen=True)
class Compared(Generic[Item]):
    """One kind of thing, compared: how many are the same, which differ, of which nothing is known.

    why: why nothing at all could be compared, or empty.
    """

    same: int = 0
    different: tuple[Item, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    why: str = ""

    def count(self, *, volatile: bool) -> int:
        return sum(each.volatile is volatile for each in self.different)

    @property
    def amounts(self) -> str:
        """How many came out how, in words."""
        counts = (
            (self.same, "same"),
            (self.count(volatile=True), "volatile"),
            (self.count(volatile=False), "different"),
            (len(self.unknown), "not comparable"),
        )
        return ", ".join(f"{count} {word}" for count, word in counts if count) or "none"

    def to_json(self) -> dict[str, Json]:
        return {
            "same": self.same,
            "different": [each.to_json() for each in self.different],
            "not_compared": dict(self.unknown),
            "why_not": self.why or None,
        }


@dataclass(frozen=True)
class StateReport:
    """How what stood in the replay's sandbox after step `seq` compares with another state.

    at: when that other state was taken down, µs since the epoch, where that is known.
    """

    seq: int
    against: Against
    files: Compared[FileDifference]
    variables: Compared[NameDifference]
    at: int | None = None

    @property
    def verdict(self) -> Literal["same", "volatile", "different", "not compared"]:
        parts = (self.files, self.variables)
        if any(part.count(volatile=False) for part in parts):
            return "different"
        if any(part.different for part in parts):
            return "volatile"
        return "not compared" if all(part.why for part in parts) else "same"

    def to_json(self) -> dict[str, Json]:
        return {
            "seq": self.seq,
            "against": self.against,
            "verdict": self.verdict,
            "at": self.at,
            "files": self.files.to_json(),
            "variables": self.variables.to_json(),
        }


@dataclass(frozen=True)
class Report:
    """Of a session, or of a part of it.

    start: the first step that was compared; the `brought_back` steps before it were only played.
    replays: how often it was played.  took_s: seconds in all, the starts of sandboxes included.
    outside: how the environment differs from the one of the record, in sentences.
    unsaid: what could not be compared at all, in sentences.
    """

    session: uuid.UUID
    steps: tuple[StepReport, ...]
    took_s: float
    states: tuple[StateReport, ...] = ()
    start: int = 0
    brought_back: int = 0
    replays: int = 1
    began_at: int = 0
    backend: str = ""
    outside: tuple[str, ...] = ()
    unsaid: tuple[str, ...] = ()

    def count(self, verdict: Verdict) -> int:
        return sum(step.verdict == verdict for step in self.steps)

    @property
    def ok(self) -> bool:
        """Nothing differs and everything that should run could."""
        return not (
            self.count("different")
            or self.count("could not run")
            or any(state.verdict == "different" for state in self.states)
        )

    @property
    def sentence(self) -> str:
        """The verdict, for people."""
        steps = len(self.steps)
        wrong = ("different", "could not run")
        bad = {step.seq: step.verdict for step in self.steps if step.verdict in wrong}
        states = [state for state in self.states if state.verdict == "different"]
        if not steps:
            return "There was no step to compare."
        if bad:
            words = {"different": "came out otherwise", "could not run": "could not run"}
            what = " or ".join(word for verdict, word in words.items() if verdict in bad.values())
            return f"{len(bad)} of {steps} steps {what}; the first is step {min(bad)}."
        if states:
            parts = [
                word
                for word, found in (
                    ("files", any(s.files.count(volatile=False) for s in states)),
                    ("variables", any(s.variables.count(volatile=False) for s in states)),
                )
                if found
            ]
            return (
                f"All {steps} steps showed what they had shown, but they left other"
                f" {' and '.join(parts)}."
            )
        compared = [state for state in self.states if state.verdict != "not compared"]
        more = ""
        if any(not state.files.why for state in compared):
            more = ", and left the same files"
        if any(not state.variables.why for state in compared):
            more = f"{more} and variables" if more else ", and left the same variables"
        volatile = self.count("volatile")
        but = f" ({volatile} but for times, addresses and the like)" if volatile else ""
        ran = steps - self.count("skipped")
        return f"All {ran} steps that ran showed what they had shown{but}{more}."

    def to_json(self) -> dict[str, Json]:
        return {
            "session": str(self.session),
            "ok": self.ok,
            "sentence": self.sentence,
            "took_s": round(self.took_s, 3),
            "from": self.start,
            "brought_back": self.brought_back,
            "replays": self.replays,
            "backend": self.backend,
            "environment_changes": list(self.outside),
            "not_compared": list(self.unsaid),
            "counts": {verdict: self.count(verdict) for verdict in VERDICTS},
            "steps": [step.to_json() for step in self.steps],
            "states": [state.to_json() for state in self.states],
        }
