"""Reprise's Jupyter Server extension: settings, sessions in notebooks, pages' policy, the API.

Commands of the agent lie below this package too, and must not wait for a server to be imported: it
is when a server asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from reprise_server.api.extension import ApiExtension  # noqa: PLC0415

    # Of the API, which is told when the server stops: only applications are.
    return [{"module": "reprise_server"}, {"module": "reprise_server.api", "app": ApiExtension}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    # For `jupyter-builder develop`; the wheel's own files are found without it.
    return [{"src": "labextension", "dest": "@jupyter-reprise/lab"}]


def _load_jupyter_server_extension(serverapp: ServerApp) -> None:
    from reprise_server import page_policy  # noqa: PLC0415
    from reprise_server.identity import register  # noqa: PLC0415
    from reprise_server.settings import Reprise  # noqa: PLC0415

    chosen = Reprise(parent=serverapp)
    chosen.apply()
    register(serverapp)
    if chosen.page_policy:
        page_policy.register(serverapp)
