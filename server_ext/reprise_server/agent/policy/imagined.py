"""An act as a person describes it, to see what would become of it; nothing is done (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from reprise.errors import UsageError
from reprise_server.agent.contract import Act, Effect, Situation, SkillNamed, Taint, TaintKind
from reprise_server.agent.policy.rules import ORGANISATION, PERSONAL, SERVER, Level
from reprise_server.agent.tools.words import words

#: What each tool does; of a tool of an MCP server: outside.
EFFECT_OF: Final[dict[str, Effect]] = {
    "read_notebook": "read",
    "edit_notebook": "edit",
    "run_cells": "run",
    "run_command": "run",
    "read_file": "read",
    "write_file": "write",
    "list_files": "read",
    "search_files": "read",
    "search_skills": "read",
    "load_skill": "load",
    "read_skill_file": "load",
    "run_skill": "run",
    "save_artifact": "keep",
    "ask_user": "ask",
    "fork_session": "history",
    "rewind_session": "history",
}
_NO_DIGEST: Final = "0" * 64


def act_of(
    tool: str,
    *,
    argv: Sequence[str] | None = None,
    shell: str | None = None,
    code: str | None = None,
    paths: Sequence[str] = (),
    hosts: Sequence[str] = (),
    skill: str | None = None,
    standing: str = "trusted",
) -> Act:
    """The act of a tool. argv: the words of a command; shell: a command as shell text.  code: of a
    cell.  skill: SCOPE:NAME or NAME. Raises UsageError for a tool that there is not."""
    effect = EFFECT_OF.get(tool, "outside" if tool.startswith("mcp/") else None)
    if effect is None:
        raise UsageError(
            f"{tool!r} is no tool. Tools: {', '.join(EFFECT_OF)}, and mcp/SERVER/TOOL."
        )
    said = tuple(argv) if argv else words(shell) if shell else None
    text = code or shell or (" ".join(argv) if argv else None)
    if text is None and effect == "run":
        text = ""
    named = None
    if skill is not None:
        scope, colon, name = skill.rpartition(":")
        named = SkillNamed(name, scope if colon else PERSONAL, _NO_DIGEST, standing)
    return Act(
        tool=tool,
        effect=effect,
        input={},
        title=tool,
        argv=said,
        code=text,
        paths=tuple(paths),
        hosts=tuple(hosts),
        skill=named,
    )


def situation_of(
    *,
    who: str | None,
    environment: str,
    isolated: bool,
    network: Sequence[str] = (),
    tainted: Sequence[TaintKind] = (),
) -> Situation:
    """tainted: kinds of untrusted content that is in the context, from wherever."""
    return Situation(
        who=who,
        environment=environment,
        isolated=isolated,
        network=tuple(network),
        taints=tuple(Taint(kind, "somewhere", 0) for kind in tainted),
    )


def in_place(bound: Sequence[Level], level: Level) -> list[Level]:
    """The levels, one of them as it would be: where it stands, or where it would."""
    names = [each.name for each in bound]
    if level.name in names:
        return [level if each.name == level.name else each for each in bound]
    order = {SERVER: 0, ORGANISATION: 1, PERSONAL: 3}
    return sorted([*bound, level], key=lambda each: (order.get(each.name, 2), each.name))
