"""Kills at each point of a command, an upload and a mount: nothing lost, doubled or half there."""

from __future__ import annotations

import hashlib
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from reprise.log.model import REPLAYED
from tests.faults.armed import Armed
from tests.faults.history import REFUSED
from tests.faults.test_points import ENDED, NOT_SENT, NOT_STORED, STORED
from tests.fixtures.kernel import Database, Kernels, Ran
from tests.kernel.test_attach_request import fork

KINDS = ("command", "upload", "mount")
POINTS = (*NOT_STORED, *NOT_SENT, "sent", *ENDED, *STORED)
#: The way from accepted to told is one for all kinds; of the others only where they differ.
FEW = ("before-accept", "accepted", "sent", "ended", "outcome-recorded")
CASES = [(kind, point) for kind in KINDS for point in (POINTS if kind == "command" else FEW)]

#: Printed as one line: tokens of the commands that ran, of the uploads and of the mounts there.
LOOK = (
    "cat called; echo; cat up-*; echo; cat /mnt/m-*/token 2>/dev/null; echo; "
    "find .reprise -name 'stage-*'"
)


@dataclass
class Calls:
    """The calls of one session and what was told of them, each under a key of its own."""

    armed: Armed
    told: dict[int, dict[str, Any]] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)

    def request(self, token: int) -> tuple[str, dict[str, Any], list[bytes]]:
        kind, data = self.kinds[token], f"{token} ".encode()
        entry = [f"up-{token}", "file", 0o644, len(data), hashlib.sha256(data).hexdigest()]
        if kind == "command":
            return kind, {"shell": f"printf '{token} ' >> called; echo ran {token}"}, []
        if kind == "upload":
            return kind, {"entries": [entry]}, [data]
        entries = [["token", *entry[1:]]]
        return kind, {"target": f"/mnt/m-{token}", "entries": entries}, [data]

    def send(self, kind: str) -> tuple[int, str]:
        token = len(self.kinds)
        self.kinds[token] = kind
        name, payload, buffers = self.request(token)
        client = self.armed.history.client
        return token, client.send_step(name, payload, buffers=buffers, key=f"key-{token}")

    def finish(self, token: int, msg_id: str) -> Ran:
        ran = self.armed.history.client.finish(msg_id)
        self.told[token] = ran.reply
        return ran

    def repeat(self, token: int) -> dict[str, Any]:
        """Ask for the same again under the same key."""
        name, payload, buffers = self.request(token)
        return self.armed.history.client.step(
            name, payload, buffers=buffers, key=f"key-{token}"
        ).reply

    def statuses(self) -> dict[int, str | None]:
        """How the log says that each call ended; of those that are steps."""
        history, found = self.armed.history, {}
        for record in history.kernels.read(history.kernel).steps:
            key = record.step.new.key
            if key is not None:
                token = int(key.removeprefix("key-"))
                assert token not in found, f"call {token} is two steps"
                found[token] = None if record.outcome is None else record.outcome.status
        return found

    def holds(self) -> None:
        """State, record and what was told agree; nothing is half there."""
        called, uploaded, mounted, *staged = self._look().split("\n")
        statuses = self.statuses()
        assert None not in statuses.values()
        for token, reply in self.told.items():
            if "outcome" in reply:
                assert statuses[token] == reply["outcome"], token
            else:
                assert reply["ename"] in REFUSED, reply
        done = [t for t in sorted(statuses) if statuses[t] in REPLAYED]
        for kind, found in (("command", called), ("upload", uploaded), ("mount", mounted)):
            wanted = [t for t in done if self.kinds[t] == kind]
            assert sorted(map(int, found.split())) == wanted, kind
        assert "".join(staged) == ""
        assert self.armed.history.violations() == []

    def _look(self) -> str:
        while True:
            ran = self.armed.history.client.shell(LOOK)
            if ran.error not in ("SandboxDied", *REFUSED):
                return ran.text()


class Cache:
    """One session for each kind: the next kill meets what the last one left."""

    def __init__(self, kernels: Kernels, folder: Path) -> None:
        self._kernels = kernels
        self._folder = folder
        self._made: dict[str, Calls] = {}

    def __call__(self, kind: str) -> Calls:
        if kind not in self._made:
            calls = Calls(Armed(self._kernels, self._folder / kind, "bubblewrap"))
            calls.armed.history.client.shell("touch called; printf '' > up-")
            self._made[kind] = calls
        return self._made[kind]


@pytest.fixture(scope="module")
def cache(module_kernels: Kernels, tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(module_kernels, tmp_path_factory.mktemp("calls"))


@pytest.fixture
def calls(cache: Cache, kind: str) -> Calls:
    return cache(kind)


@pytest.mark.parametrize(("kind", "point"), CASES)
def test_the_router_dies_at(calls: Calls, kind: str, point: str) -> None:
    armed = calls.armed
    armed.arm(point, "kill")
    token, _ = calls.send(kind)
    armed.history.kernel.wait()
    armed.again()
    calls.holds()
    status = calls.statuses().get(token)
    if point in NOT_STORED:
        assert status is None
        assert calls.repeat(token)["outcome"] == "ok"  # it never ran, so now it does
    elif point in STORED:
        assert status == "ok"
        assert calls.repeat(token)["repeated"] is True
    else:
        assert status == "lost"
        # Nobody knows what it did outside, so it is not run again under its key.
        assert calls.repeat(token)["outcome"] == "lost"
    calls.holds()


@pytest.mark.parametrize("point", ["accepted", "sent", "ended", "told"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_sandbox_dies_at(calls: Calls, kind: str, point: str) -> None:
    armed = calls.armed
    armed.arm(point, "pause")
    token, msg_id = calls.send(kind)
    armed.wait_until_stopped()
    armed.history.kernel.kill("sandbox")
    armed.go_on()
    ran = calls.finish(token, msg_id)
    if point in ("ended", "told"):
        assert ran.reply["outcome"] == "ok"
    calls.holds()  # before that it may have been done when the kill arrived; the record says


@pytest.mark.parametrize("point", ["before-accept", "after-step-commit", "before-outcome-commit"])
@pytest.mark.parametrize("kind", KINDS)
def test_postgres_dies_at(calls: Calls, database: Database, kind: str, point: str) -> None:
    armed = calls.armed
    armed.arm(point, "pause")
    token, msg_id = calls.send(kind)
    armed.wait_until_stopped()
    database.server.stop(signal.SIGKILL)
    database.server.start()
    armed.go_on()
    assert calls.finish(token, msg_id).reply["outcome"] == "ok"
    calls.holds()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_asked_without_a_database_is_refused_and_does_not_run(
    calls: Calls, database: Database, kind: str
) -> None:
    database.server.stop(signal.SIGKILL)
    try:
        token, msg_id = calls.send(kind)
        assert calls.finish(token, msg_id).reply["ename"] in REFUSED
    finally:
        database.server.start()
    assert token not in calls.statuses()
    calls.holds()


def test_the_router_dies_while_it_goes_over_to_a_fork(cache: Cache, tmp_path: Path) -> None:
    """Either it went, or it did not; both sessions are whole and free."""
    calls = cache("command")
    armed = calls.armed
    calls.holds()
    history = armed.history
    forked = fork(history.kernels, history.kernel.session)
    armed.arm("attach-taken", "kill")
    content = {"session": str(forked)}
    history.client.request("attach_request", content, channel="control")
    history.kernel.wait()
    armed.again()
    calls.holds()
    other = history.kernels("bubblewrap", session=forked, folder=tmp_path)
    assert other.client().shell("cat called").status == "ok"
    assert history.kernels.read(other).report.ok
