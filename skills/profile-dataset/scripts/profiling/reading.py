"""Reads CSV, TSV, JSON and JSON Lines as rows, within bounds, and says what was odd on the way."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

#: Of the beginning of a file, to tell its encoding and its delimiter.
_LOOKED_AT = 1 << 20
#: One field; a quote that is never closed makes the rest of the file one field.
_LONGEST_FIELD = 4 << 20
_LONGEST_LINE = 16 << 20
#: A JSON document is held in memory as a whole.
_LARGEST_JSON = 256 << 20
#: What a compressed file may become.
_LARGEST_UNPACKED = 2 << 30
#: Values looked at, over all columns; some ten seconds of work for each million.
_CELLS = 4_000_000
#: So many places of a large file are read beside its beginning.
_BLOCKS = 40
_DELIMITERS = (",", "\t", ";", "|")

Row = list[object]


class Unreadable(Exception):
    """A file that is not there, or that cannot be read as what it says it is."""


@dataclass
class Table:
    """A table to be read once.

    rows: an iterator of rows as wide as `names`.  whole: whether all rows come (False: a sample,
    from evenly spaced places when `spread`, else from the beginning).  facts: of the file, for
    people.  odd: counts of what did not fit ("ragged rows", …).  estimated: rows in the whole
    file, when it was not read whole.
    """

    names: list[str]
    rows: Iterator[Row]
    facts: dict[str, object] = field(default_factory=dict)
    odd: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    whole: bool = True
    spread: bool = False
    estimated: int | None = None


@dataclass(frozen=True)
class Asked:
    """How to read. None: find out."""

    rows: int
    delimiter: str | None = None
    encoding: str | None = None
    header: bool | None = None


def open_table(path: Path, asked: Asked) -> Table:
    """Raises Unreadable."""
    packed = path.suffix == ".gz"
    kind = Path(path.stem).suffix if packed else path.suffix
    size = path.stat().st_size
    try:
        with _opened(path, packed) as file:
            head = file.read(_LOOKED_AT)
    except (OSError, EOFError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from error
    if not head.strip():
        raise Unreadable(f"{path} is empty.")
    encoding = asked.encoding or _encoding(head)
    facts: dict[str, object] = {"bytes": size, "encoding": encoding, "compressed": packed}
    try:
        start = head.decode(encoding, "replace").lstrip("\ufeff")
    except LookupError as error:
        raise Unreadable(f"There is no encoding {encoding!r}.") from error
    if "\0" in start[:10_000]:
        raise Unreadable(
            f"{path} is not text. Parquet: scripts/profile_parquet.py;"
            " Excel: scripts/profile_excel.py."
        )
    first = start.lstrip()[:1]
    if kind.lower() in (".jsonl", ".ndjson") or (first == "{" and _is_lines(start)):
        return _json_lines(path, packed, encoding, facts, asked)
    if kind.lower() == ".json" or (first == "[" and kind.lower() not in (".csv", ".tsv")):
        return _json_document(path, packed, encoding, facts, asked)
    return _delimited(path, packed, kind.lower(), start, encoding, facts, asked)


def _opened(path: Path, packed: bool) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path, "rb")) if packed else path.open("rb")


def _encoding(head: bytes) -> str:
    for mark, name in (
        (b"\xef\xbb\xbf", "utf-8-sig"),
        (b"\xff\xfe\0\0", "utf-32"),
        (b"\0\0\xfe\xff", "utf-32"),
        (b"\xff\xfe", "utf-16"),
        (b"\xfe\xff", "utf-16"),
    ):
        if head.startswith(mark):
            return name
    odd, even = head[1:2000:2].count(0), head[:2000:2].count(0)
    half = len(head[:2000]) // 4
    if odd > half:
        return "utf-16-le"
    if even > half:
        return "utf-16-be"
    try:
        # The end of what was looked at may cut a character in two.
        head[: max(len(head) - 4, 0) if len(head) == _LOOKED_AT else len(head)].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end >= len(head) - 4 and len(head) == _LOOKED_AT:
            return "utf-8"
        return "cp1252"
    return "utf-8"


# text with delimiters -----------------------------------------------------------------------------


def _delimited(
    path: Path,
    packed: bool,
    kind: str,
    start: str,
    encoding: str,
    facts: dict[str, object],
    asked: Asked,
) -> Table:
    csv.field_size_limit(_LONGEST_FIELD)
    delimiter = asked.delimiter or ("\t" if kind == ".tsv" else _delimiter(start))
    try:
        first = next(
            (row for row in csv.reader(io.StringIO(start), delimiter=delimiter) if row), []
        )
    except (csv.Error, TypeError) as error:
        raise Unreadable(
            f"{path} cannot be read with the delimiter {delimiter!r}: {error}"
        ) from error
    if not first:
        raise Unreadable(f"{path} holds no row.")
    header = _is_header(first) if asked.header is None else asked.header
    names = [cell.strip() for cell in first] if header else []
    names = [name or f"column_{at}" for at, name in enumerate(names, 1)] or [
        f"column_{at}" for at in range(1, len(first) + 1)
    ]
    lines = start.count("\n") or 1
    most = min(asked.rows, max(_CELLS // len(names), 100))
    facts |= {
        "format": "delimited text",
        "delimiter": delimiter,
        "header": header,
        "line_ends": "CRLF" if start.count("\r\n") * 2 > lines else "LF",
    }
    table = Table(names, iter(()), facts)
    size = path.stat().st_size
    per_row = max(len(start.encode(encoding, "replace")) / max(lines, 1), 1)
    if packed or size / per_row <= most * 1.1 or encoding not in ("utf-8", "utf-8-sig", "cp1252"):
        table.rows = _from_start(path, packed, encoding, delimiter, header, most, table)
    else:
        table.whole, table.spread = False, True
        table.estimated = int(size / per_row)
        table.rows = _spread(path, size, encoding, delimiter, header, most, table)
    return table


def _delimiter(start: str) -> str:
    """The delimiter under which most of the first lines have the same, largest number of fields."""
    text = "\n".join(start.splitlines()[:60])
    best, chosen = (0.0, 0), ","
    for each in _DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(io.StringIO(text), delimiter=each) if row]
        except csv.Error:
            continue
        if not widths:
            continue
        width, count = Counter(widths).most_common(1)[0]
        if width > 1 and (round(count / len(widths), 1), width) > best:
            best, chosen = (round(count / len(widths), 1), width), each
    return chosen


def _is_header(row: list[str]) -> bool:
    """Names are texts, each once; a number, a date or nothing among them is data."""
    cells = [cell.strip() for cell in row]
    numeric = sum(not cell or cell[0] in "+-.0123456789" for cell in cells)
    return numeric * 2 < len(cells) and any(cells)


def _from_start(
    path: Path, packed: bool, encoding: str, delimiter: str, header: bool, most: int, table: Table
) -> Iterator[Row]:
    with _opened(path, packed) as raw, closing(_text_lines(raw, encoding, table)) as lines:
        reader = csv.reader(lines, delimiter=delimiter)
        given, wide = 0, len(table.names)
        try:
            for row in reader:
                if not row:
                    table.odd["empty lines"] += 1
                    continue
                if header:
                    header = False
                    continue
                if given == most:
                    table.whole = False
                    return
                given += 1
                yield _fitted(row, wide, table, reader.line_num)
        except (csv.Error, EOFError, OSError) as error:
            table.odd["unreadable rest"] += 1
            table.examples["unreadable rest"] = f"after line {reader.line_num}: {error}"
            table.whole = False


def _text_lines(raw: IO[bytes], encoding: str, table: Table) -> Generator[str, None, None]:
    """Lines with their ends, each and all of them bounded; bytes that are no text are counted."""
    reader = io.TextIOWrapper(raw, encoding=encoding, errors="replace", newline="")
    total = 0
    try:
        while line := reader.readline(_LONGEST_LINE):
            total += len(line)
            if len(line) == _LONGEST_LINE or total > _LARGEST_UNPACKED:
                table.odd["unreadable rest"] += 1
                table.examples["unreadable rest"] = "a line or the whole file is over its bound"
                table.whole = False
                return
            if "\ufffd" in line:
                table.odd["undecodable characters"] += line.count("\ufffd")
            yield line
    finally:
        reader.detach()  # whoever opened the file closes it


def _fitted(row: list[str], wide: int, table: Table, line: int) -> Row:
    if len(row) != wide:
        table.odd["ragged rows"] += 1
        table.examples.setdefault("ragged rows", f"line {line} has {len(row)} fields, not {wide}")
        return [*row[:wide], *[None] * (wide - len(row))]
    return list(row)


def _spread(
    path: Path, size: int, encoding: str, delimiter: str, header: bool, most: int, table: Table
) -> Iterator[Row]:
    """Half of the rows from the beginning, the others from evenly spaced places."""
    wide, given = len(table.names), 0
    with path.open("rb") as file:
        begun = _Decoded(file, encoding)
        reader = csv.reader(begun, delimiter=delimiter)
        try:
            for row in reader:
                if not row or header:
                    header = header and not row
                    continue
                given += 1
                yield _fitted(row, wide, table, reader.line_num)
                if given == most // 2:
                    break
        except csv.Error as error:
            table.odd["unreadable rest"] += 1
            table.examples["unreadable rest"] = f"after line {reader.line_num}: {error}"
            return
        each = max((most - given) // _BLOCKS, 1)
        width = (size - begun.end) // (_BLOCKS + 1)
        for number in range(1, _BLOCKS + 1):
            start = begun.end + width * number
            file.seek(start)
            file.readline(_LONGEST_LINE)  # what is left of the row in which we landed
            rows = _block(file, encoding, delimiter, each, start + width)
            fitting = [row for row in rows if len(row) == wide]
            if len(fitting) * 10 < len(rows) * 9 or not rows:
                table.odd["places left out"] += 1  # most likely within a quoted field
                continue
            for fit in fitting:
                yield list(fit)


def _block(file: IO[bytes], encoding: str, delimiter: str, rows: int, end: int) -> list[list[str]]:
    """Rows from where the file stands, none beyond `end`, where the next block begins."""
    lines: list[str] = []
    while len(lines) < rows and file.tell() < end:
        line = file.readline(_LONGEST_LINE)
        if not line:
            break
        lines.append(line.decode(encoding, "replace"))
    try:
        return [row for row in csv.reader(lines, delimiter=delimiter) if row]
    except csv.Error:
        return []


class _Decoded:
    """The lines of a file; `end` is where the last one ended, in bytes."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self.end = 0

    def __iter__(self) -> Iterator[str]:
        while line := self._file.readline(_LONGEST_LINE):
            self.end += len(line)
            yield line.decode(self._encoding, "replace")


# JSON -----------------------------------------------------------------------------------------


def _is_lines(start: str) -> bool:
    lines = [line for line in start.splitlines()[:3] if line.strip()]
    try:
        return len(lines) > 1 and all(isinstance(json.loads(line), dict) for line in lines[:2])
    except (ValueError, RecursionError):
        return False


def _json_lines(
    path: Path, packed: bool, encoding: str, facts: dict[str, object], asked: Asked
) -> Table:
    facts["format"] = "JSON Lines"
    table = Table([], iter(()), facts)
    records: list[dict[str, object]] = []
    with _opened(path, packed) as raw, closing(_text_lines(raw, encoding, table)) as lines:
        try:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                if len(records) == asked.rows:
                    table.whole = False
                    break
                try:
                    value = json.loads(line.lstrip("\ufeff"))
                except (ValueError, RecursionError) as error:
                    table.odd["lines that are no JSON"] += 1
                    table.examples.setdefault("lines that are no JSON", f"line {number}: {error}")
                    continue
                _take(value, records, table)
        except (EOFError, OSError) as error:
            table.odd["unreadable rest"] += 1
            table.examples["unreadable rest"] = str(error)
            table.whole = False
    return _of_records(path, records, table)


def _json_document(
    path: Path, packed: bool, encoding: str, facts: dict[str, object], asked: Asked
) -> Table:
    facts["format"] = "JSON"
    with _opened(path, packed) as raw:
        try:
            data = raw.read(_LARGEST_JSON + 1)
        except (EOFError, OSError) as error:
            raise Unreadable(f"{path} cannot be read: {error}") from error
    if len(data) > _LARGEST_JSON:
        raise Unreadable(
            f"{path} is over {_LARGEST_JSON >> 20} MiB of JSON; write it as JSON Lines."
        )
    try:
        value = json.loads(data.decode(encoding, "replace").lstrip("\ufeff"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{path} is no JSON: {error}") from error
    table = Table([], iter(()), facts)
    if isinstance(value, dict):
        lists = {key: each for key, each in value.items() if isinstance(each, list)}
        if lists and len(lists) == len(value) and _are_columns(list(lists.values())):
            facts["orientation"] = "columns"
            table.names = [str(key) for key in lists]
            table.rows = (list(row) for row in zip(*lists.values(), strict=True))
            return table
        longest = max(lists, key=lambda key: len(lists[key]), default=None)
        if longest is None:
            value = [value]
        else:
            facts["rows_from"] = longest
            value = lists[longest]
    if not isinstance(value, list):
        raise Unreadable(f"{path} holds one JSON value and no rows.")
    records: list[dict[str, object]] = []
    for each in value:
        if len(records) == asked.rows:
            table.whole, table.estimated = False, len(value)
            break
        _take(each, records, table)
    return _of_records(path, records, table)


def _are_columns(lists: list[list[object]]) -> bool:
    """Lists of one length that hold values, not records."""
    return len(set(map(len, lists))) == 1 and not any(
        isinstance(cell, dict) for each in lists for cell in each[:1]
    )


def _take(value: object, records: list[dict[str, object]], table: Table) -> None:
    if isinstance(value, dict):
        records.append(value)
    elif isinstance(value, list):
        records.append({f"column_{at}": each for at, each in enumerate(value, 1)})
    else:
        records.append({"value": value})
        table.odd["rows that are no objects"] += 1


def _of_records(path: Path, records: list[dict[str, object]], table: Table) -> Table:
    if not any(records):
        raise Unreadable(f"{path} holds no row.")
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys(map(str, record)))
    table.names = list(names)
    most = max(_CELLS // len(names), 100)
    if len(records) > most:
        table.whole, table.estimated = False, len(records)
        del records[most:]
    table.odd["rows that lack a key"] = sum(len(each) < len(names) for each in records)
    table.rows = ([record.get(name) for name in table.names] for record in records)
    return table
