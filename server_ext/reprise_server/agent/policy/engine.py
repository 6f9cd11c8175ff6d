"""The verdict of an act under the policies that bind it: no I/O, no clock, total (pure).

    1. A revoked skill is denied.
    2. In each level, the first rule that holds decides. Of the levels' decisions the strictest one
       stands, so a level can only tighten what those above it say.
    3. Where no level says anything, the built-in default does.
    4. Once something untrusted is in the context, what can carry data out or acts outside is asked
       at least, whatever the levels allow.
    5. An ask becomes an allow by a grant: what a person allowed before, with all of today's
       untrusted content already there. A deny stays a deny.

A rule that allows must be sure of all it allows: every path and host of the act is within the rule,
and it says nothing of code, whose text shows neither. A rule that asks or denies holds as soon as
one of them may be meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reprise_server.agent.contract import Act, Decision, Grant, Situation, SkillNamed, Verdict
from reprise_server.agent.policy.patterns import (
    REST,
    argv_matches,
    clean,
    host_meets,
    host_within,
    matches,
    path_holds,
    path_matches,
)
from reprise_server.agent.policy.reading import granted
from reprise_server.agent.policy.rules import DEFAULT, STRICTNESS, Level, Rule
from reprise_server.agent.policy.taint import names, shown

#: Looks at all that lies below its paths; named without one, at the whole workspace.
_LISTS: Final = "list_files"
#: Names the files that it looks at, or "" for all of them.
_SEARCHES: Final = "search_files"

#: What changes the workspace, the notebook or the history: undone by a rewind, within the sandbox.
_CHANGES: Final = frozenset({"edit", "write", "run", "history"})
_HARMLESS: Final = frozenset({"read", "load", "keep", "ask"})


def evaluate(
    levels: Sequence[Level], grants: Sequence[Grant], act: Act, situation: Situation
) -> Verdict:
    """What becomes of an act. levels: from the top.  Raises nothing."""
    if act.skill is not None and act.skill.standing == "revoked":
        return Verdict(
            "deny",
            "revoked",
            f"The skill {act.skill.scope}:{act.skill.name} was revoked: it is not used any more.",
        )
    verdict = _leveled(levels, act, situation)
    if verdict.decision == "allow" and situation.taints and reaches_out(act, situation):
        verdict = Verdict(
            "ask",
            "taint",
            "Content that nobody vouches for is in the context "
            f"({shown(situation.taints)}), and this can carry data out or change things outside.",
        )
    if verdict.decision != "ask":
        return verdict
    grant = _given(grants, act, situation)
    if grant is None:
        return verdict
    return Verdict("allow", verdict.rule, "A person allowed this before.", grant.seq)


def reaches_out(act: Act, situation: Situation) -> bool:
    """Whether an act can carry data out of the sandbox or change things outside of it.

    Code can where a host is open to it, or where no wall keeps it from all of them.
    """
    if act.carries_out or act.effect == "outside":
        return True
    runs = act.effect == "run" or act.code is not None
    return runs and (bool(situation.network) or not situation.isolated)


def rule_holds(rule: Rule, act: Act, situation: Situation) -> bool:
    """Whether all conditions of a rule hold for an act."""
    allows = rule.decision == "allow"
    return (
        _one_of(rule.tool, act.tool)
        and (not rule.effect or act.effect in rule.effect)
        and _one_of(rule.environment, situation.environment)
        and _who_holds(rule, situation.who)
        and _skill_holds(rule, act.skill)
        and (not rule.path or _paths_hold(rule.path, act, allows=allows))
        and (not rule.host or _hosts_hold(rule.host, act, situation, allows=allows))
        and (not rule.argv or _argv_holds(rule, act))
        and _taint_holds(rule, situation)
    )


def by_level(
    levels: Sequence[Level], act: Act, situation: Situation
) -> list[tuple[Level, Rule | None]]:
    """Of each level the rule that decides for it; None where it says nothing."""
    return [
        (level, next((r for r in level.policy.rules if rule_holds(r, act, situation)), None))
        for level in levels
    ]


def _leveled(levels: Sequence[Level], act: Act, situation: Situation) -> Verdict:
    strictest: tuple[Level, Rule] | None = None
    for level, rule in by_level(levels, act, situation):
        # Of two that are as strict, the one above is named.
        if rule is not None and (
            strictest is None or _strict(rule.decision) > _strict(strictest[1].decision)
        ):
            strictest = level, rule
    if strictest is None:
        return _default(act, situation)
    level, rule = strictest
    words = {"allow": "allows it", "ask": "wants a person asked", "deny": "denies it"}
    why = f"{owner_of(level.name)} {words[rule.decision]}"
    return Verdict(
        rule.decision,
        f"{level.name}/{rule.name}",
        f"{why}: {rule.why}" if rule.why else f"{why} (rule {rule.name}).",
    )


def owner_of(level: str) -> str:
    """Whose policy a level is, as the beginning of a sentence."""
    if level.startswith("team/"):
        return f"The policy of {level}"
    return {
        "server": "The policy of this server",
        "organisation": "The organisation's policy",
        "personal": "Your policy",
    }.get(level, f"The policy {level}")


def _strict(decision: Decision) -> int:
    return STRICTNESS.get(decision, 2)


def _default(act: Act, situation: Situation) -> Verdict:
    rule = f"{DEFAULT}/{act.effect}"
    if act.effect in _HARMLESS and not (act.code is not None and not situation.isolated):
        return Verdict("allow", rule, "No policy says otherwise.")
    if act.effect in _CHANGES:
        if situation.isolated:
            return Verdict("allow", rule, "It stays in the sandbox, and can be undone.")
        return Verdict("ask", rule, "This backend isolates nothing: it acts with your own rights.")
    if act.effect == "outside":
        return Verdict("ask", rule, "It acts outside of the session, and cannot be undone.")
    return Verdict("ask", rule, "No policy says anything of it.")


# Conditions ---------------------------------------------------------------------------------------


def _one_of(patterns: Sequence[str], text: str) -> bool:
    return not patterns or any(matches(pattern, text) for pattern in patterns)


def _who_holds(rule: Rule, who: str | None) -> bool:
    if rule.who and who is None:
        # It may be anybody: nothing is allowed to nobody in particular, nor is a denial escaped.
        return rule.decision != "allow"
    return who is None or _one_of(rule.who, who)


def _skill_holds(rule: Rule, skill: SkillNamed | None) -> bool:
    if not (rule.skill or rule.scope or rule.standing):
        return True
    if skill is None:
        return False
    spelled = (skill.name, f"{skill.scope}:{skill.name}", f"sha256:{skill.digest}")
    return (
        (not rule.skill or any(matches(p, text) for p in rule.skill for text in spelled))
        and _one_of(rule.scope, skill.scope)
        and (not rule.standing or skill.standing in rule.standing)
    )


def _paths_hold(patterns: Sequence[str], act: Act, *, allows: bool) -> bool:
    paths = act.paths or (("",) if act.tool in (_LISTS, _SEARCHES) else ())
    if allows:
        return (
            act.code is None
            and bool(paths)
            and all(
                clean(path) and any(_all_within(p, path, act.tool) for p in patterns)
                for path in paths
            )
        )
    return any(
        # What cannot be judged may be meant.
        not clean(path)
        or any((path_holds if _tree(act.tool, path) else path_matches)(p, path) for p in patterns)
        for path in paths
    )


def _tree(tool: str, path: str) -> bool:
    """Whether a tool looks at all that lies below a path."""
    return tool == _LISTS or (tool == _SEARCHES and path == "")


def _all_within(pattern: str, path: str, tool: str) -> bool:
    """Whether a pattern names a path and, of a tree, all that lies below it."""
    return path_matches(pattern, path) and (
        not _tree(tool, path) or pattern == REST or pattern.endswith(f"/{REST}")
    )


def _hosts_hold(patterns: Sequence[str], act: Act, situation: Situation, *, allows: bool) -> bool:
    if allows:
        return (
            act.code is None
            and bool(act.hosts)
            and all(any(host_within(p, host) for p in patterns) for host in act.hosts)
        )
    reached = act.hosts
    if act.effect == "run" or act.code is not None:
        reached += situation.network
        if not situation.isolated:
            return True
    return any(host_meets(p, host) for p in patterns for host in reached)


def _argv_holds(rule: Rule, act: Act) -> bool:
    return (
        rule.decision == "allow"
        and act.argv is not None
        and any(argv_matches(pattern, act.argv) for pattern in rule.argv)
    )


def _taint_holds(rule: Rule, situation: Situation) -> bool:
    if rule.tainted is None:
        return True
    if isinstance(rule.tainted, bool):
        return rule.tainted == bool(situation.taints)
    return any(taint.kind in rule.tainted for taint in situation.taints)


# Grants -------------------------------------------------------------------------------------------


def _given(grants: Sequence[Grant], act: Act, situation: Situation) -> Grant | None:
    """The newest grant that covers an act with what is in the context now."""
    now = names(situation.taints)
    for grant in reversed(grants):
        if grant.scope == "once" or not now <= set(grant.taints):
            continue
        rule = granted(grant.rule)
        if rule is not None and rule_holds(rule, act, situation):
            return grant
    return None
