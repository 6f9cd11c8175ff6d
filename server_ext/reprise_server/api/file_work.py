"""What a job does that changes files of a workspace: one upload step, in the session's order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from reprise.client.file_changes import FileChanges
from reprise.errors import UsageError
from reprise.log.model import Json
from reprise.log.store import SessionInfo
from reprise_server.api.job import Done, Job, Progress
from reprise_server.api.kernels import Kernels


@dataclass(frozen=True)
class FileWork:
    """wanted: its contents are stored already.  start: whether a kernel may be started for it."""

    info: SessionInfo
    wanted: FileChanges
    key: str
    start: bool
    kernels: Kernels

    async def __call__(self, job: Job) -> Done:
        """Raises PathTaken, PathNotFound, KernelGone, LeaseHeld …: then nothing was changed."""
        job.tell(Progress("reaching the kernel"))
        async with self.kernels.of(self.info, start=self.start) as kernel:
            job.tell(Progress("waiting for its turn, or bringing files in"))
            refused: UsageError | None = None
            try:
                result = await kernel.change_files(self.wanted, key=self.key, check=False)
            except UsageError as unfit:
                refused = unfit  # nothing was begun, so the kernel may stay for the next step
            session = kernel.session
        if refused is not None:
            raise refused
        error: Json = None
        if result.error is not None:
            error = {"name": result.error.name, "text": result.error.text}
        said: dict[str, Json] = {
            "session": str(session),
            "seq": result.seq,
            "digest": result.digest,
            "outcome": result.status,
            "files": result.files,
            "bytes": result.bytes,
            "error": error,
        }
        return Done(said, said)


async def ends_soon(job: Job, seconds: float) -> bool:
    """Wait for the job's end, at most so many seconds; whether it has ended."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not job.ended and (left := deadline - loop.time()) > 0:
        await job.changed(job.version, left)
    return job.ended
