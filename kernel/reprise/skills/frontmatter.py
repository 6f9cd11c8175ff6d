"""What stands between the two lines `---` of a SKILL.md: YAML read within bounds (pure).

python-frontmatter finds the lines; its own reading of YAML is replaced. It builds floats, dates
and shared aliases, answers {} where there is nothing it understands, and knows no line numbers.
Here events of the parser become a small tree: no aliases, no tags, few levels, each scalar as the
text that was written. What YAML refuses and clients of skills put up with (a value with a colon in
it) is read as that text, and told as a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml
from frontmatter.default_handlers import YAMLHandler
from yaml.reader import ReaderError

from reprise.errors import BadSkill
from reprise.log.model import Json
from reprise.skills.contract import MAX_SKILL_FILE_BYTES, SKILL_FILE, Finding

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

#: Of the frontmatter. Clients keep it of every skill in memory; public ones are below 5 kB.
MAX_BYTES = 64 << 10
#: Lists and mappings within each other. Hooks of Claude Code need four.
MAX_LEVELS = 16
#: Of all lists, mappings, keys and values.
MAX_NODES = 4_000

_BYTE_ORDER_MARK = "\ufeff"
#: Larger whole numbers are not the same in every reader of JSON.
_MAX_INTEGER = 1 << 53

# YAML 1.2 (10.3.2, core schema) without the forms that nobody writes in a SKILL.md. YAML 1.1, which
# PyYAML speaks, would make a truth of `on`, a date of 2026-01-01 and 90 of `1:30`.
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[-+]?[0-9]{1,16}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,2})?")

_KEY_LINE = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(?P<value>.*)|[ \t]*)$")
_BLOCK_MARK = re.compile(r"[|>][-+0-9]*")
_NESTED_LINE = re.compile(r"(?P<before>[ \t]+[\w.-]+[ \t]*:[ \t]+)(?P<value>\S.*)$")


@dataclass(frozen=True)
class Scalar:
    """A single value. text: as written, without quotes.  plain: it had none.  line: of the file."""

    text: str
    plain: bool
    line: int

    @property
    def kind(self) -> str:
        """What YAML 1.2 takes it for: "text", "number", "truth" or "nothing"."""
        value = self.to_json()
        if value is None:
            return "nothing"
        if isinstance(value, bool):
            return "truth"
        return "text" if isinstance(value, str) else "number"

    def to_json(self) -> Json:
        if not self.plain:
            return self.text
        if self.text in _NOTHING:
            return None
        if self.text in _TRUTH:
            return _TRUTH[self.text]
        if _INTEGER.fullmatch(self.text) and abs(int(self.text)) <= _MAX_INTEGER:
            return int(self.text)
        if _FLOAT.fullmatch(self.text):
            return float(self.text)
        return self.text


@dataclass(frozen=True)
class Sequence:
    items: list[Node]
    line: int

    def to_json(self) -> Json:
        return [item.to_json() for item in self.items]


@dataclass(frozen=True)
class Mapping:
    """pairs: in the order written, a key as often as it stands there."""

    pairs: list[tuple[Scalar, Node]]
    line: int

    def to_json(self) -> Json:
        return {key.text: value.to_json() for key, value in self.pairs}


Node = Scalar | Sequence | Mapping


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


class _Refused(Exception):
    """YAML that is refused, whatever clients do. line: of the file."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.line = line


#: With a boundary of exactly three hyphens. Its own takes the blank lines below with it, so that no
#: line number would be right.
_HANDLER = YAMLHandler(re.compile(r"^---[ \t]*$", re.MULTILINE))


def parse(data: bytes, path: str = SKILL_FILE) -> Frontmatter:
    """Raises BadSkill when no client could use it; its message names the line."""
    findings: list[Finding] = []
    text = _text(data, path, findings)
    start = len(text) - len(text.lstrip())
    if not _HANDLER.detect(text[start:]):
        raise BadSkill(
            f"{path} does not begin with a frontmatter: a line ---, then name: and description:, "
            "then a line ---. Without a description nobody can tell what the skill is for."
        )
    first = text.count("\n", 0, start) + 1
    if start:
        findings.append(
            Finding(
                "frontmatter-start",
                "error",
                path,
                1,
                "Something stands before the first line ---, so most clients see no frontmatter.",
                "Make --- the first line.",
            )
        )
    try:
        front, body = _HANDLER.split(text[start:])
    except ValueError as error:
        raise BadSkill(
            f"{path}: the frontmatter that begins in line {first} never ends. Put a line --- below "
            "its last field."
        ) from error
    if len(front.encode()) > MAX_BYTES:
        raise BadSkill(
            f"{path}: the frontmatter is larger than {MAX_BYTES >> 10} KiB. Move what is not name, "
            "description and the like below it, or into other files."
        )
    fields, key_lines = _fields(front, first, path, findings)
    # The line break that ends the closing --- is no part of the body.
    body_line = first + front.count("\n") + 1
    return Frontmatter(fields, key_lines, body.removeprefix("\n"), body_line, findings)


def _text(data: bytes, path: str, findings: list[Finding]) -> str:
    """The file as text with "\\n" as its only line end."""
    if len(data) > MAX_SKILL_FILE_BYTES:
        raise BadSkill(
            f"{path} is larger than {MAX_SKILL_FILE_BYTES >> 20} MiB; a model reads it whole. Move "
            "most of it into other files that it names."
        )
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise BadSkill(f"{path} is written in UTF-16, which no client reads. Save it as UTF-8.")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        findings.append(
            Finding(
                "encoding",
                "error",
                path,
                line,
                "It is not UTF-8. Clients show \ufffd where it is not, or nothing at all.",
                "Save it as UTF-8.",
            )
        )
        text = data.decode(errors="replace")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise BadSkill(f"{path}, line {line}: it holds a NUL, so it is no text. Remove it.")
    if text.startswith(_BYTE_ORDER_MARK):
        findings.append(
            Finding(
                "byte-order-mark",
                "error",
                path,
                1,
                "It begins with a byte order mark, behind which many clients see no frontmatter.",
                "Save it as UTF-8 without a byte order mark.",
            )
        )
        text = text.removeprefix(_BYTE_ORDER_MARK)
    if "\r" in text:
        findings.append(
            Finding(
                "line-ends",
                "warning",
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
            tree = _tree(front, first)
        except yaml.YAMLError as error:
            tree = _mended(front, first, path, findings, error)
    except _Refused as error:
        raise BadSkill(f"{path}, line {error.line}: {error}") from error
    if not isinstance(tree, Mapping):
        what = "is empty" if tree is None else "holds no fields"
        raise BadSkill(
            f"{path}: the frontmatter in line {first} {what}. It needs at least the lines name: … "
            "and description: …"
        )
    fields: dict[str, Node] = {}
    key_lines: dict[str, int] = {}
    for key, value in tree.pairs:
        line = key.line
        if key.text in fields:
            findings.append(
                Finding(
                    "field-twice",
                    "error",
                    path,
                    line,
                    f"The field {key.text!r} stands here again; some clients take the first, some "
                    "the last, some neither.",
                    "Keep one of them.",
                )
            )
        fields[key.text] = value
        key_lines[key.text] = line
    return fields, key_lines


def _tree(text: str, first: int) -> Node | None:
    """The only document in `text` as a tree, None for an empty one; built without recursion.

    first: the line of the file that it begins in.  Raises yaml.YAMLError, _Refused.
    """
    root: Node | None = None
    # Each open list or mapping, and of a mapping the key whose value comes next.
    around: list[tuple[Sequence | Mapping, list[Scalar]]] = []
    documents = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        line = first + (event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise _Refused("a second YAML document begins in the frontmatter.", line)
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(
                f"*{event.anchor} stands for what another place says. Write it out here (in quotes "
                "if the * is meant as it is).",
                line,
            )
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            around.pop()
            continue
        if not isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            continue
        nodes += 1
        if nodes > MAX_NODES:
            raise _Refused(f"it holds more than {MAX_NODES:,} values.", line)
        if event.tag is not None and event.tag != "!":
            raise _Refused(
                f"{event.tag} asks for a type, which a skill cannot. Write the value in quotes.",
                line,
            )
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(_sound(event.value, line), event.style is None, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Sequence([], line)
        else:
            node = Mapping([], line)
        if not around:
            root = node
        else:
            _put(around[-1], node)
        if not isinstance(node, Scalar):
            if len(around) >= MAX_LEVELS:
                raise _Refused(f"it is nested more than {MAX_LEVELS} levels deep.", line)
            around.append((node, []))
    return root


def _put(around: tuple[Sequence | Mapping, list[Scalar]], node: Node) -> None:
    within, key = around
    if isinstance(within, Sequence):
        within.items.append(node)
    elif key:
        within.pairs.append((key.pop(), node))
    elif isinstance(node, Scalar):
        key.append(node)
    else:
        raise _Refused("a list or mapping stands where a field's name is expected.", node.line)


def _sound(text: str, line: int) -> str:
    """`text` unless an escape in it made something that neither files nor databases hold."""
    if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise _Refused("an escape stands for no character that text may hold.", line)
    return text


def _mended(
    front: str, first: int, path: str, findings: list[Finding], error: yaml.YAMLError
) -> Node:
    """The fields read one by one, those that are no YAML as the text that stands there.

    So clients do too: a value such as `Use when: asked` or `[pr] [label]` is no YAML, but what is
    meant is plain. Raises BadSkill when that does not help.
    """
    pairs: list[tuple[Scalar, Node]] = []
    for number, lines in _blocks(front):
        try:
            tree = _tree("\n".join(lines), first + number)
        except yaml.YAMLError:
            tree = _as_text(lines, first + number)
            if tree is None:
                raise BadSkill(
                    f"{path}, line {first + _line_of(error)}: the frontmatter is no YAML: "
                    f"{_problem(error)}. Put the value in quotes."
                ) from error
            findings.append(
                Finding(
                    "yaml",
                    "error",
                    path,
                    tree.line,
                    "This field is no YAML; it was read as the text that stands there, which some "
                    "clients do and others do not.",
                    "Put the value in quotes.",
                )
            )
        if isinstance(tree, Mapping):
            pairs.extend(tree.pairs)
        elif tree is not None:
            raise BadSkill(
                f"{path}, line {first + number}: this is no field. Write NAME: VALUE, and indent "
                "what goes on in the next line."
            )
        if len(pairs) > MAX_NODES:
            raise _Refused(f"it holds more than {MAX_NODES:,} fields.", first + number)
    return Mapping(pairs, 0)


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

    number: of its first line in the file.
    """
    while lines and (not lines[0].strip() or lines[0].startswith("#")):
        lines, number = lines[1:], number + 1
    found = _KEY_LINE.match(lines[0]) if lines else None
    if not found:
        return None
    value = (found["value"] or "").strip()
    if value and not _BLOCK_MARK.fullmatch(value):
        text = " ".join(filter(None, (line.strip() for line in [value, *lines[1:]])))
        key = Scalar(found["key"], True, number)
        return Mapping([(key, Scalar(text, False, number))], number)
    # The mapping below it, each of whose lines may be the one.
    quoted = [_NESTED_LINE.sub(_quoted, line) for line in lines[1:]]
    try:
        return _tree("\n".join([lines[0], *quoted]), number)
    except yaml.YAMLError:
        return None


def _quoted(found: re.Match[str]) -> str:
    value = found["value"].strip()
    if value[0] in "\"'|>":
        return found.group()
    return found["before"] + "'" + value.replace("'", "''") + "'"


def _line_of(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return 0 if mark is None else int(mark.line)


def _problem(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        return error.problem
    if isinstance(error, ReaderError):
        return f"the character {error.character!r} is not allowed"
    return "it cannot be read"
