"""A policy file is taken as it is meant or refused by line; nothing in one crashes, hangs or grows."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise_server.agent.contract import Act, Grant, Situation
from reprise_server.agent.policy.advice import advice
from reprise_server.agent.policy.engine import evaluate
from reprise_server.agent.policy.reading import (
    MAX_BYTES,
    MAX_PATTERNS,
    MAX_PROBLEMS,
    MAX_RULES,
    BadPolicy,
    Problem,
    granted,
    parse_policy,
    policy_of,
)
from reprise_server.agent.policy.rules import Level, Policy
from tests.agent.acts import rule_values

HERE = Situation("alice", "default", True)
ACT = Act("write_file", "write", {"path": "a/b.csv"}, "write a file", paths=("a/b.csv",))


def rule(**more: Any) -> str:
    return yaml.safe_dump({"rules": [{"name": "x", "decision": "deny", **more}]}, sort_keys=False)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 0, "It is no policy"),
        ("[]", 1, "It is no policy"),
        ("rules: 1\n", 1, "rules is no list"),
        ("rule: []\n", 1, "no field 'rule'"),
        ("rules: []\nrules: []\n", 2, "stands twice"),
        ("rules:\n  - 1\n", 2, "It is no rule"),
        ("rules:\n  - decision: deny\n", 2, "A rule has no name"),
        ("rules:\n  - name: x\n", 2, "A rule has no decision"),
        ("rules:\n  - name: X\n    decision: deny\n", 2, "'X' is no name of a rule"),
        ("rules:\n  - name: x\n    decision: no\n", 3, "'no' is no decision"),
        ("rules:\n  - name: x\n    decision: true\n", 3, "decision is no text"),
        (rule(tool=[]), 4, "tool is an empty list"),
        (rule(tool=""), 4, "tool has 0 characters"),
        (rule(tool="x" * 301), 4, "tool has 301 characters"),
        (rule(tool={"a": "b"}), 5, "tool is no text"),
        (rule(tool=[["a"]]), 5, "tool is no text"),
        (rule(effect="fly"), 4, "'fly' is no effect"),
        (rule(standing="good"), 4, "'good' is no standing"),
        (rule(path="../a"), 4, "is no path of a workspace"),
        (rule(path="/a"), 4, "is no path of a workspace"),
        (rule(path="a//b"), 4, "is no path of a workspace"),
        (rule(path="a/"), 4, "is no path of a workspace"),
        (rule(path="a\\b"), 4, "is no path of a workspace"),
        (rule(why="a\nb"), 4, "more than one line"),
        (rule(who="al\u202eice"), 4, "characters that nobody sees"),
        (rule(argv=["git"]), 5, "which only an allow can have"),
        (rule(tainted="maybe"), 4, "tainted is neither"),
        (rule(tainted=[]), 4, "tainted is neither"),
        (rule(tool=["a"] * 51), 5, "more than 50"),
        ("rules:\n- {name: x, decision: allow, tainted: true}\n", 2, "asks for untrusted"),
        ("rules:\n- {name: x, decision: allow, tainted: [mcp]}\n", 2, "asks for untrusted"),
        ("rules:\n- {name: x, decision: allow, standing: revoked}\n", 2, "always denied"),
        ("rules:\n- {name: x, decision: allow, argv: git}\n", 2, "no list of words"),
        ("rules:\n- {name: x, decision: allow, argv: []}\n", 2, "no list of words"),
        ("rules:\n- {name: x, decision: allow, argv: [[]]}\n", 2, "no list of words"),
        ("rules:\n- {name: x, decision: allow, argv: ['*', a]}\n", 2, "begins with a pattern"),
        ("rules:\n- {name: x, decision: allow, argv: [a, '**', b]}\n", 2, "in the middle"),
        ("rules:\n- {name: x, decision: allow, argv: [a, {b: c}]}\n", 2, "no text"),
        (
            "rules:\n- {name: x, decision: ask}\n- {name: x, decision: ask}\n",
            3,
            "in line 2 already",
        ),
        ("rules:\n- {name: x, decision: ask, x: 1}\n", 2, "no field 'x'"),
        ("rules: [\n", 2, "It is no YAML"),
        ("rules: []\n---\nrules: []\n", 2, "second YAML document"),
        ("rules: &a []\nx: *a\n", 2, "stands for what another place says"),
        ("rules: !!python/object/apply:os.system ['true']\n", 1, "asks for a type"),
        ("rules:\n- name: x\n  decision: deny\n  tool: *.csv\n", 4, ""),
        ("rules: []\n\0", 0, "NUL"),
        (b"\xff\xfe", 0, "not UTF-8"),
        ("a: " + "[" * 40 + "]" * 40, 1, "levels deep"),
    ],
    ids=lambda value: None if not isinstance(value, int) else str(value),
)
def test_what_is_wrong_is_told_by_line(text: str | bytes, line: int, says: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        parse_policy(text, "p.yaml")
    problem = refused.value.problems[0]
    assert says in problem.text
    assert problem.line == line
    assert problem.mend
    assert str(refused.value).startswith(f"p.yaml:{line}: " if line else "p.yaml: ")


def test_all_that_is_wrong_is_told_at_once_within_bounds() -> None:
    wrong = "rules:\n" + "- {name: X, decision: no}\n" * 50
    with pytest.raises(BadPolicy) as refused:
        parse_policy(wrong)
    assert len(refused.value.problems) == MAX_PROBLEMS
    assert [each.line for each in refused.value.problems[:4]] == [2, 2, 3, 3]


def test_bounds_hold() -> None:
    with pytest.raises(BadPolicy, match="larger than 256 KiB"):
        parse_policy("#" * (MAX_BYTES + 1))
    many = {
        "rules": [{"name": f"r{n}", "decision": "ask", "tool": "x"} for n in range(MAX_RULES + 1)]
    }
    with pytest.raises(BadPolicy, match="more than 200"):
        policy_of(many)
    del many["rules"][-1]
    assert len(policy_of(many).rules) == MAX_RULES
    full = [f"t{n}" for n in range(MAX_PATTERNS)]
    assert policy_of({"rules": [{"name": "x", "decision": "ask", "tool": full}]}).rules[0].tool


@pytest.mark.parametrize(
    "text",
    [
        '{"rules": [{"name": "x", "decision": "deny", "path": "a/*.csv"}]}',
        '{\n\t"rules": [\n\t\t{"name": "x",\n\t\t"decision": "deny", "path": ["a/*.csv"]}\n\t]\n}',
        "\ufeffrules:\r\n  - name: x\r\n    decision: deny\r\n    path: a/*.csv\r\n",
        "# c\nrules:\n- {name: x, decision: deny, path: ['a/*.csv']}\n",
    ],
    ids=["json", "tabs", "bom-crlf", "flow"],
)
def test_yaml_and_json_say_the_same(text: str) -> None:
    policy = parse_policy(text.encode())
    assert policy.digest == parse_policy(rule(path="a/*.csv")).digest
    assert evaluate([Level("personal", policy)], [], ACT, HERE).decision == "deny"


def test_an_empty_policy_says_nothing() -> None:
    for text in ("{}", "rules: []"):
        assert parse_policy(text) == Policy()
    assert evaluate([Level("personal", Policy())], [], ACT, HERE).rule == "default/write"


def test_words_of_argv_are_taken_as_written() -> None:
    policy = parse_policy("rules:\n- {name: x, decision: allow, argv: [head, -5, true, 1.0, ~]}\n")
    assert policy.rules[0].argv == (("head", "-5", "true", "1.0", "~"),)


# What a stranger may write ------------------------------------------------------------------------

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(("rules", "name", "decision", "tool", "argv", "tainted", "path"))
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def survives(data: bytes | str) -> None:
    """Taken or refused; then it judges and can be written down again."""
    try:
        policy = parse_policy(data)
    except BadPolicy as error:
        refused: tuple[Problem, ...] | None = error.problems
    else:
        refused = None
    if refused is not None:
        assert 0 < len(refused) <= MAX_PROBLEMS
        return
    assert policy_of(policy.to_json()).digest == policy.digest
    advice(policy)
    evaluate([Level("personal", policy)], [], ACT, HERE)


@settings(max_examples=150)
@given(st.binary(max_size=200))
def test_bytes_of_any_kind(data: bytes) -> None:
    survives(data)


@settings(max_examples=150)
@given(st.text(alphabet="rules:-name decision[]{}&*!|>'\"\\\n\t#?,%@`0x", max_size=120))
def test_text_that_looks_like_yaml(text: str) -> None:
    survives("rules:\n- name: x\n  " + text)


@settings(max_examples=150)
@given(anything)
def test_json_of_any_shape(value: Any) -> None:
    survives(json.dumps(value))
    survives(json.dumps({"rules": [value]}))
    survives(json.dumps({"rules": [{"name": "x", "decision": "allow", "tool": value}]}))
    survives(json.dumps({"rules": [{"name": "x", "decision": "allow", "argv": value}]}))


@settings(max_examples=100)
@given(anything, st.sampled_from(("session", "pattern", "once")))
def test_a_grant_of_any_shape_grants_nothing_but_a_rule(value: Any, scope: Any) -> None:
    shape = value if isinstance(value, dict) else {"rule": value}
    found = granted(shape)
    assert found is None or found.decision == "allow"
    asked = Situation("alice", "default", False)
    verdict = evaluate([], [Grant(scope, shape)], ACT, asked)
    assert verdict.decision == ("ask" if found is None or scope == "once" else verdict.decision)


@settings(max_examples=100)
@given(rule_values(), st.integers(0, 200), st.integers(0, 2), st.text(max_size=3))
def test_a_good_policy_with_a_piece_changed(
    value: dict[str, Any], at: int, cut: int, put: str
) -> None:
    text = yaml.safe_dump({"rules": [value]})
    survives(text[:at] + put + text[at + cut :])


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{" * 100_000,
        '{"rules":' * 20_000,
        "- " * 100_000,
        "? " * 50_000,
        "a: &a [b]\n" * 5_000,
        "rules:\n" + "- {name: x, decision: ask, tool: ['" + "*a" * 140 + "']}\n" * 300,
        "'" + "\n" * 200_000,
        '"\\u' + "0" * 200_000,
        "#" * 262_144,
        "rules: [" + "1," * 100_000 + "]",
        "!!" + "x" * 200_000,
    ],
    ids=range(12),
)
def test_what_is_written_to_be_slow_is_refused(text: str) -> None:
    with pytest.raises(BadPolicy):
        parse_policy(text)


def test_no_pattern_is_slow() -> None:
    """Patterns and acts at their bounds, written so that trying everything would never end."""
    evil = "*a" * 149
    value = {
        "rules": [
            {
                "name": f"r{n}",
                "decision": "deny",
                "tool": [evil + "b"] * 10,
                "path": "/".join(["**", "a"] * 60),
            }
            for n in range(50)
        ]
    }
    policy = policy_of(value)
    deep = "/".join(["a"] * 199 + ["b"])
    act = Act("a" * 10_000, "write", {}, "x", paths=(deep,) * 3)
    assert evaluate([Level("personal", policy)], [], act, HERE).rule == "default/write"
