"""What waits to be sent to one reader: bounded, so that a slow reader costs no memory."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

#: Bytes and messages that wait for one reader.
MOST_BYTES: Final = 8 << 20
MOST_MESSAGES: Final = 4_000


class TooSlow(Exception):
    """The reader does not take what is told as fast as it comes."""


class Outbox:
    """Messages in their order, sent one after the other by `run`.

    send: takes a text, and returns when the connection can take the next one.
    patience_s: within which each has to be taken.
    """

    def __init__(
        self,
        send: Callable[[str], Awaitable[None]],
        patience_s: float,
        *,
        most_bytes: int = MOST_BYTES,
        most_messages: int = MOST_MESSAGES,
    ) -> None:
        self._send = send
        self._patience_s = patience_s
        self._most_bytes = most_bytes
        self._most_messages = most_messages
        self._waiting: deque[tuple[str, int, int | None]] = deque()
        self._bytes = 0
        self._came = asyncio.Event()
        #: The last entry that was handed to the connection; where a reader goes on.
        self.after = -1

    def put(self, message: Mapping[str, Any], *, passing: bool = False) -> None:
        """Have it sent. passing: for eyes only; dropped as soon as half of the room is taken.

        Raises TooSlow: then it is time to end the connection.
        """
        many = len(self._waiting)
        if passing and (many * 2 >= self._most_messages or self._bytes * 2 >= self._most_bytes):
            return
        text = json.dumps(message, allow_nan=False)
        # One that is larger than all the room passes where nothing else waits.
        if many >= self._most_messages or (many and self._bytes + len(text) > self._most_bytes):
            raise TooSlow
        entry = message["entry"]["seq"] if message["type"] == "entry" else None
        self._waiting.append((text, len(text), entry))
        self._bytes += len(text)
        self._came.set()

    async def run(self) -> None:
        """Send until cancelled. Raises TooSlow, and what `send` raises."""
        while True:
            while not self._waiting:
                self._came.clear()
                await self._came.wait()
            text, size, entry = self._waiting[0]
            await self.send_now(text)
            self._waiting.popleft()
            self._bytes -= size
            if entry is not None:
                self.after = entry

    async def send_now(self, text: str) -> None:
        """Before all that waits. Raises TooSlow."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._send(text)
        except TimeoutError:
            raise TooSlow from None
