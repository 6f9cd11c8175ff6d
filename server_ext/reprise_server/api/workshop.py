"""All jobs of one server: how many there may be, how long they are kept, where they run."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise.errors import KeyInUse
from reprise.log.model import Json
from reprise_server.api.beside import Beside
from reprise_server.api.job import Job, State
from reprise_server.api.kernels import Kernels
from reprise_server.api.lanes import Lanes, Order, Work
from reprise_server.api.people import Person
from reprise_server.api.refusals import Refused
from reprise_server.api.workspaces import Workspaces
from reprise_server.settings import RepriseApi

Emit = Callable[[str, Mapping[str, Any]], None]

#: Bytes of all results that are kept together; then the oldest are forgotten sooner.
_RESULTS_BYTES: Final = 1 << 30


@dataclass(frozen=True)
class Wanted:
    """A job that somebody asks for.

    kind, session, asked: as the job tells them.  work, interrupt, let_go: as of an `Order`.
    lane: in which it waits; "" is the one of whoever asks.
    same: jobs of one session with an equal `same` are one as long as it has not ended.
    once: also when it has ended well.  mark: what has to be equal then, as its digest.
    """

    kind: str
    session: uuid.UUID | None
    asked: Mapping[str, Json]
    work: Work
    lane: str = ""
    same: Hashable = None
    once: bool = False
    mark: str = ""
    interrupt: Callable[[], None] | None = None
    let_go: Callable[[], None] = lambda: None


class Workshop:
    """Used from the server's own loop; what the jobs do is done on a loop beside it."""

    def __init__(self, settings: RepriseApi, log: logging.Logger, emit: Emit) -> None:
        self._settings = settings
        self._log = log
        self._emit = emit
        self._jobs: dict[uuid.UUID, Job] = {}
        self._persons: dict[uuid.UUID, str] = {}
        self._same: dict[Hashable, tuple[Job, str]] = {}
        self._beside: Beside | None = None
        self._lanes: Lanes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        #: Both live on the loop beside.
        self.workspaces = Workspaces()
        self.kernels = Kernels()

    def begin(self, wanted: Wanted, person: Person) -> tuple[Job, bool]:
        """The job, and whether it is a new one. Raises Refused (429, 503), KeyInUse."""
        self._forget()
        try:
            known = self._known(wanted)
            if known is None:
                self._check(person)
                self._running()
        except (Refused, KeyInUse):
            wanted.let_go()
            raise
        if known is not None:
            wanted.let_go()
            return known, False
        job = Job(wanted.kind, wanted.session, str(person), wanted.asked)
        self._jobs[job.id] = job
        self._persons[job.id] = person.key
        if wanted.same is not None:
            self._same[wanted.session, wanted.same] = job, wanted.mark
        beside, lanes = self._running()
        order = Order(job, wanted.work, wanted.interrupt, wanted.let_go)
        lane, most = wanted.lane, 1
        if not lane:
            lane, most = f"of {person.key}", self._settings.jobs_running
        beside.post(lanes.put, lane, most, order)
        self._tell(job, "queued")
        return job, True

    def _known(self, wanted: Wanted) -> Job | None:
        """A job that is what is wanted, and will tell what comes of it."""
        job, mark = self._same.get((wanted.session, wanted.same), (None, ""))
        if wanted.same is None or job is None:
            return None
        if mark != wanted.mark:
            raise KeyInUse(
                "Another step was asked for under this key. Nothing was run; take a new key for a"
                " new step."
            )
        going = not job.ended and not job.cancelling
        return job if going or (wanted.once and job.state in ("running", "done")) else None

    def _check(self, person: Person) -> None:
        mine = [job for job in self._jobs.values() if self._persons[job.id] == person.key]
        count = sum(not job.ended for job in mine)
        if count >= self._settings.jobs_waiting:
            raise Refused(
                429,
                "too-many-jobs",
                f"{count} jobs of yours wait or run, and more may not at once. Cancel some, or ask"
                " again when they have ended.",
                retry_after_s=5,
            )

    def _running(self) -> tuple[Beside, Lanes]:
        """Raises Refused (503) when the server stops."""
        if self._closed:
            raise Refused(503, "stopping", "This server is stopping.", retry_after_s=5)
        if self._beside is None or self._lanes is None:
            here = asyncio.get_running_loop()

            def ended(job: Job) -> None:
                here.call_soon_threadsafe(self._ended, job)

            self._beside = Beside("reprise-jobs")
            self._lanes = Lanes(self._log, ended)
        return self._beside, self._lanes

    @property
    def beside(self) -> Beside:
        return self._running()[0]

    # looking ------------------------------------------------------------------------------------

    def job(self, identity: uuid.UUID) -> Job:
        """Raises Refused (404)."""
        self._forget()
        try:
            return self._jobs[identity]
        except KeyError:
            raise Refused(
                404,
                "job-not-found",
                "There is no such job here. One that has ended is kept for a while only, and none"
                " outlives its server.",
            ) from None

    def jobs(
        self,
        session: uuid.UUID | None = None,
        kinds: tuple[str, ...] = (),
        states: tuple[State, ...] = (),
    ) -> list[Job]:
        """The newest first."""
        self._forget()
        return [
            job
            for job in reversed(self._jobs.values())
            if (session is None or job.session == session)
            and (not kinds or job.kind in kinds)
            and (not states or job.state in states)
        ]

    # ending -------------------------------------------------------------------------------------

    def cancel(self, job: Job) -> None:
        """Have it cancelled; one that has ended stays as it is."""
        if not job.ended and self._beside is not None and self._lanes is not None:
            self._beside.post(self._lanes.cancel, job)

    def drop(self, job: Job) -> None:
        """Forget a job that has ended. Raises Refused (409)."""
        if not job.ended:
            raise Refused(
                409, "job-not-ended", "This job has not ended. Cancel it first, or wait for it."
            )
        self._remove(job)

    async def give_back(self, session: uuid.UUID) -> None:
        """A kernel of ours that only waits for the session's next step ends now."""
        if self._beside is not None:
            await self._beside.run(self.kernels.leave(session))

    async def leave(self, session: uuid.UUID) -> None:
        """The session is gone: what still reads it, or stands for it, ends."""
        for job in self.jobs(session):
            self.cancel(job)
        if self._beside is not None:
            await self._beside.run(self.workspaces.leave(session))

    def _ended(self, job: Job) -> None:
        self._tell(job, job.state)
        self._forget()

    def _tell(self, job: Job, action: str) -> None:
        said = {"action": action, "by": job.by, "job": str(job.id), "kind": job.kind}
        if job.session is not None:
            said["session"] = str(job.session)
        self._emit("job", said)

    def _forget(self) -> None:
        """Drop what has ended long ago, and the oldest of what is too much."""
        now = asyncio.get_running_loop().time()
        ended = [job for job in self._jobs.values() if job.ended]
        ended.sort(key=lambda job: job.ended_clock)
        kept_for = self._settings.jobs_kept_for
        size = sum(job.kept_bytes for job in ended)
        for place, job in enumerate(ended):
            many = len(ended) - place > self._settings.jobs_kept
            if not many and size <= _RESULTS_BYTES and now - job.ended_clock < kept_for:
                break
            size -= job.kept_bytes
            self._remove(job)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        left = [job.ended_clock for job in ended if job.id in self._jobs]
        if left and not self._closed:
            at = min(left) + kept_for
            self._timer = asyncio.get_running_loop().call_at(at, self._forget)

    def _remove(self, job: Job) -> None:
        del self._jobs[job.id]
        del self._persons[job.id]
        self._same = {key: each for key, each in self._same.items() if each[0] is not job}
        job.forget()

    async def close(self) -> None:
        """End all jobs, and whatever they have started; returns when it is gone. Idempotent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        beside, self._beside = self._beside, None
        if beside is not None and self._lanes is not None:
            await beside.run(self._lanes.close())
            await beside.run(self.workspaces.close())
            await beside.run(self.kernels.close())
            await beside.close()
        for job in self._jobs.values():
            job.forget()
