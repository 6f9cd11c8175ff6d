"""Which sessions run in which environment, as the log has it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from reprise.commands.opened import find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.errors import LogCorrupt, SessionNotFound, UsageError
from reprise.log.model import Json
from reprise.log.store import SessionInfo


@dataclass
class InUse:
    """Sessions by what they last ran in: what was built, the image, the host's prefix.

    unrecorded: whose environment the log has lost (`reprise log --check` says more).
    """

    built: dict[str, list[SessionInfo]] = field(default_factory=dict)
    image: dict[str, list[SessionInfo]] = field(default_factory=dict)
    host: list[tuple[SessionInfo, Mapping[str, Json]]] = field(default_factory=list)
    unrecorded: list[SessionInfo] = field(default_factory=list)


def sessions_of_environments(terminal: Terminal) -> InUse:
    """Read the heads of all sessions. Raises RepriseError when the log cannot be read."""
    return asyncio.run(_in_use(terminal))


async def _in_use(terminal: Terminal) -> InUse:
    found = InUse()
    specs: dict[str, Mapping[str, Json]] = {}
    async with opened_log(terminal) as log:
        for info in await log.sessions():
            if info.environment is None:
                continue
            if info.environment not in specs:
                reader = await log.reader(info.id)
                try:
                    specs[info.environment] = await reader.environment(info.environment)
                except LogCorrupt:
                    specs[info.environment] = {}
            spec = specs[info.environment]
            if not spec:
                found.unrecorded.append(info)
            elif built := spec.get("built"):
                found.built.setdefault(str(built), []).append(info)
            elif image := spec.get("image"):
                found.image.setdefault(str(image), []).append(info)
            else:
                found.host.append((info, spec))
    return found


def session_environment(named: str, terminal: Terminal) -> tuple[uuid.UUID, Mapping[str, Json]]:
    """The spec of the environment that a session last ran in.

    Raises SessionNotFound; UsageError when none of its steps says one.
    """
    return asyncio.run(_environment(named, terminal))


async def _environment(named: str, terminal: Terminal) -> tuple[uuid.UUID, Mapping[str, Json]]:
    async with opened_log(terminal) as log:
        try:
            session = await find_session(log, named)
        except SessionNotFound:
            raise UsageError(
                f"There is neither an environment nor a session {named!r}. `reprise env list` and "
                "`reprise sessions` list them."
            ) from None
        reader = await log.reader(session)
        info = await reader.info()
        if info.environment is None:
            raise UsageError(f"Session {session} has no step yet, so it ran in no environment.")
        return session, await reader.environment(info.environment)
