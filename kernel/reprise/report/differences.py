"""Two texts side by side as HTML, what differs marked down to the words (pure)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from reprise.report.markup import Html, join, tag

#: Lines of each text that are aligned; beyond, they are compared by position.
ALIGNED: Final = 1_500
#: Equal lines kept around a difference; longer runs are folded.
CONTEXT: Final = 3
#: Rows of one table, characters of one line, words of a line that are aligned.
ROWS: Final = 400
WIDTH: Final = 2_000
WORDS: Final = 300

_WORD: Final = re.compile(r"\w{1,80}|\s{1,80}|.", re.DOTALL)


@dataclass(frozen=True)
class _Row:
    """A line of each side; None where it has none. `kind`: equal, changed or fold."""

    kind: str
    left: str | None
    right: str | None
    folded: int = 0


def side_by_side(old: str, new: str, left: str = "recorded", right: str = "replayed") -> Html:
    """A table of both texts, equal runs folded."""
    rows = list(_rows(old.split("\n"), new.split("\n")))
    body = [_row(row) for row in rows[:ROWS]]
    if len(rows) > ROWS:
        body.append(_note(f"{len(rows) - ROWS} more lines are not shown"))
    head = tag("tr", tag("th", left, scope="col"), tag("th", right, scope="col"))
    return tag("table", tag("thead", head), tag("tbody", *body), class_="diff")


def _rows(old: list[str], new: list[str]) -> Iterator[_Row]:
    for kind, a, b in _blocks(old, new):
        if kind == "equal":
            yield from _folded(a)
            continue
        for number in range(max(len(a), len(b))):
            yield _Row(
                "changed",
                a[number] if number < len(a) else None,
                b[number] if number < len(b) else None,
            )


def _folded(lines: list[str]) -> Iterator[_Row]:
    if len(lines) <= 2 * CONTEXT + 1:
        yield from (_Row("equal", line, line) for line in lines)
        return
    yield from (_Row("equal", line, line) for line in lines[:CONTEXT])
    yield _Row("fold", None, None, len(lines) - 2 * CONTEXT)
    yield from (_Row("equal", line, line) for line in lines[-CONTEXT:])


def _blocks(old: list[str], new: list[str]) -> Iterator[tuple[str, list[str], list[str]]]:
    start, shorter = 0, min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    if start:
        yield "equal", old[:start], new[:start]
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if max(len(a), len(b)) > ALIGNED:
        yield "changed", a, b
    elif a or b:
        matcher = difflib.SequenceMatcher(None, a, b, autojunk=len(a) * len(b) > 200_000)
        for kind, i, j, k, m in matcher.get_opcodes():
            yield "equal" if kind == "equal" else "changed", a[i:j], b[k:m]
    if end:
        yield "equal", old[-end:], new[-end:]


def _row(row: _Row) -> Html:
    if row.kind == "fold":
        return _note(f"{row.folded} equal lines")
    if row.kind == "equal":
        line = _cut(row.left or "")
        return tag("tr", tag("td", line), tag("td", line))
    left, right = _words(row.left, row.right)
    return tag(
        "tr",
        tag("td", left, class_="old") if row.left is not None else tag("td", class_="none"),
        tag("td", right, class_="new") if row.right is not None else tag("td", class_="none"),
        class_="changed",
    )


def _note(text: str) -> Html:
    return tag("tr", tag("td", text, colspan=2, class_="fold"))


def _words(old: str | None, new: str | None) -> tuple[Html, Html]:
    """Both lines, the words that differ marked."""
    if old is None or new is None:
        return tag("del", _cut(old or "")), tag("ins", _cut(new or ""))
    a, b = _WORD.findall(_cut(old)), _WORD.findall(_cut(new))
    if max(len(a), len(b)) > WORDS:
        return tag("del", _cut(old)), tag("ins", _cut(new))
    left: list[str] = []
    right: list[str] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        before, after = "".join(a[i:j]), "".join(b[k:m])
        if kind == "equal":
            left.append(before)
            right.append(after)
            continue
        if before:
            left.append(tag("del", before))
        if after:
            right.append(tag("ins", after))
    return join(*left), join(*right)


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[:WIDTH]}… ({len(line) - WIDTH} more)"


def unified(text: str) -> Html:
    """A unified diff, its lines coloured by their first character."""
    lines: list[Html] = []
    for line in text.split("\n"):
        kind = {"+": "ins", "-": "del", "@": "fold"}.get(line[:1])
        lines.append(tag("span", line, class_=kind))
    return tag("pre", *(join(line, "\n") for line in lines), class_="unified", tabindex="0")
