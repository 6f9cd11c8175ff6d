"""`reprise get`: takes a file out of a workspace: stored as an artifact, and written here."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import uuid
from pathlib import Path

from reprise.client.kernel import AsyncKernel
from reprise.client.results import Artifact
from reprise.commands.opened import add_session, find_session, opened_log
from reprise.commands.terminal import Terminal
from reprise.commands.workspaces import kernel_or_past
from reprise.errors import UsageError
from reprise.log.postgres import Log
from reprise.quantities import amount
from reprise.workspace.replaced import replacing

EXAMPLES = """\
  reprise get 3f2a results.csv
  reprise get analysis.ipynb plots/fit.png -o fit.png
  reprise get 3f2a results.csv -o - | head
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("path", metavar="PATH", help="as `reprise files` shows it")
    add_output(parser)
    parser.add_argument("--json", action="store_true", help="the artifact as JSON")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Where a file is written."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to (default: its name, in the current folder; - for stdout)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def target_of(output: str | None, name: str, force: bool) -> Path | None:
    """Where to write a file called `name`; None for stdout. Raises UsageError."""
    if output == "-":
        return None
    target = Path(output or name)
    if target.is_dir():
        target /= name
    if os.path.lexists(target) and not force:
        raise UsageError(f"{target} is there already. Name another file, or use --force.")
    if not target.parent.is_dir():
        raise UsageError(f"There is no folder {target.parent} to write {target.name} into.")
    return target


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.json and args.output == "-":
        raise UsageError("Only one thing can go to stdout: the file, or --json.")
    target = target_of(args.output, Path(args.path).name, args.force)
    artifact, origin = asyncio.run(_get(args, target, terminal))
    if args.json:
        terminal.json({**as_json(artifact), "written": None if target is None else str(target)})
    elif target is not None:
        terminal.line(f"{target}: {amount(artifact.size)}, from the workspace {origin}")
        terminal.line(f"artifact {artifact.id}")
    return 0


async def _get(
    args: argparse.Namespace, target: Path | None, terminal: Terminal
) -> tuple[Artifact, str]:
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        async with kernel_or_past(log, session, terminal) as found:
            if isinstance(found, AsyncKernel):
                origin = found.workspace.origin
                identity = (await found.get(args.path)).id
            else:
                origin = found.origin
                identity = (await found.keep(log, await log.reader(session), args.path)).id
        artifact = await _artifact(log, session, identity)
        # The very bytes that were stored, whatever has become of the file since.
        await write_artifact(log, artifact, target)
    return artifact, origin


async def _artifact(log: Log, session: uuid.UUID, identity: uuid.UUID) -> Artifact:
    found = next(each for each in await log.artifacts(session) if each.id == identity)
    return Artifact(**vars(found))


async def write_artifact(log: Log, artifact: Artifact, target: Path | None) -> None:
    """Write an artifact's bytes to a file, or to stdout."""
    data = await (await log.reader(artifact.session)).blobs.get(artifact.sha256)
    if target is None:
        sys.stdout.buffer.write(data)
        return
    # Of the workspace's names only the one that the caller typed is used.
    with replacing(target) as file:
        file.write(data)


def as_json(artifact: Artifact) -> dict[str, object]:
    return {
        "artifact": str(artifact.id),
        "session": str(artifact.session),
        "seq": artifact.seq,
        "path": artifact.path,
        "sha256": artifact.sha256,
        "size": artifact.size,
        "mode": artifact.mode,
        "actor": None if artifact.actor is None else artifact.actor.to_json(),
        "at": artifact.at,
    }
