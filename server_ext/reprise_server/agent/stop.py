"""How a turn is stopped at any point: what it waits for is ended first, then the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from reprise_server.agent.contract import TurnEnd

T = TypeVar("T")


class Stopped(Exception):
    """The turn is to end here; what it waited for has ended."""


class Stop:
    """Asked for at most once; asked again, nothing is waited for any more."""

    def __init__(self) -> None:
        self.status: TurnEnd | None = None
        self.why: str | None = None
        self._asked = asyncio.Event()
        self._now = asyncio.Event()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    @property
    def abandoned(self) -> bool:
        """Whether what runs is not waited for."""
        return self._now.is_set()

    def ask(self, status: TurnEnd, why: str | None = None) -> None:
        """Stop the turn, which then ends with `status`. The second time: without waiting."""
        if self._asked.is_set():
            self._now.set()
            return
        self.status, self.why = status, why
        self._asked.set()

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it, unless the turn is stopped: then it is cancelled, its end is waited for, and
        Stopped is raised. What it comes to all the same is given."""
        if self.asked:
            work.close()
            raise Stopped
        task = asyncio.get_running_loop().create_task(work)
        try:
            await _first(task, self._asked)
            if not task.done():
                task.cancel()
                await _first(task, self._now)
            if not task.done():
                task.add_done_callback(_heard)
                raise Stopped
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if task.cancelled():
            raise Stopped
        error = task.exception()
        if error is not None and self.asked:
            raise Stopped from error
        return task.result()


async def _first(task: asyncio.Task[Any], event: asyncio.Event) -> None:
    """Wait until either has come."""
    waiter = asyncio.get_running_loop().create_task(event.wait())
    try:
        await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()


def _heard(task: asyncio.Task[Any]) -> None:
    """Nobody waits for its end any more."""
    if not task.cancelled():
        task.exception()
