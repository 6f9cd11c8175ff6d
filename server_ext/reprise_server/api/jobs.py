"""`/jobs…`: work that outlasts its request; looked at, waited for, cancelled, forgotten."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator
from typing import Any, Final

from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.job import Job, Result
from reprise_server.api.refusals import Refused
from reprise_server.api.sending import Sending

RESOURCE: Final = "reprise-jobs"


class JobEndpoint(Endpoint):
    """What works on one job."""

    auth_resource = RESOURCE

    def found(self, asked: Asked) -> Job:
        return self.service.workshop.job(uuid.UUID(asked.path["job"]))


class JobsEndpoint(Endpoint):
    path = "/jobs"
    auth_resource = RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        session = asked.query["session"]
        found = self.service.workshop.jobs(
            None if session is None else uuid.UUID(session),
            tuple(asked.query["kind"]),
            tuple(asked.query["state"]),
        )
        return {"jobs": [job.to_json() for job in found]}


class OneJobEndpoint(JobEndpoint):
    path = "/jobs/{job}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        job = self.found(asked)
        since = asked.query["version"]
        if since is not None and not job.ended:
            await job.changed(since, asked.query["wait"])
        return job.to_json()

    @operation("write", status=204)
    async def delete(self, asked: Asked) -> Any:
        self.service.workshop.drop(self.found(asked))


class CancelEndpoint(JobEndpoint):
    path = "/jobs/{job}/cancel"

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        job = self.found(asked)
        self.service.workshop.cancel(job)
        return job.to_json()


class JobOutputsEndpoint(JobEndpoint):
    path = "/jobs/{job}/outputs"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        job, after = self.found(asked), asked.query["after"]
        # Its version before what it has shown: nothing that comes in between is missed.
        version, ended = job.version, job.ended
        found = job.outputs(after)
        if found["next"] <= after and not ended and asked.query["wait"]:
            await job.changed(version, asked.query["wait"])
            ended = job.ended
            found = job.outputs(after)
        return {**found, "state": job.state, "ended": ended}


class JobResultEndpoint(JobEndpoint):
    path = "/jobs/{job}/result"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        job = self.found(asked)
        if job.result is None:
            raise Refused(
                409 if not job.ended else 404,
                "no-result",
                "This job has no result yet." if not job.ended else "This job has no result.",
            )
        return Sending(_pieces(job.result), job.result.size, None, "application/json")


async def _pieces(result: Result) -> AsyncGenerator[bytes, None]:
    offset = 0
    while offset < result.size:
        # Bounded, and from a file that was just written: reading it keeps nobody waiting.
        piece = result.piece(offset)
        if not piece:
            raise Refused(404, "job-not-found", "The job was forgotten meanwhile.")
        offset += len(piece)
        yield piece


ENDPOINTS: Final = (
    JobsEndpoint,
    OneJobEndpoint,
    CancelEndpoint,
    JobOutputsEndpoint,
    JobResultEndpoint,
)
