"""`reprise verify`: replays a session in a fresh sandbox and says step by step what came out."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import uuid
from collections.abc import Callable
from pathlib import Path

from reprise.commands.opened import add_session, find_session, first_line, opened_log
from reprise.commands.terminal import Colour, Terminal
from reprise.commands.workspaces import fresh_sandbox
from reprise.log.postgres import Log
from reprise.replay.verify import Report, StepReport, Verdict, verify

EXAMPLES = """\
  reprise verify 3f2a
  reprise verify analysis.ipynb --verbose      also the steps that came out the same
  reprise verify 3f2a --json | jq '.steps[] | select(.verdict == "different")'
"""

_COLOURS: dict[Verdict, Colour] = {
    "same": "green",
    "volatile": "dim",
    "different": "red",
    "could not run": "red",
    "skipped": "yellow",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--verbose", action="store_true", help="show steps that are the same too")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    report = asyncio.run(_run(args, terminal))
    if args.json:
        terminal.json(report.to_json())
    else:
        terminal.line(f"{len(report.steps)} steps in {report.took_s:.1f} s: {counts(report)}")
    return 0 if report.ok else 1


async def _run(args: argparse.Namespace, terminal: Terminal) -> Report:
    def told(step: StepReport) -> None:
        if not args.json and (args.verbose or step.verdict != "same"):
            _tell(step, terminal)

    async with opened_log(terminal) as log:
        return await verified(log, await find_session(log, args.session), terminal, told)


async def verified(
    log: Log,
    session: uuid.UUID,
    terminal: Terminal,
    told: Callable[[StepReport], None] | None = None,
    folder: Path | None = None,
) -> Report:
    """Verify a session, its progress on the live line, each step `told` as it is done.

    folder: the notebook's, for a backend without workspaces of its own (`fresh_sandbox`).
    """
    reader = await log.reader(session)
    info = await reader.info()
    done = 0

    def on_step(step: StepReport) -> None:
        nonlocal done
        done += 1
        if told is not None:
            told(step)
        terminal.status(f"{done} of {info.steps} steps")

    async def password(prompt: str) -> str | None:
        return await asyncio.to_thread(getpass.getpass, f"{prompt} (never stored) ")

    with fresh_sandbox(info, folder) as (backend, spec):
        terminal.status("starting a fresh sandbox …")
        report = await verify(
            reader,
            backend,
            spec,
            on_step=on_step,
            ask_password=password if terminal.err.isatty() else None,
        )
    terminal.status("")
    return report


def counts(report: Report) -> str:
    """How many steps came out how, in one line."""
    verdicts: tuple[Verdict, ...] = ("same", "volatile", "different", "could not run", "skipped")
    found = [f"{count} {verdict}" for verdict in verdicts if (count := report.count(verdict))]
    return ", ".join(found) or "no steps"


def _tell(step: StepReport, terminal: Terminal) -> None:
    verdict = terminal.paint(f"{step.verdict:13}", _COLOURS[step.verdict])
    terminal.line(f"{step.seq:>6}  {step.kind:7}  {verdict}  {first_line(step.source)}")
    if step.reason:
        terminal.line(f"{'':>6}  {step.reason}")
    if step.comparison is None:
        return
    for difference in step.comparison.differences:
        terminal.line(f"{'':>6}  {difference.where}: {difference.kind}")
        shown = (
            difference.diff or f"recorded: {difference.recorded}\nreplayed: {difference.replayed}"
        )
        for line in shown.splitlines():
            terminal.line(f"{'':>6}    {line}")
