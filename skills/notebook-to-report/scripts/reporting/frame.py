"""What stands in a report, for whoever writes its summary: headings, figures, tables, numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NUMBER = re.compile(r"\d")
_LISTED = 60


@dataclass
class Frame:
    """The parts of a report, in the order in which they stand there."""

    title: str = ""
    headings: list[dict[str, object]] = field(default_factory=list)
    figures: list[dict[str, object]] = field(default_factory=list)
    tables: list[dict[str, object]] = field(default_factory=list)
    numbers: list[dict[str, object]] = field(default_factory=list)
    errors: list[dict[str, object]] = field(default_factory=list)

    def heading(self, level: int, text: str, cell: int) -> None:
        self.headings.append({"level": level, "text": text, "cell": cell})

    def figure(self, cell: int, media: str, size: int) -> int:
        number = len(self.figures) + 1
        self.figures.append(
            {"number": number, "cell": cell, "under": self.under, "media": media, "bytes": size}
        )
        return number

    def table(self, cell: int, rows: int, columns: int, names: list[str]) -> int:
        number = len(self.tables) + 1
        self.tables.append(
            {
                "number": number,
                "cell": cell,
                "under": self.under,
                "rows": rows,
                "columns": columns,
                "names": [name[:60] for name in names[:20]],
            }
        )
        return number

    def text(self, cell: int, text: str) -> None:
        """Short lines with a number in them are what results look like."""
        for line in text.split("\n"):
            bare = line.strip()
            if bare and len(bare) <= 160 and _NUMBER.search(bare) and len(self.numbers) < _LISTED:
                self.numbers.append({"cell": cell, "line": bare})

    @property
    def under(self) -> str:
        return str(self.headings[-1]["text"]) if self.headings else ""

    def to_json(self) -> dict[str, object]:
        return {
            "title": self.title,
            "headings": self.headings[:_LISTED],
            "figures": self.figures[:_LISTED],
            "tables": self.tables[:_LISTED],
            "numbers": self.numbers,
            "errors": self.errors[:20],
        }

    def template(self) -> str:
        """Markdown to be filled in and given back by --summary."""
        lines = [
            "**Question.** (what was asked, in one sentence)",
            "",
            "**Answer.** (what was found, with the number that shows it and where it stands)",
            "",
            "**How.** (data, method, what was left out, in two sentences)",
            "",
        ]
        lines += [
            f"- Figure {f['number']}: (what it shows, in a sentence)" for f in self.figures[:8]
        ]
        lines += [f"- Table {t['number']}: (what to read in it)" for t in self.tables[:8]]
        if self.figures or self.tables:
            lines.append("")
        return "\n".join(
            [*lines, "**Limits.** (what could be otherwise, and what would show it)", ""]
        )
