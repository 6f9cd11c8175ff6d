"""One conversation in this process: opened, told something, continued, stopped, let go of.

It is written only while a turn runs: between turns any process may go on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from reprise.errors import DatabaseUnavailable, LeaseLost, RepriseError, UsageError
from reprise.log.conversation import Kind
from reprise.log.conversation_writer import ConversationWriter
from reprise.log.conversations import Conversations
from reprise.log.model import Json
from reprise_server.agent import course
from reprise_server.agent.contract import Entry, TaintKind, TurnEnd
from reprise_server.agent.parts import Around, Parts
from reprise_server.agent.policy.taint import ANYWHERE, merged, of_path
from reprise_server.agent.stop import Stop
from reprise_server.agent.turn import Turn

log = logging.getLogger("reprise.agent")

#: Characters of what a person says at once; more is better a file.
MAX_SAID: Final = 200_000

#: Seconds that a conversation is waited for which another process holds.
WAIT_S: Final = 2.0

#: Seconds that what runs has to end when this process shuts down; code may refuse to end.
CLOSING_S: Final = 15.0

#: Opens what a conversation works with, as its entries have it.
Assemble = Callable[[uuid.UUID, Sequence[Entry], str], Awaitable[Parts]]


class TurnRuns(UsageError):
    """A turn of this conversation runs; what was asked has to wait for its end."""


class NothingToContinue(UsageError):
    """The newest turn has come to its end, so there is nothing that could go on."""


class Conversation:
    """Used on one event loop. Its turns run one after the other, each in a task of its own."""

    def __init__(
        self,
        conversation: uuid.UUID,
        known: Conversations,
        assemble: Assemble,
        around: Around,
        holder: Mapping[str, Json],
    ) -> None:
        self.id = conversation
        self._known = known
        self._assemble = assemble
        self._around = around
        self._holder = holder
        self._lock = asyncio.Lock()
        self._writer: ConversationWriter | None = None
        self._parts: Parts | None = None
        #: Entries there were when the parts were used last: more of them are somebody else's.
        self._seen = 0
        self._task: asyncio.Task[TurnEnd] | None = None
        self._stop = Stop()

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    @property
    def busy(self) -> bool:
        """Whether a turn runs, or one is begun or undone just now."""
        return self.running or self._lock.locked()

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries, while a turn runs; else none that could be relied on."""
        return () if self._writer is None else self._writer.entries

    # turns --------------------------------------------------------------------------------------

    async def say(
        self, text: str, by: str | None, brought: Sequence[Mapping[str, Json]] = ()
    ) -> int:
        """Begin a turn with a person's words; returns its number as soon as it is recorded.

        brought: what the words bring along (`kind`, `name`), such as a file's content.
        Raises TurnRuns, UsageError, LeaseHeld (another process runs a turn of it), UnavailableError
        where the model cannot be asked; nothing was recorded then.
        """
        if not text.strip():
            raise UsageError("There is nothing said. Write what is to be done.")
        if len(text) > MAX_SAID:
            raise UsageError(
                f"{len(text):,} characters are too many for one message (at most {MAX_SAID:,}). Put"
                " them into a file of the workspace and name it."
            )
        async with self._beginning(text) as (writer, turn):
            await turn.leave()
            body: dict[str, Any] = {"text": text, "by": by}
            if brought:
                body["brought"] = [dict(each) for each in brought]
                body["taints"] = await self._taints_of(brought)
            self._around.entry(await writer.append(writer.turn + 1, "said", body))
            return writer.turn

    async def go_on(self, by: str | None) -> int:
        """Continue the newest turn where it was cut. Raises NothingToContinue and as `say`."""
        async with self._beginning("") as (writer, _):
            at = course.course(writer.entries)
            if at.ended not in course.CONTINUABLE or at.turn in course.undone_turns(writer.entries):
                raise NothingToContinue(
                    "The newest turn has come to its end; say something to begin another one."
                )
            self._around.entry(await writer.append(writer.turn, "continued", {"by": by}))
            return writer.turn

    def stop(self, status: TurnEnd = "cancelled", why: str | None = None) -> bool:
        """Stop the turn that runs, at whatever point it is; the second time, without waiting for
        what runs to end. False when none runs."""
        if not self.running:
            return False
        self._stop.ask(status, why)
        self._around.tell({"type": "stopping"})
        return True

    async def done(self) -> None:
        """Return when no turn runs."""
        if self._task is not None:
            await asyncio.wait([self._task])

    @contextlib.asynccontextmanager
    async def _beginning(self, task: str) -> AsyncIterator[tuple[ConversationWriter, Turn]]:
        """Become the writer, and run the turn that the block has recorded the beginning of.

        task: what the conversation will be about, if it is new.
        """
        async with self.writing() as writer:
            parts = await self._assembled(writer, task)
            self._stop = Stop()
            turn = Turn(writer, parts, self._around, self._stop)
            yield writer, turn
            self._writer = writer
            self._task = asyncio.get_running_loop().create_task(self._run(writer, turn))
            self._task.add_done_callback(self._over)

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[ConversationWriter]:
        """The conversation's writer; given back unless a turn has begun with it.

        Raises TurnRuns, LeaseHeld, DatabaseUnavailable.
        """
        async with self._lock:
            if self.running:
                raise TurnRuns(
                    "A turn of this conversation runs. Wait for its end, or stop it first."
                )
            writer = await self._known.open(self.id, self._holder, wait=WAIT_S)
            try:
                if self._parts is not None and len(writer.entries) > self._seen:
                    # Another process went on meanwhile: what was opened here may be of yesterday.
                    await self._let_go()
                await self._settle(writer)
                yield writer
            finally:
                if not self.running:
                    self._seen = len(writer.entries)
                    await writer.close()

    async def _settle(self, writer: ConversationWriter) -> None:
        """The turn that somebody left open has ended: nobody runs it."""
        move = course.next_move(writer.entries)
        if isinstance(move, course.Rest):
            return
        end = course.End("interrupted", "The process that ran it ended.")
        if isinstance(move, course.End):
            end = move  # only the entry was missing
        for kind, body in course.closing(writer.entries, end.status, end.why):
            self._around.entry(await writer.append(writer.turn, kind, body))

    async def _assembled(self, writer: ConversationWriter, task: str) -> Parts:
        if self._parts is None:
            self._parts = await self._assemble(self.id, writer.entries, task)
            for problem in self._parts.problems:
                self._around.tell({"type": "note", "text": problem})
            await self._store(writer, self._parts)
        return self._parts

    async def _taints_of(self, brought: Sequence[Mapping[str, Json]]) -> list[Json]:
        """The untrusted content that what is brought may hold: as much as if a tool had read it."""
        parts = self._parts
        assert parts is not None  # noqa: S101  within `_beginning`
        found: list[tuple[TaintKind, str]] = []
        try:
            situation = await parts.situation(())
            paths = [str(each["name"]) for each in brought if each["kind"] == "file"]
            if situation.notebook is not None:
                paths += [situation.notebook for each in brought if each["kind"] == "cell"]
            for path in paths:
                found += of_path(path, situation.untrusted_paths)
            if any(each["kind"] in ("file", "variable") for each in brought):
                found += await parts.session.tainted()
        except RepriseError:
            found.append(("network", ANYWHERE))
        return [{"kind": kind, "source": source} for kind, source in dict.fromkeys(found)]

    async def _store(self, writer: ConversationWriter, parts: Parts) -> None:
        """Store the view of the catalog that it begins with, and what is untrusted in every
        request, unless they are stored."""
        entries = writer.entries
        view, stored = parts.disclosure(), course.disclosure_of(entries)
        known = course.taints_of(entries)
        now = merged(known, parts.taints, len(entries))
        if (stored is None and view is not None) or now != known:
            taints = [taint.to_json() for taint in now]
            body = {"disclosure": view if stored is None else stored, "taints": taints}
            self._around.entry(await writer.append(writer.turn, "state", body))

    async def _run(self, writer: ConversationWriter, turn: Turn) -> TurnEnd:
        end: TurnEnd = "interrupted"
        try:
            end = await turn.run()
        except (LeaseLost, DatabaseUnavailable) as error:
            log.warning("conversation %s: its turn was cut: %s", self.id, error)
            self._around.tell({"type": "cut", "text": str(error)})
        except Exception:
            log.exception("conversation %s: its turn failed by a fault of its own", self.id)
            await self._failed(writer)
        finally:
            self._seen = len(writer.entries)
            self._writer = None
            await writer.close()
        return end

    def _over(self, task: asyncio.Task[TurnEnd]) -> None:
        """The turn has ended and the next one may begin: only now is it told."""
        status = "interrupted" if task.cancelled() else task.result()
        self._around.tell({"type": "ended", "status": status})

    async def _failed(self, writer: ConversationWriter) -> None:
        """Our own fault ends the turn, and says so; the conversation is whole."""
        why = "Reprise failed by a fault of its own; its log says more."
        try:
            for kind, body in course.closing(writer.entries, "failed", why):
                self._around.entry(await writer.append(writer.turn, kind, body))
        except RepriseError as error:
            self._around.tell({"type": "cut", "text": str(error)})

    # the end ------------------------------------------------------------------------------------

    async def _let_go(self) -> None:
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.close()

    async def rest(self) -> None:
        """Close what it works with, unless a turn runs; the next turn opens it again."""
        async with self._lock:
            if not self.running:
                await self._let_go()

    async def append(self, writer: ConversationWriter, kind: Kind, body: Mapping[str, Any]) -> None:
        """Append between turns, within `writing`."""
        self._around.entry(await writer.append(writer.turn, kind, body))

    async def close(self) -> None:
        """Stop the turn that runs as interrupted (it can be continued), and let go of all."""
        if self.stop("interrupted") and self._task is not None:
            await asyncio.wait([self._task], timeout=CLOSING_S)
            self.stop("interrupted")  # for the second time, if it runs still
        await self.done()
        await self.rest()
