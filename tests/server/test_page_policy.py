"""Pages carry a policy under which no script of an output runs; other responses stay as they are."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from reprise_server.page_policy import HEADER, inline_scripts, policy

PATIENCE = 90.0


class Server:
    """A Jupyter server and what it answers."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/base/"

    def get(self, path: str, **headers: str) -> HTTPResponse:
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": "token t", **headers}
        )
        found: HTTPResponse = urllib.request.urlopen(request, timeout=PATIENCE)
        return found

    def policies(self, path: str, **headers: str) -> list[str]:
        return self.get(path, **headers).headers.get_all(HEADER) or []


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., object]:
    @contextmanager
    def started(*options: str) -> Iterator[Server]:
        folder = tmp_path_factory.mktemp("server")
        (folder / "page.html").write_text("<script>1</script>")
        (folder / "x.js").write_text("1")
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        command = [
            *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *("--IdentityProvider.token=t", f"--port={port}", "--ServerApp.port_retries=0"),
            *("--ServerApp.base_url=/base/", f"--ServerApp.root_dir={folder}"),
            *("--ServerApp.jpserver_extensions=reprise_server=True", *options),
        ]
        own = {
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
            "REPRISE_HOME": str(folder / "home"),
        }
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env={**os.environ, **own}, stdout=output, stderr=output
            )
        try:
            _wait(process, port, log)
            yield Server(port)
        finally:
            process.terminate()
            process.wait(PATIENCE)

    return started


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., object]) -> Iterator[Server]:
    with serve(  # type: ignore[attr-defined]
        "--Reprise.page_policy=True",
        "--ServerApp.tornado_settings={'headers': {'Content-Security-Policy': \"frame-ancestors 'none'\"},"
        " 'compress_response': True}",
    ) as server:
        yield server


def test_a_page_runs_the_scripts_of_jupyterlab_alone(guarded: Server) -> None:
    response = guarded.get("lab")
    page = response.read()
    theirs, ours = response.headers.get_all(HEADER)  # what the operator set stays, and both hold
    assert theirs == "frame-ancestors 'none'"
    directives = dict(each.split(" ", 1) for each in ours.split("; "))
    host = guarded.url.removeprefix("http://").removesuffix("/")
    scripts = directives["script-src"].split()
    assert scripts[:3] == [f"{host}/static/", f"{host}/lab/extensions/", f"{host}/lab/api/"]
    assert not {"'self'", "'unsafe-inline'", "*", "data:", "blob:"} & set(scripts)
    # What the page itself has inline is allowed by its hash, and nothing else.
    (script,) = re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
    assert [each for each in scripts if each.startswith("'sha256-")] == [f"'sha256-{digest}'"]
    # The scripts that it names lie in a folder that is allowed.
    named = re.findall(rb'<script [^>]*src="([^"]+)"', page)
    assert named
    assert all(each.decode().startswith("/base/static/") for each in named)
    assert response.headers["Cache-Control"] == "no-store"
    assert "Etag" not in response.headers


def test_a_packed_page_carries_it_too(guarded: Server) -> None:
    response = guarded.get("lab/tree/page.html", **{"Accept-Encoding": "gzip"})
    assert response.headers["Content-Encoding"] == "gzip"
    assert len(response.headers.get_all(HEADER)) == 2


def test_what_is_no_page_keeps_jupyters_policy(guarded: Server) -> None:
    for path in ("api/status", "files/page.html", "files/x.js", "lab/api/settings"):
        assert all("script-src" not in each for each in guarded.policies(path)), path


def test_without_the_setting_pages_are_as_jupyter_sends_them(serve: Callable[..., object]) -> None:
    with serve() as server:  # type: ignore[attr-defined]
        (only,) = server.policies("lab")
        assert "script-src" not in only


def test_json_and_scripts_with_addresses_are_no_inline_scripts() -> None:
    page = (
        b'<script id="jupyter-config-data" type="application/json">{"a": 1}</script>'
        b"<script defer src='/static/x.js'></script><script>a\r\nb</script >"
    )
    digest = base64.b64encode(hashlib.sha256(b"a\nb").digest()).decode()
    assert inline_scripts(page) == [digest]


def test_the_policy_of_a_server_at_the_root() -> None:
    assert policy("localhost:8888", "/", []).startswith(
        "script-src localhost:8888/static/ localhost:8888/lab/extensions/ localhost:8888/lab/api/"
    )
