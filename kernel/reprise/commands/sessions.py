"""`reprise sessions`: all sessions of a person, the one used last first."""

from __future__ import annotations

import argparse
import asyncio

from reprise.commands.opened import SHOWN_ID, iso, opened_log, when
from reprise.commands.terminal import Terminal
from reprise.log.store import SessionInfo

EXAMPLES = """\
  reprise sessions
  reprise sessions --last 5
  reprise sessions --json | jq -r '.sessions[0].id'
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--last", type=int, metavar="N", help="only the N used last")
    parser.add_argument("--json", action="store_true", help="as JSON, with whole ids")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    sessions = asyncio.run(_sessions(terminal))
    if args.last is not None:
        sessions = sessions[: max(args.last, 0)]
    if args.json:
        terminal.json({"sessions": [as_json(info) for info in sessions]})
    elif not sessions:
        terminal.line("No sessions yet. `reprise demo` makes one, and so does each notebook.")
    else:
        terminal.table(
            ["session", "last used", "steps", "kernel", "state", "notebook"],
            [_row(info) for info in sessions],
        )
    return 0


async def _sessions(terminal: Terminal) -> list[SessionInfo]:
    async with opened_log(terminal) as log:
        return await log.sessions()


def as_json(info: SessionInfo) -> dict[str, object]:
    """A session for programs."""
    return {
        "id": str(info.id),
        "owner": info.owner,
        "created_at": iso(info.created_at),
        "last_at": iso(info.last_at),
        "steps": info.steps,
        "notebook": info.notebook,
        "kernel": info.kernel,
        "environment": info.environment,
        "holder": None if info.holder is None else dict(info.holder),
    }


def _row(info: SessionInfo) -> list[str]:
    state = ""
    if info.holder is not None:
        state = f"in use (pid {info.holder['pid']})" if "pid" in info.holder else "in use"
    return [
        str(info.id)[:SHOWN_ID],
        when(info.last_at),
        str(info.steps),
        info.kernel,
        state,
        info.notebook or "",
    ]
