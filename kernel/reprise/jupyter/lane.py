"""A lane: requests that run one after the other, with ipykernel's rule of abort after an error."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from reprise.jupyter.request import Request


class Lane:
    """The queue of the main shell, of one subshell, or of the control channel.

    work: runs one request and says whether what is queued behind it is to be aborted. It takes in
      what has arrived before it answers, so that all that was sent before the client knew of the
      error is aborted, and nothing that was sent after.
    abort: answers one request as aborted; False when it is not to be aborted, and stays.
    """

    def __init__(
        self,
        work: Callable[[Request], Awaitable[bool]],
        abort: Callable[[Request], bool],
    ) -> None:
        self._work = work
        self._abort = abort
        self._queue: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None

    def put(self, request: Request) -> None:
        self._queue.append(request)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._queue:
                if await self._work(self._queue.popleft()):
                    kept = [request for request in self._queue if not self._abort(request)]
                    self._queue = deque(kept)
        finally:
            self._task = None

    @property
    def waiting(self) -> bool:
        """Whether a request waits for its turn."""
        return bool(self._queue)

    @property
    def idle(self) -> bool:
        return self._task is None

    async def close(self) -> None:
        """Forget what is queued and wait for nothing."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()
