"""`reprise demo`: a real notebook runs, is killed twice, comes back, and all of it is compared.

With --agent it is the agent's story, which stands on the engine: an entry point tells it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import asdict
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from reprise.client.specs import kernel_specs
from reprise.commands.opened import SHOWN_ID, opened_log, took
from reprise.commands.terminal import Terminal
from reprise.commands.verify import counts, verified
from reprise.demo.kernel import CellRun
from reprise.demo.story import Cell, Finding, Story, Told
from reprise.errors import UnavailableError, UsageError

EXAMPLES = """\
  reprise demo
  REPRISE_BACKEND=process reprise demo     where no sandbox can be made
  reprise demo --agent                     an agent works, is held back, cut and undone (scripted)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-compare", action="store_true", help="leave out the run on plain ipykernel"
    )
    parser.add_argument("--json", action="store_true", help="what was found, as JSON")
    parser.add_argument(
        "--agent",
        action="store_true",
        help="the agent's story instead, its model scripted, in a home of its own",
    )
    parser.add_argument(
        "--keep", action="store_true", help="with --agent: leave its home there, to look at"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.agent:
        return _agent(args, terminal)
    if args.keep:
        raise UsageError("--keep belongs to --agent; this demo's session is in your log anyway.")
    for needed in ("numpy", "pandas"):
        if find_spec(needed) is None:
            raise UnavailableError(
                f"The demo's notebook needs {needed}, which is not installed in this environment. "
                "Install it with: pip install 'jupyter-reprise[demo]'"
            )
    narrator = _Narrator(terminal)
    with tempfile.TemporaryDirectory(prefix="reprise-demo-") as scratch, kernel_specs() as specs:
        story = Story(specs, Path(scratch), narrator)
        told = story.run()
        if not args.no_compare:
            story.compare_with_plain()
        asyncio.run(_prove(told, Path(scratch) / "notebook", narrator, terminal))
    terminal.status("")
    if args.json:
        terminal.json(
            {
                "session": str(told.session),
                "ok": told.ok,
                "cells": told.cells,
                "findings": [asdict(finding) for finding in told.findings],
            }
        )
        return 0 if told.ok else 1
    terminal.line()
    terminal.table(["", "what", "took", "what came of it"], [_row(f) for f in told.findings])
    terminal.line()
    if told.ok:
        terminal.line(terminal.paint("All as promised.", "green"))
    else:
        terminal.line(terminal.paint("Not all as promised: see the rows marked NO.", "red"))
    terminal.line(f"Look at what was recorded: reprise log {str(told.session)[:SHOWN_ID]}")
    return 0 if told.ok else 1


def _agent(args: argparse.Namespace, terminal: Terminal) -> int:
    for found in entry_points(group="reprise.commands", name="demo-agent"):
        return int(found.load().run(args, terminal))
    raise UnavailableError(
        "`reprise demo --agent` is not installed whole: its entry point is missing. Install "
        "jupyter-reprise again."
    )


async def _prove(told: Told, folder: Path, narrator: _Narrator, terminal: Terminal) -> None:
    """Replay the session in a fresh sandbox, and recompute its digests."""
    async with opened_log(terminal) as log:
        narrator.begin("the whole session again, in a fresh sandbox")
        report = await verified(log, told.session, terminal, folder=folder)
        told.find(
            "the whole session, played again in a fresh sandbox",
            report.took_s,
            counts(report),
            ok=report.ok,
        )
        started = time.perf_counter()
        check = await log.check(told.session, blobs=True)
        told.find(
            "every digest of its log, computed again",
            time.perf_counter() - started,
            f"{check.steps} steps, whole" if check.fault is None else check.fault.what,
            ok=check.ok,
        )


def _row(finding: Finding) -> list[str]:
    mark = "yes" if finding.ok else "NO"
    return [mark, finding.what, took(round(finding.seconds * 1e6)), finding.result]


class _Narrator:
    """Tells the story on stderr, a line a cell."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def begin(self, text: str) -> None:
        self._terminal.progress(f"· {text}")

    def cell(self, cell: Cell, run: CellRun, total: int, remark: str = "") -> None:
        lasted = took(round(run.seconds * 1e6))
        self._terminal.progress(
            f"  [{cell.number:>2}/{total}] {run.status:5} {lasted:>8}  {cell.title}"
            + (f"   ({remark})" if remark else "")
        )

    def event(self, text: str) -> None:
        self._terminal.progress(f"  ! {text}")
