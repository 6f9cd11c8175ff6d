"""`reprise artifacts`: the files that were taken out of workspaces."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from reprise.client.results import Artifact
from reprise.commands.get import add_output, as_json, target_of, write_artifact
from reprise.commands.opened import LEAST_PREFIX, SHOWN_ID, find_session, opened_log, when
from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.log.as_json import artifact_json
from reprise.log.postgres import Log
from reprise.quantities import amount

EXAMPLES = """\
  reprise artifacts
  reprise artifacts 3f2a --json
  reprise artifacts --get 9c41d2aa -o results.csv
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        help="only those of this session (its id or the beginning of it, or its notebook)",
    )
    parser.add_argument("--get", metavar="ID", help="write this one (its id or the beginning)")
    add_output(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.get is None and (args.output is not None or args.force):
        raise UsageError("--output and --force belong to --get ID.")
    return asyncio.run(_run(args, terminal))


async def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    async with opened_log(terminal) as log:
        session = None if args.session is None else await find_session(log, args.session)
        taken = await log.artifacts(session)
        found = [Artifact(**vars(each)) for each in taken]
        if args.get is not None:
            return await _write(args, log, _named(found, args.get), terminal)
    if args.json:
        terminal.json({"artifacts": [artifact_json(each) for each in taken]})
        return 0
    if not found:
        terminal.line("No file was taken out yet. `reprise get SESSION PATH` takes one.")
        return 0
    terminal.table(
        ["artifact", "taken", "by", "size", "session", "step", "file"],
        [
            [
                str(each.id)[:SHOWN_ID],
                when(each.at or 0),
                "" if each.actor is None else each.actor.kind,
                amount(each.size),
                str(each.session)[:SHOWN_ID],
                str(each.seq),
                each.path,
            ]
            for each in found
        ],
    )
    return 0


async def _write(args: argparse.Namespace, log: Log, artifact: Artifact, terminal: Terminal) -> int:
    target = target_of(args.output, Path(artifact.path).name, args.force)
    await write_artifact(log, artifact, target)
    if args.json and target is not None:
        terminal.json({**as_json(artifact), "written": str(target)})
    elif target is not None:
        terminal.line(f"{target}: {amount(artifact.size)}, artifact {artifact.id}")
    return 0


def _named(artifacts: list[Artifact], named: str) -> Artifact:
    fits = [
        each
        for each in artifacts
        if len(named) >= LEAST_PREFIX and str(each.id).startswith(named.lower())
    ]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise UsageError(f"No artifact has the id {named!r}. `reprise artifacts` lists them.")
    raise UsageError(f"{named!r} fits {len(fits)} artifacts; give more of the id.")
