#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["markdown-it-py", "nh3"]
# ///
"""Makes a report of a notebook: one HTML file, or Markdown with its figures. JSON on stdout."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import sys
from pathlib import Path

from reporting.notebook import Unreadable, Wanted, load

EXAMPLES = """\
examples:
  scripts/notebook_to_report.py analysis.ipynb --frame-only
  scripts/notebook_to_report.py analysis.ipynb --output report.html --summary summary.md
  scripts/notebook_to_report.py analysis.ipynb --output report.md --captions captions.json

The same notebook and options give the same bytes. Nothing of the notebook is executed.

captions.json:  {"1": "of figure 1", "table-1": "of table 1"}

exit codes:
  0  written (or the frame printed)
  1  with --check: written, and cells of the notebook ended with errors
  2  wrong use, or a file cannot be read or written
  3  markdown-it-py or nh3 is not there

Relative paths are those of the folder that REPRISE_WORKSPACE names, else of the current one.
"""


def located(path: str, *, new: bool = False) -> Path:
    """Where a file lies that is named in words of the workspace."""
    workspace = os.environ.get("REPRISE_WORKSPACE")
    if workspace and not Path(path).is_absolute():
        there = Path(workspace, path)
        if new or there.exists() or not Path(path).exists():
            return there
    return Path(path)


class Refused(Exception):
    """What was asked for cannot be done; says why."""


def small_text(path: Path, most: int = 1 << 20) -> str:
    """Raises Refused."""
    try:
        if path.stat().st_size > most:
            raise Refused(f"{path} is over {most >> 10} KiB.")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{path} cannot be read: {error}.") from error


def captions_of(path: Path) -> dict[str, str]:
    """Raises Refused."""
    try:
        value = json.loads(small_text(path))
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path} is no JSON: {error}.") from error
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise Refused(f'{path} is no object of texts, such as {{"1": "Sales by month"}}.')
    return {str(key): str(text)[:1_000] for key, text in value.items()}


def write(path: Path, data: bytes) -> None:
    """Whole or not at all. Raises Refused."""
    beside = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside.write_bytes(data)
        beside.replace(path)
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}.") from error


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebook", metavar="NOTEBOOK", help="of format 4")
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--output", metavar="FILE", help="a .html or .md file; it is replaced")
    wanted.add_argument(
        "--frame-only", action="store_true", help="write nothing, print what stands in the notebook"
    )
    parser.add_argument("--summary", metavar="FILE", help="Markdown that stands at the top")
    parser.add_argument("--captions", metavar="FILE", help="JSON: texts below figures and tables")
    parser.add_argument("--title", help="default: the first heading, else the file's name")
    parser.add_argument(
        "--code", choices=("hidden", "folded", "shown"), default="folded", help="default: folded"
    )
    parser.add_argument("--warnings", action="store_true", help="show what went to stderr, too")
    parser.add_argument("--tracebacks", action="store_true", help="show them whole")
    parser.add_argument(
        "--lines", type=int, default=200, metavar="N", help="of a text output (default 200)"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when cells ended with errors")
    args = parser.parse_args()
    if args.lines < 4:
        parser.error("--lines is at least 4")
    if args.output and Path(args.output).suffix.lower() not in (".html", ".htm", ".md"):
        parser.error("--output ends in .html or .md")
    return args


def made(args: argparse.Namespace) -> dict[str, object]:
    """Raises ImportError, Refused, Unreadable."""
    from reporting.frame import Frame  # noqa: PLC0415  so that --help needs no package
    from reporting.html_report import html_report  # noqa: PLC0415
    from reporting.markdown_report import markdown_report  # noqa: PLC0415
    from reporting.words import as_html  # noqa: PLC0415

    path = located(args.notebook)
    book = load(path, Wanted(args.lines, args.warnings, args.tracebacks))
    summary = small_text(located(args.summary)) if args.summary else ""
    captions = captions_of(located(args.captions)) if args.captions else {}
    first = next((b for b in book.blocks if b.kind == "markdown"), None)
    headings = as_html(first.text, {}, book.folder, set()).headings if first else []
    title = args.title or next((text for level, text, _ in headings if level == 1), path.stem)
    frame = Frame()
    written: list[dict[str, object]] = []
    if args.output is None or Path(args.output).suffix.lower() != ".md":
        text = html_report(
            book, frame, title=title, summary=summary, captions=captions, code=args.code
        )
        files: dict[str, bytes] = {}
    else:
        folder = f"{Path(args.output).stem}_files"
        text, files = markdown_report(
            book,
            frame,
            title=title,
            summary=summary,
            captions=captions,
            code=args.code,
            folder=folder,
        )
    if args.output is not None:
        output = located(args.output, new=True)
        if output.exists() and output.samefile(path):
            raise Refused("The report would replace the notebook.")
        data = text.encode("utf-8", "replace")
        beside = output.parent / f"{output.stem}_files"
        for name, picture in files.items():
            write(beside / name, picture)
        for old in beside.glob("figure-*") if beside.is_dir() else ():
            # Of an earlier report; what is named otherwise is not ours.
            if old.name not in files and re.fullmatch(r"figure-\d+-[0-9a-f]{12}\.\w+", old.name):
                old.unlink(missing_ok=True)
        write(output, data)
        written.append(
            {"path": args.output, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        )
    return {
        "notebook": args.notebook,
        "written": written,
        "pictures": sorted(files),
        "not_shown": dict(sorted(book.left_out.items())),
        "frame": frame.to_json(),
        "summary_template": "" if summary else frame.template(),
    }


def main() -> int:
    args = parsed()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    try:
        body = made(args)
    except ImportError as error:
        sys.stderr.write(
            f"The package {error.name} is not in this environment; this needs markdown-it-py and"
            " nh3 (pip install markdown-it-py nh3).\n"
        )
        return 3
    except (Refused, Unreadable) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    json.dump(body, sys.stdout, indent=1, ensure_ascii=True)
    sys.stdout.write("\n")
    frame = body["frame"]
    assert isinstance(frame, dict)  # noqa: S101  as it was made above
    return int(args.check and bool(frame["errors"]))


if __name__ == "__main__":
    sys.exit(main())
