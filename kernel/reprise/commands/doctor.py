"""`reprise doctor`: what this machine can and cannot do, and what to do about it."""

from __future__ import annotations

import argparse
import asyncio

from reprise.commands.examination import Part, State, examine
from reprise.commands.terminal import Colour, Terminal
from reprise.errors import UnavailableError

EXAMPLES = """\
  reprise doctor
  REPRISE_DSN=postgresql://me@db.example/reprise reprise doctor
  reprise doctor --json               for a bug report
"""

_COLOURS: dict[State, Colour] = {"ok": "green", "limited": "yellow", "missing": "red"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    parts = asyncio.run(_examine(terminal, quiet=args.json))
    works = not any(part.blocks for part in parts)
    if args.json:
        terminal.json({"works": works, "parts": [vars(part) for part in parts]})
    elif works:
        terminal.line("Notebooks can run here.")
    else:
        blocking = ", ".join(part.name for part in parts if part.blocks)
        terminal.line(f"Notebooks cannot run here until this is mended: {blocking}.")
    return 0 if works else UnavailableError.exit_code


async def _examine(terminal: Terminal, *, quiet: bool) -> list[Part]:
    parts = []
    async for part in examine(terminal.status):
        parts.append(part)
        if not quiet:
            _tell(part, terminal)
    return parts


def _tell(part: Part, terminal: Terminal) -> None:
    state = terminal.paint(f"{part.state:7}", _COLOURS[part.state])
    terminal.line(f"{state}  {part.name}: {part.says}")
    if part.mend:
        terminal.line(f"{'':7}  → {part.mend}")
