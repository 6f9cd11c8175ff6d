"""`reprise agent`: gives the agent a task in a notebook, with approvals at the prompt."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from reprise.commands.terminal import Terminal
from reprise.errors import UsageError

EXAMPLES = """\
  reprise agent "why is recall low?" --notebook churn.ipynb
  reprise agent "profile data.csv"                  a new session of this folder
  reprise agent --notebook churn.ipynb              one task after the other, typed
  reprise agent --notebook churn.ipynb --continue   go on with a turn that was cut
  reprise agent --notebook churn.ipynb --undo       back to before its latest turn
  reprise agent "tidy up" --session 3f2a --json     what happens, a line of JSON each
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="?", metavar="TASK", help="what is to be done, in your words")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--notebook", type=Path, metavar="FILE", help="the notebook it works in")
    where.add_argument("--session", metavar="SESSION", help="a session without a notebook")
    act = parser.add_mutually_exclusive_group()
    act.add_argument(
        "--continue",
        dest="go_on",
        action="store_true",
        help="the latest conversation there: with its next task, or with its turn that was cut",
    )
    act.add_argument("--undo", action="store_true", help="undo the latest turn there")
    parser.add_argument(
        "--fork",
        action="store_true",
        help="with --undo: also where steps of yours followed; they stay in the session left",
    )
    parser.add_argument("--conversation", metavar="ID", help="that one instead of the latest")
    parser.add_argument("--model", metavar="NAME", help="of a new conversation")
    parser.add_argument("--json", action="store_true", help="what happens, a line of JSON each")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.fork and not args.undo:
        raise UsageError("--fork belongs to --undo.")
    if args.notebook is not None and not args.notebook.is_file():
        raise UsageError(f"There is no notebook {args.notebook}.")
    typing = sys.stdin.isatty() and not args.json
    if not (args.task or args.go_on or args.undo or typing):
        raise UsageError("Say what is to be done: reprise agent TASK. `--help` has examples.")
    from reprise_server.agent.desk import Desk  # noqa: PLC0415  help must not wait for all of it

    desk = Desk(args, terminal, typing=typing)
    try:
        return desk.undo() if args.undo else desk.work()
    finally:
        desk.close()
