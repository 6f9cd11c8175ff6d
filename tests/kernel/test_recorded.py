"""A session whose steps asked hosts is replayed without them: on resume, by verify, elsewhere."""

from __future__ import annotations

import hashlib
import http.server
import json
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.kernel import Client, Database, Kernel, Kernels
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
    following = kernels.again(kernel, REPRISE_ENVIRONMENT=f"net-{host.port}", SSL_CERT_FILE=trusted)
    return following, following.client()


def test_a_resume_is_served_from_the_record(kernels: Kernels, host: Host, trusted: str) -> None:
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


def test_without_record_a_replay_asks_again(kernels: Kernels, host: Host, trusted: str) -> None:
    kernel, client = begun(kernels, host, trusted)
    assert client.run("fetch('/a')").error == "URLError"  # the host's certificate is not opened
    curl = client.shell(f"curl -sSk {host.url}/a")
    assert curl.reply["status"] == "ok"
    again(kernels, kernel, host, trusted)[1].prints("1")
    assert host.asked.count("GET /a") == 2


def test_what_a_program_read_in_part_is_replayed(
    kernels: Kernels, host: Host, trusted: str
) -> None:
    kernel, client = begun(kernels, host, trusted, record=True)
    client.prints(
        "with urllib.request.urlopen(URL + '/large') as response: head = response.read(100)"
    )
    shown = client.prints("print(head)")
    host.stop()
    kernel, client = again(kernels, kernel, host, trusted)
    assert client.prints("print(head)") == shown


def test_a_replay_that_asks_for_something_else_is_told_so(
    kernels: Kernels, host: Host, trusted: str
) -> None:
    kernel, client = begun(kernels, host, trusted, record=True)
    client.prints("import os; got = fetch(f'/{os.urandom(8).hex()}')")
    host.stop()
    kernel, client = again(kernels, kernel, host, trusted)
    assert client.run("got").error == "NameError"
    said = [n.text for n in kernels.read(kernel).notices if n.code == "network-not-recorded"]
    assert len(said) == 1
    assert "In step 1 the record has no answer to GET" in said[0]


def test_the_key_of_a_service_is_nowhere_but_at_the_service(
    kernels: Kernels, host: Host, trusted: str
) -> None:
    place, key = f"{ADDRESS}:{host.port}", "a-key-of-the-operator-4711"
    secret = {"host": place, "header": "Authorization", "prefix": "Bearer ", "source": "env:MY_KEY"}
    name = environment(kernels.database, "secret", private=[place], record=True, secrets=[secret])
    env = {"REPRISE_ENVIRONMENT": name, "SSL_CERT_FILE": trusted, "MY_KEY": key}
    kernel = kernels("bubblewrap", **env)
    client = kernel.client()
    client.prints(f"URL = {host.url!r}\n{FETCH}")
    client.prints("import os; page = fetch('/a', Authorization='Bearer guess'); print(page)")
    assert host.headers[0]["authorization"] == f"Bearer {key}"
    looks = "import os, glob; print(os.environ, [open(f, 'rb').read() for f in glob.glob('/proc/*/environ')])"
    assert key not in client.run(looks).text()
    assert key not in client.shell("env; cat /proc/*/environ").text()
    host.stop()
    del env["MY_KEY"]
    kernel.kill("router")
    kernel = kernels.again(kernel, **env)
    assert "page" in kernel.client().prints("print('page' if page else '')")
    assert key not in kernels.database.everything()
    assert key not in kernel.log()


def test_on_another_machine_it_is_replayed_without_the_host(
    kernels: Kernels, host: Host, trusted: str, tmp_path: Path, database: Database
) -> None:
    kernel, client = begun(kernels, host, trusted, record=True)
    client.prints("pages = [fetch('/a'), fetch('/b')]; print(pages)")
    client.prints("large = fetch('/large')")
    kernel.shutdown()
    host.stop()
    bundle = tmp_path / "session.reprise"
    elsewhere = Database(database.server, database.server.create_database(), tmp_path / "home")
    elsewhere.home.mkdir(mode=0o700)
    for of, command in (
        (database, ["export", str(kernel.session), "--output", str(bundle)]),
        (elsewhere, ["import", str(bundle)]),
        (elsewhere, ["verify", str(kernel.session)]),
    ):
        shown = subprocess.run(
            [sys.executable, "-m", "reprise.cli", *command],
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PATH": "/usr/bin:/bin",
                "REPRISE_DSN": of.dsn,
                "REPRISE_HOME": str(of.home),
                "REPRISE_BACKEND": "bubblewrap",
            },
        )
        assert shown.returncode == 0, shown.stdout + shown.stderr
    assert len(host.asked) == 3


def test_steps_from_before_recording_are_asked_again_on_a_resume_and_never_by_verify(
    kernels: Kernels, host: Host, trusted: str
) -> None:
    kernel, client = begun(kernels, host, trusted)
    client.shell(f"curl -sSk {host.url}/before > before")
    assert client.shell("test -s before").reply["status"] == "ok"
    kernel.kill("router")
    rules = {"private": [f"{ADDRESS}:{host.port}"], "record": True}
    environment(kernels.database, f"net-{host.port}", **rules)
    kernel, client = again(kernels, kernel, host, trusted)
    client.prints("after = fetch('/after')")
    assert client.shell("test -s before").reply["status"] == "ok"
    # Recording came later, so the first run's answer is not there; the resume asked for another.
    assert host.asked == ["GET /before", "GET /before", "GET /after"]
    kernel.shutdown()
    code, report = verified(kernels, kernel)
    assert code == 1, report
    assert len(host.asked) == 3
