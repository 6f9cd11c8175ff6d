"""`reprise verify`: replays a session in a fresh sandbox and says what came out otherwise."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import uuid
from collections.abc import Callable
from pathlib import Path

from reprise.client import verification
from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.commands.told import counts, tell_states, tell_step
from reprise.errors import UsageError
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from reprise.replay.report import Report, StepReport
from reprise.replay.verify import EVERYTHING, Replays, Scope
from reprise.report.page import page
from reprise.workspace.replaced import replacing

__all__ = ["counts", "verified"]

EXAMPLES = """\
  reprise verify 3f2a
  reprise verify analysis.ipynb --verbose         also the steps that came out the same
  reprise verify 3f2a --from 40                   what lies before step 40 is only brought back
  reprise verify 3f2a --twice --html report.html  also what differs from run to run; as a page
  reprise verify 3f2a --json | jq '.steps[] | select(.verdict == "different")'
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument(
        "--from",
        dest="start",
        type=int,
        default=0,
        metavar="N",
        help="compare from step N on; what lies before is only brought back",
    )
    parser.add_argument("--to", type=int, metavar="N", help="compare up to step N")
    often = parser.add_mutually_exclusive_group()
    often.add_argument(
        "--twice",
        dest="replays",
        action="store_const",
        const="twice",
        help="replay twice and compare the two: finds what differs though no output shows it",
    )
    often.add_argument(
        "--once",
        dest="replays",
        action="store_const",
        const="once",
        help="replay once (by default a second time if nothing is known of files and variables)",
    )
    parser.set_defaults(replays="as needed")
    parser.add_argument("--verbose", action="store_true", help="show steps that are the same too")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the report as a page too")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise UsageError(f"There is no folder {args.html.parent} to write {args.html.name} into.")
    if args.start < 0 or (args.to is not None and args.to < args.start):
        raise UsageError("--from and --to name steps, the first not after the last.")
    report, info = asyncio.run(_run(args, terminal))
    if args.html is not None:
        with replacing(args.html) as file:
            file.write(page(report, notebook=info.notebook, kernel=info.kernel).encode())
    if args.json:
        terminal.json(report.to_json())
    else:
        tell_states(report, terminal)
        terminal.line(f"{len(report.steps)} steps in {report.took_s:.1f} s: {counts(report)}")
        terminal.line(terminal.paint(report.sentence, "green" if report.ok else "red"))
        if args.html is not None:
            terminal.line(f"The page is {args.html}")
    return 0 if report.ok else 1


async def _run(args: argparse.Namespace, terminal: Terminal) -> tuple[Report, SessionInfo]:
    def told(step: StepReport) -> None:
        if not args.json and (args.verbose or step.verdict != "same"):
            tell_step(step, terminal)

    scope = Scope(args.start, None if args.to is None else args.to + 1)
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        report = await verified(log, session, terminal, told, scope=scope, replays=args.replays)
        return report, await (await log.reader(session)).info()


async def verified(
    log: Log,
    session: uuid.UUID,
    terminal: Terminal,
    told: Callable[[StepReport], None] | None = None,
    folder: Path | None = None,
    *,
    scope: Scope = EVERYTHING,
    replays: Replays = "once",
) -> Report:
    """Verify a session, its progress on the live line, each step `told` as it is done.

    folder: the notebook's, for a backend without workspaces of its own (`fresh_sandbox`).
    """

    async def password(prompt: str) -> str | None:
        return await asyncio.to_thread(getpass.getpass, f"{prompt} (never stored) ")

    report = await verification.verified(
        log,
        session,
        scope=scope,
        replays=replays,
        folder=folder,
        on_step=told,
        on_progress=terminal.status,
        on_unasked=terminal.warn,
        ask_password=password if terminal.err.isatty() else None,
    )
    terminal.status("")
    return report
