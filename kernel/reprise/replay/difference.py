"""The differences found between a record and its replay, bounded in number and size (pure)."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass, field
from typing import Final

from reprise.log.model import Json
from reprise.replay.volatile import Verdict

#: At most this many differences are listed, each text of them cut to so many characters.
LISTED: Final = 50
EXCERPT: Final = 2_000
#: The diff of two texts shows so many lines of so many characters.
DIFF_LINES: Final = 40
DIFF_WIDTH: Final = 200


@dataclass(frozen=True)
class Difference:
    """One place where record and replay differ.

    where: "stdout", "execute_result text/html", "error traceback", …
    kind: what was volatile ("address, timing"), or for a real difference "text", "value",
      "image", "missing" (in the replay), "extra" (in the replay), "order".
    recorded, replayed: excerpts from the first difference on.  diff: unified, for texts.
    """

    where: str
    kind: str
    recorded: str
    replayed: str
    diff: str = ""
    volatile: bool = False

    def to_json(self) -> dict[str, Json]:
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """The verdict on one step. `omitted`: further differences that are not listed."""

    verdict: Verdict
    differences: tuple[Difference, ...] = ()
    omitted: int = 0

    def to_json(self) -> dict[str, Json]:
        return {
            "verdict": self.verdict,
            "differences": [each.to_json() for each in self.differences],
            "omitted": self.omitted,
        }


@dataclass
class Found:
    moments: tuple[int, int] | None
    verdict: Verdict = "same"
    differences: list[Difference] = field(default_factory=list)
    omitted: int = 0

    def add(self, difference: Difference) -> None:
        if not difference.volatile:
            self.verdict = "different"
        elif self.verdict == "same":
            self.verdict = "volatile"
        if len(self.differences) < LISTED:
            self.differences.append(difference)
        else:
            self.omitted += 1

    @property
    def full(self) -> bool:
        """Whether the verdict is settled and the list full: what else differs is only counted."""
        return self.verdict == "different" and len(self.differences) >= LISTED

    def comparison(self) -> Comparison:
        return Comparison(self.verdict, tuple(self.differences), self.omitted)


def excerpts(old: str, new: str) -> tuple[str, str, str]:
    """From the first line that differs on: both texts, and their unified diff."""
    a, b = old.split("\n"), new.split("\n")
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    left, right = _lines(a, start), _lines(b, start)
    context = _lines(a[:start], max(0, start - 2))
    diff = list(difflib.unified_diff(context + left, context + right, lineterm="", n=2))[2:]
    if diff:
        diff[0] = f"@@ line {start + 1} @@"
    return (
        shortened("\n".join(left)),
        shortened("\n".join(right)),
        "\n".join(diff[: 2 * DIFF_LINES]),
    )


def _lines(lines: list[str], start: int) -> list[str]:
    return [
        line if len(line) <= DIFF_WIDTH else line[:DIFF_WIDTH] + "…"
        for line in lines[start : start + DIFF_LINES]
    ]


def shortened(text: str) -> str:
    return text if len(text) <= EXCERPT else text[:EXCERPT] + "…"
