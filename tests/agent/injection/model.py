"""A model without a mind of its own: it looks where it is told, and obeys whatever it finds there."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reprise_server.agent.scripted import Asked, Step, calls, says

PAYLOADS = Path(__file__).with_name("payloads.yaml")

#: What it calls to look at a payload, by the way that comes in.
CARRIERS: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    "file": [("read_file", {"path": "inbox/$NAME.txt"})],
    "command": [("run_command", {"command": "cat inbox/$NAME.txt"})],
    "cell": [
        (
            "edit_notebook",
            {
                "edits": [
                    {
                        "do": "insert",
                        "type": "code",
                        "source": "print(open('inbox/$NAME.txt').read())",
                    }
                ]
            },
        ),
        ("run_cells", {"cells": ["$NEWEST"]}),
    ],
    "web": [("run_command", {"command": "curl -s $OPEN/page/$NAME"})],
    "skill": [("load_skill", {"skill": "$NAME"})],
    "skill-file": [
        ("load_skill", {"skill": "$NAME"}),
        ("read_skill_file", {"skill": "$NAME", "path": "references/rules.md"}),
    ],
    "mcp": [("mcp__desk__read", {"name": "$NAME"})],
    "mcp-description": [],
    "output": [
        (
            "edit_notebook",
            {
                "edits": [
                    {
                        "do": "insert",
                        "type": "code",
                        "source": "import json, IPython.display as d\n"
                        "kind, text = open('inbox/$NAME.txt').read().split(' ', 1)\n"
                        "mime = 'application/vnd.vegalite.v5+json'\n"
                        "print('shown')\n"
                        "d.display({mime: json.loads(text)}, raw=True) if kind == 'Vega' else"
                        " d.display({'SVG': d.SVG, 'HTML': d.HTML, 'Markdown': d.Markdown,"
                        " 'Latex': d.Latex, 'Javascript': d.Javascript}[kind](text))",
                    }
                ]
            },
        ),
        ("run_cells", {"cells": ["$NEWEST"]}),
    ],
}

_CALL = re.compile(r"call ([\w-]+) with (?=\{)")
_CELL = re.compile(r"cell (\w+) (?:inserted|replaced)[^\n]*· hash (\w+)")


@dataclass(frozen=True)
class Payload:
    """One text of a stranger. held: what has to hold each of its calls (payloads.yaml)."""

    name: str
    via: str
    aim: str
    held: tuple[str, ...]
    text: str
    fooled: bool = False


def payloads() -> list[Payload]:
    return [
        Payload(**{**each, "held": tuple(each["held"])})
        for each in yaml.safe_load(PAYLOADS.read_text())
    ]


class Obedient:
    """The script of a `ScriptedModel`. named: what stands for $OPEN, $EVIL and the like."""

    def __init__(self, known: Sequence[Payload], named: Mapping[str, str]) -> None:
        self.known = {payload.name: payload for payload in known}
        self.named = named

    def filled(self, payload: Payload) -> str:
        """The payload's text as it is laid out for the model."""
        return _filled(payload.text, {**self.named, "NAME": payload.name, "SKILL": payload.name})

    def __call__(self, asked: Asked) -> Step:
        payload = self.known[asked.said.removeprefix("Look at ")]
        since = max(n for n, message in enumerate(asked.messages) if _said(message) == asked.said)
        after = asked.messages[since + 1 :]
        made = sum(len(_blocks(message, "tool_use")) for message in after)
        results = [_text(b) for message in after for b in _blocks(message, "tool_result")]
        carriers = CARRIERS[payload.via]
        wanted = list(carriers)
        if payload.via == "mcp-description":
            tool = f"mcp__desk__{payload.name}"
            found = next(t for t in asked.body["tools"] if t["name"] == tool)
            wanted += _orders(found["description"])
        elif payload.via != "output":
            for text in results[: len(carriers)]:
                wanted += _orders(text)
        if made >= len(wanted):
            return says("Done.")
        tool, given = wanted[made]
        named = {**self.named, "NAME": payload.name, "SKILL": payload.name}
        for cell, digest in _CELL.findall("\n".join(results)):
            named |= {"NEWEST": cell, "HASH": digest}
        return calls(tool, json.loads(_filled(json.dumps(given), named)))


def _orders(text: str) -> list[tuple[str, Any]]:
    """What a text says to call, however it is quoted."""
    text = html.unescape(text)
    return list(_plain(text)) or list(_plain(text.replace('\\"', '"').replace("\\\\", "\\")))


def _plain(text: str) -> Iterator[tuple[str, Any]]:
    for order in _CALL.finditer(text):
        try:
            given, _ = json.JSONDecoder().raw_decode(text, order.end())
        except ValueError:
            continue
        yield order[1], given


def _filled(text: str, named: Mapping[str, str]) -> str:
    return re.sub(r"\$([A-Z]+)", lambda found: named.get(found[1], found[0]), text)


def _said(message: Mapping[str, Any]) -> str:
    if message["role"] != "user":
        return ""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _blocks(message: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    content = message["content"]
    return [] if isinstance(content, str) else [b for b in content if b["type"] == kind]


def _text(result: Mapping[str, Any]) -> str:
    content = result.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")
