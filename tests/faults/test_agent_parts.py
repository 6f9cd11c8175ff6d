"""Kills what a turn stands on at each point of it: the sandbox, the kernel, Postgres."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.faults.agent import Agent, ended, go_on, stopped, whole
from tests.fixtures.kernel import Database, Kernels

#: Where the process that runs the turn is held while something else is killed.
POINTS = [
    "after-entry-asked",
    "before-entry-answered",
    "after-entry-called",
    "before-entry-running",
    "after-entry-running",
    "before-entry-result",
    "before-entry-ended",
]
#: Shown by a command that then goes on until it is killed.
LONG = "echo begun > begun; sleep 600"


@pytest.fixture(scope="module")
def agent(module_kernels: Kernels) -> Iterator[Agent]:
    made = Agent.begin(module_kernels)
    yield made
    made.model.close()


@pytest.mark.parametrize("victim", ["sandbox", "router"])
@pytest.mark.parametrize("point", POINTS)
def test_what_runs_the_steps_dies_at(agent: Agent, point: str, victim: str) -> None:
    """The turn goes on: the state is played again for the next call. One that is on its way just
    then dies with its sandbox, or comes to no step at all; and is told so."""
    conversation, words = agent.conversation(":")
    process = agent.start(conversation, words, f"{point}:pause")
    stopped(process)
    agent.kernel.kill(victim)
    if victim == "router":
        agent.again()
    go_on(process)
    assert ended(process) == 0
    results = whole(agent, conversation)
    steps = agent.steps(conversation)
    for call, body in results.items():
        if call not in steps:
            assert (victim, body["status"]) == ("router", "error"), results
            continue
        step = steps[call]
        assert step.outcome is not None
        status = step.outcome.status
        assert status == "ok" or (victim, status) == ("sandbox", "died")
        assert body["status"] == ("ok" if status == "ok" else "error"), results
        assert f"step {step.step.seq} · {status}" in body["content"][0]["text"]


@pytest.mark.parametrize(("victim", "outcome"), [("sandbox", "died"), ("router", "lost")])
def test_what_runs_a_step_dies_under_it(agent: Agent, victim: str, outcome: str) -> None:
    """The step is rolled back, the model told, the call not run again; the turn goes on."""
    agent.kernel.clients[0].shell("rm -f begun")
    conversation, words = agent.conversation(LONG)
    process = agent.start(conversation, words)
    agent.runs(conversation)
    agent.kernel.kill(victim)
    if victim == "router":
        agent.again()
    assert ended(process) == 0
    first, _ = whole(agent, conversation).values()
    assert first["status"] != "ok"
    step = agent.steps(conversation)[first["id"]]
    assert step.outcome is not None
    assert step.outcome.status == outcome


@pytest.mark.parametrize(
    ("point", "how"),
    [*((point, "cut") for point in POINTS), *((point, "killed") for point in POINTS[::3])],
)
def test_postgres_goes_at(agent: Agent, database: Database, point: str, how: str) -> None:
    conversation, words = agent.conversation(":")
    process = agent.start(conversation, words, f"{point}:pause")
    stopped(process)
    if how == "killed":
        database.server.stop(signal.SIGKILL)
        database.server.start()
    else:
        database.lose_connections()
    agent.trace()  # the kernel holds its session again
    go_on(process)
    assert ended(process) == 0
    results = whole(agent, conversation)
    assert [body["status"] for body in results.values()] == ["ok", "ok"], results


def test_all_of_it_dies_at_once(agent: Agent, database: Database) -> None:
    agent.kernel.clients[0].shell("rm -f begun")
    conversation, words = agent.conversation(LONG)
    process = agent.start(conversation, words)
    agent.runs(conversation)
    process.kill()
    ended(process)
    database.server.stop(signal.SIGKILL)
    agent.kernel.kill("router")
    database.server.start()
    agent.again()
    assert ended(agent.start(conversation, None)) == 0
    first, second = whole(agent, conversation).values()
    assert (first["status"], second["status"]) == ("lost", "ok")
    assert "may have run" in first["content"][0]["text"]
