"""All conversations that this process runs, on one event loop in a thread of its own.

What drives them (a server's websocket, a terminal) may be on any loop or on none: methods are
awaited there, and what is told comes there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from reprise.client.portal import serve
from reprise.errors import UnavailableError
from reprise.log.conversations import Conversations
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise_server.agent import course
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.contract import Entry, TurnEnd
from reprise_server.agent.conversation import Conversation
from reprise_server.agent.parts import Around
from reprise_server.agent.questions import NotWaiting, Questions
from reprise_server.agent.undo import Foreseen, Undone, foresee, undo
from reprise_server.agent.watching import MOST_WAITING, Ordered, Told, Waiting, Watch

logger = logging.getLogger("reprise.agent")

T = TypeVar("T")

#: Seconds that what a conversation works with stays open after its turn.
LINGER_S: Final = 600.0
#: Rounds of the loop after which a question whose entry was told waits at the latest.
SOON: Final = 100
#: Entries of one conversation that are looked at, at most.
_ALL: Final = 50_000
#: Entries that are read at once for a watcher.
_PAGE: Final = 1000


@dataclass
class _Live:
    conversation: Conversation
    questions: Questions
    watches: list[Watch] = field(default_factory=list)
    timer: asyncio.TimerHandle | None = None


class Running:
    """Open from its making until `close`.

    connect: opens the log, on the loop here.  assembly: opens what a conversation works with.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Log]],
        assembly: Assembly,
        *,
        linger_s: float = LINGER_S,
    ) -> None:
        self._connect = connect
        self._assembly = assembly
        self._linger_s = linger_s
        self._log: Log | None = None
        self._opening = asyncio.Lock()
        self._live: dict[uuid.UUID, _Live] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=serve, args=(self._loop,), name="reprise-agent", daemon=True
        )
        self._thread.start()

    # what is asked from outside -----------------------------------------------------------------

    async def begin(
        self,
        session: uuid.UUID,
        *,
        notebook: str | None = None,
        title: str = "",
        model: str | None = None,
        by: str | None = None,
    ) -> uuid.UUID:
        """Begin a conversation in a session; `say` begins its first turn.

        Raises SessionNotFound, UsageError (a model that may not be asked), DatabaseUnavailable.
        """
        return await self._there(self._begin(session, notebook, title, model, by))

    async def say(
        self,
        conversation: uuid.UUID,
        text: str,
        *,
        by: str | None = None,
        brought: Sequence[Mapping[str, Json]] = (),
    ) -> int:
        """Begin a turn with a person's words; its number, once they are recorded. brought: as
        `Conversation.say` has it.

        Raises TurnRuns, LeaseHeld, ConversationNotFound, UsageError, UnavailableError.
        """
        return await self._there(self._say(conversation, text, by, brought))

    async def go_on(self, conversation: uuid.UUID, *, by: str | None = None) -> int:
        """Continue the newest turn where it was cut. Raises NothingToContinue, and as `say`."""
        return await self._there(self._go_on(conversation, by))

    async def cancel(self, conversation: uuid.UUID) -> bool:
        """Stop the turn that runs; asked again, without waiting for what runs to end. False when
        none runs here."""
        return await self._there(self._cancel(conversation))

    async def decide(
        self,
        conversation: uuid.UUID,
        question: str,
        decision: str,
        *,
        how: Literal["frame", "terminal"],
        by: str | None = None,
        reason: str | None = None,
        rejected: Mapping[str, str | None] | None = None,
    ) -> None:
        """A person's answer to a question that waits; rejected: parts of what is approved that are
        left out, and why. Whoever calls this has made sure that it is a person who may.

        Raises NotWaiting, UsageError; nothing was decided then.
        """
        await self._there(self._decide(conversation, question, decision, how, by, reason, rejected))

    async def refuse(self, conversation: uuid.UUID, question: str, reason: str) -> None:
        """Say for a question that nobody is there to answer it: an approval is denied for that
        reason. Raises NotWaiting."""
        await self._there(self._refuse(conversation, question, reason))

    async def undo(
        self, conversation: uuid.UUID, *, fork: bool = False, by: str | None = None
    ) -> Undone:
        """Undo the newest turn: session and notebook as before it; see `agent.undo`.

        fork: where steps of somebody else followed, go on in a fork without them.
        Raises TurnRuns, CannotUndo, LeaseHeld, UnavailableError.
        """
        return await self._there(self._undo(conversation, fork, by))

    async def foresee(self, conversation: uuid.UUID) -> Foreseen:
        """What `undo` would do now, doing none of it. Raises CannotUndo, ConversationNotFound."""
        return await self._there(self._foresee(conversation))

    async def runs(self, conversation: uuid.UUID) -> bool:
        """Whether a turn of it runs here."""
        return await self._there(self._runs(conversation))

    async def asked(self, conversation: uuid.UUID) -> list[Mapping[str, Any]]:
        """The approvals that the turn that runs here waits for: bodies of their entries. A turn
        that is continued waits for those that it was cut at, whose entries are not told anew."""
        return await self._there(self._approvals(conversation))

    async def wait(self, conversation: uuid.UUID) -> None:
        """Return when no turn of it runs here."""
        await self._there(self._wait(conversation))

    @contextlib.asynccontextmanager
    async def subscribe(
        self, conversation: uuid.UUID, after: int = -1
    ) -> AsyncIterator[AsyncIterator[Told]]:
        """What is told of a conversation, from the entry after `after` on, as it comes.

        A turn that another process runs is told as far as it was stored when this began.
        Raises ConversationNotFound, DatabaseUnavailable.
        """
        waiting = Waiting(asyncio.get_running_loop())
        watch = await self.watch(conversation, waiting.put, after)
        try:
            yield waiting
        finally:
            await self.unwatch(conversation, watch)

    async def watch(self, conversation: uuid.UUID, tell: Watch, after: int = -1) -> Watch:
        """Have `tell` called, in the thread here, with all that `subscribe` gives. It must not
        wait. Returns what `unwatch` takes."""
        return await self._there(self._watch(conversation, tell, after))

    async def unwatch(self, conversation: uuid.UUID, watch: Watch) -> None:
        if self._thread.is_alive():
            await self._there(self._unwatch(conversation, watch))

    async def close(self) -> None:
        """Stop what runs as interrupted, let go of all, and end the thread. Idempotent."""
        if self._closed:
            return
        closing = self._there(self._close())
        self._closed = True
        await closing
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """One of these, for code without an event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _there(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        if self._closed:
            work.close()
            raise UnavailableError("The agent of this process is shut down. Nothing was done.")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        return asyncio.wrap_future(future)

    # on the loop here ---------------------------------------------------------------------------

    async def log(self) -> Log:
        """The log, opened when it is first asked for; on the loop here."""
        async with self._opening:
            if self._log is None:
                self._log = await self._connect()
            return self._log

    async def _begin(
        self,
        session: uuid.UUID,
        notebook: str | None,
        title: str,
        model: str | None,
        by: str | None,
    ) -> uuid.UUID:
        log = await self.log()
        body = await self._assembly.beginning(log, model)
        if notebook is not None:
            body["notebook"] = notebook
        if by is not None:
            body["by"] = by
        known = Conversations(log)
        return await known.begin(session, notebook=notebook, title=title, body=body)

    async def _say(
        self,
        conversation: uuid.UUID,
        text: str,
        by: str | None,
        brought: Sequence[Mapping[str, Json]],
    ) -> int:
        live = await self._of(conversation)
        try:
            return await live.conversation.say(text, by, brought)
        finally:
            self._linger(conversation)

    async def _go_on(self, conversation: uuid.UUID, by: str | None) -> int:
        live = await self._of(conversation)
        try:
            return await live.conversation.go_on(by)
        finally:
            self._linger(conversation)

    async def _cancel(self, conversation: uuid.UUID) -> bool:
        live = self._live.get(conversation)
        return live is not None and live.conversation.stop()

    async def _decide(
        self,
        conversation: uuid.UUID,
        question: str,
        decision: str,
        how: Literal["frame", "terminal"],
        by: str | None,
        reason: str | None,
        rejected: Mapping[str, str | None] | None,
    ) -> None:
        live = await self._asked(conversation, question)
        live.questions.decide(question, decision, how=how, by=by, reason=reason, rejected=rejected)

    async def _refuse(self, conversation: uuid.UUID, question: str, reason: str) -> None:
        live = await self._asked(conversation, question)
        live.questions.refuse(question, reason)

    async def _asked(self, conversation: uuid.UUID, question: str) -> _Live:
        live = self._live.get(conversation)
        if live is None:
            raise NotWaiting("No turn of this conversation runs here, so nothing waits.")
        # An entry is told a moment before its question waits.
        for _ in range(SOON):
            if question in live.questions or question not in _open(live.conversation):
                break
            await asyncio.sleep(0)
        return live

    async def _undo(self, conversation: uuid.UUID, fork: bool, by: str | None) -> Undone:
        live = await self._of(conversation)
        assert self._log is not None  # noqa: S101  it was found there
        document = self._assembly.document
        try:
            return await undo(live.conversation, self._log, document, fork=fork, by=by)
        finally:
            self._linger(conversation)

    async def _foresee(self, conversation: uuid.UUID) -> Foreseen:
        log = await self.log()
        entries = await Conversations(log).entries(conversation, most=_ALL)
        return await foresee(log, str(conversation), entries, self._assembly.document)

    async def _runs(self, conversation: uuid.UUID) -> bool:
        live = self._live.get(conversation)
        return live is not None and live.conversation.running

    async def _approvals(self, conversation: uuid.UUID) -> list[Mapping[str, Any]]:
        live = self._live.get(conversation)
        if live is None:
            return []
        found = course.open_questions(live.conversation.entries)
        # One whose time has run out is put anew.
        now = now_us()
        return [each for each in found if each.get("act") is not None and each["until_us"] > now]

    async def _wait(self, conversation: uuid.UUID) -> None:
        live = self._live.get(conversation)
        if live is not None:
            await live.conversation.done()

    async def _of(self, conversation: uuid.UUID) -> _Live:
        live = self._live.get(conversation)
        if live is None:
            log = await self.log()
            known = Conversations(log)
            await known.info(conversation)
            live = self._live.setdefault(conversation, self._made(conversation, known, log))
        return live

    def _made(self, conversation: uuid.UUID, known: Conversations, log: Log) -> _Live:
        questions = Questions(now_us)

        def tell(told: Told) -> None:
            for watch in tuple(live.watches):
                try:
                    watch(told)
                except RuntimeError:  # its loop is closed
                    live.watches.remove(watch)
            if told["type"] == "ended":
                self._linger(conversation)

        def entry(stored: Entry) -> None:
            tell({"type": "entry", "entry": stored.to_json()})

        around = Around(questions, entry, tell, now_us)
        holder: dict[str, Json] = {"pid": os.getpid(), "host": platform.node()}
        made = Conversation(conversation, known, self._assembly.of(log), around, holder)
        live = _Live(made, questions)
        return live

    def _linger(self, conversation: uuid.UUID) -> None:
        """Close what a conversation works with, some time after its last turn."""
        live = self._live[conversation]
        if live.timer is not None:
            live.timer.cancel()
            live.timer = None
        if not live.conversation.running:
            live.timer = self._loop.call_later(self._linger_s, self._let_go, conversation)

    def _let_go(self, conversation: uuid.UUID) -> None:
        live = self._live[conversation]
        live.timer = None
        task = self._loop.create_task(live.conversation.rest())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not live.watches and not live.conversation.busy:
            del self._live[conversation]

    # watching -----------------------------------------------------------------------------------

    async def _watch(self, conversation: uuid.UUID, tell: Watch, after: int) -> Watch:
        live = await self._of(conversation)
        watch = Ordered(tell, after)
        live.watches.append(watch)
        try:
            known = Conversations(await self.log())
            while found := await known.entries(conversation, after=watch.seen, most=_PAGE):
                for stored in found:
                    watch.stored(stored.to_json())
                if len(found) < _PAGE:
                    break
        except BaseException:
            live.watches.remove(watch)
            raise
        watch.follow()
        return watch

    async def _unwatch(self, conversation: uuid.UUID, watch: Watch) -> None:
        live = self._live.get(conversation)
        if live is not None and watch in live.watches:
            live.watches.remove(watch)
            self._linger(conversation)

    async def _close(self) -> None:
        for live in self._live.values():
            if live.timer is not None:
                live.timer.cancel()
        await asyncio.gather(*(live.conversation.close() for live in self._live.values()))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._log is not None:
            await self._log.close()


def _open(conversation: Conversation) -> set[str]:
    return {str(question["id"]) for question in course.open_questions(conversation.entries)}


def now_us() -> int:
    return time.time_ns() // 1000


__all__ = ["MOST_WAITING", "Running", "Told", "TurnEnd", "Watch"]
