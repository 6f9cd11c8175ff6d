"""The kernels that jobs run steps in: those that hold a session, and those started for one."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from reprise.client import AsyncKernel, aconnect
from reprise.client.beside import notebook_folder
from reprise.log.store import SessionInfo
from reprise.settings import FOLDER

#: Seconds that a kernel which was started for a step waits for the next one, before it gives its
#: session back. A notebook that is opened meanwhile waits for as long (`Log.acquire`).
LINGER_S: Final = 5.0


@dataclass
class _Idle:
    kernel: AsyncKernel
    timer: asyncio.TimerHandle


class Kernels:
    """One connection for each session at a time: steps of one session come one after the other."""

    def __init__(self, linger_s: float = LINGER_S) -> None:
        self._linger_s = linger_s
        self._idle: dict[uuid.UUID, _Idle] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def of(self, info: SessionInfo, *, start: bool) -> AsyncIterator[AsyncKernel]:
        """The kernel that holds the session; without one, one that is started if it may be.

        Raises KernelGone, LeaseHeld, UnavailableError.
        """
        session = info.id
        # The folder that the server was started in is no notebook's.
        folder = {} if notebook_folder(info) is not None else {FOLDER: "no"}
        kernel = await self._again(session)
        if kernel is None:
            kernel = await aconnect(session, start=start, env=folder)
        try:
            yield kernel
        except BaseException:
            # What waits or runs there is nobody's any more: a kernel of ours ends with it.
            await kernel.close()
            raise
        self._rest(session, kernel)

    async def _again(self, session: uuid.UUID) -> AsyncKernel | None:
        """The one that served the step before, unless it has gone over to another session."""
        found = self._idle.pop(session, None)
        if found is None:
            return None
        found.timer.cancel()
        if found.kernel.session == session:
            return found.kernel
        await found.kernel.close()
        return None

    def _rest(self, session: uuid.UUID, kernel: AsyncKernel) -> None:
        loop = asyncio.get_running_loop()
        wait = self._linger_s if kernel.started else 0.0
        self._idle[session] = _Idle(kernel, loop.call_later(wait, self._let_go, session))

    def _let_go(self, session: uuid.UUID) -> None:
        found = self._idle.pop(session)
        task = asyncio.get_running_loop().create_task(found.kernel.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def leave(self, session: uuid.UUID) -> None:
        """Give the session back now, if nothing runs in a kernel that was started for it."""
        found = self._idle.pop(session, None)
        if found is not None:
            found.timer.cancel()
            await found.kernel.close()

    async def close(self) -> None:
        """End those that were started here; returns when they are gone."""
        for session in list(self._idle):
            self._idle[session].timer.cancel()
            self._let_go(session)
        await asyncio.gather(*self._ending, return_exceptions=True)
