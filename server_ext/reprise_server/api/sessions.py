"""`/sessions…`: which there are, what each is, its notices and network rows; begun, deleted."""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import Any, Final

from reprise.errors import LogCorrupt, UsageError
from reprise.jupyter.kernelspec import NATIVE, language_kernel
from reprise.log.as_json import (
    dependents_json,
    mount_json,
    network_json,
    notice_json,
    session_json,
)
from reprise.log.names import name_session
from reprise.log.postgres import Log
from reprise.log.reader import Reader
from reprise.log.search import (
    StepFilter,
    find_network,
    find_notices,
    find_sessions,
    find_steps,
    revoked_of,
)
from reprise.log.store import SessionInfo
from reprise.sandbox.chosen import Choice, choose, forget, of_session
from reprise.sandbox.named import environments
from reprise_server.api.base import Asked, Endpoint, operation
from reprise_server.api.refusals import Refused

RESOURCE: Final = "reprise-sessions"

#: Where a page begins: a moment and a session, or the place of a part and the number of a row.
_SESSIONS_CURSOR: Final = re.compile(r"([0-9]{1,18})\.([0-9a-f]{32})")
_NETWORK_CURSOR: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,18})")


class SessionEndpoint(Endpoint):
    """What works on one session. One of another owner is not there."""

    auth_resource = RESOURCE

    def session(self, asked: Asked) -> uuid.UUID:
        return uuid.UUID(asked.path["session"])

    async def reader(self, asked: Asked) -> Reader:
        """Raises SessionNotFound."""
        log = await self.service.log()
        return await log.reader(self.session(asked))


class SessionsEndpoint(Endpoint):
    path = "/sessions"
    auth_resource = RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        log = await self.service.log()
        after = _cursor(_SESSIONS_CURSOR, asked.query["after"])
        page = await find_sessions(
            log,
            after=None if after is None else (int(after[1]), uuid.UUID(after[2])),
            notebook=asked.query["notebook"],
            text=asked.query["q"] or "",
            limit=asked.query["limit"],
        )
        revoked = await revoked_of(log, page.rows)
        return {
            "sessions": [session_json(info, revoked.get(info.id, ())) for info in page.rows],
            "next": None if page.next is None else f"{page.next[0]}.{page.next[1].hex}",
        }

    @operation("write", status=201)
    async def post(self, asked: Asked) -> Any:
        log = await self.service.log()
        body = asked.body or {}
        kernel = body.get("kernel", NATIVE)
        await asyncio.to_thread(language_kernel, kernel)  # one that is not there is said now
        chosen = body.get("environment")
        if chosen is not None and chosen not in await asyncio.to_thread(environments):
            raise Refused(404, "environment-not-found", f"There is no environment {chosen!r} here.")
        named = body.get("session")
        identity = uuid.uuid4() if named is None else uuid.UUID(named)
        try:
            begun = await log.begin(session=identity, kernel=kernel)
        except UsageError as error:
            raise Refused(409, "id-taken", "This id is taken. Nothing was changed.") from error
        info = await (await log.reader(begun)).info()
        if info.kernel != kernel:
            raise Refused(
                409, "id-taken", f"Session {begun} is there already, for the kernel {info.kernel}."
            )
        if chosen is not None:
            await _choose(info, chosen)
        self.emit("session", {"action": "begun", "session": str(begun)})
        return session_json(info)


async def _choose(info: SessionInfo, environment: str) -> None:
    """For a session that has nothing yet. One with steps keeps what it has: its files would go to
    where more can be reached, and that is pressed (`session_environment`). Raises Refused (409)."""
    known = await asyncio.to_thread(of_session, info.id)
    if known is not None and known.environment == environment:
        return
    if info.steps:
        raise Refused(
            409,
            "id-taken",
            f"Session {info.id} is there already, with steps, so it keeps its environment. Nothing"
            f" was changed. POST to sessions/{info.id}/environment has it go on in another one.",
        )
    await asyncio.to_thread(choose, info.id, Choice(environment))


class OneSessionEndpoint(SessionEndpoint):
    path = "/sessions/{session}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        log = await self.service.log()
        info = await reader.info()
        revoked = await revoked_of(log, [info])
        spec = None
        if info.environment is not None:
            try:
                spec = dict(await reader.environment(info.environment))
            except LogCorrupt:
                spec = None  # `check` says so; the rest of the session is to be seen all the same
        return {
            **session_json(info, revoked.get(info.id, ())),
            "environment_spec": spec,
        }

    @operation("write")
    async def patch(self, asked: Asked) -> Any:
        """Another name; an empty one takes it away."""
        log, session = await self.service.log(), self.session(asked)
        await name_session(log, session, asked.body["name"], by=self.person.name)
        self.emit("session", {"action": "renamed", "session": str(session)})
        return session_json(await (await log.reader(session)).info())

    @operation("write")
    async def delete(self, asked: Asked) -> Any:
        log = await self.service.log()
        session = self.session(asked)
        found = await log.dependents(session)
        with_forks = asked.query["with_forks"]
        for info in (*(found.forks if with_forks else ()), found.session):
            await self.service.workshop.give_back(info.id)
        deleted = await log.delete(session, with_forks=with_forks)
        for each in deleted:
            await self.service.workshop.leave(each)
            forget(each)
            self.emit("session", {"action": "deleted", "session": str(each)})
        return dependents_json(found, deleted)


class DependentsEndpoint(SessionEndpoint):
    path = "/sessions/{session}/dependents"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        log = await self.service.log()
        return dependents_json(await log.dependents(self.session(asked)), [])


class SessionSkillsEndpoint(SessionEndpoint):
    path = "/sessions/{session}/skills"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """The mounts of skills, newest page last, and how each content stands now."""
        reader = await self.reader(asked)
        mounts = {mount.seq: mount for mount in await reader.skill_mounts()}
        page = await find_steps(
            reader, StepFilter(kinds=["mount"]), after=asked.query["after"], limit=200
        )
        standings = await reader.standings({mount.tree for mount in mounts.values()})
        return {
            "skills": [
                {
                    **mount_json(mounts[record.step.seq]),
                    "trusted": mounts[record.step.seq].trusted,
                    "standing": standings.get(mounts[record.step.seq].tree, "untrusted"),
                    "skill": record.step.payload.get("skill"),
                }
                for record in page.rows
                if record.step.seq in mounts
            ],
            "next": page.next,
        }


class NoticesEndpoint(SessionEndpoint):
    path = "/sessions/{session}/notices"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        page = await find_notices(reader, after=asked.query["after"], limit=asked.query["limit"])
        return {"notices": [notice_json(notice) for notice in page.rows], "next": page.next}


class SessionNetworkEndpoint(SessionEndpoint):
    path = "/sessions/{session}/network"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        after = _cursor(_NETWORK_CURSOR, asked.query["after"])
        last = asked.query["to"]
        page = await find_network(
            reader,
            asked.query["from"],
            None if last is None else last + 1,
            after=None if after is None else (int(after[1]), int(after[2])),
            limit=asked.query["limit"],
        )
        return {
            "network": [network_json(row) for row in page.rows],
            "next": None if page.next is None else f"{page.next[0]}.{page.next[1]}",
        }


def _cursor(form: re.Pattern[str], text: str | None) -> re.Match[str] | None:
    """Raises Refused (400) for what no page told."""
    if text is None:
        return None
    found = form.fullmatch(text)
    if found is None:
        raise Refused(
            400,
            "bad-cursor",
            "`after` is what the page before says as `next`; this is something else.",
        )
    return found


async def checked_log(endpoint: Endpoint, session: uuid.UUID) -> Log:
    """The log, when the session is in it. Raises SessionNotFound."""
    log = await endpoint.service.log()
    await log.reader(session)
    return log


ENDPOINTS: Final = (
    SessionsEndpoint,
    OneSessionEndpoint,
    DependentsEndpoint,
    SessionSkillsEndpoint,
    NoticesEndpoint,
    SessionNetworkEndpoint,
)
