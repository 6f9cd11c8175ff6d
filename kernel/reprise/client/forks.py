"""Forks a session, and lets its notebook and the kernel that runs on it go over to the fork."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from reprise.client.entry import aconnect
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.errors import RepriseError, UnavailableError
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from reprise.sandbox.chosen import inherit


@dataclass(frozen=True)
class Forked:
    """A fork. attached: the keys (notebooks, kernels) that lead to it now."""

    info: SessionInfo
    attached: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        return {
            "session": str(self.info.id),
            "parent": str(self.info.parent),
            "fork_seq": self.info.fork_seq,
            "steps": self.info.steps,
            "attached": list(self.attached),
        }


async def forked(
    log: Log,
    session: uuid.UUID,
    at: int | None,
    *,
    attach: bool = False,
    interrupt: bool = False,
    identity: uuid.UUID | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Forked:
    """Fork a session after step `at`; see `Log.fork`. The session itself stays as it is.

    attach: whatever leads to the session leads to the fork from then on, the kernel that runs
      included.  interrupt: the step that runs is interrupted for it.
    Raises LeaseHeld when a kernel elsewhere holds it (nothing was forked then), UnavailableError
    when the kernel stays where it is.
    """
    info = await (await log.reader(session)).info()
    connection = running_kernel(info)
    if attach and info.holder is not None and connection is None:
        raise held_elsewhere(info)
    fork = await log.fork(session, at, identity=identity)
    inherit(session, fork)
    went: Sequence[str] = ()
    if attach:
        if connection is not None:
            if on_progress is not None:
                on_progress("the kernel goes over …")
            await _go_over(connection, fork, interrupt)
        went = await log.rebind(session, fork)
    return Forked(await (await log.reader(fork)).info(), tuple(went))


async def _go_over(connection: Path, fork: uuid.UUID, interrupt: bool) -> None:
    try:
        async with await aconnect(connection_file=connection, start=False) as kernel:
            await kernel.attach(fork, interrupt=interrupt)
    except RepriseError as error:
        raise UnavailableError(
            f"The kernel did not go over: {error} The fork is there, as session {fork}, and nothing"
            f" leads to it; `reprise delete {fork}` takes it away."
        ) from error
