"""Kills each part of a kernel at each named point between "accepted" and "told the client"."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.faults.armed import LONG, Armed
from tests.faults.history import Sent
from tests.fixtures.kernel import PATIENCE, Database, Kernels

#: The points of a cell in their order.
NOT_STORED = ("before-accept", "before-step-commit")
NOT_SENT = ("after-step-commit", "accepted")
RUNNING = ("sent", "before-outputs", "outputs-stored")
ENDED = ("ended", "before-outcome", "before-outcome-commit")
STORED = ("after-outcome-commit", "outcome-recorded", "before-told", "told")
POINTS = (*NOT_STORED, *NOT_SENT, *RUNNING, *ENDED, *STORED)


def body(point: str) -> str:
    return LONG if point in RUNNING else f"print('{point}')"


class Cache:
    """One armed history a victim: the next point attacks what the last attack left."""

    def __init__(self, kernels: Kernels, folder: Path) -> None:
        self._kernels = kernels
        self._folder = folder
        self._armed: dict[str, Armed] = {}

    def __call__(self, victim: str, backend: str) -> Armed:
        key = f"{victim}-{backend}"
        # Taken out, and put back by `keep` when its test has passed.
        return self._armed.pop(key, None) or Armed(self._kernels, self._folder / key, backend)

    def keep(self, victim: str, armed: Armed) -> None:
        self._armed[f"{victim}-{armed.history.kernel.backend}"] = armed


@pytest.fixture(scope="module")
def cache(module_kernels: Kernels, tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(module_kernels, tmp_path_factory.mktemp("points"))


def status_of(armed: Armed, sent: Sent) -> str | None:
    """How the log says that a cell ended; None when it is no step."""
    for record in armed.history.kernels.read(armed.history.kernel).cells:
        if record.step.payload["header"]["msg_id"] == sent.msg_id:
            return "open" if record.outcome is None else record.outcome.status
    return None


def holds(armed: Armed) -> None:
    assert armed.history.violations() == []


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("victim", "backend"),
    [("language", "process"), ("guest", "process"), ("sandbox", "bubblewrap")],
)
def test_a_part_of_the_sandbox_dies_at(cache: Cache, victim: str, backend: str, point: str) -> None:
    armed = cache(victim, backend)
    sent = armed.run_to(point, body(point))
    armed.history.kernel.kill(victim)
    armed.go_on()
    armed.history.finish()
    status = status_of(armed, sent)
    if point in (*NOT_STORED, *NOT_SENT, *RUNNING):
        # It may have run to its end before the kill; the record says which.
        assert status in ("died", "ok")
        assert sent.reply is not None
        assert sent.reply["status"] == ("ok" if status == "ok" else "error")
    else:
        assert status == "ok"
    holds(armed)
    cache.keep(victim, armed)


@pytest.mark.parametrize("point", POINTS)
def test_postgres_dies_at(cache: Cache, database: Database, point: str) -> None:
    armed = cache("postgres", "process")
    sent = armed.run_to(point, body(point))
    database.server.stop(signal.SIGKILL)
    database.server.start()
    armed.go_on()
    armed.history.finish()
    assert sent.reply is not None
    assert sent.reply["status"] == "ok"
    assert status_of(armed, sent) == "ok"
    holds(armed)
    cache.keep("postgres", armed)


@pytest.mark.parametrize("point", POINTS)
def test_the_connection_is_lost_at(cache: Cache, database: Database, point: str) -> None:
    armed = cache("connection", "process")
    sent = armed.run_to(point, body(point))
    database.lose_connections()
    armed.go_on()
    armed.history.finish()
    assert sent.reply is not None
    assert sent.reply["status"] == "ok"
    assert status_of(armed, sent) == "ok"
    holds(armed)
    cache.keep("connection", armed)


@pytest.mark.parametrize("victim", ["router", "everything"])
@pytest.mark.parametrize("point", POINTS)
def test_the_router_dies_at(cache: Cache, database: Database, point: str, victim: str) -> None:
    armed = cache(victim, "process")
    sent = armed.run_to(point, body(point))
    if victim == "everything":
        database.server.stop(signal.SIGKILL)
        armed.history.kernel.kill("language")
    armed.history.kernel.kill("router")
    if victim == "everything":
        database.server.start()
    armed.again()
    _, in_file = armed.history.state()  # a cell: from here on the next writer has settled all
    status = status_of(armed, sent)
    if point in NOT_STORED:
        assert status is None
        assert sent.reply is None
    elif point in (*NOT_SENT, *RUNNING, *ENDED):
        assert status == "lost"
        assert sent.reply is None
    else:
        assert status == "ok"
    if point in NOT_SENT:
        assert sent.token not in in_file, "it ran although nobody sent it"
    holds(armed)
    cache.keep(victim, armed)


def test_the_router_dies_at_each_step_of_a_replay(cache: Cache) -> None:
    armed = cache("replay", "process")
    for number in range(3):
        armed.history.run(f"print({number})")
    for _ in range(3):
        armed.history.kernel.kill("router")
        armed.arm("replayed", "kill")
        # The client asks for kernel_info, which never waits for the replay; the kill may come
        # before the answer.
        armed.history.kernel.close_clients()
        armed.history.kernel = armed.history.kernels.again(armed.history.kernel, **armed.env)
        armed.history.kernel.wait()
    armed.again()
    holds(armed)


def test_a_database_that_fails_in_a_replay_leaves_no_half_replayed_state(
    cache: Cache, database: Database
) -> None:
    armed = cache("half", "process")
    for number in range(3):
        armed.history.run(f"print({number})")
    armed.arm("replayed", "pause")
    armed.history.kernel.kill("language")
    armed.wait_until_stopped()
    database.lose_connections()
    armed.go_on()
    holds(armed)


def test_a_router_that_dies_with_the_lease_leaves_it_free(cache: Cache) -> None:
    armed = cache("lease", "process")
    armed.history.run("print(1)")
    armed.history.kernel.kill("router")
    armed.arm("lease-taken", "kill")
    armed.history.kernel.close_clients()
    armed.history.kernel = armed.history.kernels.again(armed.history.kernel, **armed.env)
    armed.history.kernel.wait()
    began = time.monotonic()
    armed.again()
    holds(armed)
    assert time.monotonic() - began < PATIENCE / 3


@pytest.mark.parametrize(("point", "clean"), [("accepted", False), ("outcome-recorded", True)])
def test_the_router_dies_in_a_restart(cache: Cache, point: str, clean: bool) -> None:
    """A restart that was not recorded did not happen; one that was, did."""
    armed = cache("restart", "process")
    armed.history.run("print('old')")
    armed.history.learn()
    armed.arm(point, "kill")
    armed.history.client.request("shutdown_request", {"restart": True}, channel="control")
    armed.history.kernel.wait()
    armed.again()
    ran = armed.history.client.run("'ran' in globals()")
    assert ran.value == str(not clean)
    assert (ran.reply["execution_count"] == 1) is clean
    recorded = armed.history.kernels.read(armed.history.kernel)
    assert recorded.statuses("restart") == ["ok" if clean else "lost"]
    assert recorded.report.ok


@pytest.mark.parametrize("point", ["accepted", "before-outcome", "outcome-recorded"])
def test_the_router_dies_while_files_come_in(cache: Cache, point: str) -> None:
    armed = cache("upload", "bubblewrap")
    history = armed.history
    history.run("print('before')")
    (history.kernel.folder / "new.txt").write_text(point)
    armed.arm(point, "kill")
    history.send("print(open('new.txt').read())")
    history.kernel.wait()
    armed.again()
    assert history.run("print(open('new.txt').read())").text() == f"{point}\n"
    holds(armed)
    cache.keep("upload", armed)
