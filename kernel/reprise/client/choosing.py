"""Chooses for a session: another environment to go on in, further hosts that it may reach.

What is chosen counts from the next start of the session's kernel on: a running one keeps the
environment that its steps are recorded with.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from pathlib import Path

from reprise.client.forks import Forked, forked
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.errors import UnavailableError
from reprise.jupyter.attachment import kernel_key, notebook_key
from reprise.jupyter.sidecar import read_sidecar
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from reprise.sandbox.chosen import Choice, choose, of_session
from reprise.sandbox.named import load


@dataclass(frozen=True)
class Chosen:
    """What was chosen for a session, and what its running kernel began with.

    surroundings: of that kernel, as it says them; None while none runs on this machine.
    """

    session: uuid.UUID
    choice: Choice
    surroundings: Json

    def to_json(self) -> dict[str, Json]:
        return {
            "session": str(self.session),
            "chosen": self.choice.environment,
            "allow": list(self.choice.allow),
            "private": list(self.choice.private),
            "running": self.surroundings,
        }


async def chosen_of(log: Log, session: uuid.UUID) -> Chosen:
    """Raises SessionNotFound, UsageError."""
    info = await (await log.reader(session)).info()
    connection = running_kernel(info)
    found = None if connection is None else read_sidecar(connection)
    choice = await asyncio.to_thread(of_session, session)
    said = None if found is None else found.get("surroundings")
    return Chosen(session, choice or Choice(), said if isinstance(said, dict) and said else None)


async def choose_hosts(log: Log, session: uuid.UUID, choice: Choice) -> Chosen:
    """Set what a session may reach beyond its environment. Raises SessionNotFound."""
    info = await (await log.reader(session)).info()
    await asyncio.to_thread(choose, session, choice, _keys(info, session))
    return await chosen_of(log, session)


async def move(
    log: Log, session: uuid.UUID, environment: str, *, interrupt: bool = False
) -> Forked:
    """Have a session's notebook and kernel go on in another environment, in a new session.

    That is a fork after the last step, which the running kernel goes over to. When the kernel is
    restarted, which whoever asks does next, the restart keeps the files and leaves the variables
    behind, and the new process runs in the other environment. The session itself stays as it is.
    Hosts that were allowed for it stay behind, too.

    Raises UsageError (there is no such environment), LeaseHeld, UnavailableError (no kernel runs,
    or it does not go over).
    """
    await asyncio.to_thread(load, environment)
    info = await (await log.reader(session)).info()
    if running_kernel(info) is None:
        if info.holder is not None:
            raise held_elsewhere(info)
        raise UnavailableError(
            f"No kernel runs for session {session}, so its files are not at hand. Nothing was"
            " changed. Open its notebook, run a cell, and ask again."
        )
    made = await forked(log, session, None, attach=True, interrupt=interrupt)
    keys = [*_keys(info, session), *_keys(made.info, made.info.id)]
    await asyncio.to_thread(choose, made.info.id, Choice(environment), keys)
    return made


def _keys(info: SessionInfo, session: uuid.UUID) -> list[str]:
    """What leads a kernel to what was chosen for a session, besides the session itself."""
    keys = []
    connection = running_kernel(info)
    if connection is not None and (key := kernel_key(connection)) is not None:
        keys.append(key)
    # Where it is now; the log knows where it was begun.
    held = (info.holder or {}).get("notebook")
    notebooks = [each for each in (held, info.notebook) if isinstance(each, str)]
    there = [each for each in dict.fromkeys(notebooks) if Path(each).is_absolute()]
    return [*keys, *(notebook_key(each, session) for each in there)]
