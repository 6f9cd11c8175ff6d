"""Whether two texts or tables say the same, numbers within a tolerance (values in, values out)."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass, field

_NUMBER = re.compile(
    r"(?<![\w.])[-+]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?!\w)"
    r"|(?<!\w)(?:nan|NaN|-?inf)(?!\w)"
)
#: What differs with every run and says nothing of results.
_VOLATILE = re.compile(
    r"\b0x[0-9a-f]{6,16}\b"
    r"|\b\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
    r"|\b\d{1,2}:\d{2}:\d{2}(?:\.\d+)?\b"
    r"|\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|sec|seconds|min|minutes)\b(?:/(?:it|step|loop|epoch))?"
    r"|\b\d+(?:\.\d+)?\s?(?:it|step)/s\b"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
)
_METRIC = re.compile(
    r"(?m)^\s*(?P<name>[A-Za-z][\w ()/%²^.-]{0,60}?)\s*[:=]\s*"
    r"(?P<value>[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s?%?\s*$"
)
_LONGEST = 400_000
_EXAMPLES = 5


@dataclass(frozen=True)
class Tolerance:
    """Two numbers agree when they differ by at most `absolute`, or by `relative` of the larger."""

    relative: float = 1e-6
    absolute: float = 1e-12

    def agree(self, a: float, b: float) -> bool:
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        if math.isinf(a) or math.isinf(b):
            return a == b
        return abs(a - b) <= max(self.absolute, self.relative * max(abs(a), abs(b)))


@dataclass
class Compared:
    """verdict: same, within tolerance, volatile or different.  numbers: compared, and of those
    outside the tolerance `off`.  largest: relative difference among all.
    """

    verdict: str = "same"
    why: str = ""
    numbers: int = 0
    off: int = 0
    largest: float = 0.0
    examples: list[dict[str, object]] = field(default_factory=list)

    def number(self, a: float, b: float, where: str, tolerance: Tolerance) -> None:
        self.numbers += 1
        if a == b or (math.isnan(a) and math.isnan(b)):
            return
        self.largest = max(self.largest, relative(a, b))
        if tolerance.agree(a, b):
            if self.verdict == "same":
                self.verdict = "within tolerance"
            return
        self.off += 1
        self.verdict = "different"
        if len(self.examples) < _EXAMPLES:
            self.examples.append({"where": where, "before": finite(a), "after": finite(b)})


def relative(a: float, b: float) -> float:
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    larger = max(abs(a), abs(b))
    return abs(a - b) / larger if larger else 0.0


def finite(number: float) -> float | str:
    """What JSON can hold."""
    return number if math.isfinite(number) else str(number)


def texts(before: str, after: str, tolerance: Tolerance) -> Compared:
    """Words must be the same, numbers may differ within the tolerance."""
    found = Compared()
    if before == after:
        found.numbers = len(_NUMBER.findall(before[:_LONGEST]))
        return found
    before, after = before[:_LONGEST], after[:_LONGEST]
    calm_a, calm_b = _VOLATILE.sub("#", before), _VOLATILE.sub("#", after)
    if calm_a == calm_b:
        found.verdict = "volatile"
        found.why = "only times, durations, addresses or identifiers differ"
        return found
    if _words(calm_a) == _words(calm_b):
        a, b = _NUMBER.findall(calm_a), _NUMBER.findall(calm_b)
        if len(a) == len(b):
            for at, (x, y) in enumerate(zip(a, b, strict=True), 1):
                found.number(parsed(x), parsed(y), f"number {at}", tolerance)
            if found.verdict == "different":
                found.why = f"{found.off} of {found.numbers} numbers are off"
            return found
    found.verdict = "different"
    lines_a, lines_b = before.splitlines(), after.splitlines()
    if sorted(lines_a) == sorted(lines_b):
        found.why = "the same lines in another order"
        return found
    found.why = f"the words differ ({len(lines_a)} lines before, {len(lines_b)} after)"
    shown = [
        line[:200]
        for line in difflib.unified_diff(
            lines_a[:2_000], lines_b[:2_000], "before", "after", "", "", 0, ""
        )
        if not line.startswith(("---", "+++", "@@"))
    ]
    found.examples = [{"where": "lines", "diff": shown[:12]}]
    return found


def _words(text: str) -> str:
    """Without numbers, and blanks that only align them."""
    return " ".join(_NUMBER.sub("#", text).split())


def tables(
    before: tuple[tuple[str, ...], ...], after: tuple[tuple[str, ...], ...], tolerance: Tolerance
) -> Compared:
    """Cell by cell; the first row names columns."""
    found = Compared()
    shape_a = (len(before), max(map(len, before), default=0))
    shape_b = (len(after), max(map(len, after), default=0))
    if before and after and before[0] != after[0]:
        gone = [name for name in before[0] if name not in after[0]]
        new = [name for name in after[0] if name not in before[0]]
        found.verdict, found.why = "different", f"other columns: {gone[:5]} gone, {new[:5]} new"
        return found
    if shape_a != shape_b:
        found.verdict = "different"
        found.why = f"{shape_a[0]} rows of {shape_a[1]} before, {shape_b[0]} of {shape_b[1]} after"
        return found
    if sorted(before[1:]) == sorted(after[1:]) and before != after:
        found.verdict, found.why = "different", "the same rows in another order"
        return found
    names = before[0] if before else ()
    words = 0
    for number, (row_a, row_b) in enumerate(zip(before, after, strict=True)):
        for at, (a, b) in enumerate(zip(row_a, row_b, strict=False)):
            place = f"row {row_a[0] if at else number}, {names[at] if at < len(names) else at}"
            if _NUMBER.fullmatch(a) and _NUMBER.fullmatch(b):
                found.number(parsed(a), parsed(b), place[:120], tolerance)
            elif a != b and _VOLATILE.sub("#", a) != _VOLATILE.sub("#", b):
                words += 1
                found.verdict = "different"
                if len(found.examples) < _EXAMPLES:
                    found.examples.append({"where": place[:120], "before": a[:80], "after": b[:80]})
    if found.verdict == "different":
        found.why = f"{found.off} of {found.numbers} numbers are off, {words} texts differ"
    return found


def parsed(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except (ValueError, OverflowError):
        return math.nan


def metrics(text: str) -> dict[str, float]:
    """Lines of the form `name: number`, as programs print results; the last of a name counts."""
    found: dict[str, float] = {}
    for match in _METRIC.finditer(text[:_LONGEST]):
        value = parsed(match["value"])
        if math.isfinite(value) and len(found) < 500:
            found[" ".join(match["name"].split())] = value
    return found
