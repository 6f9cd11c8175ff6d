"""The body of one request, from the program to the host, hashed on its way."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

import h11

from reprise.egress.contract import StreamGone
from reprise.egress.http1 import Back, Broken, Front

#: Seconds that the rest of a request may take once it was answered: some programs stop sending.
EARLY_S: Final = 5.0


class RequestBody:
    """whole: called once with its sha256 (hex), when all of it has been read."""

    def __init__(self, front: Front, whole: Callable[[str], Awaitable[None]]) -> None:
        self._front = front
        self._on_whole = whole
        self._carrying: asyncio.Task[None] | None = None

    @property
    def whole(self) -> bool:
        """Whether all of it has been read."""
        task = self._carrying
        return task is not None and task.done() and not task.cancelled() and not task.exception()

    async def answered(self, back: Back) -> h11.Response:
        """Send it to the host, and wait for the head of an answer, which may come before its end.

        Raises Broken, StreamGone, Malformed.
        """
        if self._carrying is None:
            self._carrying = asyncio.get_running_loop().create_task(self._carry(back))
        else:
            await back.send(h11.EndOfMessage())  # once more, and there was no body
        response = asyncio.get_running_loop().create_task(back.response())
        try:
            await asyncio.wait({self._carrying, response}, return_when=asyncio.FIRST_COMPLETED)
            if not response.done():
                self._carrying.result()
                return await self._front.unless_gone(response)
            return response.result()
        finally:
            response.cancel()
            await asyncio.gather(response, return_exceptions=True)

    async def read(self) -> None:
        """Read it to its end, wherever it goes. Raises StreamGone, Malformed."""
        if self._carrying is None:
            self._carrying = asyncio.get_running_loop().create_task(self._carry(None))
        await asyncio.shield(self._carrying)

    async def rest(self) -> bool:
        """Whether all of it has been read, within the time that is left for that."""
        if self._carrying is not None and not self._carrying.done():
            await asyncio.wait({self._carrying}, timeout=EARLY_S)
        return self.whole

    async def _carry(self, back: Back | None) -> None:
        total = hashlib.sha256()
        while True:
            event = await self._front.next()
            if isinstance(event, h11.ConnectionClosed):
                raise StreamGone("the program left before its request was whole")
            if back is not None:
                try:
                    await back.send(event)
                except Broken:
                    back = None  # it may have answered all the same; the rest is read for its hash
            if isinstance(event, h11.EndOfMessage):
                break
            if isinstance(event, h11.Data):
                total.update(event.data)
        await self._on_whole(total.hexdigest())

    async def stop(self) -> None:
        if self._carrying is not None:
            self._carrying.cancel()
            await asyncio.gather(self._carrying, return_exceptions=True)
