"""Undoing a turn: session and notebook go back to before it, over nobody else's work.

What cannot be undone is named: what went out of the sandbox, and cells that were edited since. The
session that is left stays as it is; where steps of somebody else followed the turn's first one,
nothing is undone, and a fork without them is offered.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise.client import aconnect
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.errors import RepriseError
from reprise.log.model import Actor, Json
from reprise.log.postgres import Log
from reprise.sandbox.chosen import inherit
from reprise_server.agent import course
from reprise_server.agent.contract import Document, Edit, Entry
from reprise_server.agent.conversation import Conversation
from reprise_server.agent.notebook.batch import edits_of
from reprise_server.agent.notebook.restoring import put_back_in
from reprise_server.agent.notebook.undoing import PutBack
from reprise_server.agent.tools.outside import Traffic

OpenDocument = Callable[[str], Awaitable[Document]]

#: Ids of forks that undos make: an undo that was cut goes on with the fork that it had made.
_FORKS: Final = uuid.UUID("1f2c2b6e-5b0f-4a55-9c53-0d9d6a6f3a11")
#: Ends of calls whose result says less than what they may have done.
UNKNOWN: Final = ("lost", "cancelled", "error")
#: Tools whose input says what they do to cells.
EDITING: Final = frozenset({"edit_notebook", "run_cells"})
#: Things outside that are named one by one.
_MOST: Final = 100


class CannotUndo(RepriseError):
    """Nothing was undone; says why. `steps`: those of somebody else that are in the way, where a
    fork would leave them out."""

    def __init__(self, message: str, steps: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.steps = tuple(steps)


@dataclass(frozen=True)
class Undone:
    """What an undo did. session: where the conversation is now, as after step `at` of the one
    before (-1: before its first one).  cells: put back.  kept: edited since, so left as they are.
    outside: what was not undone.  notebook: why it was not put back, if so."""

    turn: int
    session: uuid.UUID
    at: int
    cells: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    notebook: str | None = None

    def to_json(self) -> dict[str, Json]:
        found: dict[str, Json] = {
            "turn": self.turn,
            "session": str(self.session),
            "at": self.at,
            "cells": list(self.cells),
            "kept": list(self.kept),
            "outside": list(self.outside),
        }
        if self.notebook is not None:
            found["notebook"] = self.notebook
        return found


async def undo(
    conversation: Conversation,
    log: Log,
    open_document: OpenDocument | None,
    *,
    fork: bool = False,
    by: str | None = None,
) -> Undone:
    """Undo the newest turn that is not undone. No model is needed.

    fork: go on without the steps of others that followed; they stay in the session that is left.
    Raises TurnRuns, CannotUndo, LeaseHeld, UnavailableError. Cut at any point, it can be asked for
    again: what was done is found done.
    """
    async with conversation.writing() as writer:
        entries = writer.entries
        way = await _way(log, entries, str(writer.id))
        turn, left, wanted, at, steps = way.turn, way.left, way.wanted, way.at, way.steps
        if way.others and not fork:
            listed = ", ".join(map(str, way.others[:10]))
            listed += " and more" if len(way.others) > 10 else ""
            raise CannotUndo(
                f"Steps of others followed the first one of turn {turn}: {listed}. Going back would"
                " take them out of this notebook, so nothing was undone. Ask for a fork to go on"
                " without them; they stay in the session that is left.",
                way.others,
            )
        if steps:
            await log.fork(left, at, identity=wanted)
            inherit(left, wanted)
        session = uuid.UUID(course.session_of(entries))
        if session != wanted:
            await conversation.append(writer, "session", {"session": str(wanted), "why": "undo"})
        leads = _left_last(left, way.since, wanted)
        if leads != wanted:
            await _lead(log, leads, wanted)
        path = entries[0].body.get("notebook")
        put, why = await _put_back(open_document, path, way.of_turn, writer.blobs.get)
        done = Undone(turn, wanted, at, put.cells, put.kept, way.outside, why)
        await conversation.append(writer, "undone", {**done.to_json(), "by": by})
    await conversation.rest()
    return done


@dataclass(frozen=True)
class Foreseen:
    """What an undo would do now; see `Undone`. others: steps of somebody else that are in the way,
    so that it takes a fork."""

    turn: int
    at: int
    cells: tuple[str, ...]
    kept: tuple[str, ...]
    outside: tuple[str, ...]
    others: tuple[int, ...]
    notebook: str | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "turn": self.turn,
            "at": self.at,
            "cells": list(self.cells),
            "kept": list(self.kept),
            "outside": list(self.outside),
            "others": list(self.others),
            "notebook": self.notebook,
        }


async def foresee(
    log: Log,
    conversation: str,
    entries: Sequence[Entry],
    open_document: OpenDocument | None,
) -> Foreseen:
    """What `undo` would do, doing none of it. Raises CannotUndo where there is nothing to undo."""
    way = await _way(log, entries, conversation)
    path = entries[0].body.get("notebook")
    put, why = await _put_back(open_document, path, way.of_turn, log.blobs.get, doing=False)
    return Foreseen(way.turn, way.at, put.cells, put.kept, way.outside, tuple(way.others), why)


@dataclass(frozen=True)
class _Way:
    """The way back before a turn. since: the entries from its beginning on; of_turn: its own.

    left: the session it began in.  wanted: where to go, as after step `at` of that one.
    steps: the turn's.  others: of somebody else, which would be left out.
    """

    turn: int
    since: Sequence[Entry]
    of_turn: Sequence[Entry]
    left: uuid.UUID
    wanted: uuid.UUID
    at: int
    steps: Sequence[int]
    others: Sequence[int]
    outside: tuple[str, ...]


async def _way(log: Log, entries: Sequence[Entry], conversation: str) -> _Way:
    turn = latest(entries)
    if turn is None:
        raise CannotUndo("There is no turn that could be undone.")
    since = since_turn(entries, turn)
    of_turn = [entry for entry in since if entry.turn == turn]
    left = before(entries, turn)
    steps = await _steps_of(log, left, Actor("agent", conversation, turn))
    wanted, at = left, await _last(log, left)
    if steps:
        # As it was before the turn: a fork, whose id an undo that was cut finds again.
        wanted, at = uuid.uuid5(_FORKS, f"{conversation} {turn} {steps[0]}"), steps[0] - 1
    others = await _others(log, [left, *sessions(since)], wanted, conversation, at)
    outside = await _outside(log, of_turn, left, steps)
    return _Way(turn, since, of_turn, left, wanted, at, steps, others, outside)


# Pure ---------------------------------------------------------------------------------------------


def latest(entries: Iterable[Entry]) -> int | None:
    """The newest turn that is not undone."""
    undone = course.undone_turns(entries)
    turns = [entry.turn for entry in entries if entry.kind == "said"]
    return next((turn for turn in reversed(turns) if turn not in undone), None)


def before(entries: Iterable[Entry], turn: int) -> uuid.UUID:
    """The session that the conversation was in when a turn began."""
    session = ""
    for entry in entries:
        if entry.kind == "said" and entry.turn == turn:
            break
        if entry.kind == "session":
            session = str(entry.body["session"])
    return uuid.UUID(session)


def since_turn(entries: Sequence[Entry], turn: int) -> Sequence[Entry]:
    """The entries from the beginning of a turn on."""
    first = next(n for n, e in enumerate(entries) if e.kind == "said" and e.turn == turn)
    return entries[first:]


def sessions(entries: Iterable[Entry]) -> list[uuid.UUID]:
    """Those that the conversation went on to."""
    return [uuid.UUID(entry.body["session"]) for entry in entries if entry.kind == "session"]


def _left_last(left: uuid.UUID, since: Iterable[Entry], wanted: uuid.UUID) -> uuid.UUID:
    """The session that the kernel is in yet, where an undo was cut that had said where it goes."""
    went = [left, *sessions(since)]
    while len(went) > 1 and went[-1] == wanted:
        went.pop()
    return went[-1]


def edits(of_turn: Iterable[Entry]) -> list[Edit]:
    """What a turn's calls did to cells, in their order; those of a lost call as it may have."""
    found: list[Edit] = []
    acts: dict[str, Any] = {}
    running: dict[str, None] = {}
    for entry in of_turn:
        if entry.kind == "called":
            acts[str(entry.body["id"])] = entry.body.get("act")
        elif entry.kind == "running":
            running[str(entry.body["id"])] = None
        elif entry.kind == "result":
            told = [Edit.of(each) for each in entry.body["edits"]]
            name = str(entry.body["id"])
            if not told and name in running and entry.body["status"] in UNKNOWN:
                told = _perhaps(acts.get(name))
            running.pop(name, None)
            found += told
    for name in running:
        found += _perhaps(acts.get(name))
    return found


def _perhaps(act: Any) -> list[Edit]:
    """What a call whose end nobody saw may have done to cells."""
    return list(edits_of(act["input"])) if act and act["tool"] in EDITING else []


# The session --------------------------------------------------------------------------------------


async def _steps_of(log: Log, session: uuid.UUID, who: Actor) -> list[int]:
    """A turn's steps in a session."""
    records = (await log.reader(session)).records(outputs=False)
    return [record.step.seq async for record in records if record.step.new.actor == who]


async def _last(log: Log, session: uuid.UUID) -> int:
    return (await (await log.reader(session)).info()).steps - 1


async def _others(
    log: Log, visited: Sequence[uuid.UUID], wanted: uuid.UUID, conversation: str, at: int
) -> list[int]:
    """Steps that are neither this conversation's nor the system's, which would be left: after step
    `at` of the first session, and in those that it went on to.

    What the system brought in (changed files) comes in again by itself.
    """
    found: list[int] = []
    for number, session in enumerate(dict.fromkeys(visited)):
        if session == wanted and number > 0:
            continue  # where it goes back to
        reader = await log.reader(session)
        forked = (await reader.info()).fork_seq
        start = at + 1 if number == 0 else 0 if forked is None else forked + 1
        async for record in reader.records(start, outputs=False):
            actor = record.step.new.actor
            ours = actor.kind == "agent" and actor.conversation == conversation
            if not ours and actor.kind != "system":
                found.append(record.step.seq)
    return found


async def _lead(log: Log, session: uuid.UUID, to: uuid.UUID) -> None:
    """Let what leads to a session (its kernel, its notebook) lead to another one."""
    info = await (await log.reader(session)).info()
    connection = running_kernel(info)
    if info.holder is not None and connection is None:
        raise held_elsewhere(info)
    if connection is not None:
        async with await aconnect(connection_file=connection, start=False) as kernel:
            await kernel.attach(to, interrupt=True)
    await log.rebind(session, to)


async def _outside(
    log: Log, of_turn: Sequence[Entry], left: uuid.UUID, steps: Sequence[int]
) -> tuple[str, ...]:
    """What a turn did beyond its sessions, a line each: as its results say, and of its steps as
    the record of the network says, whoever saw their end."""
    found: dict[str, None] = {}
    called: dict[str, str] = {}
    for entry in of_turn:
        if entry.kind == "called" and (entry.body.get("act") or {}).get("effect") == "outside":
            called[str(entry.body["id"])] = str(entry.body["act"]["tool"])
        elif entry.kind == "result":
            found.update(dict.fromkeys(map(str, entry.body["outside"])))
            called.pop(str(entry.body["id"]), None)
    running = {str(entry.body["id"]) for entry in of_turn if entry.kind == "running"}
    for name, tool in called.items():
        if name in running:
            found[f"{tool} may have been called"] = None
    reader = await log.reader(left)
    for seq in steps:
        found.update(dict.fromkeys((await Traffic.of(reader, seq)).lines(seq)))
    return tuple(found)[:_MOST]


# The notebook -------------------------------------------------------------------------------------


async def _put_back(
    open_document: OpenDocument | None,
    path: str | None,
    of_turn: Sequence[Entry],
    blob: Callable[[str], Awaitable[bytes]],
    *,
    doing: bool = True,
) -> tuple[PutBack, str | None]:
    """What of the notebook was put back (or would be, unless `doing`), and why not, if so."""
    nothing = PutBack((), ())
    made = edits(of_turn)
    if not made:
        return nothing, None
    stored = next((entry.body for entry in of_turn if entry.kind == "notebook"), None)
    if stored is None:
        return nothing, "The notebook as it was before the turn was not stored."
    if open_document is None or path is None:
        return nothing, f"The notebook {stored['path']} cannot be reached from here."
    try:
        document = await open_document(path)
        try:
            stored_then = await blob(stored["sha256"])
            return await put_back_in(document, stored_then, made, doing=doing), None
        finally:
            await document.close()
    except RepriseError as error:
        return nothing, f"The notebook was not put back: {error}"
