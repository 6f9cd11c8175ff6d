"""What jobs do with an environment: build one of its lock, compare one with its digest."""

from __future__ import annotations

import hashlib
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from reprise.client.environments import InUse, checked, in_use
from reprise.environments.create import check_free, from_lock
from reprise.log.as_json import iso
from reprise.log.model import Json
from reprise.sandbox.named import load
from reprise_server.api.aside import aside
from reprise_server.api.job import Done, Job, Progress
from reprise_server.api.session_work import opened_log
from reprise_server.api.workshop import Wanted


def building(name: str, lock: str) -> Wanted:
    """The job that builds a lock and names it. Raises UsageError for a name that is taken."""
    check_free(name, replaces=False)
    stop = threading.Event()

    def build(told: Callable[[str], None]) -> Done:
        with tempfile.TemporaryDirectory(prefix="reprise-lock-") as folder:
            path = Path(folder) / "lock"
            path.write_text(lock)
            made = from_lock(name, path, told=told)
        packages: dict[str, Json] = {}
        if made.lock is not None:
            packages = {pin.name: pin.version for pin in made.lock.pins}
        new = made.built is not None and made.built.new
        summary: dict[str, Json] = {
            "environment": name,
            "built": made.environment.packages,
            "new": new,
            "packages": packages,
        }
        return Done(summary)

    async def work(job: Job) -> Done:
        return await aside(job, stop, build)

    return Wanted(
        "environment",
        None,
        {"environment": name},
        work,
        same=("environment", name),
        mark=hashlib.sha256(lock.encode()).hexdigest(),
        interrupt=stop.set,
    )


def checking(name: str) -> Wanted:
    """The job that compares an environment with its digest."""
    stop = threading.Event()

    async def work(job: Job) -> Done:
        job.tell(Progress("looking up which sessions ran in it"))
        async with opened_log() as log:
            used = await in_use(log)
        return await aside(job, stop, lambda told: _checked(name, used, told))

    return Wanted(
        "environment-check",
        None,
        {"environment": name},
        work,
        same=("check", name),
        interrupt=stop.set,
    )


def _checked(name: str, used: InUse, told: Callable[[str], None]) -> Done:
    found = checked(load(name), lambda: used, iso, told)
    return Done(
        {
            "environment": name,
            "ok": not found.problems,
            "problems": list(found.problems),
            "notes": list(found.notes),
            "files": found.files,
        }
    )
