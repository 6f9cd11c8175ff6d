"""`/sessions/{session}/…`, acting: forks, rewinding, and what is done as a job."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import PurePath
from typing import Any, Final

from reprise.client.forks import forked
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.errors import UsageError
from reprise.log.as_json import session_json
from reprise.log.model import canonical, sha256_hex
from reprise.log.names import free_name, name_session
from reprise.log.reader import is_key
from reprise.log.rows import find_forks
from reprise.log.search import revoked_of
from reprise.replay.verify import Scope
from reprise_server.api.base import Answer, Asked, operation
from reprise_server.api.refusals import Refused
from reprise_server.api.session_files import at_rest, step_within
from reprise_server.api.session_work import (
    build_workspace,
    check_record,
    compare_workspaces,
    verify_session,
)
from reprise_server.api.sessions import SessionEndpoint
from reprise_server.api.step_work import StepWork, key_of, told
from reprise_server.api.workshop import Wanted


class ActEndpoint(SessionEndpoint):
    """What is done with a session."""

    def begun(self, wanted: Wanted) -> Answer:
        """A new job is accepted (202); one that is at it already is told (200)."""
        job, new = self.service.workshop.begin(wanted, self.person)
        return Answer(job.to_json(), 202 if new else 200)


class ForkingEndpoint(ActEndpoint):
    """What makes forks."""

    async def fork(self, asked: Asked, *, attach: bool) -> Any:
        log = await self.service.log()
        body = asked.body or {}
        named = body.get("fork")
        made = await forked(
            log,
            self.session(asked),
            body.get("at"),
            attach=attach,
            interrupt=body.get("interrupt", False),
            identity=None if named is None else uuid.UUID(named),
        )
        if body.get("name"):
            await name_session(log, made.info.id, body["name"], by=self.person.name)
        action = "rewound" if attach else "forked"
        self.emit(
            "session",
            {"action": action, "session": asked.path["session"], "fork": str(made.info.id)},
        )
        return made.to_json()


class ForksEndpoint(ForkingEndpoint):
    path = "/sessions/{session}/forks"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        log = await self.service.log()
        found = await find_forks(log, reader)
        revoked = await revoked_of(log, found)
        return {"forks": [session_json(info, revoked.get(info.id, ())) for info in found]}

    @operation("write", status=201)
    async def post(self, asked: Asked) -> Any:
        return await self.fork(asked, attach=False)


class RewindEndpoint(ForkingEndpoint):
    path = "/sessions/{session}/rewind"

    @operation("execute", status=201, patience_s=120.0)
    async def post(self, asked: Asked) -> Any:
        made = await self.fork(asked, attach=True)
        await self._name_what_is_left(self.session(asked))
        return made

    async def _name_what_is_left(self, session: uuid.UUID) -> None:
        """The notebook leads to the fork now: a name is how people find the session again."""
        log = await self.service.log()
        info = await (await log.reader(session)).info()
        if info.name is None:
            of = "session" if info.notebook is None else PurePath(info.notebook).stem
            name = await free_name(log, f"{of} (before rewind)")
            await name_session(log, session, name, by=self.person.name)


class VerifyEndpoint(ActEndpoint):
    path = "/sessions/{session}/verify"

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        body = asked.body or {}
        start, last = body.get("from", 0), body.get("to")
        replays = body.get("replays", "as needed")
        info = await (await self.reader(asked)).info()
        if not 0 <= start <= max(info.steps - 1, 0) or (last is not None and last < start):
            raise UsageError(
                f"`from` and `to` name steps, the first not after the last; the session has"
                f" {info.steps}."
            )
        if last is not None:
            await step_within(await self.reader(asked), last)
        session = info.id
        scope = Scope(start, None if last is None else last + 1)
        said = {"from": start, "to": last, "replays": replays}
        return self.begun(
            Wanted(
                "verify",
                session,
                said,
                lambda job: verify_session(job, session, scope, replays),
                # What is recorded meanwhile is not in it.
                same=("verify", start, last, replays, info.steps),
            )
        )


class CheckEndpoint(ActEndpoint):
    path = "/sessions/{session}/check"

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        session = (await self.reader(asked)).session
        return self.begun(
            Wanted("check", session, {}, lambda job: check_record(job, session), same="check")
        )


class WorkspacesEndpoint(ActEndpoint):
    path = "/sessions/{session}/workspaces"

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        named = (asked.body or {}).get("at")
        at: int = at_rest(await reader.info()) if named is None else named
        await step_within(reader, at)
        workshop, session = self.service.workshop, reader.session
        return self.begun(
            Wanted(
                "workspace",
                session,
                {"at": at},
                lambda job: build_workspace(job, workshop.workspaces, session, at),
                same=("workspace", at),
            )
        )


class ChangesEndpoint(ActEndpoint):
    path = "/sessions/{session}/changes"

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        since, until = asked.body["since"], asked.body.get("until")
        info = await step_within(reader, since)
        if until is not None:
            await step_within(reader, until)
        elif running_kernel(info) is None:
            until = at_rest(info)
        session, variables = reader.session, asked.body.get("variables", False)
        return self.begun(
            Wanted(
                "changes",
                session,
                {"since": since, "until": until, "variables": variables},
                lambda job: compare_workspaces(job, session, since, until, variables=variables),
                same=("changes", since, until, variables, info.steps),
            )
        )


class RunEndpoint(ActEndpoint):
    path = "/sessions/{session}/run"

    # Running code is another right than looking whether a session still plays.
    @operation("execute", "reprise-session-steps", status=202, body_bytes=8 << 20)
    async def post(self, asked: Asked) -> Any:
        info = await (await self.reader(asked)).info()
        start = asked.body.get("start", True)
        if running_kernel(info) is None:
            if info.holder is not None:
                raise held_elsewhere(info)
            if not start:
                raise Refused(
                    409,
                    "no-kernel",
                    f"No kernel holds session {info.id}, and you asked that none be started."
                    ' Open its notebook, or leave out "start".',
                )
        key = key_of(asked.body)
        if not is_key(key):
            raise UsageError("A key has 1 to 200 characters and no NUL.")
        workshop, session, stop = self.service.workshop, info.id, asyncio.Event()
        work = StepWork(info, asked.body, key, start, workshop.kernels, stop)
        return self.begun(
            Wanted(
                str(asked.body["kind"]),
                session,
                told(asked.body, key),
                work,
                # Steps of a session come one after the other, in the order they were asked for.
                lane=f"steps of {session}",
                same=("step", key),
                mark=sha256_hex(canonical(asked.body)),
                once=True,
                interrupt=stop.set,
            )
        )


ENDPOINTS: Final = (
    ForksEndpoint,
    RewindEndpoint,
    VerifyEndpoint,
    CheckEndpoint,
    WorkspacesEndpoint,
    ChangesEndpoint,
    RunEndpoint,
)
