"""What an approval may allow beyond the very call (pure).

Each offer is a rule as policies are written; it is shown whole before a person gives it, it matches
the act that it is offered for, and it never matches code by its text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from reprise.log.model import Json
from reprise_server.agent.contract import Act, Situation
from reprise_server.agent.policy.engine import rule_holds
from reprise_server.agent.policy.patterns import REST, literal
from reprise_server.agent.policy.reading import MAX_NAME, granted

#: Programs whose words are code, or other programs: no pattern of their words says what they do.
RUNNERS: Final = re.compile(
    r"(?:.*/)?(?:(?:python|pypy|ruby|perl|lua|php|node|deno|bun|julia|rscript|r|octave|tclsh)[0-9.]*"
    r"|(?:ba|da|z|k|c|tc|fi)?sh|env|nice|nohup|setsid|timeout|stdbuf|xargs|parallel|find|awk|gawk"
    r"|mawk|sed|make|ninja|uv|uvx|pipx|npx|npm|poetry|conda|tmux|screen|script|ssh|sudo|su|doas"
    r"|busybox|git|tar|rsync|man|less|vi|vim|ex|ed|emacs|gdb|strace|watch|time|ipython|jupyter)",
    re.IGNORECASE,
)
#: A second word like this chooses what a program does (`pip install`), and stays as it is.
_SUBCOMMAND: Final = re.compile(r"[a-z][a-z0-9-]{0,30}")


def session_rule(act: Act, situation: Situation) -> dict[str, Json]:
    """The rule of "for this session": this tool (of a skill: this content of it), any input; of
    code, in this environment."""
    rule = _rule("session", act, situation)
    if act.skill is not None:
        rule["skill"] = [f"sha256:{literal(act.skill.digest)}"]
    return rule


def pattern_rule(act: Act, situation: Situation) -> dict[str, Json] | None:
    """The rule of "for this pattern"; None where no pattern says something of use.

    It matches `act` in `situation`.
    """
    said = _pattern(act)
    if said is None:
        return None
    rule = {**_rule("pattern", act, situation), **said}
    read = granted(rule)
    # An act may hold what no policy can say, such as a word that is too long.
    return rule if read is not None and rule_holds(read, act, situation) else None


def _rule(kind: str, act: Act, situation: Situation) -> dict[str, Json]:
    rule: dict[str, Json] = {
        "name": _name(kind, act.tool),
        "decision": "allow",
        "tool": [literal(act.tool)],
    }
    if act.effect == "run" or act.code is not None:
        # Another environment may let code reach what this one does not.
        rule["environment"] = [literal(situation.environment)]
    return rule


def _pattern(act: Act) -> Mapping[str, Json] | None:
    if act.tool.startswith("mcp/"):
        server = act.tool.split("/")[1]
        return {"tool": [f"mcp/{literal(server)}/*"]}
    if act.skill is not None:
        if act.skill.standing != "trusted":
            return None
        named = f"{literal(act.skill.scope)}:{literal(act.skill.name)}"
        return {"skill": [named], "standing": ["trusted"]}
    if act.argv:
        return {"argv": [list(_words(act.argv))]}
    if act.code is not None or not act.paths:
        return None
    return {"path": sorted({_near(path) for path in act.paths})}


def _words(argv: tuple[str, ...]) -> tuple[str, ...]:
    """The pattern of a command line: its program, its options, any other words."""
    exact = tuple(map(literal, argv))
    if RUNNERS.fullmatch(argv[0]) or len(argv) == 1:
        return exact
    kept = 2 if _SUBCOMMAND.fullmatch(argv[1]) else 1
    if not any(word.startswith("-") for word in argv[kept:]):
        return (*exact[:kept], REST)
    return (
        *exact[:kept],
        *(
            pattern if word.startswith("-") else "*"
            for word, pattern in zip(argv[kept:], exact[kept:], strict=True)
        ),
    )


def _near(path: str) -> str:
    """Files beside this one, of its kind; of a notebook, this one."""
    folder, slash, name = path.rpartition("/")
    dot, suffix = name.rpartition(".")[1:]
    if suffix == "ipynb" or not name.rpartition(".")[0]:
        return path
    return f"{folder}{slash}*{dot}{suffix}"


def _name(kind: str, tool: str) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", tool.lower()).strip("-")
    return f"{kind}-{slug}"[:MAX_NAME].rstrip("-")
