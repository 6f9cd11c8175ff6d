"""How much one person may ask of a server: requests a minute by kind, and how many at once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from reprise_server.api.rates import parse_rate
from reprise_server.api.refusals import Refused

#: People whose counts are kept. Nobody gets a count before he has logged in.
_MOST_KEPT: Final = 10_000
#: Whoever asks again when told to is let in, whatever a clock's floats come to.
_ROUNDING: Final = 1e-6


class Limits:
    """Counts what people ask.

    rates: of each action. A whole period's requests may come at once; then they come back evenly.
    concurrent: of one person, under way at the same time. clock: seconds.
    """

    def __init__(
        self,
        rates: Mapping[str, str],
        concurrent: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rates = {action: parse_rate(text) for action, text in rates.items()}
        self._concurrent = concurrent
        self._clock = clock
        #: What is left to somebody of an action, and when that was so.
        self._left: dict[tuple[str, str], tuple[float, float]] = {}
        self._under_way: dict[str, int] = {}

    def admit(self, who: str, action: str) -> None:
        """Count a request. Raises Refused (429) with when to ask again."""
        most, period = self._rates[action]
        now = self._clock()
        left, since = self._left.get((who, action), (float(most), now))
        left = min(float(most), left + (now - since) * most / period)
        if left < 1 - _ROUNDING:
            wait = math.ceil((1 - left) * period / most)
            raise Refused(
                429,
                "too-many-requests",
                f"You may ask {most} times in {period:g} s here ({action}), and have. "
                f"Ask again in {wait} s.",
                retry_after_s=wait,
            )
        self._left[who, action] = (max(0.0, left - 1), now)
        if len(self._left) > _MOST_KEPT:
            self._forget(now)

    def enter(self, who: str) -> None:
        """A request is under way. Raises Refused (429) when too many of this person are."""
        count = self._under_way.get(who, 0)
        if count >= self._concurrent:
            raise Refused(
                429,
                "too-many-at-once",
                f"{count} requests of yours are under way, and more may not be at once. "
                "Ask again when one of them has ended.",
                retry_after_s=1,
            )
        self._under_way[who] = count + 1

    def leave(self, who: str) -> None:
        """A request that was entered has ended."""
        count = self._under_way[who] - 1
        if count:
            self._under_way[who] = count
        else:
            del self._under_way[who]

    def _forget(self, now: float) -> None:
        """Drop the counts that are as good as new, and if that is not enough, the oldest."""
        for key, (left, since) in list(self._left.items()):
            most, period = self._rates[key[1]]
            if left + (now - since) * most / period >= most:
                del self._left[key]
        for key in sorted(self._left, key=lambda key: self._left[key][1])[: -_MOST_KEPT // 2]:
            del self._left[key]
