"""A page is told at once how its session stands, whatever it does, and asking wakes nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.fixtures.kernel import Client, Heard, Kernels

#: Seconds in which an answer comes on a loaded machine; a resume in these tests takes longer.
AT_ONCE = 5.0


def status(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.reply(
        client.request("status_request", channel="control"), AT_ONCE
    )
    assert found.pop("status") == "ok", found
    return found


def until(client: Client, state: str) -> dict[str, Any]:
    """The first answer that has the state."""
    deadline = time.monotonic() + 60
    while (found := status(client))["state"] != state:
        assert time.monotonic() < deadline, found
        client.pump()
    return found


def told(state: str) -> Callable[[Heard], bool]:
    return lambda h: h.type == "reprise_status" and h.content["state"] == state


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_a_healthy_session(kernels: Kernels, backend: str) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    client.run("x = bytearray(50 << 20)")
    found = status(client)
    recorded = kernels.read(kernel)
    assert (found["state"], found["session"]) == ("ready", str(kernel.session))
    assert found["steps"] == len(recorded.steps)
    assert found["backend"]["isolated"] == (backend == "bubblewrap")
    assert found["backend"]["isolation"]
    assert ("Not isolated" in found["network"]["text"]) == (backend == "process")
    assert found["network"]["open"] == (backend == "process")
    assert found["environment"]["digest"] == recorded.steps[0].step.new.environment
    assert found["memory"]["used"] > 50 << 20
    assert found["memory"]["limit"] > 50 << 20
    assert found["output"] == {"static": False, "since": None, "rule": "auto", "why": None}
    for name in ("text", "running", "since", "snapshot", "plan", "resume", "last_resume"):
        assert found[name] is None, name
    assert (found["death"], found["held"]) == (None, None)
    assert not [h for h in client.heard if h.type == "reprise_status"], "nothing is unusual"
    assert len(kernels.read(kernel).steps) == len(recorded.steps), "asking is no step"


def test_what_runs_and_since_when(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("1")
    cell = client.execute("print('on', flush=True); import time; time.sleep(60)")
    client.shows(cell, "on")
    found = status(client)
    assert (found["state"], found["running"]) == ("running", found["steps"] - 1)
    record = kernels.read(kernel).steps[-1]
    assert found["since"].startswith(time.strftime("%Y-", time.gmtime(record.step.new.at / 1e6)))
    client.ask("interrupt_request", channel="control")
    client.finish(cell)
    assert status(client)["state"] == "ready"


def test_a_resume_is_told_stopped_and_gone_on_with(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    for _ in range(4):
        client.run("import time; time.sleep(1.5); x = 1")
    steps = len(kernels.read(kernel).steps)
    kernel.kill("router")
    kernel = kernels.again(kernel)
    client = kernel.client()
    found = until(client, "resuming")
    while found["resume"] is None or found["resume"]["done"] == 0:
        found = status(client)
    resume = found["resume"]
    assert 0 < resume["done"] < resume["total"] == steps
    assert resume["start_seq"] is None
    assert 0 <= resume["remaining_s"] <= 20
    assert resume["estimate_s"] >= 6
    assert found["memory"]["used"] is None, "what is half played is no state to speak of"
    reply = client.ask("resume_request", {"op": "cancel"}, channel="control")
    assert reply["status"] == "ok"
    client.wait(told("stopped"))
    found = status(client)
    assert found["state"] == "stopped"
    assert found["resume"]["done"] >= resume["done"]
    assert found["plan"]["steps"] == steps
    assert client.ask("resume_request", {"op": "start"}, channel="control")["status"] == "ok"
    client.wait(told("ready"))
    found = status(client)
    assert (found["state"], found["resume"], found["plan"]) == ("ready", None, None)
    last = found["last_resume"]
    assert (last["steps"], last["seq"], last["left_out"]) == (steps, steps - 1, [])
    assert last["seconds"] > 5
    # A progress says how long is to go.
    progress = [h.content for h in client.heard if h.type == "reprise_progress"]
    going = [each for each in progress if not each["over"]]
    assert all(each["remaining_s"] >= 0 for each in going)
    assert going[-1]["remaining_s"] == 0
    assert client.run("x").value == "1"


def test_a_cancel_stops_a_resume_and_never_a_cell(kernels: Kernels) -> None:
    client = kernels("process").client()
    cell = client.execute("print('on', flush=True); import time; time.sleep(1); 'through'")
    client.shows(cell, "on")
    assert client.ask("resume_request", {"op": "cancel"}, channel="control")["status"] == "ok"
    assert client.finish(cell).value == "'through'"
    refused = client.ask("resume_request", {"op": "hurry"}, channel="control")
    assert (refused["status"], refused["ename"]) == ("error", "UsageError")


def test_a_death_is_told_with_its_step_until_one_ends_well(kernels: Kernels) -> None:
    client = kernels("process").client()
    client.run("x = 1")
    seq = status(client)["steps"]
    client.run("import os; os.kill(os.getpid(), 9)")
    client.wait(told("ready"))
    found = status(client)
    assert (found["death"]["seq"], found["death"]["what"]) == (seq, "signal")
    assert found["death"]["text"] == "it was killed (signal 9)"
    client.run("x")
    assert status(client)["death"] is None


def test_memory_names_its_limit(kernels: Kernels, limited: Callable[..., str]) -> None:
    environment = limited("told-small", memory=256 << 20)
    client = kernels("bubblewrap", REPRISE_ENVIRONMENT=environment).client()
    ran = client.run(
        "import os, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        block = bytearray(os.urandom(1 << 20) * 90); time.sleep(60); os._exit(0)\n"
        "time.sleep(60)"
    )
    assert ran.error == "SandboxDied", ran.reply
    found = status(client)
    assert (found["death"]["what"], found["death"]["limit"]) == ("memory", 256 << 20)
    assert "out of memory" in found["death"]["text"]
    assert found["memory"]["limit"] == 256 << 20


def test_a_session_that_another_kernel_writes_says_who(kernels: Kernels) -> None:
    first = kernels("process")
    first.client().run("x = 1")
    second = kernels("process", session=first.session)
    client = second.client()
    client.wait(told("held"), 60)
    found = status(client)
    assert found["state"] == "held"
    assert found["held"]["pid"] == first.process.pid
    assert found["held"]["session"] == str(first.session)
    assert str(first.session) in found["text"]
    first.client().ask("shutdown_request", {"restart": False}, channel="control")
    first.process.wait(60)
    # "Try again": no cell is needed.
    assert client.ask("resume_request", {"op": "start"}, channel="control")["status"] == "ok"
    client.wait(told("ready"))
    assert client.run("x").value == "1"


def test_output_says_since_when_it_is_static_and_why(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("1")
    seq = status(client)["steps"]
    client.run("2", cell_id="a")
    client.finish(
        client.request(
            "execute_request",
            {
                "code": "3",
                "silent": False,
                "store_history": True,
                "user_expressions": {},
                "allow_stdin": False,
                "stop_on_error": True,
            },
            metadata={"reprise_edited_by": "agent"},
        )
    )
    wanted = {
        "static": True,
        "since": seq + 1,
        "rule": "auto",
        "why": f"Step {seq + 1} ran a cell that an agent wrote.",
    }
    assert status(client)["output"] == wanted
    kernel.kill("router")
    client = kernels.again(kernel).client()
    assert until(client, "ready")["output"] == wanted, "the next process knows it from the log"


def test_a_restart_keeps_a_state_to_begin_from(kernels: Kernels) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("open('kept', 'w').write('yes')")
    client.ask("shutdown_request", {"restart": True}, channel="control")
    kernel.process.wait(60)
    seq = len(kernels.read(kernel).steps) - 1
    client = kernels.again(kernel).client()
    found = until(client, "ready")
    assert (found["snapshot"]["seq"], found["snapshot"]["kind"]) == (seq, "tree")
