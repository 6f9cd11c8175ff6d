#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Profiles a CSV, TSV, JSON or JSON Lines file (also .gz): JSON on stdout, words on stderr."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from profiling.reading import Asked, Table, Unreadable, open_table
from profiling.report import Options, profile

EXAMPLES = """\
examples:
  scripts/profile_dataset.py data.csv
  scripts/profile_dataset.py data.csv --target churned --top 3
  scripts/profile_dataset.py export.txt --delimiter ';' --encoding cp1252
  scripts/profile_dataset.py big.jsonl.gz --rows 50000

exit codes:
  0  profiled
  1  with --check: a finding is an error
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


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def options(about: str, examples: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=about, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", metavar="PATH", help="the file")
    parser.add_argument(
        "--target", metavar="COLUMN", help="what is to be predicted: look for leaks"
    )
    parser.add_argument(
        "--rows", type=positive, default=200_000, help="read at most so many (default 200000)"
    )
    parser.add_argument(
        "--columns", type=positive, default=200, help="profile at most so many (default 200)"
    )
    parser.add_argument(
        "--top", type=positive, default=5, help="most frequent values shown of each (default 5)"
    )
    parser.add_argument(
        "--findings", type=positive, default=60, help="shown at most, gravest first (default 60)"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when a finding is an error")
    return parser


def profiled(args: argparse.Namespace, opened: Callable[[Path], Table]) -> int:
    """Opens, profiles, prints; the exit code."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    path = located(args.path)
    try:
        if not path.is_file():
            raise Unreadable(f"{path} is no file.")
        table = opened(path)
        chosen = Options(args.target, args.columns, args.top, args.findings)
        body = {"path": args.path, **profile(table, chosen)}
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyError:
        sys.stderr.write(f"There is no column {args.target!r}; there are {table.names[:50]}.\n")
        return 2
    except ImportError as error:
        sys.stderr.write(
            f"The package {error.name} is not in this environment. Add it"
            f" (pip install {error.name}), or write the table as CSV from the notebook and use"
            " scripts/profile_dataset.py.\n"
        )
        return 3
    json.dump(body, sys.stdout, indent=1, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")
    findings = body["findings"]
    grave = isinstance(findings, list) and any(f["severity"] == "error" for f in findings)
    return int(args.check and grave)


def main() -> int:
    parser = options(__doc__ or "", EXAMPLES)
    parser.add_argument("--delimiter", help="the one character between fields (default: found out)")
    parser.add_argument("--encoding", help="such as cp1252 (default: found out)")
    header = parser.add_mutually_exclusive_group()
    header.add_argument(
        "--header", action="store_true", default=None, help="the first line is names"
    )
    header.add_argument("--no-header", dest="header", action="store_false", help="it is data")
    args = parser.parse_args()
    if args.delimiter is not None:
        args.delimiter = {"\\t": "\t", "tab": "\t"}.get(args.delimiter, args.delimiter)
        if len(args.delimiter) != 1:
            parser.error("a delimiter is one character")
    asked = Asked(args.rows, args.delimiter, args.encoding, args.header)
    return profiled(args, lambda path: open_table(path, asked))


if __name__ == "__main__":
    sys.exit(main())
