#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Reviews a notebook without running it: JSON on stdout, words on stderr."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from reviewing import chance, execution, hygiene, modelling, secrets_in
from reviewing.calls import Aliases, calls
from reviewing.findings import SEVERITIES, Findings
from reviewing.names import Names, names_of
from reviewing.notebook import Cell, Notebook, Unreadable, load
from reviewing.python_source import Source, read

_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"

EXAMPLES = """\
examples:
  scripts/review_notebook.py analysis.ipynb
  scripts/review_notebook.py analysis.ipynb --check warning
  scripts/review_notebook.py log.json            # of: reprise log SESSION --json --outputs

exit codes:
  0  reviewed
  1  with --check SEVERITY: something so grave was found
  2  wrong use, or the file cannot be read

A relative PATH is looked up in the folder that REPRISE_WORKSPACE names, else in the current one.
"""


def located(path: str) -> Path:
    """Where a file lies that is named in words of the workspace."""
    workspace = os.environ.get("REPRISE_WORKSPACE")
    if workspace and not Path(path).is_absolute():
        there = Path(workspace, path)
        if there.exists() or not Path(path).exists():
            return there
    return Path(path)


def review(book: Notebook, most: int) -> dict[str, object]:
    """The review, as JSON."""
    found = Findings()
    for odd in book.odd[:5]:
        found.add("error", "bad-cell", None, None, f"In the file: {odd}.", "Mend the file.")
    secrets_in.look(book, found)
    execution.look_at_counts(book, found)
    execution.look_at_errors(book, found)
    python = book.language in ("python", "python3", "ipython", "xpython")
    if python and book.version.startswith("2"):
        python = False
        found.add(
            *("warning", "python-2", None, None),
            "It is written in Python 2; its code was not read.",
            "Port it to Python 3.",
        )
    read_cells = [_read(cell, found) for cell in book.code] if python else []
    if python:
        sources = [(cell, source) for cell, source, _ in read_cells]
        aliases = Aliases()
        listed = list(calls(sources, aliases))
        execution.look_at_names(read_cells, book.ordered, found)
        execution.look_at_effects(read_cells, found)
        chance.look(sources, listed, found)
        modelling.look(sources, listed, aliases, found)
    hygiene.look(book, read_cells, listed if python else [], found)
    ranked, left = found.ranked(most)
    breaks = ("used-before-defined", "undefined", "used-after-del", "syntax")
    return {
        "cells": len(book.cells),
        "code_cells": len(book.code),
        "language": book.language,
        "code_was_read": python,
        "runs_from_top": None if not python else not found.has(*breaks),
        "outputs_match_order": not found.has("out-of-order", "same-count", "not-run"),
        "secrets": found.has("secret-in-source", "secret-in-output"),
        "counts": found.counts(),
        "findings": ranked,
        "findings_left_out": left,
    }


def _read(cell: Cell, found: Findings) -> tuple[Cell, Source, Names | None]:
    source = read(cell.source)
    names = None
    if source.fault is not None:
        found.add(
            *("error", "syntax", cell, source.fault[1]),
            f"It does not parse as Python {_VERSION}: {source.fault[0]}.",
            "Mend it, or make it a Markdown cell; is it of a newer Python, run this with that.",
        )
    elif source.tree is not None:
        try:
            names = names_of(source.tree)
        except RecursionError:
            source.tree = None
            found.add(
                *("info", "too-deep", cell, None),
                "It is nested too deeply to be read.",
                "Take it apart.",
            )
    return cell, source, names


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", metavar="PATH", help="a notebook, or the JSON of `reprise log`")
    parser.add_argument(
        "--check",
        choices=SEVERITIES,
        help="exit 1 when something so grave, or graver, was found",
    )
    parser.add_argument(
        "--most", type=int, default=80, metavar="N", help="findings shown at most (default 80)"
    )
    args = parser.parse_args()
    if args.most < 1:
        parser.error("--most is at least 1")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    try:
        body = review(load(located(args.path)), args.most)
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    json.dump({"path": args.path, **body}, sys.stdout, indent=1, ensure_ascii=True)
    sys.stdout.write("\n")
    counts = body["counts"]
    assert isinstance(counts, dict)  # noqa: S101  as it was made above
    grave = SEVERITIES[: SEVERITIES.index(args.check) + 1] if args.check else ()
    return int(any(counts[severity] for severity in grave))


if __name__ == "__main__":
    sys.exit(main())
