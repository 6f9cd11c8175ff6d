"""A notebook as the blocks of a report: words, code, texts, tables, pictures, notes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_LARGEST = 256 << 20
#: One picture, and all of them.
_PICTURE = 20 << 20
_PICTURES = 100 << 20

_MAGIC = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}
_INTERACTIVE = re.compile(
    r"application/(?:vnd\.plotly|vnd\.vega|vnd\.bokehjs|vnd\.holoviews|vnd\.jupyter\.widget-view"
    r"|javascript)"
)
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)?|[@-_])")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
#: The text form of an object that says nothing to a reader.
_NOISE = re.compile(
    r"\s*(?:\[?<[\w.]+[^>]*>,?\s*\]?|<Figure size [^>]*>|\(?array\(\[<[\w.]+.*)\s*", re.DOTALL
)


class Unreadable(Exception):
    """A file that is not there, or holds no notebook."""


@dataclass(frozen=True)
class Block:
    """One piece of the report. kind: markdown, code, text, html, picture, error or note.

    cell: its place, from 1.  media: of a picture.  data: its bytes.  plain: what a rich output
    says in plain text.  attachments: of a Markdown cell: data URIs by name.
    """

    kind: str
    cell: int
    text: str = ""
    media: str = ""
    data: bytes = b""
    plain: str = ""
    attachments: tuple[tuple[str, str], ...] = ()


@dataclass
class Book:
    """blocks in order; left_out: what is not in the report, counted by what it was."""

    name: str
    sha256: str
    language: str
    blocks: list[Block] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    folder: Path = field(default_factory=Path)


@dataclass(frozen=True)
class Wanted:
    """lines: of one text output at most.  warnings: whether stderr is shown."""

    lines: int = 200
    warnings: bool = False
    tracebacks: bool = False


def load(path: Path, wanted: Wanted) -> Book:
    """Raises Unreadable."""
    try:
        if path.stat().st_size > _LARGEST:
            raise Unreadable(f"{path} is over {_LARGEST >> 20} MiB.")
        raw = path.read_bytes()
        value = json.loads(raw)
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no JSON: {error}.") from error
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        raise Unreadable(f"{path} is no notebook of format 4: it has no cells.")
    metadata = _dict(value.get("metadata"))
    language = _text(_dict(metadata.get("language_info")).get("name")) or "python"
    book = Book(path.name, hashlib.sha256(raw).hexdigest(), language, folder=path.parent)
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict):
            _Cell(book, number, wanted).take(cell)
        else:
            book.left_out["broken cells"] += 1
    return book


class _Cell:
    def __init__(self, book: Book, number: int, wanted: Wanted) -> None:
        self._book = book
        self._number = number
        self._wanted = wanted

    def _add(self, kind: str, text: str = "", **more: object) -> None:
        self._book.blocks.append(Block(kind, self._number, text, **more))  # type: ignore[arg-type]

    def take(self, cell: dict[str, object]) -> None:
        tags = {
            str(tag).replace("_", "-") for tag in _list(_dict(cell.get("metadata")).get("tags"))
        }
        if "remove-cell" in tags:
            self._book.left_out["cells tagged remove-cell"] += 1
            return
        kind, source = cell.get("cell_type"), text_of(cell.get("source"))
        if kind == "markdown" and source.strip():
            self._add("markdown", source, attachments=_attachments(cell.get("attachments")))
        elif kind == "code":
            if source.strip() and not tags & {"remove-input", "hide-input"}:
                self._add("code", source.rstrip())
            if "remove-output" in tags or "hide-output" in tags:
                self._book.left_out["outputs tagged remove-output"] += 1
            else:
                self._outputs(_list(cell.get("outputs")))
        elif kind == "raw" and source.strip():
            self._book.left_out["raw cells"] += 1

    def _outputs(self, outputs: list[object]) -> None:
        text: list[str] = []
        for output in outputs:
            if not isinstance(output, dict):
                self._book.left_out["broken outputs"] += 1
                continue
            kind = output.get("output_type")
            if kind == "stream":
                if output.get("name") == "stderr" and not self._wanted.warnings:
                    self._book.left_out["outputs to stderr"] += 1
                    continue
                text.append(text_of(output.get("text")))
                continue
            self._stream(text)
            if kind == "error":
                self._error(output)
            elif kind in ("display_data", "execute_result"):
                self._rich(_dict(output.get("data")))
        self._stream(text)

    def _stream(self, parts: list[str]) -> None:
        if parts:
            shown = terminal("".join(parts))
            parts.clear()
            if shown.strip():
                self._add("text", self._cut(shown.rstrip()))

    def _cut(self, text: str) -> str:
        lines = text.split("\n")
        most = self._wanted.lines
        if len(lines) > most:
            self._book.left_out["lines of long outputs"] += len(lines) - most
            half = most // 2
            left = f"… {len(lines) - most} lines left out …"
            lines = [*lines[: most - half], left, *lines[len(lines) - half :]]
        return "\n".join(line if len(line) <= 2_000 else f"{line[:2_000]}…" for line in lines)

    def _error(self, output: dict[str, object]) -> None:
        said = terminal(f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}")
        trace = "\n".join(map(str, _list(output.get("traceback"))))
        plain = self._cut(terminal(trace)) if self._wanted.tracebacks else ""
        self._add("error", said[:2_000], plain=plain)

    def _rich(self, data: dict[str, object]) -> None:
        plain = terminal(text_of(data.get("text/plain")))
        for media in _MAGIC:
            if media in data and self._picture(media, text_of(data[media]), plain):
                return
        if "image/svg+xml" in data:
            svg = text_of(data["image/svg+xml"]).encode("utf-8", "replace")
            if len(svg) <= _PICTURE and self._room(len(svg)):
                self._add("picture", media="image/svg+xml", data=svg, plain=plain[:500])
                return
        kinds = [kind for kind in data if _INTERACTIVE.match(kind)]
        if kinds:
            self._book.left_out["interactive outputs"] += 1
            self._add("note", "An interactive output stands in the notebook and not here.")
            return
        if "text/html" in data:
            self._add("html", text_of(data["text/html"]), plain=self._cut(plain))
        elif "text/markdown" in data:
            self._add("markdown", text_of(data["text/markdown"]))
        elif "text/latex" in data:
            self._add("text", self._cut(text_of(data["text/latex"])))
        elif plain.strip() and not _NOISE.fullmatch(plain[:2_000]):
            self._add("text", self._cut(plain.rstrip()))
        elif "application/json" in data:
            self._add("text", self._cut(json.dumps(data["application/json"], indent=1)[:50_000]))

    def _picture(self, media: str, text: str, plain: str) -> bool:
        try:
            data = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            self._book.left_out["broken pictures"] += 1
            return False
        if not data.startswith(_MAGIC[media]) or len(data) > _PICTURE or not self._room(len(data)):
            self._book.left_out["pictures that are none, or too large"] += 1
            return False
        self._add("picture", media=media, data=data, plain=plain[:500])
        return True

    def _room(self, size: int) -> bool:
        held = sum(len(block.data) for block in self._book.blocks)
        return held + size <= _PICTURES


def terminal(text: str) -> str:
    """Text as a terminal would leave it standing: no escapes, each line as last written."""
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    lines = []
    for line in text.split("\n"):
        standing = ""
        for part in line.split("\r"):
            standing = part + standing[len(part) :] if part else standing
        while "\b" in standing:
            shorter = re.sub("[^\x08]\x08", "", standing)
            standing = shorter if shorter != standing else standing.replace("\b", "")
        lines.append(_CONTROL.sub("", standing))
    return "\n".join(lines)


def _attachments(value: object) -> tuple[tuple[str, str], ...]:
    found = []
    for name, bundle in _dict(value).items():
        for media, magic in _MAGIC.items():
            text = _dict(bundle).get(media)
            if not isinstance(text, str):
                continue
            try:
                data = base64.b64decode("".join(text.split()), validate=True)
            except (binascii.Error, ValueError):
                continue
            if data.startswith(magic) and len(data) <= _PICTURE:
                found.append((name, data_uri(media, data)))
                break
    return tuple(found)


def data_uri(media: str, data: bytes) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def picture_file(folder: Path, name: str) -> str | None:
    """A picture beside the notebook as a data URI; None for anything else."""
    media = {
        ".png": "image/png",
        ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
        ".gif": "image/gif",
        ".webp": "image/webp",
    }.get(Path(name).suffix.lower())
    if media is None or name.startswith(("/", "~")):
        return None
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()) or path.stat().st_size > _PICTURE:
            return None
        data = path.read_bytes()
    except (OSError, ValueError, RuntimeError):
        return None
    return data_uri(media, data) if data.startswith(_MAGIC[media]) else None


def text_of(value: object) -> str:
    """A text that nbformat may also hold as a list of lines."""
    if isinstance(value, str):
        return value
    return "".join(e for e in value if isinstance(e, str)) if isinstance(value, list) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
