"""`/jobs/{job}/report…`: what a verify found out, in parts, and as a page to keep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import PurePath
from typing import Any, Final

from reprise_server.api.base import Asked, operation
from reprise_server.api.job import Job
from reprise_server.api.jobs import JobEndpoint
from reprise_server.api.refusals import Refused
from reprise_server.api.sending import Sending
from reprise_server.api.verify_report import PAGE_STEPS, VerifyReport

_PIECE: Final = 1 << 20


class ReportPartEndpoint(JobEndpoint):
    """What reads the report of a verify."""

    def report(self, asked: Asked) -> VerifyReport:
        """Raises Refused (404, 409)."""
        job = self.found(asked)
        if isinstance(job.kept, VerifyReport):
            return job.kept
        if not job.ended:
            raise Refused(409, "no-result", "This job has not ended, so there is no report yet.")
        raise Refused(
            404,
            "no-report",
            "This job left no report: it was no verify, did not end well, or found more than is"
            " kept here. `reprise verify --html FILE` in a terminal writes one.",
        )


class ReportEndpoint(ReportPartEndpoint):
    path = "/jobs/{job}/report"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        report = self.report(asked)
        return {**report.head, "page_bytes": report.page_size or None}


class ReportStepsEndpoint(ReportPartEndpoint):
    path = "/jobs/{job}/report/steps"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        report, query = self.report(asked), asked.query
        rows, found = await asyncio.to_thread(
            report.rows, query["verdict"], query["offset"], query["limit"]
        )
        return {"steps": _there(rows), "found": found, "total": report.steps}


class ReportStepEndpoint(ReportPartEndpoint):
    path = "/jobs/{job}/report/steps/{seq}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        found = await asyncio.to_thread(self.report(asked).step, asked.path["seq"])
        if found is None:
            raise Refused(404, "step-not-found", "This report says nothing of that step.")
        return found


class ReportStateEndpoint(ReportPartEndpoint):
    path = "/jobs/{job}/report/states/{number}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        report, number = self.report(asked), asked.path["number"]
        if number >= report.states:
            raise Refused(404, "state-not-found", "This report has no such state.")
        return _there([await asyncio.to_thread(report.state, number)])[0]


class ReportPageEndpoint(ReportPartEndpoint):
    path = "/jobs/{job}/report/page"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        report = self.report(asked)
        if not report.page_size:
            raise Refused(
                404,
                "no-page",
                f"A page of more than {PAGE_STEPS:,} steps is not made here. `reprise verify --html"
                " FILE` in a terminal makes one.",
            )
        return Sending(_pieces(report), report.page_size, _name(self.found(asked), report))


async def _pieces(report: VerifyReport) -> AsyncGenerator[bytes, None]:
    offset = 0
    while offset < report.page_size:
        piece = report.page_piece(offset, _PIECE)
        if not piece:
            raise Refused(404, "job-not-found", "The job was forgotten meanwhile.")
        offset += len(piece)
        yield piece


def _there(rows: list[Any]) -> list[Any]:
    """Raises Refused (404) where the job was forgotten while they were read."""
    if any(row is None for row in rows):
        raise Refused(404, "job-not-found", "The job was forgotten meanwhile.")
    return rows


def _name(job: Job, report: VerifyReport) -> str:
    title = report.head["title"]
    stem = PurePath(title).stem if isinstance(title, str) else str(job.session)[:8]
    return f"{stem or 'session'} verified.html"


ENDPOINTS: Final = (
    ReportEndpoint,
    ReportStepsEndpoint,
    ReportStepEndpoint,
    ReportStateEndpoint,
    ReportPageEndpoint,
)
