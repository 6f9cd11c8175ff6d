"""Opens the log for a command, and finds the session that a person named."""

from __future__ import annotations

import argparse
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from reprise.commands.terminal import Terminal
from reprise.errors import SessionNotFound, UsageError
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo

#: So many characters of an id are shown where a person chooses among sessions; a prefix that is
#: shorter than the least is a typing mistake rather than a choice.
SHOWN_ID = 8
LEAST_PREFIX = 4


@asynccontextmanager
async def opened_log(terminal: Terminal) -> AsyncIterator[Log]:
    """The log of whoever runs the command; starts the embedded server when that is needed."""
    log = await Log.connect(progress=terminal.status)
    terminal.status("")
    try:
        yield log
    finally:
        await log.close()


def add_session(parser: argparse.ArgumentParser) -> None:
    """The SESSION argument."""
    parser.add_argument(
        "session",
        metavar="SESSION",
        help="its id or the beginning of it, or the path of its notebook (`reprise sessions`)",
    )


async def find_session(log: Log, named: str) -> uuid.UUID:
    """The session whose id, beginning of an id, or notebook is `named`.

    Raises SessionNotFound, and UsageError when more than one fits.
    """
    try:
        # Not every form that uuid.UUID reads: 32 digits in braces are nobody's id of a session.
        whole = uuid.UUID(named) if len(named) == len(str(uuid.UUID(int=0))) else None
    except ValueError:
        whole = None
    if whole is not None:
        return (await log.reader(whole)).session
    sessions = await log.sessions()
    found = [info for info in sessions if _fits(info, named)]
    if len({info.notebook for info in found}) == 1 and not _by_id(found, named):
        found = await _attached(log, found)
    if not found:
        raise SessionNotFound(
            f"No session of {log.owner} has the id or the notebook {named!r}. "
            "`reprise sessions` lists them all."
        )
    if len(found) > 1:
        listed = "\n".join(
            f"  {info.id}  {when(info.last_at)}  {info.notebook or ''}" for info in found[:10]
        )
        raise UsageError(f"{named!r} fits {len(found)} sessions; name one by its id:\n{listed}")
    return found[0].id


async def _attached(log: Log, found: list[SessionInfo]) -> list[SessionInfo]:
    """Of a notebook's session and its forks the one that the notebook leads to.

    A fork carries the notebook's name, but is named by its id until the notebook goes over to it.
    """
    leading = await log.bound()
    for few in (
        [info for info in found if info.id in leading],
        [info for info in found if info.parent is None],
    ):
        if len(few) == 1:
            return few
    return found


def _by_id(found: list[SessionInfo], named: str) -> bool:
    return any(info.notebook is None or str(info.id).startswith(named.lower()) for info in found)


def _fits(info: SessionInfo, named: str) -> bool:
    if len(named) >= LEAST_PREFIX and str(info.id).startswith(named.lower()):
        return True
    return info.notebook is not None and (
        info.notebook == named or info.notebook.rpartition("/")[2] == named
    )


def when(at_us: int) -> str:
    """A moment in local time, for people."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


def took(duration_us: int) -> str:
    """A duration for people."""
    amount = duration_us / 1e6
    if amount < 1:
        return f"{amount * 1000:.0f} ms"
    if amount < 100:
        return f"{amount:.1f} s"
    minutes, rest = divmod(round(amount), 60)
    return f"{minutes} min {rest:02} s"


def first_line(code: str) -> str:
    """What a cell says in its first line, for a list of cells."""
    lines = [line for line in code.splitlines() if line.strip()]
    if not lines:
        return "(empty)"
    more = f"  (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    return lines[0].strip()[:100] + more
