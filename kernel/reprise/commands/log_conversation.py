"""`reprise log --conversation`: what was said and done in a session's conversations, to be read."""

from __future__ import annotations

import textwrap
import uuid

from reprise.commands.opened import LEAST_PREFIX, SHOWN_ID, when
from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.log.conversation import ConversationInfo
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise.log.transcript import Line, Who, transcript

_ALL = 10_000_000
_INDENT = " " * 10


async def conversation(
    log: Log, session: uuid.UUID, named: str, as_json: bool, check: bool, terminal: Terminal
) -> int:
    """Show one conversation of the session: the newest, or the one whose id begins as `named`."""
    known = Conversations(log)
    found = await known.list(session=session, most=1_000)
    if named:
        found = [info for info in found if _named(info, named)]
    if not found:
        which = f"whose id begins with {named!r}" if named else "of the agent's"
        raise UsageError(f"Session {session} has no conversation {which}.")
    if named and len(found) > 1:
        raise UsageError(f"{named!r} fits {len(found)} conversations of session {session}.")
    info = found[0]
    if check:
        return await _check(known, info, as_json, terminal)
    entries = await known.entries(info.id, most=_ALL)
    if as_json:
        terminal.json(
            {
                "conversation": str(info.id),
                "session": str(info.session),
                "notebook": info.notebook,
                "title": info.title,
                "entries": [entry.to_json() for entry in entries],
            }
        )
        return 0
    terminal.line(f"conversation {info.id}   session {info.session}   {info.notebook or ''}")
    if len(found) > 1:
        others = ", ".join(str(each.id)[:SHOWN_ID] for each in found[1:])
        terminal.line(terminal.paint(f"earlier ones: {others}", "dim"))
    for line in transcript(entries):
        _show(line, terminal)
    terminal.line(terminal.paint(f"as of {when(info.last_us)}", "dim"))
    return 0


async def _check(
    known: Conversations, info: ConversationInfo, as_json: bool, terminal: Terminal
) -> int:
    found = await known.check(info.id)
    if as_json:
        terminal.json(
            {"conversation": str(info.id), "entries": found.entries, "broken": found.broken}
        )
    elif found.broken is None:
        terminal.line(f"whole: {found.entries} entries match their digests")
    else:
        terminal.line(
            f"{terminal.paint('not whole', 'red')}: entry {found.broken} is not as it was recorded."
            f" The {found.broken} before it are."
        )
    return 0 if found.broken is None else 1


_WHO: dict[Who, str] = {"you": "you", "agent": "agent", "call": "", "question": "asked", "told": ""}


def _show(line: Line, terminal: Terminal) -> None:
    who = f"{line.turn:>3} {_WHO[line.who]:6}" if _WHO[line.who] else _INDENT
    mark = "> " if line.who == "call" else ""
    text = textwrap.indent(f"{mark}{line.text}", _INDENT)[len(_INDENT) :]
    if line.text:
        shown = terminal.paint(text, "red") if line.bad and line.who != "call" else text
        terminal.line(f"{who}{shown}")
    if line.detail:
        start = _INDENT + ("  " if line.who == "call" else "")
        terminal.line(terminal.paint(start + line.detail, "red" if line.bad else "dim"))


def _named(info: ConversationInfo, named: str) -> bool:
    return len(named) >= LEAST_PREFIX and str(info.id).startswith(named.lower())
