"""How a session stands, over REST: of a running kernel, of one at rest, of one held elsewhere."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from reprise.errors import SessionNotFound
from reprise.log.postgres import Log
from reprise_server.api import parts
from tests.fixtures.histories import with_log
from tests.fixtures.kernel import Database, Kernel, Kernels
from tests.fixtures.server import PATIENCE, JupyterServer, Serve


@pytest.fixture(scope="module")
def server(serve: Serve, database: Database) -> JupyterServer:
    return serve(dsn=database.dsn, home=database.home, env={"REPRISE_BACKEND": "process"})


@pytest.fixture(scope="module")
def client(server: JupyterServer) -> httpx.Client:
    return server.client("alice")


def eventually(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def held(database: Database, kernel: Kernel) -> bool:
    async def look(log: Log) -> bool:
        try:
            return (await (await log.reader(kernel.session)).info()).holder is not None
        except SessionNotFound:
            return False

    return bool(with_log(database, look))


def test_of_a_running_kernel_and_of_one_at_rest(
    client: httpx.Client, kernels: Kernels, database: Database
) -> None:
    kernel = kernels("process")
    page = kernel.client()
    page.run("x = 1")
    found = client.get(f"sessions/{kernel.session}/status").json()
    said = page.ask("status_request", channel="control")
    assert said.pop("status") == "ok"
    for answer in (found, said):
        answer["memory"] = None
    assert found == said
    assert (found["state"], found["session"]) == ("ready", str(kernel.session))
    wanted = parts.document().validator("/components/schemas/LiveStatus")
    assert wanted.is_valid({**said, "memory": {"used": 1, "limit": None}})
    kernel.kill("router")
    eventually(lambda: not held(database, kernel))
    found = client.get(f"sessions/{kernel.session}/status").json()
    assert (found["state"], found["steps"], found["held"]) == ("resting", said["steps"], None)
    assert found["plan"]["steps"] == said["steps"]
    assert found["environment"]["digest"] == said["environment"]["digest"]
    assert found["output"] == said["output"]
    assert found["backend"]["name"] == "process"
    resumed = client.post(f"sessions/{kernel.session}/resume", json={"op": "start"})
    assert (resumed.status_code, resumed.json()["error"]["code"]) == (409, "no-kernel")


def test_of_one_that_a_kernel_on_another_machine_holds(
    client: httpx.Client, database: Database
) -> None:
    async def hold(log: Log) -> tuple[uuid.UUID, dict[str, Any]]:
        session = await log.begin(kernel="python3")
        writer = await log.acquire(session, {"host": "elsewhere", "pid": 1, "since": "noon"})
        answer = await asyncio.to_thread(client.get, f"sessions/{session}/status")
        await writer.close()
        return session, answer.json()

    session, found = with_log(database, hold)
    assert (found["state"], found["held"]["host"]) == ("held", "elsewhere")
    assert str(session) in found["text"]
    assert client.get(f"sessions/{session}/status").json()["state"] == "resting"


def test_a_resume_is_stopped_and_gone_on_with(client: httpx.Client, kernels: Kernels) -> None:
    kernel = kernels("process")
    page = kernel.client()
    for _ in range(3):
        page.run("import time; time.sleep(1.5)")
    kernel.kill("router")
    kernel = kernels.again(kernel)
    page = kernel.client()
    page.wait(lambda h: h.type == "reprise_progress" and h.content["done"] == 1)
    address = f"sessions/{kernel.session}"
    assert client.get(f"{address}/status").json()["resume"]["remaining_s"] > 0
    assert client.post(f"{address}/resume", json={"op": "cancel"}).status_code == 200
    eventually(lambda: client.get(f"{address}/status").json()["state"] == "stopped")
    assert client.post(f"{address}/resume", json={"op": "start"}).json()["state"] == "resuming"
    eventually(lambda: client.get(f"{address}/status").json()["state"] == "ready")
    refused = client.post(f"{address}/resume", json={"op": "hurry"})
    assert (refused.status_code, refused.json()["error"]["where"]) == (400, "/op")


def test_which_session_a_kernel_of_the_server_has(
    client: httpx.Client, server: JupyterServer
) -> None:
    started = {}
    for name in ("reprise", "python3"):
        answer = client.post(f"{server.url}api/kernels", json={"name": name})
        assert answer.status_code == 201, answer.text
        started[name] = answer.json()["id"]
    found = eventually(
        lambda: (
            said
            if (said := client.get(f"kernels/{started['reprise']}").json())["session"]
            else None
        )
    )
    assert found["reprise"] is True
    assert client.get(f"sessions/{found['session']}/status").json()["session"] == found["session"]
    other = client.get(f"kernels/{started['python3']}").json()
    assert other == {"kernel": started["python3"], "reprise": False, "session": None}
    none = client.get(f"kernels/{uuid.uuid4()}")
    assert (none.status_code, none.json()["error"]["code"]) == (404, "kernel-not-found")
    for each in started.values():
        assert client.delete(f"{server.url}api/kernels/{each}").status_code == 204
