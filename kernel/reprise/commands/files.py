"""`reprise files`: what lies in a session's workspace, lay there after a step, or has changed."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import re
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

from reprise.client.comparison import FileChange, Workspace, change_json, compared, entry_json
from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Colour, Terminal, printable
from reprise.commands.workspaces import opened_workspace, past
from reprise.errors import UsageError
from reprise.log.postgres import Log
from reprise.quantities import amount
from reprise.settings import ARTIFACT_BYTES
from reprise.workspace.manifest import Entry

EXAMPLES = """\
  reprise files 3f2a
  reprise files analysis.ipynb --json | jq -r '.files[].path'
  reprise files 3f2a --at 12                    as they were after step 12
  reprise files 3f2a --at 12 --read notes.txt
  reprise files 3f2a --diff 12                  what has changed since step 12
  reprise files 3f2a --diff 12..20
"""

#: The session's own Python environment and what commands wrote, which Reprise keeps there.
OWN = ".reprise"

_SINCE = re.compile(r"(-?\d+)(?:\.\.(-?\d+))?")


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--at", type=int, metavar="N", help="as after step N, built beside")
    parser.add_argument("--read", metavar="PATH", help="write this file to stdout")
    parser.add_argument(
        "--diff",
        metavar="N|M..N",
        help="what changed since step N, or from step M to step N",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        help="the notebook's folder, where there is no isolation and it is not known",
    )
    parser.add_argument("--all", action="store_true", help=f"also what Reprise keeps in {OWN}/")
    parser.add_argument("--json", action="store_true", help="as JSON, with the files' SHA-256")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.read is not None and (args.diff is not None or args.json):
        raise UsageError("--read writes one file to stdout; it goes with --at only.")
    if args.at is not None and args.diff is not None:
        raise UsageError("--diff names its steps itself: --diff M..N.")
    return asyncio.run(_run(args, terminal))


async def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        if args.diff is not None:
            return await _diff(args, log, session, terminal)
        async with _workspace(args, log, session, args.at, terminal) as workspace:
            if args.read is not None:
                await _read(workspace, args.read)
                return 0
            manifest = await workspace.manifest(hashes=args.json)
    entries = [entry for entry in manifest.entries if args.all or not _own(entry)]
    if args.json:
        terminal.json(
            {
                "session": str(session),
                "workspace": workspace.origin,
                "at": args.at,
                "files": [entry_json(entry) for entry in entries],
            }
        )
        return 0
    terminal.table(
        ["size", "", "name"],
        [[_size(entry), f"{entry.mode:04o}", _name(entry)] for entry in entries],
    )
    files = [entry for entry in entries if entry.type == "file"]
    total = amount(sum(entry.size for entry in files))
    terminal.line(f"{len(files)} files, {total}, in the workspace {workspace.origin}")
    return 0


@contextlib.asynccontextmanager
async def _workspace(
    args: argparse.Namespace, log: Log, session: uuid.UUID, at: int | None, terminal: Terminal
) -> AsyncIterator[Workspace]:
    if at is None:
        async with opened_workspace(log, session, terminal) as live:
            yield live
    else:
        async with past(log, session, at, terminal, args.folder) as before:
            yield before


async def _read(workspace: Workspace, path: str) -> None:
    if not sys.stdout.isatty():
        await workspace.fetch(path, sys.stdout.buffer, ARTIFACT_BYTES)
        return
    sink = io.BytesIO()
    await workspace.fetch(path, sink, ARTIFACT_BYTES)
    # On a terminal, nothing in a file drives it.
    sys.stdout.write(printable(sink.getvalue().decode("utf-8", "backslashreplace")))


async def _diff(args: argparse.Namespace, log: Log, session: uuid.UUID, terminal: Terminal) -> int:
    since, until = _steps(args.diff)
    async with (
        past(log, session, since, terminal, args.folder) as before,
        _workspace(args, log, session, until, terminal) as after,
    ):
        found = await compared(before, after, own=None if args.all else OWN)
        names = [before.origin, after.origin]
    if args.json:
        terminal.json(
            {
                "session": str(session),
                "since": since,
                "until": until,
                "changes": [change_json(change) for change in found],
            }
        )
        return 0
    for change in found:
        _tell(change, terminal)
    count = "1 difference" if len(found) == 1 else f"{len(found)} differences"
    terminal.line(f"{count} between the workspace {names[0]} and {names[1]}")
    return 0


def _steps(text: str) -> tuple[int, int | None]:
    found = _SINCE.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} names no steps. Write --diff 12, or --diff 12..20.")
    return int(found[1]), None if found[2] is None else int(found[2])


def _tell(change: FileChange, terminal: Terminal) -> None:
    there = change.after or change.before
    slash = "/" if there is not None and there.type == "dir" else ""
    terminal.line(f"{_MARKS[change.kind]} {change.path}{slash}{_what(change)}")
    for line in (change.diff or "").splitlines():
        colour = _COLOURS.get(line[:1])
        # The file's own text must not pass for ours.
        plain = printable(line.replace("\x1b", "\\x1b"))
        terminal.line(f"    {terminal.paint(plain, colour) if colour else plain}")
    if change.cut:
        terminal.line("    … more lines differ")


_MARKS = {"added": "+", "removed": "-", "changed": "~"}
_COLOURS: dict[str, Colour] = {"+": "green", "-": "red"}


def _what(change: FileChange) -> str:
    """What there is to say of a change without its text."""
    old, new = change.before, change.after
    words = []
    if old is not None and new is not None:
        if old.type != new.type:
            words.append(f"{old.type} → {new.type}")
        if old.mode != new.mode:
            words.append(f"mode {old.mode:04o} → {new.mode:04o}")
        if old.target != new.target:
            words.append(f"link to {old.target} → {new.target}")
    if change.diff is None:
        words += [f"{_sum(old)} → {_sum(new)}"] if old and new and old.sha256 != new.sha256 else []
        only = new if old is None else old if new is None else None
        words += [_sum(only)] if only is not None and only.type == "file" else []
    return f"  ({'; '.join(words)})" if words else ""


def _sum(entry: Entry) -> str:
    return f"{amount(entry.size)}, sha256 {(entry.sha256 or 'unknown')[:12]}"


def _own(entry: Entry) -> bool:
    return entry.path.partition("/")[0] == OWN


def _size(entry: Entry) -> str:
    return amount(entry.size) if entry.type == "file" else ""


def _name(entry: Entry) -> str:
    if entry.type == "dir":
        return f"{entry.path}/"
    return f"{entry.path} → {entry.target}" if entry.type == "link" else entry.path
