"""The database goes and comes back, listeners hear what happened, the server stops and lets go."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import websocket
from jupyter_events import EventLogger

from reprise.errors import DatabaseUnavailable
from reprise_server.api import parts
from reprise_server.api.refusals import Refused, refusal
from reprise_server.api.service import Service
from reprise_server.settings import RepriseApi
from tests.fixtures.kernel import Database, run_database
from tests.fixtures.postgres import run_server
from tests.fixtures.server import PATIENCE, JupyterServer, Serve


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database that these tests may stop."""
    for server in run_server():
        yield from run_database(server, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def server(serve: Serve, mortal: Database) -> JupyterServer:
    return serve(
        dsn=mortal.dsn, home=mortal.home, people=False, options=["--RepriseApi.patience=3"]
    )


@pytest.fixture(scope="module")
def client(server: JupyterServer) -> httpx.Client:
    return server.client()


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def connections(mortal: Database) -> int:
    name = mortal.dsn.split("dbname=")[1].split()[0]
    with mortal.server.admin() as admin:
        (row,) = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s", [name]
        ).fetchall()
    return int(str(row[0]))


def added(client: httpx.Client, name: str) -> Any:
    text = f"---\nname: {name}\ndescription: Waits.\n---\nx\n"
    return client.post(
        "skills", json={"folder": name, "files": [{"path": "SKILL.md", "text": text}]}
    )


def test_a_database_that_went_is_said_and_found_again(
    client: httpx.Client, server: JupyterServer, mortal: Database
) -> None:
    assert added(client, "before").status_code == 201
    mortal.server.stop()
    try:
        for path in ("skills", "environments", "skills/before"):
            answer = client.get(path)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (503, "database-unavailable")
            assert answer.headers["Retry-After"]
            # Where it is, is for the operator's eyes: it stands in the server's own log.
            assert str(mortal.server.socket) not in answer.text
            assert "reprise_" not in answer.text
        assert str(mortal.server.socket) in server.said()
        # What needs no database goes on.
        assert client.get("openapi.json").status_code == 200
        assert client.get("environments/default/network").status_code == 200
    finally:
        mortal.server.start()
    assert [each["name"] for each in client.get("skills").json()["skills"]] == ["before"]


def test_a_database_that_hangs_keeps_nobody_waiting_for_long(
    client: httpx.Client, mortal: Database
) -> None:
    mortal.server.pause()
    try:
        answer = client.get("skills")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "took-too-long")
        assert client.get("openapi.json").status_code == 200
    finally:
        mortal.server.resume()
    eventually(lambda: client.get("skills").status_code == 200)


@pytest.fixture
async def service(
    mortal: Database, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Callable[[str], Service]]:
    """Makes what all handlers of a server share, on the database of a DSN."""
    monkeypatch.setenv("REPRISE_HOME", str(mortal.home))
    made = []

    def make(dsn: str) -> Service:
        monkeypatch.setenv("REPRISE_DSN", dsn)
        made.append(Service(RepriseApi(), parts.document, EventLogger(), logging.getLogger()))
        return made[-1]

    yield make
    for each in made:
        await each.close()


async def test_a_server_that_began_without_its_database_finds_it_later(
    service: Callable[[str], Service], mortal: Database
) -> None:
    begun = service(mortal.dsn)
    mortal.server.stop()
    try:
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable):
                await begun.login()
    finally:
        mortal.server.start()
    assert await begun.login() == "postgres"
    await begun.close()
    with pytest.raises(Refused):
        await begun.log()


async def test_a_database_that_says_no_is_one_that_is_not_there(
    service: Callable[[str], Service], mortal: Database
) -> None:
    """A login that may not act as the kernel's role: why is for the operator's eyes."""
    with mortal.server.admin() as admin:
        admin.execute("CREATE ROLE outsider LOGIN")
    with pytest.raises(DatabaseUnavailable) as caught:
        await service(mortal.dsn.replace("user=postgres", "user=outsider")).login()
    assert "reprise_kernel" in str(caught.value)
    told = refusal(caught.value)
    assert (told.status_code, told.code) == (503, "database-unavailable")
    assert "reprise_kernel" not in str(told.to_json())


def test_a_server_that_stops_leaves_nothing_behind(serve: Serve, mortal: Database) -> None:
    before = connections(mortal)
    server = serve(dsn=mortal.dsn, home=mortal.home, people=False)
    assert server.client().get("skills").status_code == 200
    assert connections(mortal) == before + 1
    assert server.stop() == 0
    eventually(lambda: connections(mortal) == before)
    said = server.said()
    assert "Traceback" not in said
    assert "never awaited" not in said


def test_an_unused_server_opens_no_database(serve: Serve, tmp_path: Path) -> None:
    """The embedded one is started with the first use, not with JupyterLab."""
    home = tmp_path / "home"
    server = serve(home=home, people=False)
    assert server.client().get("openapi.json").status_code == 200
    assert server.client(None).get("skills").status_code == 403
    assert not (home / "postgres").exists()


# events -------------------------------------------------------------------------------------------


@pytest.fixture
def events(server: JupyterServer) -> Iterator[websocket.WebSocket]:
    """What Jupyter's own endpoint tells a listener."""
    at = server.url.replace("http://", "ws://")
    connected = websocket.create_connection(
        f"{at}api/events/subscribe", header=["Authorization: token t"], timeout=PATIENCE
    )
    yield connected
    connected.close()


def heard(events: websocket.WebSocket, schema: str) -> dict[str, Any]:
    """The next event of ours with that schema."""
    while True:
        said: dict[str, Any] = json.loads(events.recv())
        if said["schema_id"] == f"urn:jupyter-reprise:{schema}:1":
            return said


def test_listeners_hear_what_was_done_after_it_was_done(
    client: httpx.Client, events: websocket.WebSocket
) -> None:
    version = added(client, "told").json()["skills"][0]["version"]
    said = heard(events, "skill")
    wanted = {"action": "added", "by": "anonymous", "scope": "personal", "name": "told"}
    assert wanted.items() <= said.items()
    assert (said["number"], said["digest"]) == (1, version["digest"])

    trust = {"digest": version["digest"], "scope": "personal", "reason": "mine"}
    assert client.post("skills/told/trust", json=trust).json()["standing"] == "trusted"
    assert heard(events, "skill")["action"] == "trusted"
    exact = {"digest": version["digest"]}
    assert client.post("skills/told@1/release", json=exact).status_code == 200
    assert heard(events, "skill")["action"] == "released"
    assert client.post("skills/told/revoke", json=trust).json()["standing"] == "revoked"
    assert heard(events, "skill")["action"] == "revoked"

    # What was refused is no event: the next one heard is of what was done.
    assert client.post("skills/told/trust", json=trust).status_code == 403
    body = {"places": ["example.org"]}
    assert client.post("environments/default/network/allow", json=body).status_code == 200
    said = heard(events, "environment")
    assert (said["action"], said["places"]) == ("hosts-allowed", ["example.org"])
    assert client.post("environments/default/network/deny", json=body).status_code == 200
    assert heard(events, "environment")["action"] == "hosts-denied"
