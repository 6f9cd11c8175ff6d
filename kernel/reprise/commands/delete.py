"""`reprise delete`: takes a whole session out of the log, for good, and says what hangs on it."""

from __future__ import annotations

import argparse
import asyncio
import sys

from reprise.commands.opened import add_session, find_session, opened_log, when
from reprise.commands.terminal import Terminal
from reprise.errors import LeaseHeld, SessionNeeded, UsageError
from reprise.log.as_json import dependents_json
from reprise.log.deletion import Dependents
from reprise.log.store import SessionInfo
from reprise.sandbox.chosen import forget

EXAMPLES = """\
  reprise delete 3f2a                 says what goes, and asks
  reprise delete 3f2a --yes           does not ask
  reprise delete 3f2a --with-forks    the forks that need its steps as well, all or none
  reprise delete 3f2a --json          only says what would go, and changes nothing
  reprise gc                          later: free the space its files took
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--with-forks", action="store_true", help="also delete the forks that need its steps"
    )
    parser.add_argument(
        "--json", action="store_true", help="as JSON; without --yes nothing is deleted"
    )


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    return asyncio.run(_run(args, terminal))


async def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    async with opened_log(terminal) as log:
        session = await find_session(log, args.session)
        found = await log.dependents(session)
        if args.json and not args.yes:
            terminal.json(dependents_json(found, deleted=[]))
            return 0
        if not args.json:
            _tell(found, terminal)
        _refuse(found, args.with_forks)
        if not args.yes and not _agreed():
            terminal.line("Nothing was deleted.")
            return 1
        deleted = await log.delete(session, with_forks=args.with_forks)
        for each in deleted:
            forget(each)
        if args.json:
            terminal.json(dependents_json(found, deleted))
        else:
            more = f" and {len(deleted) - 1} forks are" if len(deleted) > 1 else " is"
            terminal.line(
                f"Session {session}{more} deleted. `reprise gc` frees what its files took."
            )
    return 0


def _refuse(found: Dependents, with_forks: bool) -> None:
    """What a deletion would run into, said before anybody is asked anything."""
    session = found.session.id
    if found.forks and not with_forks:
        listed = "\n".join(f"  {fork.id}  {fork.notebook or ''}".rstrip() for fork in found.forks)
        raise SessionNeeded(
            f"Session {session} waits while forks need its steps; nothing was deleted. Delete"
            f" these first, or give --with-forks:\n{listed}"
        )
    held = found.held if with_forks else [each for each in found.held if each.id == session]
    if held:
        listed = "\n".join(f"  {each.id}  {_who(each)}" for each in held)
        raise LeaseHeld(
            f"A kernel writes what is to be deleted; nothing was deleted. Shut it down first:"
            f"\n{listed}"
        )


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "A deletion is for good, so it asks on a terminal, and this is none. Nothing was"
            " deleted. Give --yes to delete without being asked."
        )
    sys.stderr.write("Delete it for good? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _tell(found: Dependents, terminal: Terminal) -> None:
    info = found.session
    terminal.line(f"session {info.id}   kernel {info.kernel}   {info.notebook or ''}".rstrip())
    terminal.line(f"  {found.steps} steps of its own, last used {when(info.last_at)}")
    if found.artifacts:
        terminal.line(f"  {found.artifacts} artifacts taken out of it go with it")
    if found.conversations:
        terminal.line(f"  {found.conversations} conversations with the agent go with it")
    for fork in found.forks:
        terminal.line(f"  needed by fork {fork.id} ({fork.steps} steps)")
    for key in found.keys:
        kind, _, name = key.partition(":")
        terminal.line(f"  {kind} {name.partition(':')[2] or name} leads to it")


def _who(info: SessionInfo) -> str:
    return ", ".join(f"{name} {value}" for name, value in (info.holder or {}).items())
