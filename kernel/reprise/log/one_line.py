"""What a step asked for and what it showed, a line each; of large ones by their beginning (pure).

A body may be as large as a step is allowed to be, and a list needs a line of it. So these work on
the first characters of the canonical text where that was cut, and on its JSON where it is whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise.log.model import Json, StepKind

#: Characters of a line.
LINE: Final = 200

#: A JSON string in canonical text, which may be cut off behind any character: as far as it goes,
#: without an escape that was cut through.
_STRING: Final = r'"((?:[^"\\]|\\u[0-9a-f]{4}|\\[^u])*)'
_FIELDS: Final[Mapping[StepKind, re.Pattern[str]]] = {
    "cell": re.compile('"code":' + _STRING),
    "command": re.compile('"(?:shell|argv)":\\[?' + _STRING),
    "upload": re.compile('"(?:entries|removed)":\\[\\[?' + _STRING),
    "mount": re.compile('"target":' + _STRING),
    "comm": re.compile('"target_name":' + _STRING),
}
_CELL: Final = re.compile(r'"cellId":' + _STRING + '"')

#: Kinds of messages that show something, and MIME types in the order they are told by.
_SHOWING: Final = ("stream", "display_data", "execute_result", "error")
_TOLD_BY: Final = ("text/plain", "text/markdown", "text/latex")
_TERMINAL: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


@dataclass(frozen=True)
class Asked:
    """text: the first line that is not empty.  lines: how many there are, at least.

    cell: the notebook's id of the cell.  actor: as the step has it.
    """

    text: str
    lines: int
    cell: str | None
    actor: Mapping[str, Json]


def asked(
    kind: StepKind, head: str, tail: str | None, shortened: Callable[[str], str] = str
) -> Asked:
    """What a step asked for. head, tail: its canonical text, whole (tail None), or both ends.

    shortened: makes the text of a command one for people.
    """
    if tail is None:
        body = json.loads(head)
        text, cell = _whole(kind, body["payload"])
        if kind == "command":
            text = shortened(text)
        return Asked(*first_line(text), cell, body["actor"])
    found = _FIELDS[kind].search(head) if kind in _FIELDS else None
    text = "" if found is None else _unescaped(found[1])
    if kind == "command":
        text = shortened(text)
    if kind == "comm":
        text = "widget message" if found is None else _comm("comm_open", text)
    if kind == "upload":
        text = f"{text}, …"
    named = _CELL.search(tail) if kind == "cell" else None
    line, lines = first_line(text)
    return Asked(line, lines, None if named is None else _unescaped(named[1]), _actor(head))


def _whole(kind: StepKind, payload: Mapping[str, Any]) -> tuple[str, str | None]:
    content = payload.get("content")
    content = content if isinstance(content, Mapping) else {}
    match kind:
        case "cell":
            metadata = payload.get("metadata")
            cell = metadata.get("cellId") if isinstance(metadata, Mapping) else None
            return str(content.get("code", "")), cell if isinstance(cell, str) else None
        case "command":
            if "stop" in payload:
                return f"end background command {payload['stop']}", None
            words = payload.get("argv")
            text = payload.get("shell", "") if words is None else " ".join(map(str, words))
            return str(text), None
        case "upload":
            entries, removed = payload.get("entries") or [], payload.get("removed") or []
            paths = [str(entry[0]) for entry in entries] + [f"−{path}" for path in removed]
            more = f", and {len(paths) - 3:,} more" if len(paths) > 3 else ""
            return ", ".join(paths[:3]) + more, None
        case "mount":
            skill = payload.get("skill")
            name = skill.get("name") if isinstance(skill, Mapping) else None
            return str(payload.get("target", "") if name is None else name), None
        case "comm":
            header = payload.get("header")
            type_ = header.get("msg_type") if isinstance(header, Mapping) else None
            return _comm(str(type_), content.get("target_name")), None
        case _:
            return "files removed" if payload.get("emptied") else "", None


def _comm(type_: str, target: object) -> str:
    if type_ == "comm_open":
        return f"opens a widget ({target})"
    return "closes a widget" if type_ == "comm_close" else "widget message"


def _actor(head: str) -> Mapping[str, Json]:
    """The canonical text begins with it."""
    try:
        actor, _ = json.JSONDecoder().raw_decode(head, len('{"actor":'))
    except ValueError:
        return {"kind": "user"}
    return actor if isinstance(actor, dict) else {"kind": "user"}


def shown(first: str | None, last: str | None) -> str | None:
    """What a step showed, in a line; None when it is nothing, or too large to look at.

    first, last: its first and last batch of outputs, or their beginnings.
    """
    batches = [_batch(text) for text in dict.fromkeys((first, last)) if text is not None]
    entries = [entry for batch in batches for entry in batch]
    for kind in ("error", "execute_result", "display_data", "stream"):
        for type_, said in entries:
            if type_ == kind and said:
                return said
    return None


def _batch(text: str) -> list[tuple[str, str]]:
    """(type, line) of each message that shows something."""
    if text.startswith('"'):
        return []  # packed: large
    try:
        entries = json.loads(text)
    except ValueError:
        return _cut_batch(text)
    return [(entry[0], _said(entry[0], entry[1])) for entry in entries if entry[0] in _SHOWING]


def _said(type_: str, content: Mapping[str, Any]) -> str:
    if type_ == "stream":
        return first_line(str(content.get("text", "")))[0]
    if type_ == "error":
        return first_line(f"{content.get('ename')}: {content.get('evalue')}")[0]
    data = content.get("data")
    if not isinstance(data, Mapping):
        return ""
    if any(str(mime).startswith("image/") for mime in data):
        return "image"
    for mime in _TOLD_BY:
        if mime in data:
            value = data[mime]
            text = "".join(map(str, value)) if isinstance(value, list) else str(value)
            return first_line(text)[0]
    return first_line(", ".join(map(str, data)))[0]


_TYPE: Final = re.compile(r'\[\["([a-z_]+)",')
_EVALUE: Final = re.compile('"ename":' + _STRING + '","evalue":' + _STRING)
_TEXT: Final = re.compile('"(?:text/plain|text)":' + _STRING)


def _cut_batch(text: str) -> list[tuple[str, str]]:
    """The first message of a batch that was cut off."""
    kind = _TYPE.match(text)
    if kind is None or kind[1] not in _SHOWING:
        return []
    if kind[1] == "error":
        found = _EVALUE.search(text)
        told = "" if found is None else f"{_unescaped(found[1])}: {_unescaped(found[2])}"
        return [("error", first_line(told)[0])]
    if '"image/' in text[:200]:
        return [(kind[1], "image")]
    found = _TEXT.search(text)
    return [] if found is None else [(kind[1], first_line(_unescaped(found[1]))[0])]


def first_line(text: str) -> tuple[str, int]:
    """The first line that is not empty, cut at LINE characters, and how many lines there are."""
    lines = _TERMINAL.sub("", text).strip("\n").split("\n")
    line = next((each.strip() for each in lines if each.strip()), "")
    return (line if len(line) <= LINE else line[: LINE - 1] + "…"), len(lines)


def _unescaped(escaped: str) -> str:
    """The text of a JSON string without its quotes."""
    return str(json.loads(f'"{escaped}"'))
