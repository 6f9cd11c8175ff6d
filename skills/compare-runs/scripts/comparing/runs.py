"""A run, from an executed notebook or a session's log: cells and what each showed."""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

_LARGEST = 256 << 20
_TEXT = 2_000_000
#: Two sources are one, edited, when so much of them is the same; so many pairs are looked at.
_LIKENESS = 0.5
_PAIRED = 2_500
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class Unreadable(Exception):
    """A file that is not there, or holds no run."""


@dataclass(frozen=True)
class Shown:
    """One output. kind: text, table, picture or error.

    text: what it says; of a picture its digest.  rows: of a table.
    """

    kind: str
    text: str
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Cell:
    """place: from 1.  name: its id, or "step N".  ran: whether it was run at all."""

    place: int
    name: str
    source: str
    shown: tuple[Shown, ...]
    ran: bool = True


def load(path: Path) -> list[Cell]:
    """The code cells of a run. Raises Unreadable."""
    try:
        if path.stat().st_size > _LARGEST:
            raise Unreadable(f"{path} is over {_LARGEST >> 20} MiB.")
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no JSON: {error}.") from error
    steps = value.get("steps") if isinstance(value, dict) else None
    if isinstance(steps, list):
        return _of_log(path, steps)
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        raise Unreadable(
            f"{path} is neither a notebook nor of `reprise log SESSION --json --outputs`."
        )
    found: list[Cell] = []
    for cell in cells:
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            outputs = [each for each in _list(cell.get("outputs")) if isinstance(each, dict)]
            source, name = text_of(cell.get("source")), cell.get("id")
            ran = isinstance(cell.get("execution_count"), int) or bool(outputs)
            if source.strip():
                place = len(found) + 1
                name = name if isinstance(name, str) else ""
                found.append(Cell(place, name, source, _shown(outputs), ran))
    return found


def _of_log(path: Path, steps: list[object]) -> list[Cell]:
    found: list[Cell] = []
    for step in steps:
        if not isinstance(step, dict) or step.get("kind") != "cell":
            continue
        if "outputs" not in step:
            raise Unreadable(f"{path} holds no outputs: reprise log SESSION --json --outputs")
        payload = step.get("payload")
        content = payload.get("content") if isinstance(payload, dict) else None
        source = text_of(content.get("code")) if isinstance(content, dict) else ""
        outputs = [
            {"output_type": entry[0], **entry[1]}
            for entry in _list(step["outputs"])
            if isinstance(entry, list) and len(entry) >= 2 and isinstance(entry[1], dict)
        ]
        found.append(Cell(len(found) + 1, f"step {step.get('seq')}", source, _shown(outputs)))
    return found


def _shown(outputs: list[dict[str, object]]) -> tuple[Shown, ...]:
    found: list[Shown] = []
    for output in outputs:
        kind = output.get("output_type")
        if kind == "stream":
            if output.get("name") == "stderr":
                continue
            text = plain(text_of(output.get("text")))
            if found and found[-1].kind == "text" and output.get("name") == "stdout":
                found[-1] = Shown("text", (found[-1].text + text)[:_TEXT])
            else:
                found.append(Shown("text", text))
        elif kind == "error":
            found.append(
                Shown("error", f"{output.get('ename')}: {plain(str(output.get('evalue')))}")
            )
        elif kind in ("display_data", "execute_result"):
            data = output.get("data")
            rich = _rich(data if isinstance(data, dict) else {})
            if rich is not None:
                found.append(rich)
    return tuple(found)


def _rich(data: dict[str, object]) -> Shown | None:
    for media in ("image/png", "image/jpeg", "image/svg+xml"):
        if media in data:
            text = text_of(data[media])
            try:
                raw = text.encode() if media.endswith("xml") else base64.b64decode(text)
            except (binascii.Error, ValueError):
                raw = text.encode("utf-8", "replace")
            return Shown("picture", hashlib.sha256(raw).hexdigest())
    words = plain(text_of(data.get("text/plain")))
    if "text/html" in data:
        rows = rows_of(text_of(data["text/html"])[:_TEXT])
        if rows:
            return Shown("table", words, rows)
    if words:
        return Shown("text", words)
    rest = {key: data[key] for key in sorted(data) if key != "text/html"}
    return Shown("text", json.dumps(rest, sort_keys=True)[:_TEXT]) if rest else None


def rows_of(html: str) -> tuple[tuple[str, ...], ...]:
    """The rows of the first table."""
    reader = _Rows()
    reader.feed(html)
    reader.close()
    return tuple(tuple(row) for row in reader.rows if row)


class _Rows(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.rows: list[list[str]] = []
        self._depth = 0
        self._done = False
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if self._done:
            return
        if tag == "table":
            self._depth += 1
        elif self._depth == 1 and tag == "tr":
            self._end()
            self.rows.append([])
        elif self._depth == 1 and tag in ("td", "th"):
            self._end()
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table") and self._depth == 1:
            self._end()
        if tag == "table" and self._depth:
            self._depth -= 1
            self._done = self._depth == 0

    def handle_data(self, data: str) -> None:
        if self._cell is not None:
            self._cell.append(data)

    def _end(self) -> None:
        if self._cell is not None:
            if not self.rows:
                self.rows.append([])
            self.rows[-1].append(" ".join("".join(self._cell).split()))
            self._cell = None


def plain(text: str) -> str:
    """Without colours, each line as it was last written."""
    text = _ANSI.sub("", text[:_TEXT]).replace("\r\n", "\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def pairs(before: list[Cell], after: list[Cell]) -> list[tuple[Cell | None, Cell | None]]:
    """Cells side by side: by id where both runs have it, else by source, in order."""
    ids = {cell.name for cell in before} & {cell.name for cell in after} - {""}
    by_id = len(ids) * 2 >= max(len(before), 1) and not any(i.startswith("step ") for i in ids)

    def key(cell: Cell) -> str:
        return cell.name if by_id and cell.name in ids else cell.source

    matcher = difflib.SequenceMatcher(None, [*map(key, before)], [*map(key, after)], autojunk=False)
    found: list[tuple[Cell | None, Cell | None]] = []
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        if kind == "equal":
            found += zip(before[a0:a1], after[b0:b1], strict=True)
        else:
            found += _edited(before[a0:a1], after[b0:b1])
    return found


def _edited(before: list[Cell], after: list[Cell]) -> list[tuple[Cell | None, Cell | None]]:
    """Cells that were edited beside what they were, in order: as alike as can be altogether."""
    rows, columns = len(before), len(after)
    if not rows or not columns or rows * columns > _PAIRED:
        return [*((cell, None) for cell in before), *((None, cell) for cell in after)]
    alike = [[_alike(a, b) for b in after] for a in before]
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            paired = alike[i][j] + best[i + 1][j + 1] if alike[i][j] >= _LIKENESS else 0.0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    found: list[tuple[Cell | None, Cell | None]] = []
    i = j = 0
    while i < rows and j < columns:
        paired = alike[i][j] >= _LIKENESS
        if paired and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            found.append((before[i], after[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            found.append((before[i], None))
            i += 1
        else:
            found.append((None, after[j]))
            j += 1
    return [*found, *((cell, None) for cell in before[i:]), *((None, cell) for cell in after[j:])]


def _alike(left: Cell, right: Cell) -> float:
    a, b = left.source[:2_000], right.source[:2_000]
    return difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()


def text_of(value: object) -> str:
    """A text that nbformat may also hold as a list of lines."""
    if isinstance(value, str):
        return value
    return "".join(e for e in value if isinstance(e, str)) if isinstance(value, list) else ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
