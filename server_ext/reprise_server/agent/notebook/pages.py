"""The browser pages that have notebooks open, and which of them holds a notebook's edit lease.

Without collaboration each page has a copy of its own, so two pages of one notebook are two
notebooks until they are saved. The agent works with one of them: the page that came first, until it
goes or a person takes the lease in another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

from reprise.errors import UnavailableError
from reprise.log.model import Json


class PageGone(UnavailableError):
    """The page was closed, lost its connection, or did not answer in time."""


class Page(Protocol):
    """One connected page. All of it is called on the loop of `Pages`."""

    async def ask(self, request: Mapping[str, Json]) -> Mapping[str, Json]:
        """What the page answers (docs/agent-notebook.md). Raises PageGone.

        An answer comes from a browser: of any shape, within the connection's bounds of size.
        """

    def told(self, holds: bool) -> None:
        """Whether it holds the lease from now on. It may not wait."""


class Pages:
    """The pages of all notebooks of one server. Only changed on its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: By path, in the order in which they came; the first one holds the lease.
        self._open: dict[str, list[Page]] = {}

    def join(self, path: str, page: Page) -> None:
        """It has the notebook open; `Page.told` says at once whether it holds the lease."""
        there = self._open.setdefault(path, [])
        if page not in there:
            there.append(page)
        page.told(there[0] is page)

    def leave(self, path: str, page: Page) -> None:
        """It is gone, or has another notebook open. The next one is told if it holds now."""
        there = self._open.get(path, [])
        if page not in there:
            return
        held = there[0] is page
        there.remove(page)
        if not there:
            del self._open[path]
        elif held:
            there[0].told(True)

    def take(self, path: str, page: Page) -> None:
        """A person takes the lease in this page, which has joined."""
        there = self._open.get(path, [])
        if page not in there or there[0] is page:
            return
        there.remove(page)
        there.insert(0, page)
        there[1].told(False)
        page.told(True)

    def holder(self, path: str) -> Page | None:
        """The page that the agent works with, if the notebook is open in any."""
        there = self._open.get(path)
        return there[0] if there else None
