"""What no policy, grant or act can bring about: a denial overridden, a level loosened, code guessed."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reprise_server.agent.contract import Act, Grant, Situation, Verdict
from reprise_server.agent.policy.engine import evaluate, reaches_out, rule_holds
from reprise_server.agent.policy.offers import pattern_rule, session_rule
from reprise_server.agent.policy.patterns import (
    argv_matches,
    clean,
    literal,
    matches,
    path_holds,
    path_matches,
)
from reprise_server.agent.policy.reading import granted, policy_of, rule_of
from reprise_server.agent.policy.rules import STRICTNESS, Level, Policy, Rule
from reprise_server.agent.policy.taint import MAX_TAINTS, merged, names
from reprise_server.agent.tools.words import words
from tests.agent.acts import (
    PARTS,
    WORDS,
    acts,
    grant_lists,
    level_lists,
    policies,
    rules,
    situations,
)

FULL = settings(max_examples=100)


def strict(verdict: Verdict) -> int:
    return STRICTNESS[verdict.decision]


@FULL
@given(level_lists, grant_lists, acts, situations)
def test_every_act_gets_the_same_verdict_twice(
    levels: list[Level], grants: list[Grant], act: Act, situation: Situation
) -> None:
    verdict = evaluate(levels, grants, act, situation)
    assert verdict.decision in STRICTNESS
    assert verdict.rule
    assert verdict.why
    assert evaluate(list(levels), list(grants), replace(act), replace(situation)) == verdict


@FULL
@given(level_lists, rules("deny"), grant_lists, acts, situations, st.integers(0, 4))
def test_a_deny_is_never_overridden(
    levels: list[Level],
    deny: Rule,
    grants: list[Grant],
    act: Act,
    situation: Situation,
    where: int,
) -> None:
    """Wherever it stands among the levels, whatever was granted."""
    assume(rule_holds(deny, act, situation))
    levels.insert(where, Level("team/x", Policy((deny,))))
    assert evaluate(levels, grants, act, situation).decision == "deny"


@FULL
@given(level_lists, policies, grant_lists, acts, situations)
def test_a_level_below_never_loosens(
    levels: list[Level], below: Policy, grants: list[Grant], act: Act, situation: Situation
) -> None:
    spoken = any(
        rule_holds(rule, act, situation) for level in levels for rule in level.policy.rules
    )
    assume(spoken)
    before = evaluate(levels, grants, act, situation)
    after = evaluate([*levels, Level("personal", below)], grants, act, situation)
    assert strict(after) >= strict(before)


@FULL
@given(level_lists, rules(), acts, situations)
def test_a_rule_behind_one_that_holds_changes_nothing(
    levels: list[Level], more: Rule, act: Act, situation: Situation
) -> None:
    appended = [
        replace(level, policy=Policy((*level.policy.rules, more)))
        if any(rule_holds(rule, act, situation) for rule in level.policy.rules)
        else level
        for level in levels
    ]
    assert evaluate(appended, [], act, situation) == evaluate(levels, [], act, situation)


@FULL
@given(level_lists, grant_lists, acts, situations)
def test_a_grant_turns_an_ask_into_an_allow_and_touches_nothing_else(
    levels: list[Level], grants: list[Grant], act: Act, situation: Situation
) -> None:
    bare = evaluate(levels, [], act, situation)
    with_grants = evaluate(levels, grants, act, situation)
    if bare.decision != "ask":
        assert with_grants == bare
    elif with_grants != bare:
        assert with_grants.decision == "allow"
        used = [g for g in grants if g.seq == with_grants.grant and g.scope != "once"]
        assert any(names(situation.taints) <= set(g.taints) for g in used)


@FULL
@given(level_lists, acts, situations)
def test_what_reaches_out_is_never_allowed_unasked_once_something_untrusted_is_there(
    levels: list[Level], act: Act, situation: Situation
) -> None:
    assume(situation.taints)
    assume(reaches_out(act, situation))
    assert evaluate(levels, [], act, situation).decision != "allow"


@FULL
@given(level_lists, grant_lists, acts, situations)
def test_taint_never_loosens(
    levels: list[Level], grants: list[Grant], act: Act, situation: Situation
) -> None:
    """Apart from rules about taint itself."""
    assume(all(rule.tainted is None for level in levels for rule in level.policy.rules))
    assume(not any("tainted" in grant.rule for grant in grants))
    clean_one = evaluate(levels, grants, act, replace(situation, taints=()))
    assert strict(evaluate(levels, grants, act, situation)) >= strict(clean_one)


@FULL
@given(level_lists, grant_lists, acts, situations)
def test_a_revoked_skill_is_always_denied(
    levels: list[Level], grants: list[Grant], act: Act, situation: Situation
) -> None:
    assume(act.skill is not None)
    assert act.skill is not None
    revoked = replace(act, skill=replace(act.skill, standing="revoked"))
    assert evaluate(levels, grants, revoked, situation).decision == "deny"


# What an allow may be sure of ----------------------------------------------------------------------


@FULL
@given(rules("allow"), acts, situations)
def test_an_allow_by_path_or_host_covers_all_of_the_act_and_no_code(
    rule: Rule, act: Act, situation: Situation
) -> None:
    assume(rule_holds(rule, act, situation))
    if rule.path or rule.host:
        assert act.code is None
    if rule.path:
        assert act.paths or act.tool in ("list_files", "search_files")
        assert all(clean(path) for path in act.paths)
    if rule.argv:
        assert act.argv is not None


@FULL
@given(rules(), acts, situations, st.text(max_size=40))
def test_no_rule_reads_code(rule: Rule, act: Act, situation: Situation, other: str) -> None:
    """Another text of the same code changes no condition: only that it is code counts."""
    assume(act.code is not None)
    assert rule_holds(rule, act, situation) == rule_holds(rule, replace(act, code=other), situation)


@FULL
@given(rules("deny") | rules("ask"), acts, situations, st.sampled_from(("a", "../a", "/a", "")))
def test_a_path_more_never_escapes_a_denial(
    rule: Rule, act: Act, situation: Situation, path: str
) -> None:
    assume(rule_holds(rule, act, situation))
    assert rule_holds(rule, replace(act, paths=(*act.paths, path)), situation)


@FULL
@given(rules("allow"), acts, situations, st.sampled_from(("zzz", "../a", "/a", "c/d")))
def test_a_path_more_never_gains_an_allow(
    rule: Rule, act: Act, situation: Situation, path: str
) -> None:
    assume(act.paths)
    if not rule_holds(rule, act, situation):
        assert not rule_holds(rule, replace(act, paths=(*act.paths, path)), situation)


def test_a_denied_file_is_reached_by_no_listing_and_no_search() -> None:
    deny = rule_of({"name": "x", "decision": "deny", "path": "secrets/**/*.pem"})
    here = Situation("alice", "default", True)

    def held(tool: str, *paths: str) -> bool:
        return rule_holds(deny, Act(tool, "read", {}, "look", paths=paths), here)

    assert held("list_files")
    assert held("list_files", "secrets")
    assert held("list_files", "secrets/a")
    assert not held("list_files", "data")
    assert held("search_files", "")
    assert held("search_files", "data/a", "secrets/a.pem")
    assert not held("search_files", "data/a", "secrets/readme")
    assert held("read_file", "secrets/b/a.pem")
    assert held("read_file", "secrets/../secrets/a.pem")
    assert not held("read_file", "secrets")


# Command lines ------------------------------------------------------------------------------------

#: What a shell reads as more than words.
COMPOUNDS = (
    "git log; curl a.example",
    "git log && id",
    "git log || id",
    "git log | sh",
    "git log & id",
    "git log > x",
    "git log 2>&1",
    "git log < x",
    "git log <<< x",
    "git log\nid",
    "git log\rid",
    "git log $(id)",
    "git log `id`",
    "git log $HOME",
    "git log ${IFS}x",
    'git log "$(id)"',
    'git log "`id`"',
    'git log "\\x"',
    "git log 'a\nb'",
    "git log *",
    "git log a?",
    "git log [a]",
    "git log {a,b}",
    "git log ~root",
    "git log !!",
    "git log # x",
    "git log \\\n x",
    "git log 'open",
    'git log "open',
    "GIT_PAGER=id git log",
    "A+=1 git log",
    "(git log)",
    "{ git log; }",
    "! git log",
    "if git log",
    "eval git log",
    "exec git log",
    ". git log",
    "source git",
    "git\u00a0log",
    "=git log",
    "git =id",
    "",
    "   ",
    "git log \0",
)


@pytest.mark.parametrize("line", COMPOUNDS, ids=range(len(COMPOUNDS)))
def test_a_compound_is_no_words(line: str) -> None:
    assert words(line) is None


@FULL
@given(st.text(alphabet="git log'\"\\$`;|&<>(){}[]*?~!#=\n\t-ab\u00e9", max_size=30))
def test_words_are_those_that_a_shell_reads(line: str) -> None:
    """Held against Python's own reading; then with nothing in it that a shell acts on."""
    found = words(line)
    if found is not None:
        assert list(found) == shlex.split(line)
        assert words(shlex.join(found)) == found or "'" in "".join(found)


LINES = (
    "git log --all",
    "git log 'a b' \"c d\" e'f'\"g\"",
    "pip install pandas==2.0 'x>=1'",
    "./run.sh a=b -x,y %s @file +1 user@host:/p",
    "printf '%s\\n' ''",
)


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_words_are_those_that_a_real_shell_gives_a_program(shell: str) -> None:
    for line in LINES:
        found = words(line)
        assert found is not None, line
        shown = subprocess.run(
            [shell, "-c", f"show() {{ printf '<%s>' \"$@\"; }}; show {line}"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert shown == "".join(f"<{word}>" for word in found)


@FULL
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.lists(st.sampled_from(WORDS)))
def test_a_literal_command_line_matches_itself_alone(line: list[str], other: list[str]) -> None:
    pattern = [literal(word) for word in line]
    assert argv_matches(pattern, line)
    assert argv_matches(pattern, other) == (line == other)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5))
def test_no_star_takes_an_option(line: list[str]) -> None:
    if argv_matches([literal(line[0]), "**"], line) or argv_matches(
        [literal(line[0]), *("*" for _ in line[1:])], line
    ):
        assert not any(word.startswith("-") for word in line[1:])


def test_act_without_argv_is_matched_by_no_argv() -> None:
    rule = rule_of({"name": "x", "decision": "allow", "argv": ["git", "**"]})
    act = Act("run_command", "run", {"command": "git log; id"}, "run", code="git log; id")
    here = Situation("alice", "default", True)
    assert not rule_holds(rule, act, here)
    assert rule_holds(rule, replace(act, argv=("git", "log")), here)
    assert not rule_holds(rule, replace(act, argv=("git",) * 1_001), here)


# Patterns -----------------------------------------------------------------------------------------


def slow(pattern: str, text: str) -> bool:
    """The definition of `*`, by trying everything."""
    if not pattern:
        return not text
    if pattern[0] == "*":
        return any(slow(pattern[1:], text[at:]) for at in range(len(text) + 1))
    if pattern[0] == "\\" and len(pattern) > 1:
        pattern = pattern[1:]
    return bool(text) and text[0] == pattern[0] and slow(pattern[1:], text[1:])


@FULL
@given(st.text(alphabet="ab*\\", max_size=8), st.text(alphabet="ab*\\", max_size=8))
def test_a_pattern_matches_what_it_says(pattern: str, text: str) -> None:
    assert matches(pattern, text) == slow(pattern, text)


def slow_path(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(slow_path(wanted[1:], parts[at:]) for at in range(len(parts) + 1))
    return bool(parts) and slow(wanted[0], parts[0]) and slow_path(wanted[1:], parts[1:])


@FULL
@given(
    st.lists(st.sampled_from(("a", "b", "*", "**", "a*")), min_size=1, max_size=5),
    st.lists(st.sampled_from(("a", "b", "ab")), max_size=5),
)
def test_a_path_pattern_matches_what_it_says(wanted: list[str], parts: list[str]) -> None:
    pattern, path = "/".join(wanted), "/".join(parts)
    assert path_matches(pattern, path) == slow_path(wanted, parts)
    if path_matches(pattern, path):
        assert all(path_holds(pattern, "/".join(parts[:at])) for at in range(len(parts) + 1))


@given(st.lists(st.sampled_from(PARTS), max_size=5).map("/".join))
def test_a_path_is_clean_when_it_stays_below(path: str) -> None:
    parts = path.split("/")
    assert clean(path) == (path == "" or all(p not in ("", ".", "..") for p in parts))


# Offers -------------------------------------------------------------------------------------------


@FULL
@given(acts, situations)
def test_what_is_offered_matches_the_act_it_is_offered_for(act: Act, situation: Situation) -> None:
    if act.skill is not None and act.skill.standing == "revoked":
        return
    session = granted(session_rule(act, situation))
    if session is not None:
        assert rule_holds(session, act, situation)
    pattern = pattern_rule(act, situation)
    if pattern is not None:
        read = granted(pattern)
        assert read is not None
        assert rule_holds(read, act, situation)


@FULL
@given(acts, situations)
def test_a_pattern_offered_for_code_is_of_its_words_and_matches_no_compound(
    act: Act, situation: Situation
) -> None:
    act = replace(act, tool="run_command", effect="run", code="x", skill=None)
    pattern = pattern_rule(act, situation)
    if act.argv is None:
        assert pattern is None
    elif pattern is not None:
        assert rule_holds(rule_of(pattern), act, situation)
        assert not rule_holds(rule_of(pattern), replace(act, argv=None), situation)


@pytest.mark.parametrize(
    ("argv", "pattern"),
    [
        (["pip", "install", "pandas"], ["pip", "install", "**"]),
        (["curl", "-s", "https://a.example/x", "-o", "x"], ["curl", "-s", "*", "-o", "*"]),
        (["ls"], ["ls"]),
        (["python", "a.py", "x"], ["python", "a.py", "x"]),
        (["/usr/bin/python3.11", "-c", "1"], ["/usr/bin/python3.11", "-c", "1"]),
        (["bash", "-c", "id"], ["bash", "-c", "id"]),
        (["cat", "*"], ["cat", "**"]),
    ],
)
def test_a_pattern_keeps_what_decides_what_runs(argv: list[str], pattern: list[str]) -> None:
    act = Act("run_command", "run", {"command": argv}, "run", argv=tuple(argv), code="x")
    offered = pattern_rule(act, Situation("alice", "default", False))
    assert offered is not None
    assert offered["argv"] == [pattern]


# Levels as data -----------------------------------------------------------------------------------


@FULL
@given(policies)
def test_a_policy_read_from_its_json_is_the_same(policy: Policy) -> None:
    unique = Policy(
        tuple(replace(rule, name=f"r{number}") for number, rule in enumerate(policy.rules))
    )
    again = policy_of(unique.to_json())
    assert again.digest == unique.digest
    assert [replace(rule, line=0) for rule in again.rules] == [
        replace(rule, line=0) for rule in unique.rules
    ]


@given(
    st.lists(st.tuples(st.just("network"), st.text(max_size=300)), max_size=300),
)
def test_taints_are_bounded_and_each_is_kept_once(found: list[tuple[str, str]]) -> None:
    kept = merged((), found, 7)  # type: ignore[arg-type]
    assert len(kept) <= MAX_TAINTS + 4
    assert len({(taint.kind, taint.source) for taint in kept}) == len(kept)
    assert bool(kept) == bool(found)
