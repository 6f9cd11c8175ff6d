"""`reprise get`: copies a file out of a session's workspace."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.commands.workspaces import opened_workspace
from reprise.errors import UsageError
from reprise.quantities import amount
from reprise.sandbox.named import load
from reprise.workspace.replaced import replacing

EXAMPLES = """\
  reprise get 3f2a results.csv
  reprise get analysis.ipynb plots/fit.png -o fit.png
  reprise get 3f2a results.csv -o - | head
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("path", metavar="PATH", help="as `reprise files` shows it")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to (default: its name, in the current folder; - for stdout)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.output != "-":
        target = Path(args.output or Path(args.path).name)
        if target.is_dir():
            target /= Path(args.path).name
        if os.path.lexists(target) and not args.force:
            raise UsageError(f"{target} is there already. Name another file, or use --force.")
        if not target.parent.is_dir():
            raise UsageError(f"There is no folder {target.parent} to write {target.name} into.")
    else:
        target = None
    asyncio.run(_get(args, target, terminal))
    return 0


async def _get(args: argparse.Namespace, target: Path | None, terminal: Terminal) -> None:
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        async with opened_workspace(log, session, terminal) as workspace:
            # A file larger than a workspace may be is not one that an honest sandbox has.
            limit = load().sandbox_limits().workspace or sys.maxsize
            if target is None:
                await workspace.fetch(args.path, sys.stdout.buffer, limit)
                return
            # Of the workspace's names only the one that the caller typed is used.
            with replacing(target) as file:
                size = await workspace.fetch(args.path, file, limit)
    terminal.line(f"{target}: {amount(size)}, from the workspace {workspace.origin}")
