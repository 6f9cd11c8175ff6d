#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["openpyxl"]
# ///
"""Profiles a sheet of an Excel workbook (.xlsx, .xlsm): JSON on stdout, words on stderr."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from profile_dataset import options, profiled
from profiling.reading import Row, Table, Unreadable

EXAMPLES = """\
examples:
  scripts/profile_excel.py book.xlsx
  scripts/profile_excel.py book.xlsx --sheet Orders --target paid

exit codes:
  0  profiled
  1  with --check: a finding is an error
  2  wrong use, or the file cannot be read
  3  openpyxl is not there
"""


def excel(path: Path, most: int, sheet: str | None) -> Table:
    """Raises ImportError, Unreadable."""
    import openpyxl  # noqa: PLC0415

    try:
        # Of styles and extensions that it leaves out.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # a broken file makes it raise errors of many kinds
        raise Unreadable(f"{path} is no Excel workbook: {error}") from error
    if sheet is not None and sheet not in book.sheetnames:
        raise Unreadable(f"There is no sheet {sheet!r}; the sheets are {book.sheetnames[:50]}.")
    chosen = book[sheet] if sheet is not None else book.worksheets[0]
    rows = chosen.iter_rows(values_only=True)
    first = next((row for row in rows if any(cell is not None for cell in row)), None)
    if first is None:
        raise Unreadable(f"The sheet {chosen.title!r} is empty.")
    names = [f"column_{at}" if c is None else str(c).strip() for at, c in enumerate(first, 1)]
    table = Table(names, iter(()))
    table.facts = {
        "format": "Excel",
        "bytes": path.stat().st_size,
        "sheet": chosen.title,
        "sheets": book.sheetnames[:50],
    }
    table.rows = _cells(rows, len(names), most, table)
    return table


def _cells(rows: Iterator[tuple[object, ...]], wide: int, most: int, table: Table) -> Iterator[Row]:
    for given, row in enumerate(rows):
        if given == most:
            table.whole = False
            return
        if len(row) != wide:
            table.odd["ragged rows"] += 1
        yield [*row[:wide], *[None] * (wide - len(row))]


def main() -> int:
    parser = options(__doc__ or "", EXAMPLES)
    parser.add_argument("--sheet", help="of the workbook (default: the first)")
    args = parser.parse_args()

    def opened(path: Path) -> Table:
        return excel(path, args.rows, args.sheet)

    return profiled(args, opened)


if __name__ == "__main__":
    sys.exit(main())
