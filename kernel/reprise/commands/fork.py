"""`reprise fork`: a new session that shares another one's history up to a step."""

from __future__ import annotations

import argparse
import asyncio

from reprise.client import forks
from reprise.client.forks import Forked
from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal

EXAMPLES = """\
  reprise fork 3f2a                   as it stands after its last step
  reprise fork analysis.ipynb --at 7  as it stood after step 7 (`reprise log` numbers them)
  reprise fork 3f2a --at -1           an empty session that knows where it came from
  REPRISE_SESSION=$(reprise fork 3f2a --at 7) jupyter console --kernel reprise
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    add_at(parser)
    parser.add_argument(
        "--attach",
        action="store_true",
        help="let the notebook, and the kernel that runs on it, go over to the fork, as `reprise "
        "rewind` does",
    )
    add_interrupt(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def add_at(parser: argparse.ArgumentParser) -> None:
    """The --at option."""
    parser.add_argument(
        "--at",
        type=int,
        metavar="N",
        help="the last step to share (default: the last one that has ended; -1: none)",
    )


def add_interrupt(parser: argparse.ArgumentParser) -> None:
    """The --interrupt option."""
    parser.add_argument(
        "--interrupt",
        action="store_true",
        help="interrupt the step that runs, instead of staying with it",
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    found = asyncio.run(
        forked(args.session, args.at, terminal, attach=args.attach, interrupt=args.interrupt)
    )
    if args.json:
        terminal.json(found.to_json())
    else:
        terminal.line(str(found.info.id))
    return 0


async def forked(
    named: str, at: int | None, terminal: Terminal, *, attach: bool, interrupt: bool
) -> Forked:
    """Fork the session that a person named; with `attach` its notebook and kernel go over."""
    async with opened_log(terminal) as log:
        session = await find_session(log, named)
        found = await forks.forked(
            log, session, at, attach=attach, interrupt=interrupt, on_progress=terminal.status
        )
        terminal.status("")
        return found
