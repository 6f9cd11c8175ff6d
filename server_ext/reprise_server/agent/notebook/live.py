"""The notebook wherever it is live at this moment: the server's room, a page, or what is stored."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from reprise_server.agent.contract import Change, Document, Stale
from reprise_server.agent.notebook.contents import ContentsNotebook
from reprise_server.agent.notebook.elsewhere import Elsewhere
from reprise_server.agent.notebook.page import PageNotebook
from reprise_server.agent.notebook.pages import Pages
from reprise_server.agent.notebook.room import Rooms

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: Times that a notebook is opened or closed in a page just when it is about to be saved.
ATTEMPTS: Final = 5

T = TypeVar("T")


class LiveNotebook:
    """A `Document` (agent.contract) of a Jupyter server. May be used on any loop.

    Where a notebook is live is found out anew for each reading and each batch of changes, since
    pages come and go. That no cell is written over is the changes' own affair (`Change.was`): they
    say what the agent read, wherever that was.
    """

    def __init__(
        self,
        path: str,
        server: ServerApp,
        pages: Pages,
        home: Path,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """path: as the contents API has it.  home: REPRISE_HOME.  loop: the server's, that of
        `pages` by default."""
        self.path = bare(path)
        self.where: Literal["room", "page", "file"] = "file"
        self._server = server
        self._pages = pages
        self._home = home
        self._loop = loop or pages.loop
        self._rooms = Rooms(server, self._loop)

    async def read(self) -> Mapping[str, Any]:
        """Raises BadNotebook, TooLarge, UnavailableError (of which PageGone is one)."""
        return await self._live(lambda document: document.read())

    async def apply(self, changes: Sequence[Change]) -> None:
        """Raises Stale, UsageError, PageRefused, UnavailableError (of which PageGone is one)."""
        await self._live(lambda document: document.apply(changes))

    async def _live(self, work: Callable[[Document], Awaitable[T]]) -> T:
        for _ in range(ATTEMPTS):
            document = await self._now()
            with contextlib.suppress(Elsewhere):
                return await work(document)
        raise Stale(
            f"{self.path} was opened or closed {ATTEMPTS} times just when the agent turned to it. "
            "Nothing was changed."
        )

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _now(self) -> Document:
        document: Document | None = await self._opened()
        if document is None:
            document = ContentsNotebook(
                self.path,
                self._server.contents_manager,
                self._loop,
                self._home,
                before_saving=self._still_closed,
            )
        self.where = document.where
        return document

    async def _opened(self) -> Document | None:
        room = await self._rooms.find(self.path)
        if room is not None:
            return room
        page = self._pages.holder(self.path)
        return None if page is None else PageNotebook(self.path, page, self._pages)

    async def _still_closed(self) -> None:
        if await self._opened() is not None:
            raise Elsewhere


def bare(path: str) -> str:
    """A path without the name of a drive: a collaborative page calls a notebook "RTC:a.ipynb"."""
    drive, colon, rest = path.strip("/").partition(":")
    return rest if colon and drive == "RTC" else path.strip("/")
