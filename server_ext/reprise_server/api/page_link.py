"""A page that has a conversation's notebook open, asked and told over its websocket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from reprise.log.model import Json
from reprise_server.agent.notebook.live import bare
from reprise_server.agent.notebook.pages import PageGone, Pages
from reprise_server.api.refusals import Refused

#: Requests that one page is asked at the same time; the notebook's lock leaves one.
_MOST: Final = 8


class PageLink:
    """A `Page` (agent.notebook.pages), on the server's loop.

    put: has a message sent to the page, without waiting.
    """

    def __init__(self, put: Callable[[Mapping[str, Any]], None]) -> None:
        self._put = put
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[Mapping[str, Json]]] = {}
        self._open: tuple[Pages, str] | None = None

    @property
    def waits(self) -> bool:
        """Whether the page has been asked and has not answered yet."""
        return bool(self._asked)

    def open(self, pages: Pages, path: str) -> None:
        """The page has the notebook open, and says so."""
        if self._open is None:
            self._open = (pages, bare(path))
            pages.join(bare(path), self)

    def take(self) -> None:
        """A person wants the agent to work in this page. Raises Refused (409)."""
        if self._open is None:
            raise Refused(409, "not-open", "Say `notebook-open` first. Nothing was changed.")
        pages, path = self._open
        pages.take(path, self)

    def close(self) -> None:
        """The page has the notebook closed, or is gone. Idempotent."""
        if self._open is not None:
            (pages, path), self._open = self._open, None
            pages.leave(path, self)
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(PageGone("The page that had the notebook open was closed."))
        self._asked = {}

    async def ask(self, request: Mapping[str, Json]) -> Mapping[str, Json]:
        """As of `Page`. Raises PageGone."""
        if self._open is None:
            raise PageGone("The page that had the notebook open was closed.")
        if len(self._asked) >= _MOST:
            raise PageGone("The page has not answered what it was asked before.")
        number = next(self._numbers)
        waiting: asyncio.Future[Mapping[str, Json]] = asyncio.get_running_loop().create_future()
        self._asked[number] = waiting
        try:
            self._put({"type": "notebook", "request": number, "asks": request})
            return await waiting
        finally:
            self._asked.pop(number, None)

    def told(self, holds: bool) -> None:
        """As of `Page`."""
        self._put({"type": "lease", "holds": holds})

    def answer(self, request: int, answer: Mapping[str, Json]) -> None:
        """What the page answers. Raises Refused (409) for what nobody asked, or not any more."""
        waiting = self._asked.pop(request, None)
        if waiting is None or waiting.done():
            raise Refused(409, "not-asked", "Nobody waits for this answer (any more).")
        waiting.set_result(answer)
