"""Configured servers, opened: the SDK is imported only where there are any."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from reprise.errors import UnavailableError
from reprise_server.agent.mcp.configured import configured_servers

if TYPE_CHECKING:
    from reprise_server.agent.mcp.tools import Servers


class Settings(Protocol):
    """What of the agent's settings counts here: `RepriseAgent`."""

    @property
    def mcp_servers(self) -> Mapping[str, Any]: ...


def open_servers(settings: Settings, environ: Mapping[str, str] | None = None) -> Servers | None:
    """The servers of the settings, none of them started yet; None where there are none.

    Raises UsageError for settings that are wrong, UnavailableError when the SDK is not there.
    """
    configured = configured_servers(
        settings.mcp_servers, os.environ if environ is None else environ
    )
    if not configured:
        return None
    try:
        found = import_module("reprise_server.agent.mcp.tools")
    except ModuleNotFoundError as error:
        raise no_sdk(error) from error
    return cast("Servers", found.Servers(configured))


def no_sdk(error: ModuleNotFoundError) -> UnavailableError:
    return UnavailableError(
        f"The Python package {error.name} is not installed, which speaking with MCP servers and "
        "clients needs: pip install 'jupyter-reprise[agent]'"
    )
