"""Files of a workspace changed by a person: brought in, made, moved, copied, removed; as steps.

Each request is one upload step, whole or not at all, in the session's order of steps. It is a job,
since a cell may run before it and a kernel may have to come back; where it ends soon, the answer
waits for it.
"""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Final

from reprise.client.file_changes import FileChanges
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.client.sources import PLAIN_MODE
from reprise.log.model import Json
from reprise.workspace.manifest import Entry
from reprise_server.api.base import Answer, Asked, operation
from reprise_server.api.file_work import FileWork, ends_soon
from reprise_server.api.refusals import Refused
from reprise_server.api.sessions import SessionEndpoint
from reprise_server.api.workshop import Wanted

#: Changing files is running a step, as a cell is.
STEPS: Final = "reprise-session-steps"
#: Seconds that an answer waits for the step to end.
SOON_S: Final = 20.0
#: Errors of a job that are the request's own refusal, where it ended soon.
_REFUSALS: Final = {
    "path-taken": (HTTPStatus.CONFLICT, "exists"),
    "path-not-found": (HTTPStatus.NOT_FOUND, "file-not-found"),
    "usage": (HTTPStatus.BAD_REQUEST, "usage"),
    "too-large": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large"),
}


async def changed(
    endpoint: SessionEndpoint, asked: Asked, wanted: FileChanges, told: dict[str, Json], start: bool
) -> Answer:
    """Do it as a step. Raises Refused, LeaseHeld, SessionNotFound: nothing was changed then."""
    info = await (await endpoint.reader(asked)).info()
    if running_kernel(info) is None:
        if info.holder is not None:
            raise held_elsewhere(info)
        if not start:
            raise Refused(
                409,
                "no-kernel",
                f"No kernel holds session {info.id}, and you asked that none be started.",
            )
    workshop = endpoint.service.workshop
    work = FileWork(info, wanted, uuid.uuid4().hex, start, workshop.kernels)
    job, _ = workshop.begin(
        Wanted("upload", info.id, told, work, lane=f"steps of {info.id}"), endpoint.person
    )
    ended = await ends_soon(job, SOON_S)
    code = str((job.error or {}).get("code", ""))
    if ended and code in _REFUSALS:
        status, said = _REFUSALS[code]
        workshop.drop(job)
        raise Refused(status, said, str((job.error or {})["message"]))
    return Answer(job.to_json(), 200 if ended else 202)


class FileChangesEndpoint(SessionEndpoint):
    path = "/sessions/{session}/file-changes"

    @operation("execute", STEPS, status=202)
    async def post(self, asked: Asked) -> Answer:
        body = asked.body
        wanted = FileChanges(
            make=body.get("make", ()),
            remove=body.get("remove", ()),
            move=[(each["from"], each["to"]) for each in body.get("move", ())],
            copy=[(each["from"], each["to"]) for each in body.get("copy", ())],
            replaced=body.get("replace", False),
        )
        told = {name: body[name] for name in ("make", "remove", "move", "copy") if name in body}
        return await changed(self, asked, wanted, told, body.get("start", True))


def brought_in(path: str, digest: str, size: int, *, replace: bool) -> FileChanges:
    """A file whose bytes are stored, to lie at `path`."""
    return FileChanges(put=[Entry(path, "file", PLAIN_MODE, size, digest)], replaced=replace)


ENDPOINTS: Final = (FileChangesEndpoint,)
