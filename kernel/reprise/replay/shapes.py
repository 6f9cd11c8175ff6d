"""Tells what a difference between two texts looks like: dates, an order, rounding, … (pure).

The texts come from a sandbox; every pattern has bounded or disjoint repeats.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Final, Literal

from reprise.replay.difference import Comparison

Shape = Literal["time", "timing", "address", "uuid", "process", "order", "rounding"]

#: What is said where the code gives no better reason: a sentence, and a mend.
SHAPES: Final[dict[Shape, tuple[str, str]]] = {
    "time": (
        "Dates or times of day differ; something reads the clock.",
        "Take the moment once, write it down as a constant, and compute with that.",
    ),
    "timing": (
        "It shows how long something took.",
        "A measurement differs each time; show it apart from results.",
    ),
    "address": (
        "It shows memory addresses, as the repr of an object without one of its own does.",
        "Give the class a __repr__, or show what matters of the object.",
    ),
    "uuid": (
        "Identifiers differ that are drawn anew each time.",
        "Derive them from what they name: uuid.uuid5.",
    ),
    "process": (
        "It shows numbers or paths of this process (a pid, a port, a temporary file).",
        "Do not let results depend on them.",
    ),
    "order": (
        "The same lines come in another order.",
        "Sort what is listed, and collect results in the order in which you asked for them.",
    ),
    "rounding": (
        "Only the last digits of numbers differ, as when several threads add them in any order.",
        "Show fewer digits, or compute with one thread (OMP_NUM_THREADS=1).",
    ),
}

#: The kinds of `volatile`, as shapes.
_KINDS: Final[dict[str, Shape]] = {
    "address": "address",
    "id": "uuid",
    "element id": "uuid",
    "timing": "timing",
    "progress": "timing",
    "date": "time",
    "path": "process",
    "pid": "process",
    "port": "process",
    "order": "order",
}

_LOOKS: Final[tuple[tuple[Shape, re.Pattern[str]], ...]] = (
    ("address", re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")),
    ("uuid", re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")),
    ("time", re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\b\d\d:\d\d:\d\d\b")),
    ("time", re.compile(r"\b1[6-9]\d{8}(?:\.\d{1,9})?\b")),
)
_NUMBER: Final = re.compile(r"-?\d{1,40}(?:\.\d{0,40})?(?:[eE][+-]?\d{1,4})?")
#: Numbers nearer to each other than this differ by rounding.
_NEAR: Final = 1e-6
#: Texts are looked at up to here.
_CHARACTERS: Final = 4_000


def shapes_of(comparison: Comparison) -> tuple[Shape, ...]:
    """What the differences look like, each shape once."""
    found: dict[Shape, None] = {}
    for each in comparison.differences:
        if each.volatile:
            found |= dict.fromkeys(_KINDS[kind] for kind in each.kind.split(", ") if kind in _KINDS)
        elif each.kind == "order":
            found["order"] = None
        else:
            found |= dict.fromkeys(shapes_of_texts(each.recorded, each.replayed))
    return tuple(found)


def shapes_of_texts(old: str, new: str) -> tuple[Shape, ...]:
    """What the difference between two texts looks like; nothing when it looks like anything."""
    old, new = old[:_CHARACTERS], new[:_CHARACTERS]
    if _permuted(old, new):
        return ("order",)
    found: dict[Shape, None] = {}
    a, b = old, new
    for shape, pattern in _LOOKS:
        if pattern.findall(a) != pattern.findall(b):
            found[shape] = None
        a, b = pattern.sub("\0", a), pattern.sub("\0", b)
    if a == b:
        return tuple(found)
    if _rounded(a, b):
        found["rounding"] = None
        return tuple(found)
    # Something else differs as well: what was found need not be what matters.
    return ()


def _permuted(old: str, new: str) -> bool:
    def parts(text: str) -> Iterable[str]:
        yield from re.split(r"[\n,]", text.strip("[](){}\n "))

    left = sorted(part.strip() for part in parts(old))
    right = sorted(part.strip() for part in parts(new))
    return old != new and len(left) > 1 and left == right


def _rounded(old: str, new: str) -> bool:
    if _NUMBER.sub("\0", old) != _NUMBER.sub("\0", new):
        return False
    for a, b in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
        if a == b:
            continue
        if "." not in a + b and "e" not in (a + b).lower():
            return False
        if not math.isclose(float(a), float(b), rel_tol=_NEAR, abs_tol=1e-12):
            return False
    return True
