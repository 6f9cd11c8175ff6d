#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Compares the results of two runs of a notebook, numbers by tolerance. JSON on stdout."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections import Counter
from pathlib import Path

from comparing.runs import Cell, Shown, Unreadable, load, pairs
from comparing.values import Compared, Tolerance, finite, metrics, relative, tables, texts

EXAMPLES = """\
examples:
  scripts/compare_runs.py before.ipynb after.ipynb
  scripts/compare_runs.py old.json new.json --relative 1e-3
                 # of: reprise log SESSION --json --outputs > old.json

Two numbers agree when they differ by at most --absolute, or by --relative of the larger one.

exit codes:
  0  compared
  1  with --check: they differ by more than the tolerance, times and addresses apart
  2  wrong use, or a file cannot be read

A relative path is looked up in the folder that REPRISE_WORKSPACE names, else in the current one.
"""


def located(path: str) -> Path:
    """Where a file lies that is named in words of the workspace."""
    workspace = os.environ.get("REPRISE_WORKSPACE")
    if workspace and not Path(path).is_absolute():
        there = Path(workspace, path)
        if there.exists() or not Path(path).exists():
            return there
    return Path(path)


def compared(left: Cell, right: Cell, tolerance: Tolerance) -> list[tuple[Shown | None, Compared]]:
    """The outputs of two cells, one by one."""
    found: list[tuple[Shown | None, Compared]] = []
    for at in range(max(len(left.shown), len(right.shown))):
        a = left.shown[at] if at < len(left.shown) else None
        b = right.shown[at] if at < len(right.shown) else None
        if a is None or b is None:
            one = a or b
            assert one is not None  # noqa: S101  the longer of both has it
            which = "only before" if b is None else "only after"
            found.append((one, Compared("different", f"a {one.kind} that is there {which}")))
        elif a.kind != b.kind:
            found.append((b, Compared("different", f"a {a.kind} before, a {b.kind} after")))
        elif a.kind == "table":
            found.append((b, tables(a.rows, b.rows, tolerance)))
        elif a.kind == "picture":
            same = a.text == b.text
            found.append(
                (b, Compared("same" if same else "different", "" if same else "other bytes"))
            )
        else:
            found.append((b, texts(a.text, b.text, tolerance)))
    return found


def report(
    before: list[Cell], after: list[Cell], tolerance: Tolerance, most: int
) -> dict[str, object]:
    """The comparison as JSON."""
    counts: Counter[str] = Counter()
    cells: list[dict[str, object]] = []
    numbers = off = 0
    largest, worst = 0.0, None
    for left, right in pairs(before, after):
        one = right or left
        assert one is not None  # noqa: S101  each pair holds one at least
        entry: dict[str, object] = {
            "before": None if left is None else left.place,
            "after": None if right is None else right.place,
            "name": one.name,
            "source": one.source.strip().split("\n")[0][:120],
        }
        if left is None or right is None:
            verdict = "only before" if right is None else "only after"
            outputs: list[tuple[Shown | None, Compared]] = []
        elif left.ran != right.ran:
            verdict, outputs = "not run " + ("before" if right.ran else "after"), []
        else:
            outputs = compared(left, right, tolerance)
            verdict = _worst([each.verdict for _, each in outputs])
            if left.source != right.source:
                entry["edited"] = True
        counts[verdict] += 1
        numbers += sum(each.numbers for _, each in outputs)
        off += sum(each.off for _, each in outputs)
        most_here = max((each.largest for _, each in outputs), default=0.0)
        if most_here > largest:
            largest, worst = most_here, entry["after"]
        if verdict not in ("same", "within tolerance", "volatile"):
            entry["verdict"] = verdict
            entry["outputs"] = [
                {
                    "output": at,
                    "kind": shown.kind if shown else "",
                    "why": each.why,
                    "numbers": each.numbers,
                    "off": each.off,
                    "largest_relative": finite(each.largest),
                    "examples": each.examples,
                }
                for at, (shown, each) in enumerate(outputs, 1)
                if each.verdict == "different"
            ][:10]
            cells.append(entry)
    return {
        "agree": not cells,
        "cells": dict(sorted(counts.items())),
        "numbers_compared": numbers,
        "numbers_off": off,
        "largest_relative": finite(largest),
        "largest_in_cell": worst,
        "tolerance": {"relative": tolerance.relative, "absolute": tolerance.absolute},
        "metrics": _metrics(before, after, tolerance),
        "differ": cells[:most],
        "left_out": max(len(cells) - most, 0),
    }


def _worst(verdicts: list[str]) -> str:
    order = ("different", "within tolerance", "volatile", "same")
    return min(verdicts, key=order.index, default="same")


def _metrics(
    before: list[Cell], after: list[Cell], tolerance: Tolerance
) -> list[dict[str, object]]:
    """Named numbers that both runs print and that changed, the largest change first."""
    a, b = (_named(cells) for cells in (before, after))
    changed = [
        (relative(a[name], b[name]), name)
        for name in a
        if name in b and not tolerance.agree(a[name], b[name])
    ]
    return [
        {"name": name, "before": a[name], "after": b[name], "change": b[name] - a[name]}
        for _, name in sorted(changed, key=lambda each: (-each[0], each[1]))[:40]
    ]


def _named(cells: list[Cell]) -> dict[str, float]:
    found: dict[str, float] = {}
    for cell in cells:
        for shown in cell.shown:
            if shown.kind == "text":
                found.update(metrics(shown.text))
    return found


def not_negative(text: str) -> float:
    number = float(text)
    if not (math.isfinite(number) and number >= 0):
        raise argparse.ArgumentTypeError("must be 0 or more")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE", help="executed notebook, or log JSON")
    parser.add_argument("after", metavar="AFTER", help="the other one")
    parser.add_argument("--relative", type=not_negative, default=1e-6, help="default 1e-6")
    parser.add_argument("--absolute", type=not_negative, default=1e-12, help="default 1e-12")
    parser.add_argument(
        "--most", type=int, default=40, metavar="N", help="differing cells shown (default 40)"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when they differ")
    args = parser.parse_args()
    if args.most < 1:
        parser.error("--most is at least 1")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    try:
        before, after = load(located(args.before)), load(located(args.after))
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    body = report(before, after, Tolerance(args.relative, args.absolute), args.most)
    json.dump(body, sys.stdout, indent=1, ensure_ascii=True, allow_nan=False)
    sys.stdout.write("\n")
    return int(args.check and not body["agree"])


if __name__ == "__main__":
    sys.exit(main())
