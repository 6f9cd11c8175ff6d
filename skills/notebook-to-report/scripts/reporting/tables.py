"""Tables of HTML outputs as rows of texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_CELLS = 20_000
_TEXT = 2_000


@dataclass
class Table:
    """rows: of texts.  heads: how many rows from the top are names.  spans: cells span others."""

    rows: list[list[str]] = field(default_factory=list)
    heads: int = 0
    spans: bool = False
    cut: bool = False

    @property
    def width(self) -> int:
        return max(map(len, self.rows), default=0)


def tables_in(html: str) -> list[Table]:
    """The tables of an HTML text, outermost ones, in order. Never raises."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return reader.tables


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[Table] = []
        self._depth = 0
        self._cell: list[str] | None = None
        self._skip = 0
        self._count = 0
        self._names = True

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._skip += 1
        elif tag == "table":
            self._depth += 1
            if self._depth == 1:
                self.tables.append(Table())
        elif self._depth == 1 and tag == "tr":
            self._end_cell()
            self.tables[-1].rows.append([])
            self._names = True
        elif self._depth == 1 and tag in ("td", "th"):
            self._end_cell()
            table = self.tables[-1]
            if not table.rows:
                table.rows.append([])
            self._names = self._names and tag == "th"
            self._count += 1
            table.cut = table.cut or self._count > _CELLS
            self._cell = []
            if any(
                name in ("colspan", "rowspan") and value not in ("1", None) for name, value in attrs
            ):
                table.spans = True
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._skip = max(self._skip - 1, 0)
        elif tag == "table" and self._depth:
            self._end_cell()
            self._depth -= 1
            if not self._depth:
                self.tables[-1].rows = [row for row in self.tables[-1].rows if row]
        elif self._depth == 1 and tag in ("td", "th"):
            self._end_cell()
        elif self._depth == 1 and tag == "tr":
            self._end_cell()
            table = self.tables[-1]
            if self._names and table.rows and table.heads == len(table.rows) - 1:
                table.heads = len(table.rows)

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not self._skip:
            self._cell.append(data)

    def _end_cell(self) -> None:
        if self._cell is not None and self.tables and self.tables[-1].rows:
            if not self.tables[-1].cut:
                self.tables[-1].rows[-1].append(" ".join("".join(self._cell).split())[:_TEXT])
            self._cell = None
