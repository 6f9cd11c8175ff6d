"""Skills come from a Git repository over REST: in a job, by https only, pinned, and for oneself."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import websocket

from tests.fixtures.git_server import GitServer
from tests.fixtures.kernel import Database
from tests.fixtures.server import PATIENCE, JupyterServer, Serve
from tests.fixtures.skill_sources import Git

TEXT = "---\nname: {0}\ndescription: Does {0}.\n---\nx\n"


def repository(git_server: GitServer, *names: str) -> str:
    """A repository with these skills, and one that is none; its commit."""
    made = Git(git_server.root / "skills.git")
    files = {f"{name}/SKILL.md": ("100644", TEXT.format(name).encode()) for name in names}
    return made.commit(made.folder({**files, "broken/SKILL.md": ("100644", b"nothing")}))


def ended(client: httpx.Client, job: dict[str, Any]) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while job["state"] not in ("done", "failed", "cancelled"):
        assert time.monotonic() < deadline, job
        query = {"version": job["version"], "wait": 10}
        job = client.get(f"jobs/{job['id']}", params=query).json()
    return job


@pytest.fixture
def server(serve: Serve, database: Database, git_server: GitServer) -> JupyterServer:
    # The server inherits that git trusts the certificate of the tests.
    return serve(dsn=database.dsn, home=database.home, people=False)


def test_a_repository_comes_in_as_it_stands(
    server: JupyterServer, git_server: GitServer, tmp_path: Path
) -> None:
    commit = repository(git_server, "first-skill", "second-skill")
    client = server.client()
    source = git_server.url("skills.git", "user:secret-word")
    told = websocket.create_connection(
        f"{server.url.replace('http://', 'ws://')}api/events/subscribe",
        header=["Authorization: token t"],
        timeout=PATIENCE,
    )
    job = client.post("skill-imports", json={"source": source, "note": "from the team"})
    assert job.status_code == 202
    found = ended(client, job.json())
    assert found["state"] == "done", found
    assert found["summary"] == {"counts": {"new": 2, "refused": 1}}
    assert "secret-word" not in str(found)
    heard = [json.loads(told.recv()) for _ in range(4)]
    told.close()
    assert "secret-word" not in str(heard)
    skills = [each for each in heard if each["schema_id"] == "urn:jupyter-reprise:skill:1"]
    assert {each["name"] for each in skills} == {"first-skill", "second-skill"}
    assert {(each["action"], each["by"]) for each in skills} == {("added", "anonymous")}
    said = client.get(f"jobs/{found['id']}/result").json()
    assert "secret-word" not in str(said)
    version = client.get("skills/first-skill").json()["version"]
    assert version["origin"]["kind"] == "git"
    assert version["origin"]["commit"] == commit
    assert version["origin"]["where"] == git_server.url("skills.git")
    assert version["note"] == "from the team"
    assert version["standing"] == "untrusted"

    again = ended(client, client.post("skill-imports", json={"source": source}).json())
    assert again["summary"] == {"counts": {"unchanged": 2, "refused": 1}}
    one = {"source": source, "names": ["second-skill"], "ref": commit}
    assert ended(client, client.post("skill-imports", json=one).json())["summary"] == {
        "counts": {"unchanged": 1}
    }
    # What is not there is said by the job.
    gone = {"source": git_server.url("nothing.git")}
    failed = ended(client, client.post("skill-imports", json=gone).json())
    assert failed["state"] == "failed"
    assert failed["error"]["message"]
    # Nothing but a repository elsewhere is looked at: no path of the server's machine.
    for other in (
        str(tmp_path / "work"),
        f"file://{tmp_path}/work",
        "ssh://localhost/x",
        "localhost:x",
        "ext::sh -c true",
        "http://localhost/x",
        "https://localhost/x\n",
        "https://local host/x",
    ):
        answer = client.post("skill-imports", json={"source": other})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid-request")
    assert client.post("skill-imports", json={"source": "https://x/?a=b"}).status_code == 400
