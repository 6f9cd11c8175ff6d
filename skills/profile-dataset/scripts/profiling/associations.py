"""How strongly one column tells another, from a sample of rows (values in, numbers out)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

Pair = tuple[object, object]


def pearson(a: Sequence[float], b: Sequence[float]) -> float:
    """-1 to 1; 0 when one of them never changes."""
    count = len(a)
    if count < 3:
        return 0.0
    mean_a, mean_b = sum(a) / count, sum(b) / count
    da, db = [x - mean_a for x in a], [y - mean_b for y in b]
    spread = math.sqrt(sum(x * x for x in da)) * math.sqrt(sum(y * y for y in db))
    if not spread or not math.isfinite(spread):
        return 0.0
    return max(-1.0, min(1.0, sum(x * y for x, y in zip(da, db, strict=True)) / spread))


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, equal values share the middle of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for each in order[at : end + 1]:
            found[each] = (at + end) / 2 + 1
        at = end + 1
    return found


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    return pearson(ranks(a), ranks(b))


def told(feature: Sequence[object], target: Sequence[object]) -> float:
    """How much better one guesses the target's class when one knows the feature: 0 to 1.

    Each row is guessed from the *other* rows with its value, so that values that stand once tell
    nothing (an id would otherwise tell everything).
    """
    count = len(target)
    overall = Counter(target)
    if len(overall) < 2:
        return 0.0
    groups: dict[object, Counter[object]] = defaultdict(Counter)
    for value, label in zip(feature, target, strict=True):
        groups[value][label] += 1
    right = base = 0
    top = overall.most_common(2)
    for value, label in zip(feature, target, strict=True):
        base += label == _best(top, label, 1)
        group = groups[value]
        if sum(group.values()) > 1:
            right += label == _best(group.most_common(2), label, 1)
        else:
            right += label == _best(top, label, 1)
    wrong = count - base
    return max(0.0, (right - base) / wrong) if wrong else 0.0


def _best(top: list[tuple[object, int]], own: object, less: int) -> object:
    """The most frequent of two, with one of `own` taken out."""
    adjusted = [
        (count - less * (label == own), -at, label) for at, (label, count) in enumerate(top)
    ]
    return max(adjusted, key=lambda each: each[:2])[2]


def explained(feature: Sequence[object], target: Sequence[float]) -> float:
    """The share (adjusted) of the target's variance that lies between the feature's groups."""
    count = len(target)
    mean = sum(target) / count
    total = sum((y - mean) ** 2 for y in target)
    groups: dict[object, list[float]] = defaultdict(list)
    for value, y in zip(feature, target, strict=True):
        groups[value].append(y)
    if not total or len(groups) * 2 > count or len(groups) < 2:
        return 0.0
    within = 0.0
    for members in groups.values():
        middle = sum(members) / len(members)
        within += sum((y - middle) ** 2 for y in members)
    return max(0.0, 1 - (within / (count - len(groups))) / (total / (count - 1)))


def binned(values: Sequence[float], bins: int = 10) -> list[int]:
    """The bin of each value, of about equally full ones."""
    ordered = sorted(values)
    edges = sorted({ordered[len(ordered) * each // bins] for each in range(1, bins)})
    return [sum(value >= edge for edge in edges) for value in values]
