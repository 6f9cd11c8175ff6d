"""What a plugin marketplace of Claude Code holds: its files, for skills and their versions (pure).

Layout and fields: code.claude.com/docs/en/plugins/marketplace-reference and …/plugins-reference, as
of November 2026; checked with `claude plugin validate --strict` 2.1.197. Each skill is a plugin of
its own, so that people install the ones they want:

    .claude-plugin/marketplace.json
    plugins/NAME/.claude-plugin/plugin.json
    plugins/NAME/skills/NAME/SKILL.md, …
    .reprise/marketplace.json           what Reprise published, by digest; versions of what left

A plugin's version counts up with each change of its skill: Claude Code updates a plugin when its
version is another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from reprise.errors import UsageError
from reprise.log.model import Json
from reprise.skills.contract import MAX_NAME, NAME, PLAIN, Skill
from reprise.workspace.manifest import shown

MARKETPLACE: Final = ".claude-plugin/marketplace.json"
MARK: Final = ".reprise/marketplace.json"
ATTRIBUTES: Final = ".gitattributes"
README: Final = "README.md"

_FORMAT: Final = 1
#: Of a file of ours as it is read again; a marketplace of thousands of plugins has a megabyte.
MAX_FILE: Final = 16 << 20
#: What Claude Code shows in its lists.
_MAX_DESCRIPTION: Final = 1_024
#: Of a commit's first line, as tools show it.
_SUBJECT: Final = 72

#: `claude plugin marketplace add` 2.1.197 takes none of these from anybody else.
_RESERVED: Final = frozenset(
    {
        "agent-skills",
        "anthropic-agent-skills",
        "anthropic-marketplace",
        "anthropic-official",
        "anthropic-plugins",
        "builtin",
        "claude-code-marketplace",
        "claude-code-plugins",
        "claude-community",
        "claude-marketplace",
        "claude-plugins-official",
        "inline",
        "knowledge-work-plugins",
        "life-sciences",
        "official-claude-plugins",
        "skills-dir",
    }
)

#: Line ends are content: no clone of the repository may change them.
_ATTRIBUTES: Final = b"* -text\n"

#: Mode, bytes.
File = tuple[int, bytes]


@dataclass(frozen=True)
class Shelf:
    """One skill in a marketplace. version: of how many contents it is the last, from 1."""

    digest: str
    version: int


@dataclass(frozen=True)
class State:
    """What a marketplace says of itself.

    shelves: the skills that Reprise published, by name.  last: the last version of each that there
    ever was, so that one which comes back is a new one to those who have the old one.
    document: the whole of its marketplace.json, with what others wrote into it.  ours: whether
    Reprise has written it before.
    """

    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)
    document: Mapping[str, Json] = field(default_factory=dict)
    ours: bool = False

    @property
    def name(self) -> str | None:
        name = self.document.get("name")
        return name if isinstance(name, str) else None

    @property
    def owner(self) -> str | None:
        owner = self.document.get("owner")
        name = owner.get("name") if isinstance(owner, dict) else None
        return name if isinstance(name, str) else None


def checked_name(name: str) -> str:
    """A marketplace's name. Raises UsageError."""
    if not NAME.fullmatch(name) or len(name) > MAX_NAME:
        raise UsageError(
            f"{shown(name)!r} cannot name a marketplace: 1 to {MAX_NAME} lowercase letters, digits "
            "and single inner hyphens can. Give one with --name."
        )
    if name in _RESERVED:
        raise UsageError(
            f"{name} is a name that Claude Code takes from its maker only. Give another with "
            "--name."
        )
    return name


def state_of(mark: bytes | None, marketplace: bytes | None) -> State:
    """What the two files of a marketplace say; None for one that is not there.

    Raises UsageError for files that are not what their names say.
    """
    document = _parsed(MARKETPLACE, marketplace)
    said = _parsed(MARK, mark)
    if mark is not None and said.get("format") != _FORMAT:
        raise UsageError(
            f"{MARK} is not of a form that this version of Reprise writes. Nothing was changed."
        )
    shelves: dict[str, Shelf] = {}
    last: dict[str, int] = {}
    for name, value in _items(said.get("skills")):
        digest, version = value.get("digest"), value.get("version")
        if not NAME.fullmatch(name) or type(version) is not int or not 0 < version < 1 << 31:
            continue
        last[name] = version
        if isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest):
            shelves[name] = Shelf(digest, version)
    return State(shelves, last, document, ours=mark is not None)


def _items(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, each in value.items() if isinstance(value, dict) else ():
        if isinstance(each, dict):
            yield key, each


def _parsed(path: str, data: bytes | None) -> dict[str, Json]:
    if data is None:
        return {}
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no JSON object. Nothing was changed; mend or remove it.")
    return value


What = Literal["added", "changed", "unchanged", "removed"]


@dataclass(frozen=True)
class Outcome:
    """What becomes of one skill. version: of its plugin, as Claude Code reads it."""

    name: str
    what: What
    version: str


@dataclass(frozen=True)
class Plan:
    """shelves: as they will be.  fresh: new or changed skills.  leaving: names that go."""

    shelves: Mapping[str, Shelf]
    fresh: Mapping[str, Skill]
    leaving: tuple[str, ...]
    outcomes: tuple[Outcome, ...]

    def message(self, name: str) -> str:
        """Of the commit."""
        told = [
            f"{each.name} {each.version}"
            for each in self.outcomes
            if each.what in ("added", "changed")
        ]
        parts = [f"Publish {', '.join(told)}"] if told else []
        parts += [f"Remove {', '.join(self.leaving)}"] if self.leaving else []
        subject = "; ".join(parts) or f"Describe {name}"
        if len(subject) <= _SUBJECT:
            return f"{subject}\n"
        return f"Publish {len(told)} and remove {len(self.leaving)} skills\n\n{subject}\n"


def planned(state: State, skills: Mapping[str, Skill], leaving: Collection[str]) -> Plan:
    """What becomes of each skill when these are put in and those in `leaving` taken out."""
    gone = tuple(sorted(each for each in leaving if each in state.shelves and each not in skills))
    shelves = {each: shelf for each, shelf in state.shelves.items() if each not in gone}
    fresh: dict[str, Skill] = {}
    outcomes: list[Outcome] = []
    for each, skill in sorted(skills.items()):
        before = shelves.get(each)
        what: What = "unchanged"
        if before is None or before.digest != skill.digest:
            what = "added" if before is None else "changed"
            fresh[each] = skill
            shelves[each] = Shelf(skill.digest, state.last.get(each, 0) + 1)
        outcomes.append(Outcome(each, what, written_version(shelves[each].version)))
    outcomes += [
        Outcome(each, "removed", written_version(state.shelves[each].version)) for each in gone
    ]
    return Plan(shelves, fresh, gone, tuple(outcomes))


def areas(name: str) -> tuple[str, str]:
    """The one file, and the beginning of the paths of all others, that a plugin has of ours."""
    folder = plugin_folder(name)
    return f"{folder}/.claude-plugin/plugin.json", f"{folder}/skills/{name}/"


def plugin_folder(name: str) -> str:
    """Where a skill's plugin lies in the marketplace."""
    return f"plugins/{name}"


def plugin_files(skill: Skill, version: int, owner: str) -> Iterator[tuple[str, File]]:
    """All files of a skill's plugin, by path from the top."""
    folder = plugin_folder(skill.name)
    described = {
        "name": skill.name,
        "description": _description(skill),
        "version": written_version(version),
        "author": {"name": owner},
    }
    yield f"{folder}/.claude-plugin/plugin.json", (PLAIN, _json(described))
    for entry in skill.tree.manifest:
        data = skill.tree.get(entry.path) or b""
        yield f"{folder}/skills/{skill.name}/{entry.path}", (entry.mode, data)


def written_version(version: int) -> str:
    """A plugin's version as Claude Code reads it (semver.org)."""
    return f"1.0.{version - 1}"


def top_files(state: State, plan: Plan, name: str, owner: str) -> Iterator[tuple[str, File]]:
    """The files that speak of all skills.

    What others wrote into an existing marketplace.json stays: other plugins, other fields.
    """
    plugins = state.document.get("plugins")
    entries = {
        str(entry["name"]): entry
        for entry in (plugins if isinstance(plugins, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }
    kept = [
        entry
        for each, entry in entries.items()
        if each not in state.shelves and each not in plan.fresh
    ]
    ours = [
        _entry(plan.fresh[each], shelf) if each in plan.fresh else entries.get(each)
        for each, shelf in sorted(plan.shelves.items())
    ]
    document = {
        "name": name,
        "owner": {"name": owner},
        "description": f"Agent skills of {owner}, published with Reprise",
        **state.document,
    }
    document["name"] = name
    if state.owner != owner:
        document["owner"] = {"name": owner}
    document["plugins"] = [*kept, *(entry for entry in ours if entry is not None)]
    yield MARKETPLACE, (PLAIN, _json(document))
    known: dict[str, dict[str, Json]] = {
        each: {"version": version} for each, version in state.last.items()
    }
    for each, shelf in plan.shelves.items():
        known[each] = {"digest": shelf.digest, "version": shelf.version}
    mark = {"format": _FORMAT, "skills": dict(sorted(known.items()))}
    yield MARK, (PLAIN, _json(mark))


def first_files(name: str) -> Iterator[tuple[str, File]]:
    """What a new marketplace has beside: written once, and the person's from then on."""
    yield ATTRIBUTES, (PLAIN, _ATTRIBUTES)
    yield README, (PLAIN, _README.format(name=name).encode())


def _entry(skill: Skill, shelf: Shelf) -> dict[str, Json]:
    return {
        "name": skill.name,
        "source": f"./{plugin_folder(skill.name)}",
        "description": _description(skill),
        "version": written_version(shelf.version),
    }


def _description(skill: Skill) -> str:
    text = " ".join(skill.description.split())
    return text if len(text) <= _MAX_DESCRIPTION else f"{text[: _MAX_DESCRIPTION - 2]} …"


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


_README: Final = """\
# {name}

Agent skills. Each is a folder with a `SKILL.md` below `plugins/*/skills/`.

- Claude Code: `/plugin marketplace add ADDRESS-OF-THIS-REPOSITORY`, then
  `/plugin install SKILL@{name}`
- Reprise: `reprise skills import ADDRESS-OF-THIS-REPOSITORY`
- Codex, Gemini CLI and others: copy a skill's folder into `.agents/skills/`

`reprise skills publish` writes `plugins/`, `.claude-plugin/` and `.reprise/`. The rest is yours.
"""
