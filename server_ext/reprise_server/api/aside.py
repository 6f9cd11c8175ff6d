"""Work of a job that blocks: in a thread, which nobody can end from outside, so it looks itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from reprise.errors import RepriseError
from reprise_server.api.job import Job, Progress

T = TypeVar("T")


class Stopped(RepriseError):
    """The job was cancelled."""


async def aside(job: Job, stop: threading.Event, work: Callable[[Callable[[str], None]], T]) -> T:
    """What `work` gives. It is given what tells of its progress, and ends there once `stop` is set.

    Raises Stopped, and what `work` raises.
    """

    def told(text: str) -> None:
        if stop.is_set():
            raise Stopped("This was cancelled.")
        job.tell(Progress(text))

    try:
        return await asyncio.to_thread(work, told)
    except asyncio.CancelledError:
        stop.set()
        raise
