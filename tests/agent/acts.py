"""Acts, situations, rules and levels of every kind, drawn by hypothesis."""

from __future__ import annotations

from typing import Any, get_args

from hypothesis import strategies as st

from reprise_server.agent.contract import (
    Act,
    Effect,
    Grant,
    Situation,
    SkillNamed,
    Taint,
    TaintKind,
)
from reprise_server.agent.policy.reading import rule_of
from reprise_server.agent.policy.rules import Level, Policy, Rule

#: Few words, so that patterns and what they are held against meet often.
WORDS = ("git", "log", "-x", "--all", "a", "b", "a b", "*", "**", "\\", "'", ";", "")
PARTS = ("a", "b", "data", "out", "x.csv", "*", "**", "..", ".", "")
HOSTS = (
    "a.example",
    "b.a.example",
    "A.EXAMPLE.",
    "*.a.example",
    "a.example:443",
    "10.0.0.1",
    "[::1]:80",
    "package-index",
    "*",
    "",
)
TOOLS = (
    "read_file",
    "write_file",
    "search_files",
    "list_files",
    "run_command",
    "run_cells",
    "run_skill",
    "mcp/x/y",
    "mcp/x/z",
    "new_tool",
)

paths = st.lists(st.sampled_from(PARTS), max_size=4).map("/".join)
some_text = st.text(max_size=20)

skills = st.builds(
    SkillNamed,
    st.sampled_from(("one", "two")),
    st.sampled_from(("personal", "team/ml", "organisation")),
    st.sampled_from(("0" * 64, "1" * 64)),
    st.sampled_from(("trusted", "untrusted", "revoked")),
)
acts = st.builds(
    Act,
    tool=st.sampled_from(TOOLS) | some_text,
    effect=st.sampled_from((*get_args(Effect), "unknown")),
    input=st.just({}),
    title=st.just("do it"),
    argv=st.none() | st.lists(st.sampled_from(WORDS), max_size=5).map(tuple),
    code=st.none() | some_text,
    paths=st.lists(paths | some_text, max_size=3).map(tuple),
    hosts=st.lists(st.sampled_from(HOSTS) | some_text, max_size=3).map(tuple),
    skill=st.none() | skills,
    carries_out=st.booleans(),
)
taints = st.builds(
    Taint, st.sampled_from(get_args(TaintKind)), st.sampled_from(("p", "q")), st.just(1)
)
situations = st.builds(
    Situation,
    who=st.none() | st.sampled_from(("alice", "bob")),
    environment=st.sampled_from(("default", "open")),
    isolated=st.booleans(),
    network=st.lists(st.sampled_from(HOSTS), max_size=2).map(tuple),
    taints=st.lists(taints, max_size=3).map(tuple),
)


def _several(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values, min_size=1, max_size=3)


_patterns = {
    "tool": st.sampled_from((*TOOLS, "*", "run_*", "mcp/*")),
    "effect": st.sampled_from(get_args(Effect)),
    "skill": st.sampled_from(("one", "team/ml:*", f"sha256:{'0' * 64}", "*")),
    "scope": st.sampled_from(("personal", "team/*")),
    "standing": st.sampled_from(("trusted", "untrusted")),
    "environment": st.sampled_from(("default", "o*")),
    "path": st.sampled_from(("data/**", "**", "*", "a", "**/x.csv", "a/*/b")),
    "host": st.sampled_from(("a.example", "*.a.example", "*", "10.0.0.1", "::1")),
    "who": st.sampled_from(("alice", "b*")),
}
_argv = st.lists(
    st.tuples(
        st.sampled_from(("git", "a")),
        st.lists(st.sampled_from(("log", "*", "-*", "a*", "\\*")), max_size=2),
        st.sampled_from(([], ["**"])),
    ).map(lambda parts: [parts[0], *parts[1], *parts[2]]),
    min_size=1,
    max_size=2,
)


@st.composite
def rule_values(draw: st.DrawFn, decision: str | None = None) -> dict[str, Any]:
    """A rule as policies are written."""
    chosen = decision or draw(st.sampled_from(("allow", "ask", "deny")))
    said: dict[str, Any] = {"name": "one", "decision": chosen}
    for name in draw(st.lists(st.sampled_from(sorted(_patterns)), max_size=3, unique=True)):
        said[name] = draw(_several(_patterns[name]))
    if chosen == "allow" and draw(st.integers(0, 2)) == 0:
        said["argv"] = draw(_argv)
    if draw(st.integers(0, 3)) == 0:
        wider = st.booleans() | _several(st.sampled_from(get_args(TaintKind)))
        said["tainted"] = False if chosen == "allow" else draw(wider)
    return said


def rules(decision: str | None = None) -> st.SearchStrategy[Rule]:
    return rule_values(decision).map(rule_of)


policies = st.lists(rules(), max_size=4).map(lambda found: Policy(tuple(found)))
level_lists = st.lists(policies, max_size=4).map(
    lambda found: [
        Level(name, policy)
        for name, policy in zip(
            ("server", "organisation", "team/ml", "personal"), found, strict=False
        )
    ]
)
grants = st.builds(
    Grant,
    st.sampled_from(("once", "session", "pattern")),
    rule_values() | st.just({"name": "x"}) | st.just({"decision": "allow", "rules": 1}),
    st.lists(st.sampled_from(("network p", "skill p", "mcp q", "named q")), max_size=4).map(tuple),
    st.integers(0, 9),
)
grant_lists = st.lists(grants, max_size=3)
