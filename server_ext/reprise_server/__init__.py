"""Reprise's Jupyter Server extension: settings, notebooks tied to sessions, the policy of pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprise_server import page_policy
from reprise_server.identity import register
from reprise_server.settings import Reprise

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "reprise_server"}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    chosen = Reprise(parent=serverapp)
    chosen.apply()
    register(serverapp)
    if chosen.page_policy:
        page_policy.register(serverapp)
