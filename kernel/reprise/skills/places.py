"""Where other tools keep their skills: which folders they read, and which one is written.

Sources: code.claude.com/docs/en/skills ("Where skills live"), developers.openai.com/codex/skills
("Where to save skills"), geminicli.com/docs/cli/using-agent-skills ("Discovery tiers"), and
agentskills.io for `.agents/skills`; as of November 2026.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from reprise.errors import UsageError

Tool = Literal["claude-code", "codex", "gemini", "agents"]

TOOLS: Final[tuple[Tool, ...]] = get_args(Tool)

#: Of a project, the folder that a tool reads, and that is written for it.
_FOLDER: Final[Mapping[Tool, str]] = {
    "claude-code": ".claude/skills",
    "codex": ".agents/skills",
    "gemini": ".gemini/skills",
    "agents": ".agents/skills",
}
#: Tools that also read the folders of a project's parents, up to its repository's top.
_UPWARDS: Final[frozenset[Tool]] = frozenset({"claude-code", "codex", "agents"})


@dataclass(frozen=True)
class Place:
    """A folder with skills in it. whose: "project", "user", or "machine" for all its users."""

    path: Path
    whose: Literal["project", "user", "machine"]


def tool_named(text: str) -> Tool:
    """Raises UsageError."""
    for tool in TOOLS:
        if text == tool:
            return tool
    raise UsageError(f"{text!r} is no tool whose skills are known: {', '.join(TOOLS)} are.")


def places(
    tool: Tool, project: Path, *, home: Path | None = None, environ: Mapping[str, str] = os.environ
) -> list[Place]:
    """The folders that a tool reads when it is started in `project`, nearest first.

    They need not be there.
    """
    home = home or Path.home()
    found = [
        Place(folder / name, "project")
        for folder in _projects(tool, project)
        for name in _read(tool)
    ]
    of_user = _of_user(tool, home, environ)
    found += [Place(path, "user") for path in (of_user[::-1] if tool == "gemini" else of_user)]
    if tool == "codex":
        found.append(Place(Path("/etc/codex/skills"), "machine"))
    return list({place.path: place for place in reversed(found)}.values())[::-1]


def written(
    tool: Tool,
    project: Path | None,
    *,
    home: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """The folder that skills are exported to: of a project, or of the user when it is None."""
    if project is not None:
        return project / _FOLDER[tool]
    return _of_user(tool, home or Path.home(), environ)[0]


def _read(tool: Tool) -> tuple[str, ...]:
    """Of a project, what the tool reads, first what it prefers."""
    return (".agents/skills", ".gemini/skills") if tool == "gemini" else (_FOLDER[tool],)


def _of_user(tool: Tool, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """The user's folders; the first one is written."""
    agents = home / ".agents/skills"
    match tool:
        case "claude-code":
            return [_set("CLAUDE_CONFIG_DIR", home / ".claude", environ) / "skills"]
        case "codex":
            # The second is what Codex read before it took up the shared folder: never written.
            return [agents, _set("CODEX_HOME", home / ".codex", environ) / "skills"]
        case "gemini":
            return [home / ".gemini/skills", agents]
        case _:
            return [agents]


def _set(variable: str, otherwise: Path, environ: Mapping[str, str]) -> Path:
    return Path(environ[variable]) if environ.get(variable) else otherwise


def _projects(tool: Tool, project: Path) -> list[Path]:
    """The folder itself, and those above it up to the top of its repository, nearest first."""
    project = project.absolute()
    if tool not in _UPWARDS:
        return [project]
    above = [project, *project.parents]
    for number, folder in enumerate(above, 1):
        if (folder / ".git").exists():
            return above[:number]
    return [project]
