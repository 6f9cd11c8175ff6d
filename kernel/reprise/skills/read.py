"""What a skill's SKILL.md says, read as leniently as real clients read it (pure).

The specification (agentskills.io) says what a field must be; its guide for clients says what to put
up with. Each thing that is put up with is a finding, so nothing is bent in silence.
"""

from __future__ import annotations

import json
import re
import unicodedata
from dataclasses import replace

from reprise.log.model import Json
from reprise.skills.contract import MAX_NAME, NAME, SKILL_FILE, Finding, Skill, SkillTree
from reprise.skills.frontmatter import Frontmatter, parse
from reprise.skills.rules import Unusable, found
from reprise.skills.yaml_tree import Mapping, Node, Scalar, Sequence

#: agentskills.io, "Specification".
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500
FIELDS = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})

_CLAUDE_CODE = "Claude Code"
#: Fields that the specification does not name, and whose they are. Other clients pass over them.
CLIENT_FIELDS: dict[str, str] = dict.fromkeys(
    (
        "agent",
        "argument-hint",
        "arguments",
        "context",
        "disable-model-invocation",
        "disallowed-tools",
        "effort",
        "hooks",
        "model",
        "paths",
        "shell",
        "user-invocable",
        "version",
        "when_to_use",
    ),
    _CLAUDE_CODE,
)

_MARKS = re.compile("[\u0300-\u036f]")
_PARENTHESES = re.compile(r"\([^()]*\)")
#: A tool, a tool of an MCP server, or a pattern of either; in parentheses what of it.
_TOOL = re.compile(r"[A-Za-z_*][\w.:/*-]*(?:\([^()]+\))?")
_TOOLS = re.compile(r"(?:[^\s,()]|\([^()]*\))+|[()]")


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
    skill = Skill(
        name=reading.name(),
        description=reading.description(),
        body=reading.front.body.strip(),
        tree=tree,
        license=reading.text("license"),
        compatibility=reading.compatibility(),
        metadata=reading.metadata(),
        allowed_tools=reading.allowed_tools(),
        other=reading.other(),
    )
    if path != SKILL_FILE:
        reading.find(
            "skill-file",
            None,
            f"The file is called {path}; where case counts, clients look for {SKILL_FILE} only.",
            f"Rename it to {SKILL_FILE}.",
        )
    return skill, reading.findings, reading.front


def skill_file(tree: SkillTree) -> str:
    """The path of the SKILL.md, however its name is written. Raises BadSkill."""
    if tree.manifest.get(SKILL_FILE) is not None:
        return SKILL_FILE
    for entry in tree.manifest:
        if entry.path.casefold() == SKILL_FILE.casefold():
            return entry.path
    raise Unusable(
        "skill-missing",
        SKILL_FILE,
        None,
        "There is no such file at the top of this folder, so it is no skill.",
        "Name the folder that it is in, or write one.",
    )


class _Reading:
    """One reading of one SKILL.md, and what is found in it."""

    def __init__(self, front: Frontmatter, path: str, folder: str | None) -> None:
        self.front = front
        self.path = path
        self.folder = folder
        self.findings = list(front.findings)

    def find(self, rule: str, field: str | None, text: str, mend: str) -> None:
        line = None if field is None else self.front.key_lines.get(field)
        self.findings.append(found(rule, self.path, line, text, mend))

    def text(self, field: str) -> str | None:
        """A field that is one text; a number is taken as written, None stands for no text."""
        node = self.front.fields.get(field)
        if node is None:
            return None
        if not isinstance(node, Scalar):
            self.find(
                "field-type",
                field,
                f"{field} is {_what(node)}, so it is passed over.",
                "Write it as text on one line.",
            )
            return None
        text = node.text.strip()
        if node.kind == "nothing" or not text:
            self.find(
                "field-empty",
                field,
                f"{field} is empty.",
                "Write something behind the colon, or take the field out.",
            )
            return None
        if node.kind != "text":
            self.find(
                "field-type",
                field,
                f"{field} is {_what(node)}, where text is expected.",
                f'Put it in quotes: {field}: "{node.text}"',
            )
        return text

    def name(self) -> str:
        folder = None if self.folder is None else usable_name(self.folder)
        written = self.text("name")
        if "name" not in self.front.fields:
            self.find(
                "name-missing",
                None,
                "There is no name, which the specification requires.",
                f"Add the line name: {folder or 'NAME'}",
            )
        name = usable_name(written) if written else None
        if written and written != name:
            self._find_name(written, name)
        if written and self.folder is not None and written != self.folder:
            self.find(
                "name-folder",
                "name",
                f"The name is {_short(written)}, but the folder is called {_short(self.folder)}.",
                "Make both the same.",
            )
        name = name or folder
        if not name:
            raise Unusable(
                "name-missing" if written is None else "name-format",
                self.path,
                self.front.key_lines.get("name", 1),
                "The skill has no name that can be used.",
                "Add a line name: … of lowercase letters, digits and hyphens, equal to the name of "
                "its folder.",
            )
        return name

    def _find_name(self, written: str, name: str | None) -> None:
        here = f" It is called {name} here." if name else ""
        mend = f"Call it {name}." if name else "Give it such a name."
        if len(written) > MAX_NAME:
            self.find(
                "name-length",
                "name",
                f"The name has {len(written):,} characters; {MAX_NAME} are allowed.{here}",
                mend,
            )
        else:
            self.find(
                "name-format",
                "name",
                f"{_short(written)} is no name: lowercase letters a to z, digits, and single "
                f"hyphens between them.{here}",
                mend,
            )

    def description(self) -> str:
        description = self.text("description")
        if description is None:
            raise Unusable(
                "description-missing",
                self.path,
                self.front.key_lines.get("description"),
                "There is no description that is text, so nobody can tell when to use it.",
                "Add a line description: … that says what the skill does and when to use it.",
            )
        if len(description) > MAX_DESCRIPTION:
            self.find(
                "description-length",
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
                "field-type",
                "metadata",
                f"metadata is {_what(node)}, so it is passed over.",
                "Write each entry in a line of its own below it, indented: NAME: VALUE",
            )
            return {}
        values: dict[str, str] = {}
        for key, value in node.pairs:
            values[key.text] = _in_words(value)
            if isinstance(value, Scalar) and value.kind == "text":
                continue
            self.findings.append(
                found(
                    "metadata-text",
                    self.path,
                    key.line,
                    f"{_short(key.text)} in metadata is {_what(value)}; its values are texts.",
                    f'Put it in quotes: {key.text}: "{value.text}"'
                    if isinstance(value, Scalar)
                    else 'Write it as one text, such as "a, b, c".',
                )
            )
        return values

    def allowed_tools(self) -> tuple[str, ...]:
        node = self.front.fields.get("allowed-tools")
        if isinstance(node, Sequence):
            listed = [item.text for item in node.items if isinstance(item, Scalar)]
            tools = tuple(tool for item in listed for tool in split_tools(item))
            self._find_listed("is a list", tools)
        else:
            text = self.text("allowed-tools") or ""
            tools = split_tools(text)
            if "," in _PARENTHESES.sub("", text):
                self._find_listed("has commas", tools)
        for tool in tools:
            if not _TOOL.fullmatch(tool):
                self.find(
                    "tools-format",
                    "allowed-tools",
                    f"{_short(tool)} in allowed-tools names no tool.",
                    "Write NAME or NAME(WHICH), such as Read or Bash(git:*).",
                )
                break
        return tools

    def _find_listed(self, what: str, tools: tuple[str, ...]) -> None:
        self.find(
            "tools-list",
            "allowed-tools",
            f"allowed-tools {what}, as {_CLAUDE_CODE} takes it; the specification asks for one "
            "text with spaces between the tools.",
            f"Write allowed-tools: {_short(' '.join(tools), quoted=False)}",
        )

    def other(self) -> dict[str, Json]:
        values: dict[str, Json] = {}
        for name, node in self.front.fields.items():
            if name in FIELDS:
                continue
            values[name] = node.to_json()
            client = CLIENT_FIELDS.get(name)
            if client is not None:
                self.find(
                    "field-client",
                    name,
                    f"{name} is a field of {client}; the specification does not name it, and other "
                    "clients pass over it.",
                    f"Keep it if the skill is for {client}, and say so in compatibility.",
                )
            else:
                self.find(
                    "field-unknown",
                    name,
                    f"The specification names no field {_short(name)}.",
                    "Put it below metadata, or take it out.",
                )
        return values


def split_tools(text: str) -> tuple[str, ...]:
    """The tools in an allowed-tools: between spaces or commas that stand in no parentheses."""
    return tuple(_TOOLS.findall(text))


def usable_name(text: str) -> str | None:
    """The nearest name of the right form, None when nothing of `text` can be in one."""
    # Accents fall off their letters; what is written in other letters has no such name.
    words = re.findall(r"[a-z0-9]+", _MARKS.sub("", unicodedata.normalize("NFKD", text)).lower())
    name = "-".join(words)[:MAX_NAME].strip("-")
    return name if NAME.fullmatch(name) else None


def _what(node: Node) -> str:
    if isinstance(node, Scalar):
        kinds = {"number": "a number", "truth": "true or false", "nothing": "empty"}
        return kinds.get(node.kind, "text") + (f" ({_short(node.text)})" if node.text else "")
    return "a list" if isinstance(node, Sequence) else "a mapping"


def _in_words(node: Node) -> str:
    """Whatever it is as one text, for a place where only text can stand."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence) and all(isinstance(item, Scalar) for item in node.items):
        return ", ".join(item.text for item in node.items if isinstance(item, Scalar))
    return json.dumps(node.to_json(), ensure_ascii=False)


def _short(text: str, *, quoted: bool = True) -> str:
    """For a message: some public skills have a whole prompt where a word belongs."""
    cut = text if len(text) <= 80 else text[:79] + "…"
    return repr(cut) if quoted else cut
