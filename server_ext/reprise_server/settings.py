"""What an operator sets of Reprise in `jupyter_server_config.py`: for kernels, and for the API."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any, Final

from traitlets import Bool, Dict, Enum, Float, Integer, TraitError, Unicode, default, validate
from traitlets.config import LoggingConfigurable

from reprise import settings
from reprise.errors import UsageError
from reprise_server.api.rates import parse_rate


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


RATES: Final = {"read": "1200/min", "write": "120/min", "execute": "120/min"}


class RepriseApi(LoggingConfigurable):
    """Settings of the REST API below reprise/api: `c.RepriseApi.concurrent = 8`."""

    rates = Dict(
        value_trait=Unicode(),
        default_value=RATES,
        config=True,
        help="How often one person may ask, by kind of action: NUMBER/s, NUMBER/min or NUMBER/h."
        " What is not named keeps its default.",
    )
    concurrent = Integer(
        32, min=1, config=True, help="Requests of one person under way at the same time."
    )
    patience = Float(
        60.0, min=1.0, config=True, help="Seconds after which a request is given up (503)."
    )
    body_patience = Float(
        120.0, min=1.0, config=True, help="Seconds within which a request's body must have come."
    )
    bodies_bytes = Integer(
        256 << 20,
        min=1 << 20,
        config=True,
        help="Bytes of request bodies that are in memory at the same time, of everybody together.",
    )
    jobs_running = Integer(
        2,
        min=1,
        config=True,
        help="Jobs of one person that run at the same time; more wait. Steps count apart: one of"
        " each session runs at a time.",
    )
    jobs_waiting = Integer(
        50, min=1, config=True, help="Jobs of one person that wait or run; more are refused (429)."
    )
    jobs_kept = Integer(
        200, min=1, config=True, help="Jobs that have ended and can still be asked about."
    )
    jobs_kept_for = Float(
        3600.0, min=1.0, config=True, help="Seconds after which a job that has ended is forgotten."
    )
    sockets = Integer(
        16, min=1, config=True, help="Websockets of one person that are open at the same time."
    )
    socket_patience = Float(
        30.0,
        min=1.0,
        config=True,
        help="Seconds within which a websocket's reader has to take a message; then it is dropped,"
        " and may come again.",
    )
    programs_approve = Enum(
        ["isolated", "always", "never"],
        "isolated",
        config=True,
        help="Whether a program that sends the server's token may approve what the agent asks for:"
        " where the backend isolates, always, or never. On the backend `process` code of the agent"
        " can read that token.",
    )
    logins = Dict(
        value_trait=Unicode(),
        config=True,
        help="The database login of each person, by the name that Jupyter knows (default: that very"
        " name). Only the person of the login that this server uses may act for a team or the"
        " organisation here, and in that login's personal scope.",
    )
    owner = Unicode(
        config=True,
        help="Whose server this is, by the name that Jupyter knows; JupyterHub says it. Where there"
        " is none, whoever may log in acts as the one who runs the server.",
    )

    @default("owner")
    def _owner(self) -> str:
        return os.environ.get("JUPYTERHUB_USER", "")

    @validate("rates")
    def _whole_rates(self, proposal: Any) -> dict[str, str]:
        usual = dict(RATES)
        unknown = set(proposal["value"]) - set(usual)
        if unknown:
            raise TraitError(f"there is no action {min(unknown)!r}; there are {', '.join(usual)}")
        try:
            for text in proposal["value"].values():
                parse_rate(text)
        except UsageError as error:
            raise TraitError(str(error)) from None
        return {**usual, **proposal["value"]}


VARIABLES: Final = {
    "backend": settings.BACKEND,
    "environment": settings.ENVIRONMENT,
    "dsn": settings.DSN,
    "home": settings.HOME,
}
