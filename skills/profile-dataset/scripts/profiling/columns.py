"""What is kept of one column while its rows pass by, and what is said of it at the end."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections import Counter
from dataclasses import dataclass, field

from profiling.values import Value, classified

#: Numbers kept for quantiles; up to so many values they are exact.
_NUMBERS = 20_000
#: A value is shown, and kept, up to here.
_SHOWN = 80
_REMEMBERED = 5_000

_MOJIBAKE = re.compile("Ã[\u0080-\u00bf©¨ª«¼±]|â€|Â[\u00a0-\u00bf]|ï¿½|\ufffd")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u200b\u200e\u200f\ufeff]")


def shown(value: object) -> str:
    """A value for people, short and printable."""
    text = value if isinstance(value, str) else _spelled(value)
    text = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:200]
    )
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _spelled(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(type(value).__name__)


def key_of(value: object) -> str:
    """What tells values apart: the value itself when it is short, else its beginning and a hash."""
    text = value if isinstance(value, str) else _spelled(value)
    if len(text) <= 100:
        return text
    data = text.encode("utf-8", "surrogatepass")
    return f"{text[:60]}…{hashlib.blake2b(data, digest_size=8).hexdigest()}"


@dataclass
class Column:
    """One column. most: so many distinct values are told apart; of more it says "at least"."""

    name: str
    most: int
    kinds: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[int, str]] = field(default_factory=dict)
    forms: Counter[str] = field(default_factory=Counter)
    counts: dict[str, int] = field(default_factory=dict)
    overflow: bool = False
    missing_words: Counter[str] = field(default_factory=Counter)
    numbers: list[float] = field(default_factory=list)
    infinite: int = 0
    fractions: int = 0
    padded: int = 0
    mojibake: int = 0
    control: int = 0
    shortest: int | None = None
    longest: int = 0
    earliest: tuple[int, int, int] | None = None
    latest: tuple[int, int, int] | None = None
    chain: int = 0
    ascending: bool = True
    rows: int = 0
    _count: int = 0
    _mean: float = 0.0
    _square: float = 0.0
    low: float = math.inf
    high: float = -math.inf
    _chance: random.Random = field(default_factory=lambda: random.Random(0))
    _known: dict[str, Value] = field(default_factory=dict)

    def take(self, value: object, row: int) -> Value:
        """Counts a value of row `row` (from 1); says what it is."""
        self.rows += 1
        if isinstance(value, str):
            found = self._known.get(value)
            if found is None:
                found = classified(value)
                if len(self._known) < _REMEMBERED and len(value) <= 100:
                    self._known[value] = found
        else:
            found = classified(value)
        kind = found.kind
        self.kinds[kind] += 1
        if kind == "missing":
            self.chain = hash((self.chain, None))
            word = value.strip() if isinstance(value, str) else ""
            self.missing_words[word] += 1
            return found
        if kind not in self.first:
            self.first[kind] = (row, shown(value))
        key = key_of(value)
        self.chain = hash((self.chain, key))
        if key in self.counts:
            self.counts[key] += 1
        elif len(self.counts) < self.most:
            self.counts[key] = 1
        else:
            self.overflow = True
        if found.form:
            self.forms[found.form] += 1
        if found.number is not None:
            self._number(found.number)
        if found.day is not None:
            if self.earliest is None or found.day < self.earliest:
                self.earliest = found.day
            if self.latest is None or found.day > self.latest:
                self.latest = found.day
        if isinstance(value, str):
            self._string(value)
        return found

    def _string(self, value: str) -> None:
        length = len(value)
        if self.shortest is None or length < self.shortest:
            self.shortest = length
        self.longest = max(self.longest, length)
        if value[:1].isspace() or value[-1:].isspace():
            self.padded += 1
        if not value.isascii() and _MOJIBAKE.search(value[:2000]):
            self.mojibake += 1
        if not value.isprintable() and _CONTROL.search(value[:2000]):
            self.control += 1

    def _number(self, number: float) -> None:
        if math.isinf(number):
            self.infinite += 1
            return
        if number < self.high:
            self.ascending = False
        self._count += 1
        delta = number - self._mean
        self._mean += delta / self._count
        self._square += delta * (number - self._mean)
        self.low, self.high = min(self.low, number), max(self.high, number)
        if not number.is_integer():
            self.fractions += 1
        if len(self.numbers) < _NUMBERS:
            self.numbers.append(number)
        else:
            at = self._chance.randrange(self._count)
            if at < _NUMBERS:
                self.numbers[at] = number

    # what is said of it ------------------------------------------------------------------------

    @property
    def present(self) -> int:
        return self.rows - self.kinds["missing"]

    @property
    def numeric(self) -> int:
        return self._count

    @property
    def distinct(self) -> int:
        return len(self.counts)

    @property
    def unique(self) -> bool:
        """Every row has a value of its own, as far as could be told apart."""
        return not self.overflow and self.distinct == self.rows > 0

    @property
    def type(self) -> str:
        """The kind that (nearly) all values are of; "mixed" when more than 1 in 50 are of others.

        Whole numbers among numbers are numbers; codes among whole numbers make codes of all.
        """
        kinds = {kind: n for kind, n in self.kinds.items() if kind != "missing" and n}
        if not kinds:
            return "empty"
        if set(kinds) <= {"integer", "number"}:
            return "number" if "number" in kinds else "integer"
        if set(kinds) <= {"integer", "code"}:
            return "code"
        if set(kinds) <= {"integer", "number", "formatted"}:
            return "formatted number"
        if set(kinds) <= {"date", "datetime"}:
            return max(kinds, key=lambda kind: kinds[kind])
        merged = dict(kinds)
        if "number" in merged:
            merged["number"] += merged.pop("integer", 0)
        if "text" in merged and merged["text"] * 2 > self.present:
            return "text"  # words that look like dates or numbers stand in any free text
        kind = max(merged, key=lambda each: merged[each])
        return kind if merged[kind] * 50 >= self.present * 49 else "mixed"

    def quantiles(self) -> dict[str, float]:
        values = sorted(self.numbers)
        if not values:
            return {}
        return {name: quantile(values, q) for name, q in _QUANTILES}

    def outliers(self) -> dict[str, object] | None:
        """Values beyond 1.5 (far: 3) times the middle half's width, and the bounds themselves."""
        values = sorted(self.numbers)
        if len(values) < 12:
            return None
        low, high = quantile(values, 0.25), quantile(values, 0.75)
        width = high - low
        if not width:
            return None
        bounds = (low - 1.5 * width, high + 1.5 * width)
        beyond = [v for v in values if v < bounds[0] or v > bounds[1]]
        far = [v for v in values if v < low - 3 * width or v > high + 3 * width]
        if not beyond:
            return None
        return {
            "count": len(beyond),
            "far": len(far),
            "of": len(values),
            "bounds": [rounded(each) for each in bounds],
            "lowest": [rounded(v) for v in beyond[:3]],
            "highest": [rounded(v) for v in beyond[-3:]],
        }

    def top(self, most: int) -> list[tuple[str, int]]:
        return sorted(self.counts.items(), key=lambda each: (-each[1], each[0]))[:most]

    def described(self, most: int) -> dict[str, object]:
        """The column as JSON."""
        kind = self.type
        body: dict[str, object] = {
            "name": shown(self.name),
            "type": kind,
            "missing": self.kinds["missing"],
            "missing_share": rounded(self.kinds["missing"] / self.rows) if self.rows else 0,
            "distinct": self.distinct,
        }
        if self.overflow:
            body["distinct_is_at_least"] = True
        if self.unique:
            body["unique"] = True
        kinds = {k: n for k, n in sorted(self.kinds.items()) if k != "missing"}
        if len(kinds) > 1:
            body["kinds"] = {
                k: {"count": n, "first_row": self.first[k][0], "example": self.first[k][1]}
                for k, n in kinds.items()
            }
        words = [(word, n) for word, n in self.missing_words.most_common(6) if word]
        if words:
            body["missing_written_as"] = {shown(word): n for word, n in words}
        if self._count and kind in ("integer", "number", "formatted number", "mixed", "boolean"):
            deviation = math.sqrt(self._square / (self._count - 1)) if self._count > 1 else 0.0
            body["numbers"] = {
                "min": rounded(self.low),
                "max": rounded(self.high),
                "mean": rounded(self._mean),
                "deviation": rounded(deviation),
                "zeros": self.counts.get("0", 0) + self.counts.get("0.0", 0),
                **{name: rounded(value) for name, value in self.quantiles().items()},
            }
            outliers = self.outliers()
            if outliers is not None:
                body["outliers"] = outliers
        if self.earliest is not None and self.latest is not None:
            body["dates"] = {
                "earliest": "{:04}-{:02}-{:02}".format(*self.earliest),
                "latest": "{:04}-{:02}-{:02}".format(*self.latest),
            }
        if self.forms:
            body["forms"] = dict(self.forms.most_common(6))
        if self.shortest is not None and kind in ("text", "code", "mixed"):
            body["length"] = {"shortest": self.shortest, "longest": self.longest}
        if not self.unique:
            body["top"] = [{"value": shown(value), "count": n} for value, n in self.top(most)]
        else:
            body["examples"] = [shown(value) for value in list(self.counts)[:3]]
        return body


_QUANTILES = (("p1", 0.01), ("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p99", 0.99))


def quantile(ordered: list[float], q: float) -> float:
    """Linear between the two nearest, as numpy's default."""
    at = (len(ordered) - 1) * q
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def rounded(number: float) -> float | int | str:
    """Six significant digits; what JSON cannot hold as text."""
    if not math.isfinite(number):
        return str(number)
    if float(number).is_integer() and abs(number) < 1e15:
        return int(number)
    return float(f"{number:.6g}")
