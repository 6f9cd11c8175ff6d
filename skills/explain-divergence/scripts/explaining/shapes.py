"""What a difference looks like, and which cause that speaks for (values in, values out)."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}:\d{2}:\d{2}|\b1[6-9]\d{8}(?:\.\d+)?\b")
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_VERSION = re.compile(r"\b\d+\.\d+\.\d+\b")
_LONGEST = 50_000


def shape(before: str, after: str) -> tuple[str, str]:
    """(name, in words) of how `after` differs from `before`."""
    before, after = before[:_LONGEST], after[:_LONGEST]
    for pattern, name, words in (
        (_UUID, "identifier", "only identifiers differ"),
        (_ADDRESS, "address", "only addresses in memory differ"),
        (_DATE, "date", "only dates or times differ"),
    ):
        if pattern.search(before) and pattern.sub("#", before) == pattern.sub("#", after):
            return name, words
    if sorted(_pieces(before)) == sorted(_pieces(after)):
        return "order", "the same pieces stand in another order"
    a, b = _NUMBER.findall(before), _NUMBER.findall(after)
    if a and len(a) == len(b) and _NUMBER.sub("#", before) == _NUMBER.sub("#", after):
        pairs = [(float(x), float(y)) for x, y in zip(a, b, strict=True) if x != y]
        if pairs and all(abs(x - y) <= 1e-6 * max(abs(x), abs(y)) for x, y in pairs):
            return "rounding", "numbers differ in their last digits only"
        return "numbers", f"{len(pairs)} of {len(a)} numbers differ, the words do not"
    if _VERSION.search(before) and _VERSION.sub("#", before) == _VERSION.sub("#", after):
        return "version", "only version numbers differ"
    for word, name in (
        ("ModuleNotFoundError", "missing module"),
        ("ImportError", "missing module"),
        ("FileNotFoundError", "missing file"),
        ("ConnectionError", "no network"),
        ("URLError", "no network"),
        ("Name or service not known", "no network"),
        ("Temporary failure in name resolution", "no network"),
        ("MemoryError", "memory"),
    ):
        if word in after and word not in before:
            return name, f"it now ends with {word}"
    if bool(before) != bool(after):
        return "presence", "there was an output and now there is none, or the other way round"
    return "other", "the text differs"


def _pieces(text: str) -> list[str]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines if len(lines) > 1 else re.findall(r"[^\s,;\[\](){}]+", text)


#: How strongly each shape speaks for each cause.
SPEAKS: dict[str, dict[str, int]] = {
    "identifier": {"randomness": 3},
    "address": {"machine": 3},
    "date": {"time": 4},
    "order": {"order": 4, "randomness": 1},
    "rounding": {"order": 2, "versions": 2, "machine": 1},
    "numbers": {"randomness": 2, "versions": 1, "network": 1, "files": 1, "time": 1},
    "version": {"versions": 4},
    "missing module": {"versions": 5},
    "missing file": {"files": 5},
    "no network": {"network": 5},
    "memory": {"machine": 2},
}
