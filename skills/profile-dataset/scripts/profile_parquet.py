#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["pyarrow"]
# ///
"""Profiles a Parquet or Feather file: JSON on stdout, words on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from profile_dataset import options, profiled
from profiling.reading import Row, Table, Unreadable

EXAMPLES = """\
examples:
  scripts/profile_parquet.py data.parquet --target churned
  scripts/profile_parquet.py data.feather --rows 50000

exit codes:
  0  profiled
  1  with --check: a finding is an error
  2  wrong use, or the file cannot be read
  3  pyarrow is not there
"""


def parquet(path: Path, most: int) -> Table:
    """Raises ImportError, Unreadable."""
    import pyarrow.parquet  # noqa: PLC0415

    try:
        file = pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise Unreadable(f"{path} is no Parquet file: {error}") from error
    total = file.metadata.num_rows
    table = Table(list(file.schema_arrow.names), iter(()))
    table.facts = {
        "format": "Parquet",
        "bytes": path.stat().st_size,
        "row_groups": file.metadata.num_row_groups,
        "stored_types": {
            name: str(file.schema_arrow.field(at).type) for at, name in enumerate(table.names)
        },
    }
    table.whole = total <= most
    table.spread, table.estimated = not table.whole, total
    table.rows = _row_groups(file, total, most)
    return table


def _row_groups(file: object, total: int, most: int) -> Iterator[Row]:
    """Of each row group, its share of the rows, from its beginning."""
    metadata = file.metadata  # type: ignore[attr-defined]
    for group in range(metadata.num_row_groups):
        share = metadata.row_group(group).num_rows
        if total > most:
            share = max(share * most // total, 1)
        for batch in file.iter_batches(batch_size=2_000, row_groups=[group]):  # type: ignore[attr-defined]
            taken = batch.slice(0, share)
            share -= len(taken)
            yield from (
                list(row) for row in zip(*(c.to_pylist() for c in taken.columns), strict=True)
            )
            if share <= 0:
                break


def feather(path: Path, most: int) -> Table:
    """Raises ImportError, Unreadable."""
    import pyarrow.feather  # noqa: PLC0415

    try:
        whole = pyarrow.feather.read_table(path, memory_map=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise Unreadable(f"{path} is no Feather file: {error}") from error
    table = Table(list(whole.column_names), iter(()))
    table.facts = {"format": "Feather", "bytes": path.stat().st_size}
    table.whole, table.estimated = whole.num_rows <= most, whole.num_rows
    columns = [column.to_pylist() for column in whole.slice(0, most).columns]
    table.rows = (list(row) for row in zip(*columns, strict=True))
    return table


def main() -> int:
    parser = options(__doc__ or "", EXAMPLES)
    args = parser.parse_args()

    def opened(path: Path) -> Table:
        if path.suffix.lower() in (".feather", ".arrow"):
            return feather(path, args.rows)
        return parquet(path, args.rows)

    return profiled(args, opened)


if __name__ == "__main__":
    sys.exit(main())
