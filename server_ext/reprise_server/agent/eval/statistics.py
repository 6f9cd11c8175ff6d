"""Rates with what they may truly be, from few trials (pure).

Wilson's score interval for one rate, and Newcombe's hybrid of two of them for a difference
(Newcombe 1998, "Interval estimation for the difference between independent proportions", method
10). Both stay within what is possible, and say something sensible of 0 of 3, where the usual
interval of a mean says that it is surely 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

#: The 97.5 % point of the normal distribution: intervals hold the truth in 95 of 100 cases.
_Z: Final = 1.959963984540054


@dataclass(frozen=True)
class Rate:
    """hits of trials, and the interval of the rate behind it; 0 to 1 where nothing was tried."""

    hits: int
    trials: int

    @property
    def value(self) -> float | None:
        return self.hits / self.trials if self.trials else None

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.hits, self.trials)


@dataclass(frozen=True)
class Difference:
    """How much higher one rate is than another, and the interval of that; -1 to 1."""

    value: float
    low: float
    high: float

    @property
    def shown(self) -> bool:
        """Whether chance alone would hardly give it."""
        return self.low > 0 or self.high < 0


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The score interval of a rate."""
    if trials == 0:
        return 0.0, 1.0
    rate, square = hits / trials, _Z * _Z
    centre = rate + square / (2 * trials)
    spread = _Z * math.sqrt(rate * (1 - rate) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    # At the ends the formula gives 0 and 1 but for rounding.
    low = 0.0 if hits == 0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if hits == trials else min(1.0, (centre + spread) / scale)
    return low, high


def difference(first: Rate, second: Rate) -> Difference | None:
    """first − second; None where one of them was not tried."""
    one, two = first.value, second.value
    if one is None or two is None:
        return None
    (low1, high1), (low2, high2) = first.interval, second.interval
    value = one - two
    down = math.hypot(one - low1, high2 - two)
    up = math.hypot(high1 - one, two - low2)
    return Difference(value, max(-1.0, value - down), min(1.0, value + up))


def median(values: Sequence[float]) -> float | None:
    """The middle one, or the middle of the middle two."""
    if not values:
        return None
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
