"""Environments over REST: what they say, which hosts they allow and who may say so, jobs on them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fixtures.agent_server import PAGE
from tests.fixtures.commands import Reprise
from tests.fixtures.kernel import Database
from tests.fixtures.server import PATIENCE, JupyterServer, Serve
from tests.fixtures.wheels import Wheelhouse


@pytest.fixture(scope="module")
def server(
    serve: Serve, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> JupyterServer:
    home = tmp_path_factory.mktemp("environments")
    return serve(dsn=database.dsn, home=home, people=False)


@pytest.fixture(scope="module")
def client(server: JupyterServer) -> httpx.Client:
    return server.client()


@pytest.fixture(scope="module")
def folder(server: JupyterServer) -> Path:
    """Where the files of environments lie."""
    found = server.home / "environments"
    found.mkdir(exist_ok=True)
    return found


def ended(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    """A job once it has ended."""
    deadline = time.monotonic() + PATIENCE
    while job["state"] not in ("done", "failed", "cancelled"):
        assert time.monotonic() < deadline, job
        query = {"version": job["version"], "wait": 10}
        job = client.get(f"jobs/{job['id']}", params=query).json()
    return job


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_they_are_listed_and_shown(client: httpx.Client, folder: Path) -> None:
    (folder / "ours.json").write_text(
        json.dumps(
            {
                "limits": {"memory": 1 << 30},
                "network": {
                    "allow": ["api.example.org"],
                    "secrets": [
                        {
                            "host": "api.example.org",
                            "header": "Authorization",
                            "prefix": "Bearer ",
                            "source": "file:/home/alice/.secret-key",
                        }
                    ],
                },
            }
        )
    )
    (folder / "broken.json").write_text("{")
    said = client.get("environments").json()
    assert [each["environment"] for each in said["environments"]] == ["default", "ours"]
    assert "not JSON" in said["broken"]["broken"]
    assert said["environments"][1]["network"] == ["api.example.org"]
    assert (said["usual"], said["backend"], said["isolated"]) == ("default", "process", False)
    shown = client.get("environments/ours").json()
    assert shown["limits"]["memory"] == 1 << 30
    assert shown["set"] == ["memory"]
    assert "ipykernel" in shown["packages"]
    assert shown["network"]["open"]
    # For whom there is a credential is told; where it is kept is not.
    assert shown["network"]["secrets"] == [{"host": "api.example.org", "header": "Authorization"}]
    assert "secret-key" not in json.dumps(shown)
    found = client.get("environment-differences", params={"old": "default", "new": "ours"}).json()
    assert any("memory" in each for each in found["differences"])
    same = client.get("environment-differences", params={"old": "ours", "new": "ours"}).json()
    assert same["differences"] == []


@pytest.mark.parametrize(
    "name", ["nobody", "..", "%2e%2e%2fdefault", "a%00", "A" * 65, "ours.json"]
)
def test_what_is_no_environment_is_not_there(client: httpx.Client, name: str) -> None:
    for path in ("", "/lock", "/network"):
        answer = client.get(f"environments/{name}{path}")
        assert answer.status_code == 404, answer.text
    assert code(client.post(f"environments/{name}/check"))[0] == 404
    query = {"old": "default", "new": "nobody-knows"}
    answer = client.get("environment-differences", params=query)
    assert code(answer) == (404, "environment-not-found")


def test_hosts_are_allowed_and_taken_back(client: httpx.Client, folder: Path) -> None:
    def allowed(*places: str, private: bool = False) -> httpx.Response:
        body = {"places": list(places), "private": private}
        return client.post("environments/default/network/allow", json=body)

    said = allowed("example.org", "*.example.net:8443").json()
    assert said["network"]["allow"] == ["*.example.net:8443", "example.org"]
    # An address that would never be dialled under such a rule is refused, and nothing changes.
    assert code(allowed("example.com", "127.0.0.1")) == (400, "usage")
    assert code(allowed("http://example.com/")) == (400, "usage")
    assert client.get("environments/default/network").json()["network"] == said["network"]
    # A page is told at once, before anybody is asked to press.
    for name, place, refused in (
        ("default", "http://example.com/", (400, "usage")),
        ("nobody", "example.com", (404, "environment-not-found")),
        ("default", "example.com", (428, "decision-needed")),
    ):
        answer = client.post(
            f"environments/{name}/network/allow", json={"places": [place]}, headers=PAGE
        )
        assert code(answer) == refused
    assert allowed("10.1.2.3:80", private=True).json()["network"]["private"] == ["10.1.2.3:80"]
    body = {"places": ["example.org", "*.example.net:8443", "10.1.2.3:80"]}
    said = client.post("environments/default/network/deny", json=body).json()
    assert not said["network"]["open"]
    assert code(client.post("environments/default/network/deny", json=body)) == (400, "usage")
    assert code(client.get("environments/default/lock")) == (404, "no-lock")


def test_a_lock_becomes_an_environment_and_is_compared_with_it_in_jobs(
    serve: Serve, database: Database, wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    env = Reprise(tmp_path / "one", {**wheelhouse.variables, "REPRISE_DATABASE_IDLE": "5"})
    (tmp_path / "one").mkdir(mode=0o700)
    wanted = tmp_path / "requirements.txt"
    wanted.write_text("tiny\n")
    made = env("env", "create", "stats", "--requirements", str(wanted))
    assert made.returncode == 0, made.stderr
    lock = env("env", "lock", "stats").stdout

    home = tmp_path / "other"
    home.mkdir(mode=0o700)
    server = serve(dsn=database.dsn, home=home, people=False, env=wheelhouse.variables)
    client = server.client()
    sent = {"environment": "stats", "lock": lock}
    job = client.post("environments", json=sent).json()
    found = ended(client, job)
    assert found["state"] == "done", found
    assert "tiny" in found["summary"]["packages"]
    assert client.get("environments/stats/lock").json()["lock"] == lock
    assert code(client.post("environments", json=sent)) == (400, "usage")  # the name is taken

    asked = client.post("environments/stats/check")
    assert asked.status_code == 202
    checked = ended(client, asked.json())
    assert checked["state"] == "done", checked
    assert checked["kind"] == "environment-check"
    assert checked["summary"]["files"] > 0
    assert (checked["summary"]["ok"], checked["summary"]["problems"]) == (True, [])
    (module,) = [path for path in home.rglob("tiny*.py") if "prefix" in path.parts]
    module.chmod(0o644)
    module.write_text("changed = True")
    checked = ended(client, client.post("environments/stats/check").json())
    assert not checked["summary"]["ok"]

    other = client.post("environments", json={"environment": "more", "from": "stats"})
    assert (other.status_code, other.json()["built"]) == (201, found["summary"]["built"])
    assert code(client.post("environments", json={"environment": "x", "from": "gone"}))[0] == 404
    broken = {"environment": "bad", "lock": lock.replace("tiny", "tinier")}
    failed = ended(client, client.post("environments", json=broken).json())
    assert failed["state"] == "failed"
    assert failed["error"]["message"]
    assert client.get("environments/bad").status_code == 404
    assert client.delete("environments/more").status_code == 204
    assert client.get("environments/more").status_code == 404
    assert code(client.delete("environments/default")) == (400, "usage")
