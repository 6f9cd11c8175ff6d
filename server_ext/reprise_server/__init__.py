"""Reprise's Jupyter Server extension: settings, sessions in notebooks, pages' policy, the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reprise_server import page_policy
from reprise_server.api.extension import ApiExtension
from reprise_server.identity import register
from reprise_server.settings import Reprise

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    # Of the API, which is told when the server stops: only applications are.
    return [{"module": "reprise_server"}, {"module": "reprise_server.api", "app": ApiExtension}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    chosen = Reprise(parent=serverapp)
    chosen.apply()
    register(serverapp)
    if chosen.page_policy:
        page_policy.register(serverapp)
