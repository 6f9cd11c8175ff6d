"""Which sessions run in which environment, as the log has it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping

from reprise.client.environments import InUse, in_use
from reprise.commands.opened import find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.errors import SessionNotFound, UsageError
from reprise.log.model import Json


def sessions_of_environments(terminal: Terminal) -> InUse:
    """Read the heads of all sessions. Raises RepriseError when the log cannot be read."""
    return asyncio.run(_in_use(terminal))


async def _in_use(terminal: Terminal) -> InUse:
    async with opened_log(terminal) as log:
        return await in_use(log)


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
