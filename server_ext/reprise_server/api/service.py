"""What all handlers of one server share: its log, its limits, its document, its events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprise.errors import DatabaseUnavailable, UnavailableError
from reprise.log.postgres import Log
from reprise.log.rows import RowSearches
from reprise.skills.command import in_a_line
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.settings import RepriseAgent
from reprise_server.api import events
from reprise_server.api.conversing import Assemble, Conversing
from reprise_server.api.deciding import Decisions
from reprise_server.api.document import Document
from reprise_server.api.limits import Limits
from reprise_server.api.painters import Painters
from reprise_server.api.places import Places
from reprise_server.api.refusals import Refused
from reprise_server.api.sanitised import Sanitised
from reprise_server.api.sockets import Sockets
from reprise_server.api.trees import Trees
from reprise_server.api.workshop import Workshop
from reprise_server.settings import RepriseApi

if TYPE_CHECKING:
    import logging

    from jupyter_events import EventLogger


class Service:
    """One for each server. described: makes the OpenAPI document."""

    def __init__(
        self,
        settings: RepriseApi,
        described: Callable[[], Document],
        told: EventLogger,
        said: logging.Logger,
        agent_settings: RepriseAgent | None = None,
        assemble: Assemble | None = None,
        root: Callable[[], Path | None] = lambda: None,
    ) -> None:
        self.settings = settings
        self.agent_settings = agent_settings or RepriseAgent()
        self._assemble = assemble or _without_notebooks(self.agent_settings)
        self._places = Places(root)
        self.sockets = Sockets(settings.sockets)
        self.limits = Limits(settings.rates, settings.concurrent)
        self._events = told
        self._said = said
        self._described = described
        self.trees = Trees()
        self.row_searches = RowSearches(in_a_line)
        self.decisions = Decisions()
        self.painters = Painters()
        self.sanitised = Sanitised()
        self._held = 0
        self._log: Log | None = None
        self._login: str | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    @cached_property
    def document(self) -> Document:
        """Read at the first request, not while the server starts."""
        return self._described()

    def described(self, base_url: str) -> dict[str, Any]:
        """The document as this server serves it."""
        return {**self.document.value, "servers": [{"url": f"{base_url}reprise/api"}]}

    async def log(self) -> Log:
        """The log, opened at first use; a lost connection it opens again by itself.

        Raises DatabaseUnavailable; the next request tries again.
        """
        async with self._opening:
            if self._closed:
                raise Refused(503, "stopping", "This server is stopping.", retry_after_s=5)
            if self._log is None:
                try:
                    self._log = await Log.connect()
                except DatabaseUnavailable:
                    raise
                except UnavailableError as error:
                    # It names the database and what its login may not: for the operator's eyes.
                    raise DatabaseUnavailable(str(error)) from error
            return self._log

    async def login(self) -> str:
        """The login of the database, as which everything is done there."""
        if self._login is None:
            log = await self.log()
            ((login,),) = await log.query("SELECT session_user::text")
            self._login = str(login)
        return self._login

    @property
    def known_login(self) -> str | None:
        """As `login` found it, None before."""
        return self._login

    def emit(self, event: str, said: Mapping[str, Any]) -> None:
        """Tell listeners of Jupyter's event system. What they do with it delays nobody."""
        events.emit(self._events, event, said, self._said)

    @cached_property
    def workshop(self) -> Workshop:
        """Where jobs are done."""
        return Workshop(self.settings, self._said, self.emit)

    @cached_property
    def conversing(self) -> Conversing:
        """The agent of this server."""
        return Conversing(self, self._assemble, self._places)

    def hold(self, size: int) -> None:
        """Bytes of a body are in memory now. Raises Refused (503) when all bodies are too many."""
        if self._held + size > self.settings.bodies_bytes:
            raise Refused(
                503,
                "busy",
                "Too many uploads are under way on this server. Try again.",
                retry_after_s=5,
            )
        self._held += size

    def release(self, size: int) -> None:
        self._held -= size

    async def close(self) -> None:
        """End all jobs, let go of the database. Requests that still come are refused."""
        self._closed = True
        self.sockets.close()
        await self.conversing.close()
        await self.workshop.close()
        async with self._opening:
            if self._log is not None:
                await self._log.close()
                self._log = None


def _without_notebooks(settings: RepriseAgent) -> Assemble:
    return lambda _, places: Assembly(settings, place=places.open)
