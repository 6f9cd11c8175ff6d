"""Which jobs run when: each waits in a lane, of which so many run at once, the first first."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reprise.errors import RepriseError, TooLarge
from reprise.log.model import Json
from reprise_server.api.job import Done, Job, Kept, Result, State
from reprise_server.api.refusals import refusal

#: What a job does. It ends by itself, or by being cancelled; then it has let go of everything.
Work = Callable[[Job], Awaitable[Done]]

#: Seconds that what runs has to end when the server stops.
STOP_S: Final = 30.0


@dataclass(frozen=True)
class Order:
    """A job and what it does.

    interrupt: ends what runs gently, and `work` then ends by itself; without it the work is
      cancelled.
    let_go: of what the order holds, called once, whether it was carried out or not.
    """

    job: Job
    work: Work
    interrupt: Callable[[], None] | None = None
    let_go: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class _Ending:
    """How a job ends."""

    state: State
    summary: Mapping[str, Json] | None = None
    result: Result | None = None
    kept: Kept | None = None
    error: Mapping[str, Json] | None = None


@dataclass
class _Lane:
    most: int
    waiting: deque[Order] = field(default_factory=deque)
    running: dict[Job, tuple[Order, asyncio.Task[None]]] = field(default_factory=dict)


class Lanes:
    """All lanes, on the loop that the jobs run on. on_end: told of each job that has ended."""

    def __init__(self, log: logging.Logger, on_end: Callable[[Job], None]) -> None:
        self._log = log
        self._on_end = on_end
        self._lanes: dict[str, _Lane] = {}
        self._of: dict[Job, str] = {}
        self._closed = False

    def put(self, lane: str, most: int, order: Order) -> None:
        """Let a job wait in a lane, of which at most `most` run at once."""
        if self._closed:
            self._never(order)
            return
        found = self._lanes.setdefault(lane, _Lane(most))
        found.waiting.append(order)
        self._of[order.job] = lane
        self._next(lane)

    def cancel(self, job: Job) -> None:
        """End it, whether it waits or runs; one that has ended stays as it is."""
        lane = self._lanes.get(self._of.get(job, ""))
        if lane is None or job.ended:
            return
        if job in lane.running:
            if not job.cancelling:
                job.cancel()
                order, task = lane.running[job]
                if order.interrupt is None:
                    task.cancel()
                else:
                    order.interrupt()
            return
        (order,) = [each for each in lane.waiting if each.job is job]
        lane.waiting.remove(order)
        self._never(order)
        self._tidy(self._of.pop(job))

    def _next(self, name: str) -> None:
        lane = self._lanes[name]
        while lane.waiting and len(lane.running) < lane.most:
            order = lane.waiting.popleft()
            task = asyncio.get_running_loop().create_task(self._run(order))
            lane.running[order.job] = (order, task)
            task.add_done_callback(lambda _, ended=order: self._ended(name, ended))  # type: ignore[misc]

    def _ended(self, name: str, order: Order) -> None:
        del self._lanes[name].running[order.job]
        del self._of[order.job]
        if not order.job.ended:
            self._never(order)  # cancelled before it began
        self._next(name)
        self._tidy(name)

    def _tidy(self, name: str) -> None:
        lane = self._lanes[name]
        if not lane.waiting and not lane.running:
            del self._lanes[name]

    def _never(self, order: Order) -> None:
        """An order that is not carried out."""
        order.let_go()
        order.job.end("cancelled", error=CANCELLED)
        self._on_end(order.job)

    async def _run(self, order: Order) -> None:
        job = order.job
        job.start()
        try:
            ending = await self._carry_out(order)
        finally:
            order.let_go()
        job.end(
            ending.state,
            summary=ending.summary,
            result=ending.result,
            kept=ending.kept,
            error=ending.error,
        )
        self._on_end(job)

    async def _carry_out(self, order: Order) -> _Ending:
        job = order.job
        try:
            done = await order.work(job)
            result = None
            if done.result is not None:
                result = await asyncio.to_thread(_kept, done.result)
        except asyncio.CancelledError:
            return _Ending("cancelled", error=CANCELLED)
        except RepriseError as error:
            self._log.info("Reprise: job %s (%s): %s", job.id, job.kind, error)
            failure: Exception = error
        except Exception as error:  # noqa: BLE001  # it is logged, and whoever asks hears of it
            self._log.error("Reprise: job %s (%s) failed", job.id, job.kind, exc_info=error)
            failure = error
        else:
            if job.cancelling:
                # One that was interrupted tells what came of it.
                return _Ending("cancelled", done.summary, result, done.kept, CANCELLED)
            return _Ending("done", done.summary, result, done.kept)
        if job.cancelling:
            return _Ending("cancelled", error=CANCELLED)
        return _Ending("failed", error=refusal(failure).to_json()["error"])

    async def close(self) -> None:
        """Cancel all jobs; returns when they have let go of everything. Nothing runs after it."""
        self._closed = True
        tasks = []
        for lane in list(self._lanes.values()):
            for order in list(lane.waiting):
                self.cancel(order.job)
            for job, (_, task) in lane.running.items():
                # Not gently: what a kernel of ours runs ends with that kernel, which ends now. And
                # once: a second time would stop it from letting go of its sandbox.
                if not task.cancelling():
                    job.cancel()
                    task.cancel()
                tasks.append(task)
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=STOP_S)
            if left:
                self._log.warning("Reprise: %d jobs did not end within %g s", len(left), STOP_S)


def _kept(value: Mapping[str, Json]) -> Result | None:
    try:
        return Result(value)
    except TooLarge:
        return None


CANCELLED: Final[Mapping[str, Json]] = {"code": "cancelled", "message": "It was cancelled."}
