"""A cell that waits for a sandbox or a resume, and what it shows meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Iterator

from reprise.jupyter.request import Request
from reprise.log.model import Json
from reprise.replay.message import Message, make
from reprise.replay.surroundings import Progress

#: A wait that takes longer shows itself in the waiting cell, seconds.
QUIET_S = 3.0


class WaitingCell:
    """At most one cell of the main shell waits at a time; later ones queue behind it.

    What it shows are not outputs of the step: they are cleared before the cell runs and never
    recorded.
    """

    def __init__(self, show: Callable[[Message, bytes], None]) -> None:
        self._show = show
        self._request: Request | None = None
        self._since = 0.0
        self._display: str | None = None
        #: what is going on, whether a cell waits or not
        self._text: str | None = None
        self._arrived = asyncio.Event()

    @contextlib.contextmanager
    def of(self, request: Request) -> Iterator[None]:
        """While the block runs, `request` waits."""
        if self._request is not None:
            yield
            return
        self._request, self._since, self._display = request, time.monotonic(), None
        self._arrived.set()
        timer = asyncio.get_running_loop().call_later(QUIET_S, self._tell)
        try:
            yield
        finally:
            timer.cancel()
            if self._display is not None:
                self._say("clear_output", {"wait": False})
            self._request = None
            self._arrived.clear()

    async def request(self) -> Request:
        """The waiting cell, as soon as there is one."""
        while self._request is None:
            await self._arrived.wait()
        return self._request

    def progress(self, progress: Progress | None) -> None:
        text = None
        if progress is not None:
            text = (
                f"Bringing the session back: step {progress.done} of {progress.total} "
                f"(about {progress.estimate_s:.0f} s in all; interrupt to stop)"
            )
        self.says(text)

    def says(self, text: str | None) -> None:
        """What is going on now; None when it is over."""
        self._text = text
        if self._request is not None and time.monotonic() - self._since >= QUIET_S:
            self._tell()

    def _tell(self) -> None:
        if self._text is None:
            return
        first = self._display is None
        if self._display is None:
            self._display = f"reprise-{uuid.uuid4().hex}"
        content = {
            "data": {"text/plain": self._text},
            "metadata": {},
            "transient": {"display_id": self._display},
        }
        self._say("display_data" if first else "update_display_data", content)

    def _say(self, msg_type: str, content: dict[str, Json]) -> None:
        if self._request is not None:
            parent = self._request.message.raw_header
            self._show(make(msg_type, content, parent=parent), b"display_data")
