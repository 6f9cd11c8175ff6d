"""What a skill's SKILL.md says, read as leniently as real clients read it (pure).

The specification (agentskills.io) says what a field must be; its guide for clients says what to put
up with. Each thing that is put up with is a finding, so nothing is bent in silence.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace

from reprise.errors import BadSkill
from reprise.log.model import Json
from reprise.skills.contract import (
    MAX_NAME,
    NAME,
    SKILL_FILE,
    Finding,
    Severity,
    Skill,
    SkillTree,
)
from reprise.skills.frontmatter import Frontmatter, Mapping, Node, Scalar, Sequence, parse

#: agentskills.io, "Specification".
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500

FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})

#: Fields that the specification does not name, and whose they are. Other clients pass over them.
_CLAUDE_CODE = "Claude Code"
CLIENT_FIELDS: dict[str, str] = {
    "agent": _CLAUDE_CODE,
    "argument-hint": _CLAUDE_CODE,
    "arguments": _CLAUDE_CODE,
    "context": _CLAUDE_CODE,
    "disable-model-invocation": _CLAUDE_CODE,
    "disallowed-tools": _CLAUDE_CODE,
    "effort": _CLAUDE_CODE,
    "hooks": _CLAUDE_CODE,
    "model": _CLAUDE_CODE,
    "paths": _CLAUDE_CODE,
    "shell": _CLAUDE_CODE,
    "user-invocable": _CLAUDE_CODE,
    "when_to_use": _CLAUDE_CODE,
}


def read_skill(tree: SkillTree, *, folder: str | None = None) -> Skill:
    """The skill in this tree; its findings are what was put up with, all warnings.

    folder: the name of the folder it comes from, which its name should equal. A name that cannot be
    a name here (`My Skill`) is read as the nearest one that can (`my-skill`), or as the folder's.
    Raises BadSkill when it cannot be used: no SKILL.md, no frontmatter or none that can be read, no
    description, no name.
    """
    skill, findings, _ = examine(tree, folder=folder)
    return replace(
        skill, findings=tuple(replace(finding, severity="warning") for finding in findings)
    )


def examine(
    tree: SkillTree, *, folder: str | None = None
) -> tuple[Skill, list[Finding], Frontmatter]:
    """As `read_skill`, with the findings as the strict check weighs them, and the file's parts."""
    path = skill_file(tree)
    reading = _Reading(parse(tree.get(path) or b"", path), path, folder)
    if path != SKILL_FILE:
        reading.find(
            "skill-file",
            "error",
            None,
            f"The file is called {path}; where case counts, clients look for {SKILL_FILE} only.",
            f"Rename it to {SKILL_FILE}.",
        )
    return reading.skill(tree), reading.findings, reading.front


def skill_file(tree: SkillTree) -> str:
    """The path of the SKILL.md, however its name is written. Raises BadSkill."""
    if tree.manifest.get(SKILL_FILE) is not None:
        return SKILL_FILE
    for entry in tree.manifest:
        if entry.path.casefold() == SKILL_FILE.casefold():
            return entry.path
    raise BadSkill(
        f"There is no {SKILL_FILE} at the top of this folder, so it is no skill. Name the folder "
        f"that the {SKILL_FILE} is in, or write one."
    )


class _Reading:
    """One reading of one SKILL.md, and what is found in it."""

    def __init__(self, front: Frontmatter, path: str, folder: str | None) -> None:
        self.front = front
        self.path = path
        self.folder = folder
        self.findings = list(front.findings)

    def skill(self, tree: SkillTree) -> Skill:
        description = self.description()
        name = self.name()
        other = self.other()
        return Skill(
            name=name,
            description=description,
            body=self.front.body.strip(),
            tree=tree,
            license=self.text("license"),
            compatibility=self.compatibility(),
            metadata=self.metadata(),
            allowed_tools=self.allowed_tools(),
            other=other,
            findings=(),
        )

    def find(self, rule: str, severity: Severity, field: str | None, text: str, mend: str) -> None:
        line = None if field is None else self.front.key_lines.get(field, 1)
        self.findings.append(Finding(rule, severity, self.path, line, text, mend))

    def text(self, field: str) -> str | None:
        """A field that is one text; what is none is told and passed over, or taken as written."""
        node = self.front.fields.get(field)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            what = "a list" if isinstance(node, Sequence) else "a mapping"
            self.find(
                f"{field}-type",
                "error",
                field,
                f"{field} is {what}, so it is passed over.",
                "Write it as text on one line.",
            )
            return None
        if node.kind == "nothing":
            self.find(
                f"{field}-empty",
                "error",
                field,
                f"{field} is empty.",
                "Write something behind the colon, or take the field out.",
            )
            return None
        if node.kind != "text":
            self.find(
                f"{field}-type",
                "error",
                field,
                f"{field} is a {_KINDS[node.kind]} ({node.text}), where text is expected.",
                f'Put it in quotes: {field}: "{node.text}"',
            )
        text = node.text.strip()
        if not text:
            self.find(
                f"{field}-empty",
                "error",
                field,
                f"{field} is empty.",
                "Write something into the quotes, or take the field out.",
            )
        return text or None

    def name(self) -> str:
        folder = None if self.folder is None else usable_name(self.folder)
        written = self.text("name")
        if "name" not in self.front.fields:
            self.find(
                "name-missing",
                "error",
                None,
                "There is no name, which the specification requires.",
                f"Add the line name: {folder or 'NAME'}",
            )
        name = written and usable_name(written)
        if written and written != name:
            long = len(written) > MAX_NAME
            self.find(
                "name-length" if long else "name-format",
                "error",
                "name",
                f"The name has {len(written)} characters; {MAX_NAME} are allowed."
                if long
                else f"{written!r} is no name: lowercase letters a to z, digits, and single "
                "hyphens between them." + (f" It is called {name} here." if name else ""),
                f"Call it {name}." if name else "Give it such a name.",
            )
        name = name or folder
        if not name:
            raise BadSkill(
                f"{self.path}: the skill has no name that can be used. Add a line name: … of "
                "lowercase letters, digits and hyphens, equal to the name of its folder."
            )
        if self.folder is not None and written and written != self.folder:
            self.find(
                "name-folder",
                "error",
                "name",
                f"The name is {written!r}, but the folder is called {self.folder!r}.",
                "Make both the same.",
            )
        return name

    def description(self) -> str:
        description = self.text("description")
        if description is None:
            raise BadSkill(
                f"{self.path}: there is no description, or none that is text. Add a line "
                "description: … that says what the skill does and when to use it; without it "
                "nobody would."
            )
        if len(description) > MAX_DESCRIPTION:
            self.find(
                "description-length",
                "error",
                "description",
                f"The description has {len(description):,} characters; {MAX_DESCRIPTION:,} are "
                "allowed.",
                "Shorten it to what the skill does and when to use it; move the rest below.",
            )
        return description

    def compatibility(self) -> str | None:
        compatibility = self.text("compatibility")
        if compatibility is not None and len(compatibility) > MAX_COMPATIBILITY:
            self.find(
                "compatibility-length",
                "error",
                "compatibility",
                f"compatibility has {len(compatibility):,} characters; {MAX_COMPATIBILITY} are "
                "allowed.",
                "Shorten it; move the rest below.",
            )
        return compatibility

    def metadata(self) -> dict[str, str]:
        """Each value as the text that was written: 1.10 stays 1.10, a date a date."""
        node = self.front.fields.get("metadata")
        if node is None or (isinstance(node, Scalar) and node.kind == "nothing"):
            return {}
        if not isinstance(node, Mapping):
            self.find(
                "metadata-type",
                "error",
                "metadata",
                "metadata is no mapping of names to texts, so it is passed over.",
                "Write each entry in a line of its own below it, indented: NAME: VALUE",
            )
            return {}
        found: dict[str, str] = {}
        for key, value in node.pairs:
            if isinstance(value, Scalar) and value.kind == "text":
                found[key.text] = value.text
                continue
            if isinstance(value, Scalar):
                found[key.text] = value.text
                what = f"a {_KINDS[value.kind]}" if value.kind != "nothing" else "empty"
                mend = f'Put it in quotes: {key.text}: "{value.text}"'
            else:
                what = "a list" if isinstance(value, Sequence) else "a mapping"
                found[key.text] = _in_words(value)
                mend = "Write it as one text, such as a, b, c in quotes."
            self.findings.append(
                Finding(
                    "metadata-text",
                    "error",
                    self.path,
                    key.line,
                    f"{key.text} in metadata is {what}; its values are texts.",
                    mend,
                )
            )
        return found

    def allowed_tools(self) -> tuple[str, ...]:
        node = self.front.fields.get("allowed-tools")
        if node is None:
            return ()
        if isinstance(node, Sequence):
            self.find(
                "allowed-tools-list",
                "warning",
                "allowed-tools",
                "allowed-tools is a list, as Claude Code takes it; the specification asks for one "
                "text.",
                "Write them in one line with spaces between: " + " ".join(_texts(node)),
            )
            return tuple(tool for item in _texts(node) for tool in split_tools(item))
        text = self.text("allowed-tools")
        tools = split_tools(text or "")
        if text and "," in _PARENTHESES.sub("", text):
            self.find(
                "allowed-tools-list",
                "warning",
                "allowed-tools",
                "The tools in allowed-tools stand between commas, as Claude Code takes them; the "
                "specification asks for spaces.",
                "Write spaces between: " + " ".join(tools),
            )
        for tool in tools:
            if not _TOOL.fullmatch(tool):
                self.find(
                    "allowed-tools-format",
                    "error",
                    "allowed-tools",
                    f"{tool!r} in allowed-tools names no tool.",
                    "Write NAME or NAME(WHICH), such as Read or Bash(git:*).",
                )
        return tools

    def other(self) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for name, node in self.front.fields.items():
            if name in FIELDS:
                continue
            found[name] = node.to_json()
            client = CLIENT_FIELDS.get(name)
            if client is not None:
                self.find(
                    "client-field",
                    "warning",
                    name,
                    f"{name} is a field of {client}; the specification does not name it, and "
                    "other clients pass over it.",
                    f"Keep it if the skill is for {client}, and say so in compatibility.",
                )
            else:
                self.find(
                    "unknown-field",
                    "error",
                    name,
                    f"The specification names no field {name!r}.",
                    "Put it below metadata, or take it out.",
                )
        return found


_KINDS = {"number": "number", "truth": "truth value", "nothing": "nothing"}

_MARKS = re.compile("[\u0300-\u036f]")
_PARENTHESES = re.compile(r"\([^()]*\)")
#: A tool, a tool of an MCP server, or a pattern of either; in parentheses what of it.
_TOOL = re.compile(r"[A-Za-z_*][\w.:/*-]*(?:\([^()]+\))?")
_TOOLS = re.compile(r"(?:[^\s,()]|\([^()]*\))+|[()]")


def split_tools(text: str) -> tuple[str, ...]:
    """The tools in an allowed-tools: between spaces or commas that stand in no parentheses."""
    return tuple(_TOOLS.findall(text))


def _texts(node: Sequence) -> list[str]:
    return [item.text for item in node.items if isinstance(item, Scalar)]


def _in_words(node: Node) -> str:
    """A list or mapping as one text, for a place where only text can stand."""
    if isinstance(node, Sequence) and all(isinstance(item, Scalar) for item in node.items):
        return ", ".join(_texts(node))
    return json.dumps(node.to_json(), ensure_ascii=False)


def usable_name(text: str) -> str | None:
    """The nearest name of the right form, None when nothing of `text` can be in one."""
    # Accents fall off their letters; what is written in other letters has no such name.
    words = re.findall(r"[a-z0-9]+", _MARKS.sub("", unicodedata.normalize("NFKD", text)).lower())
    name = "-".join(words)[:MAX_NAME].strip("-")
    return name if NAME.fullmatch(name) else None
