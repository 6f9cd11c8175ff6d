"""Where a kernel runs that the agent of a server starts: the notebook's folder, or none."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from reprise.client.beside import notebook_folder
from reprise.log.postgres import Log
from reprise.settings import FOLDER
from reprise_server.agent.notebook.live import bare
from reprise_server.agent.tools.place import Place


class Places:
    """Opens sessions for conversations.

    root: the folder that notebooks' paths begin at; None where the server keeps them otherwise.
    """

    def __init__(self, root: Callable[[], Path | None]) -> None:
        self._root = root
        #: Sessions that know a folder of their own.
        self._own: set[uuid.UUID] = set()

    async def look(self, log: Log, session: uuid.UUID) -> None:
        """Find out whether a session knows its folder. Raises SessionNotFound."""
        info = await (await log.reader(session)).info()
        if notebook_folder(info) is not None:
            self._own.add(session)

    def open(self, log: Log, session: uuid.UUID, path: str | None) -> Place:
        """The session, given the path of the conversation's notebook; may be called anywhere.

        The folder that the server was started in is no notebook's: it never comes in by itself.
        """
        root = self._root()
        if session not in self._own and path is not None and root is not None:
            folder = (root / bare(path)).parent
            if folder.is_dir() and folder.resolve().is_relative_to(root.resolve()):
                return Place(log, session, folder=folder)
        environ = {} if session in self._own else {FOLDER: "no"}
        return Place(log, session, environ=environ)
