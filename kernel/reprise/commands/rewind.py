"""`reprise rewind`: goes back to an earlier step, in a fork that the notebook then leads to."""

from __future__ import annotations

import argparse
import asyncio

from reprise.commands.fork import add_at, add_interrupt, forked
from reprise.commands.opened import add_session
from reprise.commands.terminal import Terminal

EXAMPLES = """\
  reprise rewind analysis.ipynb --at 7   go on from the state after step 7
  reprise rewind 3f2a --interrupt        back to before the step that runs
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    add_at(parser)
    add_interrupt(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    found = asyncio.run(
        forked(args.session, args.at, terminal, attach=True, interrupt=args.interrupt)
    )
    if args.json:
        terminal.json(found.to_json())
    else:
        fork = found.info
        where = "before the first step" if fork.fork_seq == -1 else f"after step {fork.fork_seq}"
        terminal.line(
            f"Session {fork.id} goes on {where} of session {fork.parent}, which stays as it is."
        )
    return 0
