"""The agent at a terminal: one conversation, driven from there, its questions put there."""

from __future__ import annotations

import argparse
import asyncio
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from reprise.commands.opened import LEAST_PREFIX, find_session, first_line
from reprise.commands.terminal import Terminal, printable
from reprise.errors import UsageError
from reprise.log.conversation import ConversationInfo
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise.settings import home_path
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.configured import agent_settings
from reprise_server.agent.contract import Document
from reprise_server.agent.notebook.file import FileNotebook
from reprise_server.agent.prompting import NOBODY, Prompt
from reprise_server.agent.questions import NotWaiting
from reprise_server.agent.running import Running, Told
from reprise_server.agent.tools.place import Place
from reprise_server.agent.transcript import Transcript
from reprise_server.agent.undo import CannotUndo, Undone


class Desk:
    """One run of the command: the conversation, its places, and the terminal before it."""

    def __init__(self, args: argparse.Namespace, terminal: Terminal, *, typing: bool) -> None:
        self._args = args
        self._terminal = terminal
        self._typing = typing
        self._notebook: Path | None = None if args.notebook is None else args.notebook.absolute()
        given = {} if args.model is None else {"model": args.model}
        self._assembly = Assembly(agent_settings(**given), self._document, self._place)
        self._running = Running(self._connect, self._assembly)
        self._queue: SimpleQueue[Told] = SimpleQueue()
        self._transcript = Transcript(terminal)
        self._reached: Place | None = None

    async def _connect(self) -> Log:
        log = await Log.connect(progress=self._terminal.status)
        self._terminal.status("")
        return log

    async def _document(self, path: str) -> Document:
        return FileNotebook(Path(path), home_path(), path=Path(path).name)

    def _place(self, log: Log, session: uuid.UUID, path: str | None) -> Place:
        """The session's kernel; the one that was reached to know the session is taken over."""
        reached, self._reached = self._reached, None
        if reached is not None and reached.session == session:
            return reached
        return Place(log, session, notebook=None if path is None else Path(path))

    def close(self) -> None:
        async def close() -> None:
            if self._reached is not None:
                await self._reached.close()

        try:
            self._running.do(close())
        finally:
            asyncio.run(self._running.close())

    # which conversation -------------------------------------------------------------------------

    async def _known(self) -> ConversationInfo | None:
        """The conversation that was named, or the latest one there."""
        log, args = await self._running.log(), self._args
        known = Conversations(log)
        if args.conversation is not None:
            found = [i for i in await known.list(most=10_000) if _begins(i.id, args.conversation)]
            if len(found) != 1:
                raise UsageError(
                    f"{args.conversation!r} is the beginning of {len(found)} conversations' ids."
                    " `reprise log --conversation` lists them."
                )
            return found[0]
        if self._notebook is None and args.session is None:
            raise UsageError("Name where it was: --notebook, --session or --conversation.")
        named = args.session or str(self._notebook)
        session = await find_session(log, named)
        return next(iter(await known.list(session=session, most=1)), None)

    async def _begun(self, task: str) -> uuid.UUID:
        log, args = await self._running.log(), self._args
        if args.session is not None:
            session = await find_session(log, args.session)
        else:
            # Whether there is a model to ask, before a kernel is started for it.
            await self._assembly.beginning(log, args.model)
            self._terminal.status("starting a kernel …")
            self._reached = Place(log, notebook=self._notebook)
            session = (await self._reached.kernel()).session
            self._terminal.status("")
        return await self._running.begin(
            session,
            notebook=None if self._notebook is None else str(self._notebook),
            title=first_line(task),
            model=args.model,
            by=log.owner,
        )

    async def _found(self) -> uuid.UUID:
        known = await self._known()
        if known is None:
            raise UsageError("There is no conversation yet; give it a task.")
        return known.id

    # turns --------------------------------------------------------------------------------------

    def work(self) -> int:
        args, task = self._args, self._args.task
        conversation: uuid.UUID | None = None
        if args.go_on or args.conversation is not None:
            conversation = self._running.do(self._found())
            self._follow(conversation)
        if args.go_on and task is None:
            assert conversation is not None  # noqa: S101  found above
            return self._turn(conversation, None)
        code = 0
        while task is not None or self._typing:
            words = task if task is not None else self._typed()
            if words is None:
                return code
            if words.strip():
                if conversation is None:
                    conversation = self._running.do(self._begun(words))
                    self._follow(conversation)
                code = self._turn(conversation, words)
            if task is not None:
                return code
        return code

    def _typed(self) -> str | None:
        """The next task; None when there is none any more."""
        try:
            return input("\n> ")
        except EOFError:
            return None

    def _follow(self, conversation: uuid.UUID) -> None:
        async def follow() -> None:
            info = await Conversations(await self._running.log()).info(conversation)
            # The past is in `reprise log --conversation`; here stands what happens from now on.
            await self._running.watch(conversation, self._queue.put, info.entries - 1)

        if not self._args.json:
            self._terminal.progress(f"conversation {conversation}")
        self._running.do(follow())

    def _turn(self, conversation: uuid.UUID, words: str | None) -> int:
        """One turn to its end. Ctrl-C stops it; a second one leaves."""
        running = self._running
        stopped = False
        try:
            running.do(
                running.go_on(conversation) if words is None else running.say(conversation, words)
            )
            while True:
                try:
                    told = self._queue.get()
                    if told["type"] == "ended":
                        break
                    self._told(conversation, told)
                except KeyboardInterrupt:
                    if stopped:
                        raise
                    stopped = True
                    running.do(running.cancel(conversation))
        except KeyboardInterrupt:
            running.do(running.cancel(conversation))
            raise
        if stopped:
            return 130
        return 0 if told["status"] == "done" else 1

    def _told(self, conversation: uuid.UUID, told: Told) -> None:
        if self._args.json:
            self._terminal.piece(json.dumps({"conversation": str(conversation), **told}) + "\n")
            self._terminal.out.flush()
        else:
            self._transcript.told(told)
        kind = told["entry"]["kind"] if told["type"] == "entry" else None
        if kind == "question":
            self._ask(conversation, told["entry"]["body"])
        elif kind == "continued":
            for question in self._running.do(self._waiting(conversation)):
                self._ask(conversation, question)

    async def _waiting(self, conversation: uuid.UUID) -> list[Mapping[str, Any]]:
        return await self._running.asked(conversation)

    def _ask(self, conversation: uuid.UUID, question: Mapping[str, Any]) -> None:
        running = self._running
        try:
            if not self._typing:
                running.do(running.refuse(conversation, question["id"], NOBODY))
                return
            answer = Prompt(self._terminal).ask(question)
            if answer.decision is not None:
                running.do(
                    running.decide(
                        conversation,
                        question["id"],
                        answer.decision,
                        how="terminal",
                        reason=answer.reason,
                    )
                )
        except NotWaiting as error:
            self._terminal.warn(str(error))

    # undo ---------------------------------------------------------------------------------------

    def undo(self) -> int:
        conversation = self._running.do(self._found())
        try:
            done = self._running.do(self._running.undo(conversation, fork=self._args.fork))
        except CannotUndo as error:
            more = " `--undo --fork` does it." if error.steps else ""
            raise CannotUndo(f"{error}{more}", error.steps) from error
        if self._args.json:
            self._terminal.json({"conversation": str(conversation), **done.to_json()})
        else:
            _tell_undone(done, self._terminal)
        return 0


def _tell_undone(done: Undone, terminal: Terminal) -> None:
    where = "before the first step" if done.at < 0 else f"as after step {done.at}"
    terminal.line(f"Turn {done.turn} is undone: session {done.session} stands {where}.")
    if done.cells:
        terminal.line(f"Cells put back: {', '.join(done.cells)}")
    if done.kept:
        terminal.line(f"Edited since, so left as they are: {', '.join(done.kept)}")
    if done.notebook is not None:
        terminal.warn(done.notebook)
    for each in done.outside:
        terminal.line(f"Not undone: {printable(each)}")


def _begins(conversation: uuid.UUID, named: str) -> bool:
    return len(named) >= LEAST_PREFIX and str(conversation).startswith(named.lower())
