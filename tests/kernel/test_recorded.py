"""A session whose steps asked hosts is replayed without them: on resume, by verify, elsewhere."""

from __future__ import annotations

import hashlib
import http.server
import json
import socket
import ssl
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.kernel import Client, Database, Kernel, Kernels, shown_text
from tests.fixtures.reading import HOSTS

#: Not 127.0.0.1, which programs ask without a proxy (NO_PROXY).
ADDRESS = "127.0.0.2"


class Host:
    """An https server of this machine that never answers the same twice."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        asked, headers = self.asked, self.headers

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked.append(f"{self.command} {self.path}")
                headers.append({k.lower(): v for k, v in self.headers.items()})
                length = int(self.headers.get("Content-Length", 0))
                body = f"{uuid.uuid4()} {self.rfile.read(length).decode()}".encode()
                if self.path == "/large":
                    body = hashlib.sha256(body).digest() * (3 << 15)
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Set-Cookie", "session=a-cookie-of-the-host; Path=/")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                return

        self.server = http.server.ThreadingHTTPServer((ADDRESS, 0), Handler)
        self.server.daemon_threads = True
        context = HOSTS.context(ADDRESS)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"https://{ADDRESS}:{self.port}"

    def stop(self) -> None:
        if self.thread.is_alive():
            self.server.shutdown()
            self.thread.join()
            self.server.server_close()


@pytest.fixture
def host() -> Iterator[Host]:
    server = Host()
    yield server
    server.stop()


@pytest.fixture
def trusted(tmp_path: Path) -> str:
    """A file for SSL_CERT_FILE, where the hosts of tests are trusted."""
    path = tmp_path / "trusted.pem"
    path.write_text(HOSTS.certificate)
    return str(path)


def environment(database: Database, name: str, **network: Any) -> str:
    folder = database.home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"network": network}))
    return name


FETCH = """
import urllib.request
def fetch(path, data=None, **headers):
    request = urllib.request.Request(URL + path, data, headers)
    with urllib.request.urlopen(request) as response:
        return response.read()
"""


def begun(kernels: Kernels, host: Host, trusted: str, **network: Any) -> tuple[Kernel, Client]:
    rules = {"private": [f"{ADDRESS}:{host.port}"], **network}
    name = environment(kernels.database, f"net-{host.port}", **rules)
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name, SSL_CERT_FILE=trusted)
    client = kernel.client()
    client.prints(f"URL = {host.url!r}\n{FETCH}")
    return kernel, client


def again(kernels: Kernels, kernel: Kernel, host: Host, trusted: str) -> tuple[Kernel, Client]:
    kernel.kill("router")
    following = kernels.again(
        kernel, REPRISE_ENVIRONMENT=f"net-{host.port}", SSL_CERT_FILE=trusted
    )
    return following, following.client()


def test_a_resume_is_served_from_the_record(
    kernels: Kernels, host: Host, trusted: str
) -> None:
    kernel, client = begun(kernels, host, trusted, record=True)
    client.prints("kept = [fetch('/a'), fetch('/a'), fetch('/b?c=1', b'posted')]")
    client.prints("large = fetch('/large')")
    shown = client.prints("import hashlib; print(kept, hashlib.sha256(large).hexdigest())")
    before = list(host.asked)
    assert before == ["GET /a", "GET /a", "POST /b?c=1", "GET /large"]
    host.stop()
    kernel, client = again(kernels, kernel, host, trusted)
    assert client.prints("print(kept, hashlib.sha256(large).hexdigest())") == shown
    assert host.asked == before
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert {n.code for n in recorded.notices} == {"resumed"}


def verified(kernels: Kernels, kernel: Kernel, *args: str, **env: str) -> tuple[int, Any]:
    """What `reprise verify` says, as a process of its own."""
    database = kernels.database
    shown = subprocess.run(
        [sys.executable, "-m", "reprise.cli", "verify", str(kernel.session), "--json", *args],
        capture_output=True,
        text=True,
        timeout=120,
        env={
            "PATH": "/usr/bin:/bin",
            "REPRISE_DSN": database.dsn,
            "REPRISE_HOME": str(database.home),
            "REPRISE_BACKEND": kernel.backend,
            **env,
        },
    )
    return shown.returncode, json.loads(shown.stdout)


def test_verify_is_served_from_the_record_whatever_the_rules_are_here_now(
    kernels: Kernels, host: Host, trusted: str
) -> None:
    kernel, client = begun(kernels, host, trusted, record=True)
    client.prints("print(fetch('/a'), fetch('/a'))")
    client.shell(f"curl -sS {host.url}/by-command")
    kernel.shutdown()
    asked = list(host.asked)
    host.stop()
    # In the environment `default`, in which nothing may be asked of anybody.
    code, report = verified(kernels, kernel)
    assert code == 0, report
    assert host.asked == asked == ["GET /a", "GET /a", "GET /by-command"]
