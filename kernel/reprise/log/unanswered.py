"""Remembers a write whose answer was lost, so that repeating it stores it once (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reprise.log.head import Head
from reprise.log.model import LateHash, NewOutcome, NewStep, Outcome, Step, canonical


@dataclass(frozen=True)
class Write:
    """One append: the head it leaves, and what it appended.

    rows: the batches of outputs in it (at most one; with an outcome, its last outputs).
    late_hash: the hash of late outputs after it, when it appended late ones.
    """

    after: Head
    seq: int
    event: Step | Outcome | None
    rows: tuple[bytes, ...] = ()
    late: bool = False
    late_hash: LateHash | None = None


class Unanswered:
    """The write that is on its way, and what of a failed call is known to be stored.

    A caller that repeats a failed call with equal arguments gets what was stored; a caller that
    goes on with another call has given the failed one up.
    """

    def __init__(self) -> None:
        self.pending: Write | None = None
        self._event: Step | Outcome | None = None
        self._last: tuple[bytes, ...] = ()
        self._rows: list[bytes] = []
        self._rows_of: tuple[int, bool] | None = None

    def answered(self, write: Write) -> None:
        """`write` is stored; remember its rows until the call that it is part of returns."""
        self.pending = None
        if write.event is None:
            if self._rows_of != (write.seq, write.late):
                self._rows_of, self._rows = (write.seq, write.late), []
            self._rows.extend(write.rows)

    def found_stored(self, write: Write) -> None:
        """`write` got no answer, but is stored: its repetition must find it."""
        self.answered(write)
        if write.event is not None:
            self._event, self._last = write.event, write.rows

    def call_ended(self) -> None:
        """A whole call was answered; there is nothing to repeat."""
        self.pending = None
        self._event, self._last = None, ()
        self._rows_of, self._rows = None, []

    def claim_step(self, new: NewStep) -> Step | None:
        """The stored step that an earlier call with an equal `new` asked for, if any."""
        step = self._event
        if not isinstance(step, Step) or step.new != new:
            return None
        # Python takes 1, 1.0 and True for equal; their canonical forms differ.
        if canonical(dict(step.payload)) != canonical(dict(new.payload)):
            return None
        return step

    def claim_outcome(self, seq: int, new: NewOutcome, last: Sequence[bytes]) -> Outcome | None:
        """The stored outcome that an earlier, equal call asked for, if any."""
        outcome = self._event
        if not isinstance(outcome, Outcome) or outcome.seq != seq or outcome.new != new:
            return None
        return outcome if self._last == tuple(last) else None

    def unstored(self, seq: int, late: bool, rows: Sequence[bytes]) -> Sequence[bytes]:
        """Those of `rows` that a failed, equal call has not stored already."""
        if self._rows_of != (seq, late):
            return rows
        stored = self._rows
        return rows[len(stored) :] if list(rows[: len(stored)]) == stored else rows

    def given_up_step(self) -> Step | None:
        """The stored step whose caller never asked again."""
        return self._event if isinstance(self._event, Step) else None
