"""What is chosen for one session over REST: pressed where it widens, denied by policies, told."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fixtures.agent_server import FRAME, PAGE, refused
from tests.fixtures.histories import Part, cell, history
from tests.fixtures.kernel import Database, Kernel, Kernels
from tests.fixtures.server import JupyterServer, Serve
from tests.server.test_api_sessions_acts import live


@pytest.fixture(scope="module")
def server(
    serve: Serve, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> JupyterServer:
    file: Path = tmp_path_factory.mktemp("policy") / "server.yaml"
    file.write_text(
        "rules:\n"
        "  - {name: no-rivals, decision: deny, why: Ask the data office., host: '*.rival.example'}\n"
        "  - {name: no-mcp, decision: deny, effect: outside}\n"
    )
    return serve(
        dsn=database.dsn,
        home=database.home,
        people=False,
        env={"REPRISE_BACKEND": "bubblewrap"},
        options=[f"--RepriseAgent.policy_file={file}"],
    )


@pytest.fixture(scope="module")
def client(server: JupyterServer) -> httpx.Client:
    return server.client()


@pytest.fixture(scope="module")
def environments(database: Database, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = database.home / "environments"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "closed.json").write_text("{}")
    (folder / "inside.json").write_text(json.dumps({"network": {"private": ["a.example"]}}))
    mount = {
        "source": str(tmp_path_factory.mktemp("data")),
        "target": "/data/x",
        "manifest": "0" * 64,
    }
    (folder / "data.json").write_text(json.dumps({"mounts": [mount]}))
    (folder / "open.json").write_text(json.dumps({"network": {"allow": ["a.example"]}}))


@pytest.fixture(scope="module")
def kernel(module_kernels: Kernels, database: Database, environments: None) -> Iterator[Kernel]:
    with live(module_kernels, database) as found:
        found.client().run("x = 1; open('a.txt', 'w').write('a')")
        yield found


def test_a_session_is_begun_in_an_environment_that_is_there(
    client: httpx.Client, environments: None
) -> None:
    answer = client.post("sessions", json={"environment": "nowhere"})
    refused(answer, 404, "environment-not-found")
    session = client.post("sessions", json={"environment": "open"}).json()["id"]
    told = client.get(f"sessions/{session}/environment").json()
    assert told == {
        "session": session,
        "chosen": "open",
        "allow": [],
        "private": [],
        "running": None,
        "next": {"environment": "open", "network": ["a.example"]},
        "gone": None,
    }
    plain = client.post("sessions", json={}).json()["id"]
    told = client.get(f"sessions/{plain}/environment").json()
    assert (told["chosen"], told["next"]["environment"]) == (None, "default")
    refused(client.get(f"sessions/{uuid.uuid4()}/environment"), 404, "session-not-found")
    # Nothing of it is left behind.
    assert client.delete(f"sessions/{session}").status_code == 200
    again = client.post("sessions", json={"session": session}).json()["id"]
    assert client.get(f"sessions/{again}/environment").json()["chosen"] is None


def test_beginning_a_session_moves_none_that_is_there(
    client: httpx.Client, database: Database, environments: None
) -> None:
    session = history(database, [Part(cell("open('secret.txt', 'w')"))])
    body = {"session": session, "environment": "open"}
    for headers in ({}, PAGE):
        refused(client.post("sessions", json=body, headers=headers), 409, "id-taken")
        assert client.get(f"sessions/{session}/environment").json()["chosen"] is None
    # Whoever did not hear the answer asks again.
    new = {"session": str(uuid.uuid4()), "environment": "open"}
    assert [client.post("sessions", json=new).status_code for _ in range(2)] == [201, 201]
    assert client.get(f"sessions/{new['session']}/environment").json()["chosen"] == "open"


def test_without_its_files_a_session_goes_nowhere(client: httpx.Client, environments: None) -> None:
    session = client.post("sessions", json={}).json()["id"]
    answer = client.post(f"sessions/{session}/environment", json={"environment": "closed"})
    refused(answer, 409, "no-kernel")
    answer = client.post(f"sessions/{session}/environment", json={"environment": "nowhere"})
    refused(answer, 404, "environment-not-found")


def test_going_to_where_more_can_be_reached_is_pressed(
    client: httpx.Client, kernel: Kernel
) -> None:
    path = f"sessions/{kernel.session}/environment"
    found = refused(
        client.post(path, json={"environment": "open"}, headers=PAGE), 428, "decision-needed"
    )
    frame = client.get(f"decisions/{found['decision']}").json()
    assert "use environment" in frame["title"]
    assert client.get(path).json()["running"]["environment"] == "default"
    for name, word in (
        ("inside", "private addresses of a.example"),
        ("data", "the data at /data/x"),
    ):
        found = refused(
            client.post(path, json={"environment": name}, headers=PAGE), 428, "decision-needed"
        )
        shown = client.get(f"decisions/{found['decision']}/frame", headers=FRAME).text
        assert word in shown
    # Where no more can be reached, nobody is asked; what was allowed for the session stays behind.
    allowed = f"sessions/{kernel.session}/network/allow"
    assert client.post(allowed, json={"places": ["b.example"]}).status_code == 200
    made = client.post(path, json={"environment": "closed"}, headers=PAGE)
    assert made.status_code == 201, made.text
    assert (made.json()["parent"], made.json()["environment"]) == (str(kernel.session), "closed")
    told = client.get(f"sessions/{made.json()['session']}/environment").json()
    assert (told["chosen"], told["next"]) == ("closed", {"environment": "closed", "network": []})
    assert told["running"]["environment"] == "default"  # until its kernel is restarted
    assert client.get(path).json()["allow"] == ["b.example"]


def test_hosts_of_a_session_are_pressed_judged_and_taken_back(client: httpx.Client) -> None:
    session = client.post("sessions", json={"environment": "default"}).json()["id"]
    allow, deny = (f"sessions/{session}/network/{act}" for act in ("allow", "deny"))
    body = {"places": ["c.example:8443", "d.example"]}
    refused(client.post(allow, json=body, headers=PAGE), 428, "decision-needed")
    said = client.post(allow, json=body).json()
    assert said["allow"] == ["c.example:8443", "d.example"]
    assert said["next"]["network"] == ["c.example:8443", "d.example"]
    # A rule that names a host keeps people from opening it, too; one about the agent does not.
    for place in ("data.rival.example", "data.rival.example:8443", "*.rival.example"):
        error = refused(client.post(allow, json={"places": [place]}), 403, "denied-by-policy")
        assert error["rule"] == "server/no-rivals"
        assert "Ask the data office." in error["message"]
    everywhere = client.post(
        "environments/default/network/allow", json={"places": ["x.rival.example"]}
    )
    refused(everywhere, 403, "denied-by-policy")
    refused(client.post(allow, json={"places": ["127.0.0.1:80"]}), 400, "usage")
    refused(client.post(deny, json={"places": ["e.example"]}), 400, "usage")
    said = client.post(deny, json=body, headers=PAGE).json()  # taking back asks nobody
    assert (said["allow"], said["next"]["network"]) == ([], [])
