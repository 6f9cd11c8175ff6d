"""The report as Markdown, its pictures as files beside it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

from reporting.frame import Frame
from reporting.notebook import Block, Book, data_uri
from reporting.sanitising import clean, says_something
from reporting.tables import Table, tables_in
from reporting.words import as_markdown

_SUFFIX = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
}
_ROWS = 200


def markdown_report(
    book: Book,
    frame: Frame,
    *,
    title: str,
    summary: str,
    captions: Mapping[str, str],
    code: str,
    folder: str,
) -> tuple[str, dict[str, bytes]]:
    """The text, and the pictures by their paths below `folder` (a name beside the report)."""
    frame.title = title
    files: dict[str, bytes] = {}
    parts: list[str] = []
    first = book.blocks[0] if book.blocks else None
    head = first.text.lstrip().split("\n")[0] if first and first.kind == "markdown" else ""
    if not (head.startswith("# ") and title in head):
        parts.append(f"# {plain(title)}")
    if summary:
        parts += ["## Summary", as_markdown(summary).text]
    for block in book.blocks:
        parts.append(_block(block, book, frame, captions, code, folder, files))
    said = ", ".join(f"{count} {what}" for what, count in sorted(book.left_out.items()))
    made = f"Made from {plain(book.name)} (sha256 {book.sha256[:16]})."
    parts += ["---", f"{made} Not shown: {said}." if said else made]
    return "\n\n".join(part for part in parts if part.strip()) + "\n", files


def _block(
    block: Block,
    book: Book,
    frame: Frame,
    captions: Mapping[str, str],
    code: str,
    folder: str,
    files: dict[str, bytes],
) -> str:
    if block.kind == "markdown":
        words = as_markdown(block.text)
        for level, text, _ in words.headings:
            frame.heading(level, text, block.cell)
        if words.pictures_left_out:
            book.left_out["pictures of Markdown cells"] += words.pictures_left_out
        return words.text
    if block.kind == "code":
        if code == "hidden":
            return ""
        name = book.language if re.fullmatch(r"[a-z0-9+#-]{1,20}", book.language) else ""
        fenced_code = fenced(block.text, name)
        if code == "shown":
            return fenced_code
        return f"<details>\n<summary>Code</summary>\n\n{fenced_code}\n\n</details>"
    if block.kind == "picture":
        number = frame.figure(block.cell, block.media, len(block.data))
        caption = plain(captions.get(str(number), ""))
        said = f"Figure {number}: {caption}" if caption else f"Figure {number}"
        if block.media in _SUFFIX:
            digest = hashlib.sha256(block.data).hexdigest()[:12]
            name = f"figure-{number}-{digest}.{_SUFFIX[block.media]}"
            files[name] = block.data
            return f"![{said}](<{folder}/{name}>)\n\n*{said}*"
        # An SVG file may run scripts when it is opened; as a picture it does not.
        return f"![{said}]({data_uri(block.media, block.data)})\n\n*{said}*"
    if block.kind == "html":
        return _html(block, book, frame, captions)
    if block.kind == "error":
        frame.errors.append({"cell": block.cell, "text": block.text[:300]})
        trace = f"\n\n{fenced(block.plain)}" if block.plain else ""
        return f"**Cell {block.cell} ended with an error:** {plain(block.text)}{trace}"
    if block.kind == "note":
        return f"*{plain(block.text)}*"
    frame.text(block.cell, block.text)
    return fenced(block.text)


def _html(block: Block, book: Book, frame: Frame, captions: Mapping[str, str]) -> str:
    parts = []
    for table in tables_in(block.text):
        if not table.rows:
            continue
        names = table.rows[0] if table.heads else []
        number = frame.table(block.cell, len(table.rows) - table.heads, table.width, names)
        caption = plain(captions.get(f"table-{number}", ""))
        parts += [piped(table), f"*Table {number}{': ' + caption if caption else ''}*"]
        if len(table.rows) > _ROWS or table.cut:
            book.left_out["rows of long tables"] += max(len(table.rows) - _ROWS, 1)
    if parts:
        return "\n\n".join(parts)
    if block.plain.strip():
        frame.text(block.cell, block.plain)
        return fenced(block.plain)
    words = re.sub(r"<[^>]*>", " ", clean(block.text))
    if not says_something(words):
        book.left_out["outputs of scripts only"] += 1
        return ""
    return plain(" ".join(words.split()))


def piped(table: Table) -> str:
    """A table as Markdown has it: one row of names, and texts that are only texts."""
    width = table.width
    rows = [[*row, *[""] * (width - len(row))] for row in table.rows]
    names = [" ".join(each).strip() for each in zip(*rows[: table.heads], strict=True)]
    names = names or [""] * width
    lines = [_line(names), "|" + " --- |" * width]
    return "\n".join([*lines, *(_line(row) for row in rows[table.heads : table.heads + _ROWS])])


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(plain(cell) for cell in cells) + " |"


def plain(text: str) -> str:
    """A text in which no character means anything to Markdown."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~>$-])", r"\\\1", text)


def fenced(text: str, language: str = "") -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
