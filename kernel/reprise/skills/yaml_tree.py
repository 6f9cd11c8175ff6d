"""YAML as a small tree: no aliases, no tags, few levels, each scalar as it was written (pure).

PyYAML's own constructors build floats, dates and shared objects of what stands there; here its
parser's events are taken, and no recursion, so that nothing written in YAML can grow or run deep.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import yaml
from yaml.reader import ReaderError

from reprise.log.model import Json

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]

#: Lists and mappings within each other. Hooks of Claude Code need four.
MAX_LEVELS = 16
#: Of all lists, mappings, keys and values.
MAX_NODES = 4_000

#: Larger whole numbers are not the same in every reader of JSON.
_MAX_INTEGER = 1 << 53

# YAML 1.2 (10.3.2, core schema) without the forms that nobody writes in a SKILL.md. YAML 1.1, which
# PyYAML speaks, would make a truth of `on`, a date of 2026-01-01 and 90 of `1:30`.
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER = re.compile(r"[-+]?[0-9]{1,16}")
_FLOAT = re.compile(r"[-+]?(?:[0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,2})?")


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
    """flow: whether it is written in brackets."""

    items: list[Node]
    line: int
    flow: bool = False

    def to_json(self) -> Json:
        return [item.to_json() for item in self.items]


@dataclass(frozen=True)
class Mapping:
    """pairs: in the order written, a key as often as it stands there.  flow: as of Sequence."""

    pairs: list[tuple[Scalar, Node]]
    line: int
    flow: bool = False

    def to_json(self) -> Json:
        return {key.text: value.to_json() for key, value in self.pairs}


Node = Scalar | Sequence | Mapping


class Refused(Exception):
    """YAML that is refused, whatever clients do. line: of the file."""

    def __init__(self, line: int, text: str, mend: str) -> None:
        super().__init__(text)
        self.line, self.text, self.mend = line, text, mend


def tree_of(text: str, first: int) -> Node | None:
    """The only document in `text` as a tree, None for an empty one; built without recursion.

    first: the line of the file that it begins in.  Raises yaml.YAMLError, Refused.
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
                raise Refused(line, "A second YAML document begins here.", "Keep one.")
        if isinstance(event, yaml.AliasEvent):
            raise Refused(
                line,
                f"*{event.anchor} stands for what another place says.",
                "Write it out here; in quotes, if the * is meant as it is.",
            )
        if isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            around.pop()
            continue
        if not isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)):
            continue
        nodes += 1
        if nodes > MAX_NODES:
            raise Refused(line, f"It holds more than {MAX_NODES:,} values.", "Take some out.")
        if event.tag is not None and event.tag != "!":
            raise Refused(
                line,
                f"{event.tag} asks for a type, which a skill cannot.",
                "Write the value in quotes.",
            )
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = Scalar(_sound(event.value, line), not event.style, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            node = Sequence([], line, bool(event.flow_style))
        else:
            node = Mapping([], line, bool(event.flow_style))
        if not around:
            root = node
        else:
            _put(around[-1], node)
        if not isinstance(node, Scalar):
            if len(around) >= MAX_LEVELS:
                raise Refused(
                    line, f"It is nested more than {MAX_LEVELS} levels deep.", "Write it flatter."
                )
            around.append((node, []))
    return root


def tree_of_json(text: str, line: int) -> Node | None:
    """The JSON list or object in `text` as the same tree; None when it is none. Raises Refused."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value = json.loads(text, parse_int=_Number, parse_float=_Number, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    left = MAX_NODES

    def node(value: Json, level: int) -> Node:
        nonlocal left
        left -= 1
        if left < 0:
            raise Refused(line, f"It holds more than {MAX_NODES:,} values.", "Take some out.")
        if level > MAX_LEVELS:
            raise Refused(
                line, f"It is nested more than {MAX_LEVELS} levels deep.", "Write it flatter."
            )
        if isinstance(value, list):
            return Sequence([node(item, level + 1) for item in value], line)
        if isinstance(value, dict):
            return Mapping(
                [
                    (Scalar(_sound(key, line), False, line), node(item, level + 1))
                    for key, item in value.items()
                ],
                line,
            )
        if isinstance(value, str):
            return Scalar(_sound(value, line), isinstance(value, _Number), line)
        return Scalar(json.dumps(value), True, line)

    return node(value, 1)


class _Number(str):
    """A number of JSON as it was written."""

    __slots__ = ()


def first_flow(node: Node) -> Node | None:
    """The first list or mapping in a tree that is written in brackets."""
    if isinstance(node, Scalar):
        return None
    if node.flow:
        return node
    inner = node.items if isinstance(node, Sequence) else [value for _, value in node.pairs]
    return next((found for found in map(first_flow, inner) if found is not None), None)


def _put(around: tuple[Sequence | Mapping, list[Scalar]], node: Node) -> None:
    within, key = around
    if isinstance(within, Sequence):
        within.items.append(node)
    elif key:
        within.pairs.append((key.pop(), node))
    elif isinstance(node, Scalar):
        key.append(node)
    else:
        raise Refused(
            node.line, "A list or mapping stands where a name is expected.", "Write NAME: VALUE."
        )


def _sound(text: str, line: int) -> str:
    """`text` as files and databases can hold it. Raises Refused when an escape makes none of it.

    Two escapes that are one character in UTF-16 are that character (PyYAML without libyaml leaves
    them apart).
    """
    try:
        if any("\ud800" <= char <= "\udfff" for char in text):
            text = text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Refused(
            line, "An escape in quotes stands for no character that text can hold.", "Remove it."
        )
    return text


def line_of(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return 0 if mark is None else int(mark.line)


def problem_of(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        return error.problem
    if isinstance(error, ReaderError):
        return f"the character {error.character!r} is not allowed"
    return "it cannot be read"
