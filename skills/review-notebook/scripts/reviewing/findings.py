"""What was found, collected, bounded and put in order."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

from reviewing.notebook import Cell

SEVERITIES = ("error", "warning", "info")
#: Of one rule; the others are counted.
_OF_A_RULE = 12
_SHOWN = 200


@dataclass(frozen=True)
class Finding:
    """cell: its place, from 1; None: the notebook as a whole.  line: in the cell, from 1."""

    rule: str
    severity: str
    cell: int | None
    cell_id: str | None
    line: int | None
    text: str
    mend: str
    code: str | None = None


class Findings:
    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Finding] = {}
        self._kept: Counter[str] = Counter()
        self.more: Counter[str] = Counter()

    def add(
        self,
        severity: str,
        rule: str,
        cell: Cell | None,
        line: int | None,
        text: str,
        mend: str,
        *,
        show: bool = True,
    ) -> None:
        """show: whether the line of code may be shown (not where it holds a secret)."""
        key = (rule, cell.number if cell else None, line, text)
        if key in self._found:
            return
        if self._kept[rule] == _OF_A_RULE:
            self.more[rule] += 1
            return
        self._kept[rule] += 1
        code = None
        if show and cell is not None and line is not None:
            lines = cell.source.split("\n")
            if 0 < line <= len(lines):
                code = lines[line - 1].strip()[:_SHOWN]
        self._found[key] = Finding(
            rule,
            severity,
            cell.number if cell else None,
            cell.id if cell else None,
            line,
            text[:500],
            mend,
            code,
        )

    def counts(self) -> dict[str, int]:
        found = Counter(each.severity for each in self._found.values())
        return {severity: found[severity] for severity in SEVERITIES}

    def has(self, *rules: str) -> bool:
        return any(each.rule in rules for each in self._found.values())

    def ranked(self, most: int) -> tuple[list[dict[str, object]], int]:
        """The gravest first, within them in the order of the cells; and how many are left out."""
        ordered = sorted(
            self._found.values(),
            key=lambda f: (SEVERITIES.index(f.severity), f.cell or 0, f.line or 0, f.rule, f.text),
        )
        left = max(len(ordered) - most, 0) + sum(self.more.values())
        return [asdict(each) for each in ordered[:most]], left
