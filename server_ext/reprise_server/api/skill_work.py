"""What a job does with skills: bring them in from a Git repository."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from reprise.skills.arrival import bring_in
from reprise.skills.as_json import arrival_json
from reprise.skills.catalog import Catalog
from reprise.skills.contract import Version
from reprise.skills.git_address import address
from reprise.skills.sources import Looked, look
from reprise_server.api.aside import aside
from reprise_server.api.job import Done, Job, Progress
from reprise_server.api.session_work import opened_log
from reprise_server.api.workshop import Wanted


def importing(asked: Mapping[str, Any], added: Callable[[Version], None]) -> Wanted:
    """The job that adds the skills of a repository. added: told of each new version."""
    stop = threading.Event()
    # What a job was asked for is shown to whoever may look at jobs; a password is not.
    shown = {**asked, "source": address(asked["source"]).shown}

    def looked(told: Callable[[str], None]) -> Looked:
        told("fetching the repository")
        found = look(
            asked["source"],
            ref=asked.get("ref", ""),
            subfolder=asked.get("subfolder", ""),
            names=asked.get("names", []),
        )
        told("adding what was found")
        return found

    async def work(job: Job) -> Done:
        found = await aside(job, stop, looked)
        async with opened_log() as log:
            arrivals = await bring_in(Catalog(log), found.found, note=asked.get("note", ""))
        counts: dict[str, int] = {}
        for each in arrivals:
            counts[each.what] = counts.get(each.what, 0) + 1
            if each.version is not None and each.what in ("new", "changed"):
                added(each.version)
        job.tell(Progress("added", counts=counts))
        said = {
            "skills": [arrival_json(each) for each in arrivals],
            "notes": list(found.notes),
        }
        return Done({"counts": counts}, said)

    return Wanted("skill-import", None, shown, work, same=repr(asked), interrupt=stop.set)
