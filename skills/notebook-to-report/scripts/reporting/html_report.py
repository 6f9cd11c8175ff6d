"""The report as one HTML file: nothing in it runs, and it loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from pathlib import Path

from reporting.frame import Frame
from reporting.notebook import Block, Book, data_uri
from reporting.sanitising import clean, says_something
from reporting.tables import tables_in
from reporting.words import as_html

_CSP = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; --line: #d0d7de; --soft: #f6f8fa; --dim: #59636e; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3d444d; --soft: #151b23; --dim: #9198a1; }
}
body { font: 16px/1.55 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; }
h1, h2, h3, h4 { line-height: 1.25; margin: 1.8em 0 0.6em; }
pre { background: var(--soft); padding: 0.7rem; overflow-x: auto; font-size: 0.85em; }
details > summary { color: var(--dim); cursor: pointer; font-size: 0.85em; }
figure { margin: 1.2rem 0; } figcaption { color: var(--dim); font-size: 0.9em; }
img { max-width: 100%; height: auto; }
.table { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.9em; margin: 1rem 0; }
th, td { border: 1px solid var(--line); padding: 0.25rem 0.6rem; text-align: right; }
th { background: var(--soft); }
.summary { border-left: 4px solid #0969da; padding-left: 1rem; }
.error { border-left: 4px solid #cf222e; padding-left: 1rem; }
.note, footer { color: var(--dim); font-size: 0.85em; }
nav ol { margin: 0; } nav li.in { margin-left: 1.2rem; }
@media print { details { display: none; } body { max-width: none; } }
"""


def html_report(
    book: Book,
    frame: Frame,
    *,
    title: str,
    summary: str,
    captions: Mapping[str, str],
    code: str,
) -> str:
    """code: hidden, folded or shown."""
    taken: set[str] = set()
    frame.title = title
    contents: list[tuple[int, str, str]] = []
    head = ""
    if summary:
        # Headings of a summary stand below its own.
        words = as_html(summary, {}, book.folder, taken, 2)
        head = f'<section class="summary">\n<h2 id="summary">Summary</h2>\n{words.text}</section>\n'
        taken.add("summary")
    body = [_block(each, book, frame, captions, code, taken, contents) for each in book.blocks]
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_CSP}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        "</head>",
        "<body>",
        "" if _begins_with(book, title) else f"<h1>{escape(title)}</h1>",
        head,
        _contents(contents),
        *body,
        "<footer>",
        f"<p>Made from {escape(book.name)} (sha256 {book.sha256[:16]}).{_left(book)}</p>",
        "</footer>",
        "</body>",
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _begins_with(book: Book, title: str) -> bool:
    """Whether the notebook itself begins with the title as its first heading."""
    first = book.blocks[0] if book.blocks else None
    line = first.text.lstrip().split("\n")[0] if first and first.kind == "markdown" else ""
    return re.fullmatch(r"#\s+(.*?)\s*#*", line) is not None and title in line


def _contents(headings: list[tuple[int, str, str]]) -> str:
    shown = [each for each in headings if each[0] in (2, 3)][:80]
    if len(shown) < 4:
        return ""
    items = "\n".join(
        f'<li{" class=in" if level == 3 else ""}><a href="#{anchor}">{escape(text)}</a></li>'
        for level, text, anchor in shown
    )
    return f'<nav aria-label="Contents"><ol>\n{items}\n</ol></nav>'


def _left(book: Book) -> str:
    if not book.left_out:
        return ""
    said = ", ".join(f"{count} {what}" for what, count in sorted(book.left_out.items()))
    return f" Not shown: {escape(said)}."


def _block(
    block: Block,
    book: Book,
    frame: Frame,
    captions: Mapping[str, str],
    code: str,
    taken: set[str],
    contents: list[tuple[int, str, str]],
) -> str:
    if block.kind == "markdown":
        words = as_html(block.text, dict(block.attachments), Path(book.folder), taken)
        for level, text, anchor in words.headings:
            frame.heading(level, text, block.cell)
            contents.append((level, text, anchor))
        if words.pictures_left_out:
            book.left_out["pictures from elsewhere"] += words.pictures_left_out
        return words.text
    if block.kind == "code":
        if code == "hidden":
            return ""
        pre = f"<pre><code>{escape(block.text)}</code></pre>"
        return pre if code == "shown" else f"<details><summary>Code</summary>\n{pre}\n</details>"
    if block.kind == "picture":
        number = frame.figure(block.cell, block.media, len(block.data))
        caption = captions.get(str(number), "")
        alt = caption or f"Figure {number}"
        return (
            f'<figure id="figure-{number}">\n<img src="{data_uri(block.media, block.data)}"'
            f' alt="{escape(alt)}">\n<figcaption>Figure {number}'
            f"{': ' + escape(caption) if caption else ''}</figcaption>\n</figure>"
        )
    if block.kind == "html":
        return _html(block, book, frame, captions)
    if block.kind == "error":
        frame.errors.append({"cell": block.cell, "text": block.text[:300]})
        trace = f"<pre>{escape(block.plain)}</pre>" if block.plain else ""
        return (
            f'<div class="error"><p>Cell {block.cell} ended with an error:'
            f" {escape(block.text)}</p>{trace}</div>"
        )
    if block.kind == "note":
        return f'<p class="note">{escape(block.text)}</p>'
    frame.text(block.cell, block.text)
    return f"<pre>{escape(block.text)}</pre>"


def _html(block: Block, book: Book, frame: Frame, captions: Mapping[str, str]) -> str:
    body = clean(block.text)
    if not says_something(body):
        book.left_out["outputs of scripts only"] += 1
        if not block.plain.strip():
            return ""
        frame.text(block.cell, block.plain)
        return f"<pre>{escape(block.plain)}</pre>"
    named = []
    for table in tables_in(block.text):
        names = table.rows[0] if table.heads and table.rows else []
        rows = len(table.rows) - table.heads
        number = frame.table(block.cell, rows, table.width, names)
        caption = captions.get(f"table-{number}", "")
        named.append(f"Table {number}{': ' + escape(caption) if caption else ''}")
    words = f"<figcaption>{' · '.join(named)}</figcaption>" if named else ""
    return f'<figure class="table">\n{body}\n{words}</figure>'
