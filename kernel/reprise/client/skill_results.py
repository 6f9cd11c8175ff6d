"""What is said while a skill is mounted or run, and what comes of it, as values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypedDict

from reprise.client.results import CommandResult, MountResult
from reprise.log.model import Actor, Json
from reprise.skills.as_json import version_json
from reprise.skills.contract import Skill, Version


@dataclass(frozen=True)
class Progress:
    """What is about to be done for a skill, a phrase, or a sentence that warns.

    kind: "mount", "install", "warning" or "run"; after "run" comes what the script writes.
    """

    kind: Literal["mount", "install", "warning", "run"]
    text: str


Tell = Callable[[Progress], None]


class RunOptions(TypedDict, total=False):
    """What `run_skill` takes beside skill, script and arguments.

    stdin, env, timeout, output_bytes, output_lines, key, actor: as of a command.
    install: whether packages that the script needs may be brought into the session.
    """

    stdin: str | bytes | None
    env: Mapping[str, str] | None
    timeout: float | None
    output_bytes: int | None
    output_lines: int | None
    key: str | None
    actor: Actor | None
    install: bool


@dataclass(frozen=True)
class SkillMounted:
    """A skill as it lies in a session.

    path: where, inside.  step: the mount that was made now; None when the very same content was
    there already.
    """

    version: Version
    skill: Skill
    path: str
    step: MountResult | None


@dataclass(frozen=True)
class SkillResult(CommandResult):
    """How a script of a skill ended.

    version: of the skill.  script: its path within.  mounted: the step that mounted it, None when
    it was there.  installed: requirements that were installed for it now.  warnings: a sentence
    each.
    compatibility, allowed_tools: what the skill says it needs, and which tools it asks to have
    pre-approved; the latter is a request, which grants nothing.
    """

    version: Version
    script: str
    compatibility: str | None
    allowed_tools: tuple[str, ...]
    mounted: MountResult | None
    installed: tuple[str, ...]
    warnings: tuple[str, ...]


def skill_json(result: SkillResult) -> dict[str, Json]:
    """For programs, what a run of a script says beyond what a command does (`command_json`)."""
    return {
        "skill": version_json(result.version),
        "script": result.script,
        "compatibility": result.compatibility,
        "allowed_tools": list(result.allowed_tools),
        "mounted": None if result.mounted is None else result.mounted.seq,
        "installed": list(result.installed),
        "warnings": list(result.warnings),
    }
