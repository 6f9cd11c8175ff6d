"""The Content-Security-Policy of pages: what may run in JupyterLab's page besides JupyterLab.

A second wall behind static output (docs/browser.md): whatever comes into the page, its scripts do
not run, and it loads nothing from elsewhere. Pages only: what `/files/` and the like serve has
Jupyter's own policy, and is not a page of JupyterLab's.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tornado.web import OutputTransform

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from tornado.httputil import HTTPHeaders, HTTPServerRequest

HEADER: Final = "Content-Security-Policy"

#: Every page of JupyterLab, Notebook 7 and what else is built on jupyterlab_server has it.
_PAGE: Final = b'id="jupyter-config-data"'
_SCRIPT: Final = re.compile(rb"<script([^>]*)>(.*?)</script\s*>", re.DOTALL | re.IGNORECASE)
_NO_CODE: Final = re.compile(rb"\bsrc\s*=|\btype\s*=\s*[\"']?application/json", re.IGNORECASE)
_HOST: Final = re.compile(
    r"[A-Za-z0-9._-]{1,255}(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](?::[0-9]{1,5})?"
)


def inline_scripts(page: bytes) -> list[str]:
    """The hashes of the scripts that the server itself wrote into a page."""
    found = []
    for attributes, script in _SCRIPT.findall(page):
        if not _NO_CODE.search(attributes):
            # As a browser's parser hands it on.
            text = script.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            found.append(base64.b64encode(hashlib.sha256(text).digest()).decode())
    return found


def policy(host: str, base_url: str, hashes: Sequence[str]) -> str:
    """The policy of a page that a browser got from `host` (with its port).

    Scripts come from JupyterLab's own folders and those of its extensions: plain 'self' would
    admit `/files/anything.js`. 'unsafe-eval' is JupyterLab's need (its checks of settings are
    compiled), and only a script that runs already can use it.
    """
    here = f"{host}{base_url.rstrip('/')}"
    folders = [f"{here}/{name}/" for name in ("static", "lab/extensions", "lab/api")]
    scripts = [*folders, *(f"'sha256-{each}'" for each in hashes), "'unsafe-eval'"]
    return "; ".join(
        [
            f"script-src {' '.join(scripts)}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "media-src 'self' data: blob:",
            f"connect-src 'self' ws://{host} wss://{host}",
            "frame-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "form-action 'self'",
        ]
    )


def register(serverapp: ServerApp) -> None:
    """Have every page that this server sends from now on carry the policy."""
    base_url = str(serverapp.base_url)

    class PagePolicy(OutputTransform):
        """Adds it to a response that is a page. Another policy stays; browsers obey both."""

        def __init__(self, request: HTTPServerRequest) -> None:
            self._host = str(request.host)

        def transform_first_chunk(
            self,
            status_code: int,
            headers: HTTPHeaders,
            chunk: bytes,
            finishing: bool,  # noqa: ARG002
        ) -> tuple[int, HTTPHeaders, bytes]:
            if headers.get("Content-Type", "").startswith("text/html") and _PAGE in chunk:
                # A host that is no host gets a policy that nothing matches.
                host = self._host if _HOST.fullmatch(self._host) else "invalid.invalid"
                headers.add(HEADER, policy(host, base_url, inline_scripts(chunk)))
                # A browser that asked whether its copy is still right would get a copy's headers.
                headers["Cache-Control"] = "no-store"
                headers.pop("Etag", None)
            return status_code, headers, chunk

    # The first: a later one may have packed what is to be looked at.
    serverapp.web_app.transforms.insert(0, PagePolicy)
