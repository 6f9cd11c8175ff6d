"""Brings the API into a Jupyter server, and lets go of the database when the server stops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.utils import url_path_join

from reprise.settings import home_path
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.contract import Document
from reprise_server.agent.notebook.live import LiveNotebook
from reprise_server.agent.notebook.pages import Pages
from reprise_server.agent.settings import RepriseAgent
from reprise_server.api import events, parts
from reprise_server.api.places import Places
from reprise_server.api.service import Service
from reprise_server.settings import RepriseApi


class ApiExtension(ExtensionApp):
    """A second point of the extension: only an application is told that the server stops."""

    name = "reprise"
    load_other_extensions = True
    #: Not before the server has loaded it.
    service: Service | None = None

    def initialize(self, argv: Any = None) -> None:  # noqa: ARG002
        """Register handlers and event schemas. The database is not opened yet."""
        server = self.serverapp
        if server is None or server.event_logger is None:
            raise RuntimeError("the API belongs to a Jupyter server, and was loaded without one")
        self.service = Service(
            RepriseApi(parent=server),
            parts.document,
            server.event_logger,
            server.log,
            RepriseAgent(parent=server),
            self._assembly,
            self._root,
        )
        events.register(server.event_logger)
        base = server.web_app.settings["base_url"]
        given = {"service": self.service}
        routes = [(url_path_join(base, pattern), made, given) for pattern, made in parts.routes()]
        server.web_app.add_handlers(".*$", routes)  # type: ignore[no-untyped-call]

    def _assembly(self, pages: Pages, places: Places) -> Assembly:
        """How this server's agent opens notebooks, where they are live, and sessions."""
        server, service = self.serverapp, self.service
        if server is None or service is None:
            raise RuntimeError("the API was not initialized")

        async def document(path: str) -> Document:
            return LiveNotebook(path, server, pages, home_path())

        return Assembly(service.agent_settings, document=document, place=places.open)

    def _root(self) -> Path | None:
        """Where the notebooks of this server lie, if it keeps them in files."""
        root = getattr(self.serverapp and self.serverapp.contents_manager, "root_dir", "")
        return Path(root) if root else None

    async def stop_extension(self) -> None:
        if self.service is not None:
            await self.service.close()
