"""A person sees what else an offered pattern would match; an author, what a rule will not do."""

from __future__ import annotations

from typing import Any

import pytest

from reprise_server.agent.contract import Act, Entry, Situation, Taint
from reprise_server.agent.policy.advice import advice
from reprise_server.agent.policy.offers import pattern_rule, session_rule
from reprise_server.agent.policy.reading import policy_of
from reprise_server.agent.policy.rules import Level
from reprise_server.agent.policy.trial import MOST, act_of, also_matched, past_calls, tried

HERE = Situation("alice", "default", isolated=True)


def command(*words: str) -> Act:
    return Act("run_command", "run", {"command": " ".join(words)}, "run", argv=words, code="x")


def called(seq: int, act: Act, decision: str = "allow") -> Entry:
    verdict = {"decision": decision, "rule": "default/run", "why": "so", "grant": None}
    return Entry(seq, 1, "called", {"id": f"t{seq}", "act": act.to_json(), "verdict": verdict}, 0)


PAST = [
    called(1, command("pip", "install", "pandas")),
    called(2, command("pip", "install", "--user", "pandas")),
    Entry(3, 1, "result", {"id": "t2", "taints": [{"kind": "network", "source": "a"}]}, 0),
    called(4, Act("write_file", "write", {}, "w", paths=("out/a.csv",))),
    called(5, Act("run_cells", "run", {}, "r", code="1")),
    Entry(6, 1, "called", {"id": "t6", "act": None, "verdict": None, "problem": "no"}, 0),
    called(7, command("pip", "install", "numpy"), "ask"),
]


def test_what_a_pattern_would_also_have_matched_is_shown() -> None:
    past = past_calls(PAST, HERE)
    assert [call.seq for call in past] == [1, 2, 4, 5, 7]
    act = command("pip", "install", "scipy")
    pattern = pattern_rule(act, HERE)
    assert pattern is not None
    assert [call.seq for call in also_matched(pattern, past)] == [1, 7]
    assert [call.seq for call in also_matched(session_rule(act, HERE), past)] == [1, 2, 7]
    assert also_matched({"name": "x"}, past) == []
    beside = pattern_rule(Act("write_file", "write", {}, "w", paths=("out/b.csv",)), HERE)
    assert beside is not None
    assert beside["path"] == ["out/*.csv"]
    assert [call.seq for call in also_matched(beside, past)] == [4]


def test_past_calls_are_judged_as_they_stood() -> None:
    """With the taint of that moment, and no later one; the newest of many."""
    past = past_calls(PAST, HERE)
    assert [bool(call.situation.taints) for call in past] == [False, False, True, True, True]
    assert past[2].situation.taints == (Taint("network", "a", 3),)
    rule = {"name": "x", "decision": "deny", "tool": "write_file", "tainted": True}
    judged = tried([Level("personal", policy_of({"rules": [rule]}))], past)
    assert [each.changes for each in judged] == [False, False, True, False, True]
    many = [called(seq, command("ls")) for seq in range(MOST + 50)]
    assert [call.seq for call in past_calls(many, HERE)] == list(range(50, MOST + 50))
    assert act_of(command("ls", "-l").to_json()) == command("ls", "-l")


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ({"decision": "deny", "path": "private/**"}, "does not hold back code"),
        ({"decision": "deny", "path": "a", "effect": ["write", "edit"]}, ""),
        ({"decision": "deny", "tool": "run_command"}, "run_cells, run_skill can do as well"),
        ({"decision": "ask", "tool": "run_*"}, ""),
        ({"decision": "deny", "effect": "run"}, ""),
        ({"decision": "allow", "path": "out/**"}, "allows no code"),
        ({"decision": "allow", "path": "out/**", "effect": "write"}, ""),
        ({"decision": "allow", "argv": ["python", "**"]}, "can run any program"),
        ({"decision": "allow", "argv": ["/usr/bin/env", "*"]}, "can run any program"),
        ({"decision": "allow", "argv": ["python", "run.py"]}, ""),
        ({"decision": "allow", "argv": ["ls", "**"]}, ""),
    ],
)
def test_a_rule_that_does_not_do_what_it_seems_to_is_told(rule: dict[str, Any], says: str) -> None:
    found = advice(policy_of({"rules": [{"name": "x", **rule}]}))
    if not says:
        assert found == []
    else:
        [problem] = found
        assert says in problem.text
        assert problem.mend


def test_rules_that_nothing_reaches_are_told() -> None:
    first = {"name": "all", "decision": "ask"}
    second = {"name": "never", "decision": "deny", "effect": "run"}
    [problem] = advice(policy_of({"rules": [first, second]}))
    assert "Nothing behind all ever counts" in problem.text
    assert advice(policy_of({"rules": [second, first]})) == []
