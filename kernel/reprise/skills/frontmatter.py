"""What stands between the two lines `---` of a SKILL.md, its fields and their lines (pure).

python-frontmatter finds the two lines; what lies between is read by `yaml_tree`, since its own
reading answers {} where there is nothing it understands and knows no line numbers. What YAML
refuses and clients of skills put up with (a value with a colon in it) is read as that text, and
told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml
from frontmatter.default_handlers import YAMLHandler

from reprise.skills.contract import MAX_SKILL_FILE_BYTES, SKILL_FILE, Finding
from reprise.skills.rules import Unusable, found
from reprise.skills.yaml_tree import (
    MAX_NODES,
    Mapping,
    Node,
    Refused,
    Scalar,
    Sequence,
    first_flow,
    line_of,
    problem_of,
    tree_of,
    tree_of_json,
)

#: Of the frontmatter. Clients keep it of every skill in memory; public ones are below 5 kB.
MAX_BYTES = 64 << 10
_BYTE_ORDER_MARK = "\ufeff"
_KEY_LINE = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(?P<value>.*)|[ \t]*)$")
_BLOCK_MARK = re.compile(r"[|>][-+0-9]*")
_NESTED_LINE = re.compile(r"(?P<before>[ \t]+[\w.-]+[ \t]*:[ \t]+)(?P<value>\S.*)$")


@dataclass(frozen=True)
class Frontmatter:
    """A SKILL.md taken apart; lines are counted from 1 in the file as it is.

    fields: by name; of a name that stands twice, the last.  key_lines: where each field begins.
    body: the Markdown below, with lines that end in "\\n" only.  body_line: its first one.
    findings: what was put up with, with the severity that a strict check gives it.
    """

    fields: dict[str, Node]
    key_lines: dict[str, int]
    body: str
    body_line: int
    findings: list[Finding] = field(default_factory=list)


#: With a boundary of exactly three hyphens. Its own takes the blank lines below with it, so that no
#: line number would be right.
_HANDLER = YAMLHandler(re.compile(r"^---[ \t]*$", re.MULTILINE))


def parse(data: bytes, path: str = SKILL_FILE) -> Frontmatter:
    """Raises BadSkill (`rules.Unusable`) when no client could use it."""
    findings: list[Finding] = []
    text = _text(data, path, findings)
    start = len(text) - len(text.lstrip())
    if not _HANDLER.detect(text[start:]):
        raise Unusable(
            "frontmatter",
            path,
            1,
            "It does not begin with a frontmatter, without which nobody can tell what it is for.",
            "Begin it with a line ---, then name: … and description: …, then a line ---.",
        )
    first = text.count("\n", 0, start) + 1
    if start:
        findings.append(
            found(
                "frontmatter",
                path,
                1,
                "Something stands before the first line ---, so most clients see no frontmatter.",
                "Make --- the first line.",
            )
        )
    try:
        front, body = _HANDLER.split(text[start:])
    except ValueError as error:
        raise Unusable(
            "frontmatter",
            path,
            first,
            "The frontmatter that begins here never ends.",
            "Put a line --- below its last field.",
        ) from error
    if len(front.encode()) > MAX_BYTES:
        raise Unusable(
            "frontmatter",
            path,
            first,
            f"The frontmatter is larger than {MAX_BYTES >> 10} KiB.",
            "Keep name, description and the like in it; move the rest below, or to other files.",
        )
    fields, key_lines = _fields(front, first, path, findings)
    body_line = first + front.count("\n") + 1
    # The line break behind the closing --- is no part of the body.
    return Frontmatter(fields, key_lines, body.removeprefix("\n"), body_line, findings)


def _text(data: bytes, path: str, findings: list[Finding]) -> str:
    """The file as text with "\\n" as its only line end."""
    if len(data) > MAX_SKILL_FILE_BYTES:
        raise Unusable(
            "skill-size",
            path,
            None,
            f"It is larger than {MAX_SKILL_FILE_BYTES >> 20} MiB, and a model reads it whole.",
            "Move most of it into other files that it names.",
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unusable(
            "encoding", path, 1, "It is UTF-16, which no client reads.", "Save it as UTF-8."
        )
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        findings.append(
            found(
                "encoding",
                path,
                data.count(b"\n", 0, error.start) + 1,
                "It is not UTF-8. Clients show \ufffd where it is not, or nothing at all.",
                "Save it as UTF-8.",
            )
        )
        text = data.decode(errors="replace")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise Unusable(
            "control-character", path, line, "It holds a NUL, so it is no text.", "Remove it."
        )
    if text.startswith(_BYTE_ORDER_MARK):
        findings.append(
            found(
                "byte-order-mark",
                path,
                1,
                "It begins with a byte order mark, behind which many clients see no frontmatter.",
                "Save it as UTF-8 without a byte order mark.",
            )
        )
        text = text.removeprefix(_BYTE_ORDER_MARK)
    if "\r" in text:
        findings.append(
            found(
                "line-ends",
                path,
                text.count("\n", 0, text.index("\r")) + 1,
                "Its lines end as on Windows (CR LF); some clients see no frontmatter then.",
                "Save it with LF as line end, and say so in .gitattributes: *.md text eol=lf",
            )
        )
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text


def _fields(
    front: str, first: int, path: str, findings: list[Finding]
) -> tuple[dict[str, Node], dict[str, int]]:
    """The fields of a frontmatter whose opening --- stands in line `first`."""
    try:
        try:
            tree = tree_of(front, first)
        except yaml.YAMLError as error:
            tree = _mended(front, first, path, findings, error)
    except Refused as error:
        raise Unusable("yaml", path, error.line, error.text, error.mend) from error
    if not isinstance(tree, Mapping):
        raise Unusable(
            "frontmatter",
            path,
            first,
            f"The frontmatter {'is empty' if tree is None else 'holds no fields'}.",
            "It needs at least the lines name: … and description: …",
        )
    # Tools are to be no list at all, which their reader tells.
    others = [value for key, value in tree.pairs if key.text != "allowed-tools"]
    bracketed = first_flow(Sequence(others, first))
    if bracketed is not None:
        findings.append(
            found(
                "flow-style",
                path,
                bracketed.line,
                "A list or mapping in brackets is YAML, but skills-ref, which validates skills for "
                "others, refuses it.",
                "Write each entry in a line of its own, indented, with - before it in a list.",
            )
        )
    fields: dict[str, Node] = {}
    key_lines: dict[str, int] = {}
    for key, value in tree.pairs:
        if key.text in fields:
            findings.append(
                found(
                    "field-twice",
                    path,
                    key.line,
                    f"The field {key.text!r} stands here again; some clients take the first, some "
                    "the last, some neither.",
                    "Keep one of them.",
                )
            )
        fields[key.text] = value
        key_lines[key.text] = key.line
    return fields, key_lines


def _mended(
    front: str, first: int, path: str, findings: list[Finding], error: yaml.YAMLError
) -> Node:
    """The fields read one by one, those that are no YAML as what seems to be meant.

    So clients do too: a value such as `Use when: asked` or `[pr] [label]` is no YAML, but what is
    meant is plain. Raises BadSkill when that does not help.
    """
    pairs: list[tuple[Scalar, Node]] = []
    for number, lines in _blocks(front):
        try:
            tree = tree_of("\n".join(lines), first + number)
        except yaml.YAMLError:
            tree = _as_text(lines, first + number)
            if tree is None:
                raise Unusable(
                    "yaml",
                    path,
                    first + line_of(error),
                    f"The frontmatter is no YAML: {problem_of(error)}.",
                    "Put the value in quotes.",
                ) from error
            findings.append(
                found(
                    "yaml",
                    path,
                    tree.line,
                    "This field is no YAML; it was read as what seems to be meant, which some "
                    "clients do and others do not.",
                    "Put the value in quotes.",
                )
            )
        if isinstance(tree, Mapping):
            pairs.extend(tree.pairs)
        elif tree is not None:
            raise Unusable(
                "yaml",
                path,
                tree.line,
                "This is no field.",
                "Write NAME: VALUE, and indent what goes on in the next line.",
            ) from error
        if len(pairs) > MAX_NODES:
            raise Refused(first, f"It holds more than {MAX_NODES:,} fields.", "Take some out.")
    return Mapping(pairs, first)


def _blocks(front: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of each field with the number of its first line, counted from 0."""
    begun, lines = 0, list[str]()
    for number, line in enumerate(front.split("\n")):
        if lines and _KEY_LINE.match(line):
            yield begun, lines
            begun, lines = number, []
        lines.append(line)
    yield begun, lines


def _as_text(lines: list[str], number: int) -> Node | None:
    """A field that is no YAML, with its value as text; None when it cannot be told apart.

    A value that is JSON is read as that: JSON writes a character beyond the first 65,536 as two
    escapes, which YAML has not.  number: of its first line in the file.
    """
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        lines, number = lines[1:], number + 1
    line = _KEY_LINE.match(lines[0]) if lines else None
    if not line:
        return None
    key = Scalar(line["key"], True, number)
    value = (line["value"] or "").strip()
    node = tree_of_json("\n".join([value, *lines[1:]]), number)
    if node is not None:
        return Mapping([(key, node)], number)
    if value and not _BLOCK_MARK.fullmatch(value):
        text = " ".join(filter(None, (part.strip() for part in [value, *lines[1:]])))
        return Mapping([(key, Scalar(text, False, number))], number)
    # The mapping below it, each of whose lines may be the one.
    quoted = [_NESTED_LINE.sub(_quoted, each) for each in lines[1:]]
    try:
        return tree_of("\n".join([lines[0], *quoted]), number)
    except yaml.YAMLError:
        return None


def _quoted(found: re.Match[str]) -> str:
    value = found["value"].strip()
    if value[0] in "\"'|>":
        return found.group()
    return found["before"] + "'" + value.replace("'", "''") + "'"
