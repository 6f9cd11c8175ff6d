"""Credentials and personal paths in code and outputs; what is found is never shown whole."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator

from reviewing.findings import Findings
from reviewing.notebook import Cell, Notebook, text_of

_OUTPUT_READ = 500_000

_KNOWN = (
    ("AWS access key", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255})\b"),
    ("GitLab token", r"\bglpat-[A-Za-z0-9_-]{20,255}\b"),
    ("Slack token", r"\bxox[abposr]-[A-Za-z0-9-]{10,255}\b"),
    ("Google API key", r"\bAIza[0-9A-Za-z_-]{35}\b"),
    ("Anthropic key", r"\bsk-ant-[A-Za-z0-9_-]{20,255}"),
    ("OpenAI key", r"\bsk-(?:proj-)?[A-Za-z0-9_-]{32,255}"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{30,255}\b"),
    ("Stripe key", r"\b[rs]k_(?:live|test)_[0-9A-Za-z]{16,255}\b"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    ("PyPI token", r"\bpypi-[A-Za-z0-9_-]{50,255}"),
    ("private key", r"-----BEGIN (?:[A-Z ]{1,20} )?PRIVATE KEY-----"),
    (
        "JSON web token",
        r"\beyJ[\w-]{10,2000}\.eyJ[\w-]{10,4000}\.[\w-]{10,1000}",
    ),
    ("storage key", r"AccountKey=[A-Za-z0-9+/=]{40,200}"),
    ("webhook", r"https://hooks\.slack\.com/services/[A-Za-z0-9/_-]{20,100}"),
)
_PATTERNS = tuple((what, re.compile(pattern)) for what, pattern in _KNOWN)
_IN_URL = re.compile(
    r"\b[a-z][a-z0-9+.-]{1,20}://([^\s/:@\"'<>{}]{1,100}):([^\s/@\"'<>{}]{3,200})@"
)
_ASSIGNED = re.compile(
    r"""(?ix) ["']? \b (?P<name>[a-z0-9_.-]{0,40}
    (?:password|passwd|pwd|secret|token|api_?key|apikey|access_?key|private_?key|credential)
    [a-z0-9_]{0,20}) ["']? \s{0,3} (?:=|:) \s{0,3}
    (?P<quote>["']) (?P<value>[^"'\s]{6,300}) (?P=quote)"""
)
_PLACEHOLDER = re.compile(
    r"(?i)^[<\[{$%*x.]|your|example|changeme|change_me|placeholder|dummy|redacted|insert|xxxx|\.\.\.|^test|^none$|^env"
    r"|^(?:password|secret|token|string|str|text|value)$|here>?$"
)
_NOT_SECRET = re.compile(
    r"(?i)token(?:izer|ize|s$|_?(?:type|count|limit|length|len|id|ids))|max_?tokens"
    r"|_(?:url|path|file|name|field|col(?:umn)?)$"
)
_HOME = re.compile(r"(?:/home/|/Users/|[A-Za-z]:\\{1,2}Users\\{1,2})([A-Za-z0-9._-]{1,60})")


def look(book: Notebook, found: Findings) -> None:
    for cell in book.cells:
        for number, line in enumerate(cell.source.split("\n"), 1):
            for what, value in _secrets(line[:20_000]):
                found.add(
                    *("error", "secret-in-source", cell, number),
                    f"A {what} stands in the source: {masked(value)}.",
                    "Revoke it now: whoever has the file has it, and so has the history. Then read"
                    " it from the environment or a keyring.",
                    show=False,
                )
        homes: Counter[str] = Counter()
        for text in _texts(cell):
            for what, value in _secrets(text):
                found.add(
                    *("error", "secret-in-output", cell, None),
                    f"A {what} stands in an output: {masked(value)}.",
                    "Revoke it, clear the output, and do not print what holds it.",
                    show=False,
                )
            homes.update(match[1] for match in _HOME.finditer(text))
        if homes:
            found.add(
                *("info", "home-in-output", cell, None),
                f"An output tells a user name, by the path of a home folder ({len(homes)} found).",
                "Clear the output before the notebook is given away.",
            )


def _secrets(text: str) -> Iterator[tuple[str, str]]:
    taken: list[str] = []
    for what, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            taken.append(match[0])
            yield what, match[0]
    for match in _IN_URL.finditer(text):
        if not _PLACEHOLDER.search(match[2]):
            yield "password in an address", match[2]
    for match in _ASSIGNED.finditer(text):
        value = match["value"]
        if any(value in each or each in value for each in taken):
            continue
        if _PLACEHOLDER.search(value) or _NOT_SECRET.search(match["name"]):
            continue
        if "password" in match["name"].lower() or entropy(value) >= 2.5:
            yield f"value for `{match['name'][:60]}`", value


def entropy(text: str) -> float:
    """Bits a character: words have about 3, random keys 4 and more, repeated letters near 0."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values()) if text else 0.0


def masked(value: str) -> str:
    """Enough to find it again, too little to use it."""
    return f"{value[: min(4, len(value) // 4)]}… ({len(value)} characters)"


def _texts(cell: Cell) -> Iterator[str]:
    """What outputs hold as text."""
    left = _OUTPUT_READ
    for output in cell.outputs:
        parts = [output.get("text"), output.get("traceback"), output.get("evalue")]
        data = output.get("data")
        if isinstance(data, dict):
            for kind, value in data.items():
                if str(kind).startswith(("image/png", "image/jpeg", "image/gif")):
                    continue
                parts.append(json.dumps(value) if isinstance(value, dict) else value)
        for part in parts:
            text = text_of(part)[:left]
            left -= len(text)
            if text:
                yield text
