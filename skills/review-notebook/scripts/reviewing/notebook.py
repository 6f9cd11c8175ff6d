"""A notebook (or a session's log) as cells, whatever is wrong with the file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

LARGEST = 256 << 20


class Unreadable(Exception):
    """A file that is not there, or holds no notebook."""


@dataclass(frozen=True)
class Cell:
    """One cell. number: its place, from 1.  id: nbformat's, or "step N" of a session's log."""

    number: int
    id: str | None
    kind: str
    source: str
    count: int | None = None
    outputs: tuple[dict[str, object], ...] = ()


@dataclass
class Notebook:
    """size: bytes of the file.  version: of the language, as it says.

    ordered: cells stand in the order in which they ran (a log).
    """

    cells: list[Cell]
    language: str
    size: int
    ordered: bool = False
    version: str = ""
    odd: list[str] = field(default_factory=list)

    @property
    def code(self) -> list[Cell]:
        return [cell for cell in self.cells if cell.kind == "code"]


def load(path: Path) -> Notebook:
    """Raises Unreadable."""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise Unreadable(
                f"{path} is {size >> 20} MiB, over the {LARGEST >> 20} MiB that are read."
            )
        value = json.loads(path.read_bytes())
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no JSON: {error}.") from error
    if not isinstance(value, dict):
        raise Unreadable(f"{path} is no notebook: its top is no object.")
    if isinstance(value.get("steps"), list):
        return _of_log(value["steps"], size)
    cells = value.get("cells")
    if cells is None:  # nbformat 3
        sheets = value.get("worksheets")
        cells = [
            cell
            for sheet in (sheets if isinstance(sheets, list) else [])
            if isinstance(sheet, dict)
            for cell in _list(sheet.get("cells"))
        ]
    if not isinstance(cells, list) or ("cells" not in value and "worksheets" not in value):
        raise Unreadable(f"{path} is no notebook: it has no cells, and no steps either.")
    book = Notebook([], _language(value), size, version=_version(value))
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            book.odd.append(f"cell {number} is no object")
            continue
        book.cells.append(_cell(number, cell))
    return book


def _cell(number: int, cell: dict[str, object]) -> Cell:
    name, kind, count = cell.get("id"), cell.get("cell_type"), cell.get("execution_count")
    if count is None:
        count = cell.get("prompt_number")
    return Cell(
        number,
        name if isinstance(name, str) else None,
        kind if isinstance(kind, str) else "raw",
        text_of(cell.get("source", cell.get("input", ""))),
        count if isinstance(count, int) and not isinstance(count, bool) else None,
        tuple(each for each in _list(cell.get("outputs")) if isinstance(each, dict)),
    )


def _of_log(steps: list[object], size: int) -> Notebook:
    """What `reprise log SESSION --json` (with or without --outputs) prints."""
    book = Notebook([], "python", size, ordered=True)
    for step in steps:
        if not isinstance(step, dict) or step.get("kind") != "cell":
            continue
        payload = step.get("payload")
        content = payload.get("content") if isinstance(payload, dict) else None
        code = content.get("code") if isinstance(content, dict) else None
        # Each [type, content, metadata, blobs], as of a Jupyter message.
        outputs = [
            {"output_type": entry[0], **entry[1]}
            for entry in _list(step.get("outputs"))
            if isinstance(entry, list) and len(entry) >= 2 and isinstance(entry[1], dict)
        ]
        number = len(book.cells) + 1
        book.cells.append(
            Cell(number, f"step {step.get('seq')}", "code", text_of(code), number, tuple(outputs))
        )
    return book


def _language(value: dict[str, object]) -> str:
    metadata = value.get("metadata")
    for key, inner in (("language_info", "name"), ("kernelspec", "language")):
        part = metadata.get(key) if isinstance(metadata, dict) else None
        name = part.get(inner) if isinstance(part, dict) else None
        if isinstance(name, str) and name:
            return name.lower()
    return "python"


def _version(value: dict[str, object]) -> str:
    metadata = value.get("metadata")
    info = metadata.get("language_info") if isinstance(metadata, dict) else None
    version = info.get("version") if isinstance(info, dict) else None
    return version if isinstance(version, str) else ""


def text_of(value: object) -> str:
    """A text that nbformat may also hold as a list of lines."""
    if isinstance(value, str):
        return value
    return (
        "".join(each for each in value if isinstance(each, str)) if isinstance(value, list) else ""
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
