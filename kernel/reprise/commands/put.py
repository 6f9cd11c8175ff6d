"""`reprise put`: brings files and folders into a session's workspace, each as a step."""

from __future__ import annotations

import argparse
import asyncio
import uuid
from pathlib import Path

from reprise.client import connect
from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.quantities import amount

EXAMPLES = """\
  reprise put 3f2a data.csv
  reprise put 3f2a data/ model.bin --to inputs
  reprise put analysis.ipynb project --exclude .git --exclude '*.pyc'
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file or a folder")
    parser.add_argument(
        "--to", default="", metavar="DIR", help="the folder in the workspace (default: its root)"
    )
    parser.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave out what fits, such as '*.pyc'; repeatable",
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where a kernel that has to be started runs"
    )
    parser.add_argument("--json", action="store_true", help="the steps as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    for path in args.paths:
        if not path.exists():
            raise UsageError(f"There is no {path}. Nothing was brought in.")
    session = asyncio.run(_find(args.session, terminal))
    shown = []
    with connect(session, folder=args.folder) as kernel:
        for path in args.paths:
            name = path.resolve().name
            to = f"{args.to}/{name}" if args.to else name
            terminal.status(f"bringing in {path} …")
            done = kernel.upload(path, to, exclude=args.exclude)
            shown.append(
                {
                    "path": str(path),
                    "to": to,
                    "seq": done.seq,
                    "files": done.files,
                    "bytes": done.bytes,
                }
            )
            if not args.json:
                files = "1 file" if done.files == 1 else f"{done.files} files"
                terminal.line(f"{path} → {to}: {files}, {amount(done.bytes)} (step {done.seq})")
    if args.json:
        terminal.json({"session": str(session), "uploads": shown})
    return 0


async def _find(named: str, terminal: Terminal) -> uuid.UUID:
    async with opened_log(terminal) as log:
        return await find_session(log, named)
