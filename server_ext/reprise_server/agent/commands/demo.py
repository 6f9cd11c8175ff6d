"""`reprise demo --agent`: the agent's story from end to end, its model scripted, and its log."""

from __future__ import annotations

import argparse
import asyncio
import time
from dataclasses import asdict
from importlib.util import find_spec

from reprise.commands.log_conversation import conversation as show_conversation
from reprise.commands.opened import SHOWN_ID, opened_log, took
from reprise.commands.terminal import Terminal
from reprise.commands.verify import counts, verified
from reprise.errors import UnavailableError
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise.settings import HOME
from reprise_server.agent.demo.home import own_home
from reprise_server.agent.demo.story import Story, Told

EXAMPLES = """\
  reprise demo --agent
  reprise demo --agent --keep              leave its session there, to look at
"""

#: Said first and last: nobody must take it for a model's work.
SCRIPTED = "No model answers here: what it says is a script. All else is real."


def arguments(parser: argparse.ArgumentParser) -> None:
    """Those that `reprise demo` passes on."""
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--json", action="store_true")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if find_spec("anthropic") is None:
        raise UnavailableError(
            "The agent's demo needs the Anthropic SDK, which is not installed in this environment."
            " Install it with: pip install 'jupyter-reprise[agent]'"
        )
    return asyncio.run(_run(args, terminal))


async def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    narrator = _Narrator(terminal)
    terminal.progress(terminal.paint(SCRIPTED, "bold"))
    async with own_home(keep=args.keep) as folder, opened_log(terminal) as log:
        story = Story(folder, log, narrator)
        told = await story.tell()
        await _prove(told, log, narrator, terminal)
        if args.json:
            terminal.json(
                {
                    "scripted": True,
                    "session": str(told.session),
                    "conversation": str(told.conversation),
                    "ok": told.ok,
                    "findings": [asdict(finding) for finding in told.findings],
                    "home": str(folder / "home") if args.keep else None,
                }
            )
            return 0 if told.ok else 1
        terminal.line(terminal.paint("the log of it", "bold"))
        terminal.line()
        if told.after is not None:
            await show_conversation(log, told.after, "", False, False, terminal)
        _sum_up(told, terminal)
        if args.keep:
            terminal.line(
                f"Look at it: {HOME}={folder / 'home'} reprise log {str(told.session)[:SHOWN_ID]}"
            )
    return 0 if told.ok else 1


async def _prove(told: Told, log: Log, narrator: _Narrator, terminal: Terminal) -> None:
    """Replay the session in a fresh sandbox, and recompute what the conversation is chained by."""
    if told.session is None or told.conversation is None:
        return
    narrator.begin("the whole session again, in a fresh sandbox")
    began = time.perf_counter()
    report = await verified(log, told.session, terminal)
    what = "the whole session, played again in a fresh sandbox"
    told.since(began, what, counts(report), ok=report.ok)
    began = time.perf_counter()
    found = await Conversations(log).check(told.conversation)
    told.since(
        began,
        "every digest of the conversation, computed again",
        f"{found.entries} entries" + (", whole" if found.broken is None else " are not whole"),
        ok=found.broken is None,
    )


def _sum_up(told: Told, terminal: Terminal) -> None:
    terminal.line()
    rows = [
        ["yes" if each.ok else "NO", each.what, took(round(each.seconds * 1e6)), each.result]
        for each in told.findings
    ]
    terminal.table(["", "what", "took", "what came of it"], rows)
    terminal.line()
    if told.ok:
        terminal.line(terminal.paint("All as told.", "green"))
    else:
        terminal.line(terminal.paint("Not all as told: see the rows marked NO.", "red"))
    terminal.line(SCRIPTED)


class _Narrator:
    """Tells the story on stderr."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal

    def begin(self, text: str) -> None:
        self._terminal.progress(f"· {text}")

    def event(self, text: str) -> None:
        self._terminal.progress(f"  {text}")
