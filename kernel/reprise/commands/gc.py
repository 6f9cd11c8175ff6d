"""`reprise gc`: deletes what is kept for nobody: bytes without a name, trees that nobody
mounts, environments that nobody names."""

from __future__ import annotations

import argparse
import asyncio

from reprise.commands.env_sessions import sessions_of_environments
from reprise.commands.opened import opened_log
from reprise.commands.terminal import Terminal
from reprise.environments.collect import collect as collect_built
from reprise.environments.collect import named_digests
from reprise.log.collection import GRACE_S, Collected
from reprise.quantities import amount, parse_seconds
from reprise.sandbox.built import built_home
from reprise.sandbox.kept_trees import CollectedTrees
from reprise.sandbox.kept_trees import collect as collect_trees
from reprise.settings import home

EXAMPLES = """\
  reprise gc --dry-run      how much would go
  reprise gc                what has been without a name for a day
  reprise gc --grace 1h     the least grace: what kernels are about to name is left alone
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace",
        metavar="TIME",
        help="leave alone what was stored, asked for or mounted within this time, such as 2h "
        "(default: a day; an hour at least)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    grace_s = GRACE_S if args.grace is None else parse_seconds(args.grace)
    found = asyncio.run(_collect(grace_s, args.dry_run, terminal))
    trees = collect_trees(home() / "mounts", grace_s=grace_s, dry_run=args.dry_run)
    # What an environment or a session's head names stays.
    keep = named_digests() | sessions_of_environments(terminal).built.keys()
    built = collect_built(built_home(), keep, grace_s=grace_s, dry_run=args.dry_run)
    if args.json:
        terminal.json({**vars(found), "mounts": vars(trees), "environments": vars(built)})
        return 0
    verb = "would go" if found.dry_run else "are gone"
    left = f", and {found.files} files left by writers that died" if found.files else ""
    terminal.line(f"{found.blobs} blobs that nothing names{left} {verb}: {amount(found.bytes)}.")
    if trees.trees or trees.left:
        terminal.line(_told(trees, verb))
    if built.built or built.left:
        left = f", and {built.left} that were left half built" if built.left else ""
        terminal.line(
            f"{built.built} built environments that no environment and no session names{left} "
            f"{verb}: {amount(built.bytes)}."
        )
    return 0


def _told(trees: CollectedTrees, verb: str) -> str:
    left = f", and {trees.left} that a process that died left half made" if trees.left else ""
    return f"{trees.trees} kept trees that nobody mounts{left} {verb}: {amount(trees.bytes)}."


async def _collect(grace_s: float, dry_run: bool, terminal: Terminal) -> Collected:
    async with opened_log(terminal) as log:
        terminal.status("looking for what nothing names …")
        found = await log.collect(grace_s=grace_s, dry_run=dry_run)
        terminal.status("")
        return found
