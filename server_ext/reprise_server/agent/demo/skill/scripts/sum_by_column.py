#!/usr/bin/env python3
"""Sums a column of a CSV file for each value of another one; JSON on stdout."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--by", required=True, help="the column of the groups")
    parser.add_argument("--of", required=True, help="the column that is summed")
    args = parser.parse_args()
    sums: Counter[str] = Counter()
    rows, left_out = 0, []
    with args.file.open(encoding="utf-8", newline="") as file:
        for line, row in enumerate(csv.DictReader(file), start=2):
            rows += 1
            if not row[args.of]:
                left_out.append(line)
                continue
            sums[row[args.by]] += int(row[args.of])
    told = {"sums": dict(sorted(sums.items())), "rows": rows, "left_out": left_out}
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
