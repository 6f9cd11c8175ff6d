"""Which page writes what cells showed into a notebook, where several have it open: one at a time.

Without it, two pages of one shared document would each add the same outputs. A page says so while
it paints; one that was closed, or sleeps, is one that has not said so for a while.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

#: Seconds that a page's word holds; it says so again well before.
HELD_S: Final = 15.0
#: Sessions remembered; those whose time is over are forgotten first.
_REMEMBERED: Final = 1_000


@dataclass(frozen=True)
class _Held:
    page: str
    until: float


class Painters:
    """The pages that paint, by session. Used on the server's loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[uuid.UUID, _Held] = {}

    def paint(self, session: uuid.UUID, page: str) -> tuple[bool, float]:
        """Whether this page paints from now on, and for how many seconds that, or the other page's
        word, holds."""
        now = self._clock()
        held = self._held.get(session)
        if held is not None and held.page != page and held.until > now:
            return False, held.until - now
        self._forget(now)
        self._held[session] = _Held(page, now + HELD_S)
        return True, HELD_S

    def done(self, session: uuid.UUID, page: str) -> None:
        """This page paints no more."""
        held = self._held.get(session)
        if held is not None and held.page == page:
            del self._held[session]

    def _forget(self, now: float) -> None:
        if len(self._held) < _REMEMBERED:
            return
        self._held = {name: held for name, held in self._held.items() if held.until > now}
        while len(self._held) >= _REMEMBERED:
            del self._held[min(self._held, key=lambda name: self._held[name].until)]
