"""What is told of a conversation while it happens, passed on in order to readers on any loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

#: What a watcher is told: {"type": "entry", "entry": {…}} for each entry, in order and gapless,
#: and for eyes only, never stored: {"type": "delta", "delta": {…}}; {"type": "again"}: what came of
#: the answer so far is of an attempt that failed; {"type": "shown", "call", "text"}: what a running
#: call shows; {"type": "stopping"}; {"type": "note" | "cut", "text"}; {"type": "ended", "status"}.
Told = Mapping[str, Any]
Watch = Callable[[Told], None]

#: Things for eyes only that wait for one watcher. A slow one misses some, and no entry.
MOST_WAITING: Final = 2_000


class Ordered:
    """Passes entries on in order, each once: those that are read, then those that come."""

    def __init__(self, tell: Watch, after: int) -> None:
        self._tell = tell
        self.seen = after
        self._held: list[Told] | None = []

    def stored(self, entry: Mapping[str, Any]) -> None:
        if entry["seq"] > self.seen:
            self.seen = entry["seq"]
            self._tell({"type": "entry", "entry": entry})

    def follow(self) -> None:
        held, self._held = self._held or [], None
        for told in held:
            self(told)

    def __call__(self, told: Told) -> None:
        if self._held is not None:
            self._held.append(told)
        elif told["type"] == "entry":
            self.stored(told["entry"])
        else:
            self._tell(told)


class Waiting:
    """What was told in another thread, read on this loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._told: deque[Told] = deque()
        self._passing = 0
        self._came = asyncio.Event()

    def put(self, told: Told) -> None:
        """In the other thread. Raises RuntimeError when the loop is closed."""
        self._loop.call_soon_threadsafe(self._take, told)

    def _take(self, told: Told) -> None:
        passing = told["type"] in ("delta", "shown")
        if passing and self._passing >= MOST_WAITING:
            return
        self._passing += passing
        self._told.append(told)
        self._came.set()

    def __aiter__(self) -> AsyncIterator[Told]:
        return self

    async def __anext__(self) -> Told:
        while not self._told:
            self._came.clear()
            await self._came.wait()
        told = self._told.popleft()
        self._passing -= told["type"] in ("delta", "shown")
        return told
