"""How long the rest of a replay will take, judged by what its first part took (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Seconds that count as played at the expected pace before anything was: the first steps of a
#: replay are small and say little.
PRIOR_S: Final = 2.0


class Pace:
    """A replay under way.

    expected: seconds that each step to be played is expected to take, by its seq.
    """

    def __init__(self, expected: Mapping[int, float]) -> None:
        self._ahead = dict(expected)
        self._left_s = sum(self._ahead.values())
        self._played_s = 0.0

    def played(self, seq: int) -> None:
        """A step has been played; one that was not expected says nothing of the rest."""
        took = self._ahead.pop(seq, 0.0)
        self._left_s = max(0.0, self._left_s - took) if self._ahead else 0.0
        self._played_s += took

    @property
    def left(self) -> int:
        """How many of the expected steps are still to be played."""
        return len(self._ahead)

    def remaining_s(self, elapsed_s: float) -> float:
        """Seconds to go, when `elapsed_s` have gone so far."""
        return self._left_s * (elapsed_s + PRIOR_S) / (self._played_s + PRIOR_S)
