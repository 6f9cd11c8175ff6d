"""`reprise files`: what lies in a session's workspace."""

from __future__ import annotations

import argparse
import asyncio

from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.commands.workspaces import opened_workspace
from reprise.quantities import amount
from reprise.workspace.manifest import Entry

EXAMPLES = """\
  reprise files 3f2a
  reprise files analysis.ipynb --json | jq -r '.files[].path'
"""

#: The session's own Python environment, which the guest makes in each workspace.
OWN = ".reprise"


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--all", action="store_true", help=f"also what Reprise keeps in {OWN}/")
    parser.add_argument("--json", action="store_true", help="as JSON, with the files' SHA-256")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    return asyncio.run(_run(args, terminal))


async def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        async with opened_workspace(log, session, terminal) as workspace:
            manifest = await workspace.manifest(hashes=args.json)
    entries = [entry for entry in manifest.entries if args.all or not _own(entry)]
    if args.json:
        terminal.json(
            {
                "session": str(session),
                "workspace": workspace.origin,
                "files": [_as_json(entry) for entry in entries],
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


def _own(entry: Entry) -> bool:
    return entry.path.partition("/")[0] == OWN


def _as_json(entry: Entry) -> dict[str, object]:
    return {
        "path": entry.path,
        "type": entry.type,
        "mode": entry.mode,
        "size": entry.size if entry.type == "file" else None,
        "sha256": entry.sha256,
        "target": entry.target,
    }


def _size(entry: Entry) -> str:
    return amount(entry.size) if entry.type == "file" else ""


def _name(entry: Entry) -> str:
    if entry.type == "dir":
        return f"{entry.path}/"
    return f"{entry.path} → {entry.target}" if entry.type == "link" else entry.path
