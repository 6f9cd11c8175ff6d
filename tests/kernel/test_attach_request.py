"""A live kernel goes over to another session: a fork, a rewind; the page and its clients stay."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from reprise.jupyter.sidecar import read_sidecar
from reprise.log.postgres import Log
from tests.fixtures.kernel import Client, Kernel, Kernels


@pytest.fixture(params=["process", "bubblewrap"])
def kernel(request: pytest.FixtureRequest, kernels: Kernels) -> Kernel:
    return kernels(request.param)


def fork(kernels: Kernels, session: uuid.UUID, at: int | None = None) -> uuid.UUID:
    async def forked() -> uuid.UUID:
        log = await Log.connect(kernels.database.dsn, home=kernels.database.home)
        try:
            return await log.fork(session, at)
        finally:
            await log.close()

    return asyncio.run(forked())


def attach(client: Client, session: uuid.UUID | str, **more: Any) -> dict[str, Any]:
    content = {"session": str(session), **more}
    found: dict[str, Any] = client.ask("attach_request", content, channel="control")
    return found


def test_a_rewound_notebook_goes_on_from_where_it_was(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    client.prints("x = [1]")
    last = client.run("open('f', 'w').write('one'); x").heard
    assert last
    steps = len(kernels.read(kernel).steps)
    client.prints("x.append(2); open('f', 'w').write('two')")
    forked = fork(kernels, kernel.session, steps - 1)
    reply = attach(client, forked)
    assert (reply["status"], reply["session"], reply["steps"]) == ("ok", str(forked), steps)
    assert client.wait(lambda h: h.type == "reprise_attached").content == {"session": str(forked)}
    ran = client.run("print(x); len(x)")
    assert ran.text() == "[1]\n"
    assert ran.reply["execution_count"] == 3  # the numbers go on from the fork's
    if kernel.backend == "bubblewrap":
        assert client.prints("print(open('f').read())") == "one"
    sidecar = read_sidecar(kernel.path)
    assert sidecar is not None
    assert sidecar["session"] == str(forked)
    # The session that was left is whole, and free for another kernel.
    other = kernels(kernel.backend, session=kernel.session)
    assert other.client().prints("print(x)") == "[1, 2]"
    kernel.session = forked
    assert kernels.read(kernel).report.ok


def test_a_restarted_kernel_stays_where_it_was_sent(kernels: Kernels) -> None:
    kernel = kernels(named=False)
    client = kernel.client()
    client.prints("x = 1")
    sidecar = read_sidecar(kernel.path)
    assert sidecar is not None
    begun = uuid.UUID(sidecar["session"])
    forked = fork(kernels, begun)
    assert attach(client, forked)["status"] == "ok"
    client.prints("x = 2")
    kernel.kill("router")
    kernel.close_clients()
    again = kernels(path=kernel.path, folder=kernel.folder, named=False)
    assert again.client().prints("print(x)") == "2"
    sidecar = read_sidecar(again.path)
    assert sidecar is not None
    assert sidecar["session"] == str(forked)


def test_while_a_step_runs_it_is_refused_unless_that_is_interrupted(
    kernel: Kernel, kernels: Kernels
) -> None:
    client = kernel.client()
    client.prints("x = 1")
    running = client.execute("print('begun', flush=True)\nimport time; time.sleep(1000)")
    client.shows(running, "begun")
    forked = fork(kernels, kernel.session)
    refused = attach(client, forked)
    assert refused["status"] == "error"
    assert "running" in refused["evalue"]
    assert attach(client, forked, interrupt=True)["status"] == "ok"
    assert client.finish(running).status == "error"
    assert client.prints("print(x)") == "1"
    assert kernels.read(kernel).statuses() == ["ok", "interrupted"]
    kernel.session = forked
    assert kernels.read(kernel).statuses() == ["ok", "ok"]


def test_a_session_that_cannot_be_had_leaves_the_kernel_where_it_is(
    kernel: Kernel, kernels: Kernels
) -> None:
    client = kernel.client()
    client.prints("x = 'mine'")
    for wrong in (str(uuid.uuid4()), "", "x", "{" + str(kernel.session)[1:-1] + "}"):
        assert attach(client, wrong)["status"] == "error", wrong
    other = kernels(kernel.backend)
    other.client().prints("y = 1")
    held = attach(client, other.session)
    assert (held["status"], held["ename"]) == ("error", "LeaseHeld")
    assert client.prints("print(x)") == "mine"
    assert attach(client, kernel.session)["status"] == "ok"  # where it is already
    assert client.prints("print(x)") == "mine"


def test_back_and_forth_between_two_sessions(kernel: Kernel, kernels: Kernels) -> None:
    client = kernel.client()
    client.prints("x = 0")
    here, there = kernel.session, fork(kernels, kernel.session)
    for number in range(1, 4):
        assert attach(client, there)["status"] == "ok"
        assert client.prints("x += 10; print(x)") == str(number * 10)
        assert attach(client, here)["status"] == "ok"
        assert client.prints("x += 1; print(x)") == str(number)
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert not [n for n in recorded.notices if n.code == "divergence"]
