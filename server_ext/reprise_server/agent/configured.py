"""The agent's settings as this machine's Jupyter Server has them, for what runs in a terminal."""

from __future__ import annotations

import logging
from typing import Any

from jupyter_core.application import JupyterApp

from reprise.errors import UsageError
from reprise_server.agent.settings import RepriseAgent


class _Configured(JupyterApp):
    """Reads what `jupyter server` reads: jupyter_config, then jupyter_server_config."""

    name = "jupyter-server"
    raise_config_file_errors = True


def agent_settings(**given: Any) -> RepriseAgent:
    """Settings from jupyter_server_config.py and .json, with those given over them.

    Raises UsageError for a configuration that cannot be read.
    """
    app = _Configured(log=logging.getLogger("reprise"))
    try:
        app.load_config_file()
        settings = RepriseAgent(config=app.config)
        for name, value in given.items():
            setattr(settings, name, value)
    except Exception as error:
        raise UsageError(
            f"Jupyter's configuration of the agent cannot be read: {error} Nothing was done."
            " `jupyter --paths` says where it lies."
        ) from error
    return settings
