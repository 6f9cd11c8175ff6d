"""What in a policy may not do what whoever wrote it meant: warnings, no errors (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from reprise_server.agent.policy.offers import RUNNERS
from reprise_server.agent.policy.patterns import matches
from reprise_server.agent.policy.reading import Problem
from reprise_server.agent.policy.rules import Policy, Rule

#: Tools that run code of any kind: what one of them may not do, the others can.
RUNNING: Final = ("run_cells", "run_command", "run_skill")


def advice(policy: Policy) -> list[Problem]:
    """What to look at again, by line."""
    found = [problem for rule in policy.rules for problem in _of(rule)]
    return found + list(_unreached(policy))


def _of(rule: Rule) -> Iterator[Problem]:
    runs = _may_run(rule)
    if rule.decision != "allow":
        if rule.path and runs:
            yield Problem(
                rule.line,
                f"{rule.name}: a path does not hold back code, which can open any file of the"
                " workspace.",
                "Keep such files out of the sandbox; this rule covers the agent's own file tools.",
            )
        named = [tool for tool in RUNNING if any(matches(p, tool) for p in rule.tool)]
        if named and len(named) < len(RUNNING) and not rule.effect and not rule.skill:
            others = ", ".join(tool for tool in RUNNING if tool not in named)
            yield Problem(
                rule.line,
                f"{rule.name}: what {', '.join(named)} does, {others} can do as well.",
                "Say effect: run instead of the tool.",
            )
    elif (rule.path or rule.host) and runs:
        yield Problem(
            rule.line,
            f"{rule.name}: a path or host allows no code, whose text does not show what it opens.",
            "Name tools or effects besides; for code, an environment or a command line (argv).",
        )
    for words in rule.argv:
        if RUNNERS.fullmatch(words[0]) and any("*" in word for word in words[1:]):
            yield Problem(
                rule.line,
                f"{rule.name}: {words[0]} can run any program or code that its words name.",
                "Write all its words out, or rely on the sandbox and leave argv out.",
            )


def _may_run(rule: Rule) -> bool:
    if rule.effect and "run" not in rule.effect:
        return False
    return not rule.tool or any(matches(p, tool) for p in rule.tool for tool in RUNNING)


def _unreached(policy: Policy) -> Iterator[Problem]:
    """Rules behind one that holds always."""
    for number, rule in enumerate(policy.rules):
        bare = Rule(rule.name, rule.decision, rule.why, line=rule.line)
        if rule == bare and number + 1 < len(policy.rules):
            yield Problem(
                policy.rules[number + 1].line,
                f"Nothing behind {rule.name} ever counts: it holds for every act.",
                "Move it to the end.",
            )
            return
