"""What is known of how a live session stands, so that whoever asks is told at once.

It only keeps what the engine has found out: asking it starts nothing and waits for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from reprise.errors import RepriseError
from reprise.log.model import Json
from reprise.log.postgres import now_us
from reprise.replay.plan import Plan
from reprise.replay.surroundings import Progress
from reprise.sandbox.contract import DeathCause

#: "starting": no state stands yet, and none has to be brought back.  "resuming": it comes back.
#: "waiting": it comes back with the first cell, or when asked.  "ready", "running": it stands.
#: "stopped": somebody cancelled the resume.  "held": another kernel writes the session.
#: "failed": it cannot be brought back now; `text` says why.
State = Literal["starting", "resuming", "waiting", "ready", "running", "stopped", "held", "failed"]

#: Those that pages are told of unasked, and the end of which they are told of.
UNUSUAL: Final = frozenset({"resuming", "waiting", "stopped", "held", "failed"})


@dataclass(frozen=True)
class Death:
    """Why a sandbox went. seq: the step that ran in it, if any.  at: microseconds, UTC.
    killed: what we ended it for, if we did ("timeout", "shutdown", "never sent")."""

    seq: int | None
    at: int
    cause: DeathCause
    killed: str | None = None


@dataclass(frozen=True)
class Resumed:
    """How the last way back went. steps: that were played; left_out: that could not be."""

    at: int
    seconds: float
    seq: int
    steps: int
    left_out: tuple[int, ...]


@dataclass(frozen=True)
class Kept:
    """The last saved state that a sandbox can start from: after step `seq`."""

    seq: int
    at: int
    kind: Literal["tree", "snapshot"]


@dataclass
class Condition:
    """Of one session in this process. The engine writes it, others read."""

    plan: Plan | None = None
    progress: Progress | None = None
    #: whether somebody stopped the last way back
    stopped: bool = False
    problem: RepriseError | None = None
    held_by: Mapping[str, Json] | None = None
    death: Death | None = None
    resumed: Resumed | None = None
    kept: Kept | None = None
    #: whether it is being looked at whether to come back at once
    deciding: bool = True
    _progress_at: float = 0.0

    def begins(self) -> None:
        """A way back begins."""
        self.stopped = self.deciding = False
        self.problem = self.held_by = self.progress = None

    def comes(self, progress: Progress) -> None:
        """So far it has come."""
        self.progress, self._progress_at = progress, time.monotonic()

    def arrived(self) -> None:
        """The sandbox stands at the head of the log."""
        self.plan = self.progress = self.problem = self.held_by = None
        self.stopped = False

    def failed(self, error: RepriseError) -> None:
        self.problem = error

    def dies(self, cause: DeathCause, seq: int | None) -> None:
        self.death = Death(seq, now_us(), cause)

    def rolled_back(self, killed: str | None) -> None:
        """The step that it died in is recorded."""
        if self.death is not None and killed is not None:
            self.death = replace(self.death, killed=killed)

    def ended_well(self) -> None:
        """A step ended in the sandbox that is there: the death before it is history."""
        self.death = None

    def going(self) -> Progress | None:
        """The progress as of now: time has gone since the last step was played."""
        found = self.progress
        if found is None:
            return None
        gone = time.monotonic() - self._progress_at
        return replace(
            found,
            elapsed_s=found.elapsed_s + gone,
            remaining_s=max(0.0, found.remaining_s - gone),
        )
