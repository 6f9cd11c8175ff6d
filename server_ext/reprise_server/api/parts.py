"""The parts of the API: each has its handlers in `NAME.py` and its paths in `openapi/NAME.yaml`."""

from __future__ import annotations

import re
from typing import Final

from reprise_server.api import server
from reprise_server.api.base import Endpoint
from reprise_server.api.document import parts_paths

#: A part adds its endpoints here, and its name below. (`server` is in openapi/base.yaml.)
ENDPOINTS: Final[tuple[type[Endpoint], ...]] = (*server.ENDPOINTS,)
PARTS: Final[tuple[str, ...]] = ()

ROOT: Final = "/reprise/api"


def routes() -> list[tuple[str, type[Endpoint]]]:
    """Patterns without the server's base URL, and their handlers, in the order to be tried in."""
    by_path = {endpoint.path: endpoint for endpoint in ENDPOINTS}
    found = [(pattern(path), by_path[path]) for path in parts_paths(by_path)]
    return [*found, (f"{ROOT}(?:/.*)?", server.Nothing)]


def pattern(template: str) -> str:
    """A template's regular expression; a parameter is one piece between slashes."""
    pieces = [
        "([^/]+)" if each.startswith("{") else re.escape(each) for each in template.split("/")
    ]
    return ROOT + "/".join(pieces)
