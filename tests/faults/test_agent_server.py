"""Kills the process that runs a turn at each entry of it: whole, nothing twice, lost calls told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.agent import NOTHING, Agent, ended, whole
from tests.fixtures.kernel import Kernels

#: Each kind of entry in the order of a turn, and which one of its kind.
ENTRIES = [
    "said",
    "state",
    "asked",
    "answered",
    "called",
    "running",
    "result",
    "called:2",
    "running:2",
    "result:2",
    "asked:2",
    "answered:3",
    "ended",
]
CASES = [(side, entry) for entry in ENTRIES for side in ("before", "after")]


@pytest.fixture(scope="module")
def agent(module_kernels: Kernels) -> Iterator[Agent]:
    made = Agent.begin(module_kernels)
    yield made
    made.model.close()


@pytest.mark.parametrize(("side", "entry"), CASES)
def test_it_dies(agent: Agent, side: str, entry: str) -> None:
    conversation, words = agent.conversation(":", ":")
    kind, _, number = entry.partition(":")
    point = f"{side}-entry-{kind}:kill:{number or 1}"
    assert ended(agent.start(conversation, words, point)) == -9
    kinds = [entry.kind for entry in agent.entries(conversation)]
    if "said" not in kinds:
        # It never began: nothing is recorded of it, and it is said again.
        assert ended(agent.start(conversation, words)) == 0
    elif kinds[-1] != "ended":
        # After the last answer only the entry is missing that says so.
        over = (side, entry) in (("after", "answered:3"), ("before", "ended"))
        assert ended(agent.start(conversation, None)) == (NOTHING if over else 0)
    results = whole(agent, conversation)
    lost = [body for body in results.values() if body["status"] == "lost"]
    cut = (side, kind) in (("after", "running"), ("before", "result"))
    assert len(lost) == int(cut)
    for body in lost:
        assert "is not run again by itself" in body["content"][0]["text"]
