"""Output is static from the first untrusted step on, for good, unless the environment says live."""

from __future__ import annotations

from typing import Any

import pytest

from reprise.jupyter.static.policy import EDITED_BY, By, Policy, untrusted_by
from reprise.log.model import SYSTEM, USER, Actor, NewStep, StepKind

AGENT = Actor("agent", "c", 1)


def step(kind: StepKind = "cell", actor: Actor = USER, **payload: Any) -> NewStep:
    return NewStep(kind, payload, "0" * 64, 0, actor)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (step(), None),
        (step(actor=SYSTEM), None),
        (step("command"), None),
        (step("upload"), None),
        (step("restart", SYSTEM), None),
        (step(actor=AGENT), "agent"),
        (step("upload", AGENT), "agent"),
        (step("command", AGENT), "agent"),
        (step("comm", AGENT), "agent"),
        (step("mount", target="/skills/a", tree="a"), "mount"),
        (step(metadata={EDITED_BY: "agent"}), "edit"),
        (step(metadata={EDITED_BY: "user"}), None),
        (step(metadata=None), None),
        (step(content={"code": f'"{EDITED_BY}":"agent"'}), None),
        (step("comm", metadata={EDITED_BY: "agent"}), None),
    ],
)
def test_who_asked_and_what_is_mounted_decide(new: NewStep, expected: By | None) -> None:
    assert untrusted_by(new) == expected
    policy = Policy().accepted(7, new)
    assert (policy.since, policy.by) == (7 if expected else None, expected)


def test_a_trusted_tree_makes_nothing_static_unless_an_agent_mounts_it() -> None:
    assert not untrusted_by(step("mount", tree="a", trusted=True))
    assert untrusted_by(step("mount", tree="a", trusted="true"))
    assert untrusted_by(step("mount", AGENT, tree="a", trusted=True))


def test_it_stays_static_whoever_asks_later() -> None:
    policy = Policy().accepted(3, step(actor=AGENT))
    for seq in range(4, 9):
        policy = policy.accepted(seq, step())
    policy = policy.accepted(9, step(actor=AGENT))
    assert policy.static
    assert policy.since == 3


def test_another_session_has_a_policy_of_its_own() -> None:
    policy = Policy().accepted(3, step(actor=AGENT))
    assert not policy.opened(None).static
    assert policy.opened(0).since == 0


def test_the_environment_has_the_last_word() -> None:
    agents = Policy("live").accepted(0, step(actor=AGENT))
    assert not agents.static
    assert agents.since == 0
    assert Policy("static").static
    assert Policy("static").opened(None).static
