"""What an operator sets for all kernels of a server, in `jupyter_server_config.py`."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Final

from traitlets import Bool, Unicode
from traitlets.config import LoggingConfigurable

from reprise import settings


class Reprise(LoggingConfigurable):
    """Settings that the server's kernels start with; each is one of Reprise's variables.

    `c.Reprise.backend = "bubblewrap"`. What is set here wins over the server's own environment;
    what is not set is left as it is.
    """

    backend = Unicode("", config=True, help=f"Which backend starts sandboxes ({settings.BACKEND}).")
    environment = Unicode(
        "",
        config=True,
        help=f"The named environment of new sessions ({settings.ENVIRONMENT}).",
    )
    dsn = Unicode(
        "",
        config=True,
        help=f"A Postgres server instead of the embedded one ({settings.DSN}). Whoever has a "
        "terminal here can read it: give a login that is a member of reprise_kernel only.",
    )
    home = Unicode(
        "", config=True, help=f"Where the embedded parts keep their state ({settings.HOME})."
    )

    page_policy = Bool(
        False,
        config=True,
        help="Whether pages carry a Content-Security-Policy under which no script of an output runs"
        " and nothing is loaded from elsewhere. One page serves all of a person's kernels, so what"
        " live output of other kernels needs (bokeh, plotly's HTML) does not run either. A proxy"
        " before the server has to pass the browser's Host on. `reprise lab` has it on.",
    )

    def apply(self, environ: MutableMapping[str, str] = os.environ) -> None:
        """Put what is set into the environment that kernels inherit."""
        for trait, variable in VARIABLES.items():
            value = getattr(self, trait)
            if value:
                environ[variable] = value


VARIABLES: Final = {
    "backend": settings.BACKEND,
    "environment": settings.ENVIRONMENT,
    "dsn": settings.DSN,
    "home": settings.HOME,
}
