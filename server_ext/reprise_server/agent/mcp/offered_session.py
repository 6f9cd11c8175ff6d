"""One session as another agent works in it: its conversation, its policies, one call at a time.

Each call is judged, committed and recorded as a call of our own agent is (`agent/calls.py`), with
two differences. Nobody can be asked: what the policies want a person for is not done. And nobody
knows what the other agent has read: unless whoever started this vouches for it, its context counts
as untrusted from the beginning.
"""

from __future__ import annotations

import asyncio
import os
import platform
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from reprise.errors import RepriseError
from reprise.log.conversation import Kind
from reprise.log.conversation_writer import ConversationWriter
from reprise.log.conversations import Conversations
from reprise.log.model import Json
from reprise.log.postgres import Log, now_us
from reprise.skills.disclosure import Disclosure
from reprise_server.agent import course
from reprise_server.agent.bound import BoundPolicies, LoggedSession, Surrounded
from reprise_server.agent.calls import Calls
from reprise_server.agent.contract import (
    Decided,
    Entry,
    Question,
    Situation,
    Taint,
    Tool,
)
from reprise_server.agent.course import CallState
from reprise_server.agent.mcp.session_tools import (
    BeginSession,
    ForkForAnother,
    RunCell,
    VerifySession,
)
from reprise_server.agent.parts import Around, CallParts, Guard, Session
from reprise_server.agent.policy.levels import levels
from reprise_server.agent.settings import RepriseAgent
from reprise_server.agent.stop import Stop, Stopped
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.toolbox import toolbox

#: In `begun`, what tells such a conversation from one with a person.
PROVIDER: Final = "mcp"
#: The taint of what the other agent may have read before it asked us for anything.
UNKNOWN: Final = "what the other agent has read"

#: Of our agent's tools, those that make no sense to another one: it has a person of its own, and
#: its notebook, if there is one, is not here. A fork is one of its own (session_tools.py).
_NOT_OFFERED: Final = frozenset({"ask_user", "fork_session", "rewind_session"})

#: Told what a running call shows.
Show = Callable[[str], None]


@dataclass(frozen=True)
class Means:
    """What all sessions of one `reprise mcp` have in common.

    folder: whose files come into new sessions.
    vouched: whether whoever started this vouches for what the other agent has read.
    who: the person on whose behalf it acts.
    """

    log: Log
    settings: RepriseAgent
    folder: Path
    environ: Mapping[str, str]
    vouched: bool
    who: str | None


def tools_of(
    place: Place, view: Disclosure, folder: Path, began: Callable[[uuid.UUID], None]
) -> list[Tool]:
    """The tools of a session, in the order they are listed."""
    ours = [tool for tool in toolbox(place, view) if tool.name not in _NOT_OFFERED]
    return [
        BeginSession(place),
        RunCell(place),
        *ours,
        ForkForAnother(place, began),
        VerifySession(place, folder),
    ]


class OfferedSession:
    """Open from `open` to `close`. Used on one event loop."""

    def __init__(
        self, means: Means, place: Place, writer: ConversationWriter, tools: Sequence[Tool]
    ) -> None:
        self._means = means
        self._place = place
        self._writer = writer
        self._tools = {tool.name: tool for tool in tools}
        self._lock = asyncio.Lock()
        self._count = 0
        #: Calls that run or are about to: none is closed under one.
        self.users = 0
        self._view: Callable[[], Json] = lambda: None

    @classmethod
    async def open(
        cls,
        means: Means,
        session: uuid.UUID,
        client: str,
        *,
        new: bool,
        began: bool,
        forked: Callable[[uuid.UUID], None],
    ) -> Self:
        """Reach the session's kernel, or start one, and begin a conversation in it.

        client: what the other agent says it is.  new: whether there is no such session yet.
        began: whether it was begun for another agent.
        forked: told of sessions that are begun from this one.
        Raises LeaseHeld, UnavailableError, PolicyUnavailable.
        """
        log = means.log
        policies = await levels(log, means.settings)
        # Of a session that is there, the folder is known, or must not come in at all.
        folder = means.folder if new else None
        place = Place(log, session, folder=folder, environ=means.environ)
        place.untrusted = tuple(means.settings.untrusted_paths)
        try:
            await place.kernel()
            known = Conversations(log)
            conversation = await known.begin(
                session,
                title=f"MCP: {client}",
                body={
                    "model": client,
                    "provider": PROVIDER,
                    "policy": [
                        {"level": each.name, "digest": each.policy.digest} for each in policies
                    ],
                    "by": means.who,
                    "session_begun": began,
                },
            )
            holder: dict[str, Json] = {"pid": os.getpid(), "host": platform.node()}
            writer = await known.open(conversation, holder)
        except BaseException:
            await place.close()
            raise
        try:
            # Those that nobody approved may be looked for, and are not told of by themselves.
            view = await Disclosure.begin(log, untrusted=False)
            view = Disclosure(log, view.choice, untrusted=True)
            said = f"{client} works in this session, by the Model Context Protocol."
            await writer.append(1, "said", {"text": said, "by": None})
            taints: list[Json] = []
            if not means.vouched:
                seq = len(writer.entries)
                taints.append(Taint("mcp", UNKNOWN, seq).to_json())
            await writer.append(1, "state", {"disclosure": view.state(), "taints": taints})
        except BaseException:
            await writer.close()
            await place.close()
            raise
        made = cls(means, place, writer, tools_of(place, view, means.folder, forked))
        made._view = view.state
        return made

    @property
    def conversation(self) -> uuid.UUID:
        return self._writer.id

    async def call(self, tool: str, given: Mapping[str, Any], show: Show) -> Mapping[str, Any]:
        """One call, after those before it: the body of its `result`.

        Cancelled, it first ends what it started; the record then says so.
        Raises LeaseLost, DatabaseUnavailable: it may have run, and the log says what did.
        """
        async with self._lock:
            self._count += 1
            call = CallState(f"m{self._count}", tool, given)
            stop = Stop()
            work = asyncio.ensure_future(self._work(call, stop, show))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                stop.ask("cancelled")
                await asyncio.wait([work])
                if not work.cancelled():
                    work.exception()
                raise

    async def _work(self, call: CallState, stop: Stop, show: Show) -> Mapping[str, Any]:
        around = Around(_Nobody(), _not_told, lambda told: show(str(told.get("text", ""))), now_us)
        calls = Calls(
            str(self._writer.id), self._parts(), around, stop, self._append, self._entries
        )
        try:
            await calls.judge(call)
            call = replace(call, called=self._entries[-1].body)
            refused = _refused(call)
            if refused is not None:
                await self._append("result", refused)
            else:
                await calls.run(call)
        except Stopped:
            return course.result_body(call.id, "cancelled", "Cancelled.")
        return next(
            entry.body
            for entry in reversed(self._entries)
            if entry.kind == "result" and entry.body["id"] == call.id
        )

    @property
    def _entries(self) -> Sequence[Entry]:
        return self._writer.entries

    async def _append(self, kind: Kind, body: Mapping[str, Any]) -> Entry:
        return await self._writer.append(1, kind, body)

    def _parts(self) -> CallParts:
        means = self._means
        around = Surrounded(means.settings, self._place, means.who, None)
        return _Working(
            self._tools,
            BoundPolicies(means.log, means.settings),
            LoggedSession(self._place),
            around.situation,
            self._view,
        )

    async def close(self) -> None:
        """End the conversation and let go of the kernel, after the call that runs. Idempotent."""
        async with self._lock:
            try:
                if course.course(self._entries).ended is None:
                    await self._append("ended", {"status": "done"})
            except RepriseError:
                # It stays open in the log, as of a process that died: nothing else is lost.
                pass
            finally:
                await self._writer.close()
                await self._place.close()


@dataclass(frozen=True)
class _Working:
    """What the calls work with (`CallParts`); no model is asked here, and no person."""

    tools: Mapping[str, Tool]
    guard: Guard
    session: Session
    situation: Callable[[tuple[Taint, ...]], Awaitable[Situation]]
    disclosure: Callable[[], Json]
    patience_s: float = 0.0


class _Nobody:
    """Who is asked over MCP: nobody. The other side may put a question to a person (elicitation),
    but what it says they answered is its own word."""

    async def ask(self, question: Question) -> Decided:
        return Decided("deny" if question.act is not None else "", "timeout")


def _not_told(_: Entry) -> None:
    """Nobody follows the entries; they are in the log."""


def _refused(call: CallState) -> dict[str, Json] | None:
    """The result of a call that is not run."""
    called = call.called or {}
    if problem := called.get("problem"):
        return course.result_body(call.id, "error", str(problem))
    verdict = called["verdict"]
    if verdict["decision"] == "deny":
        return course.result_body(call.id, "denied", course.denied_by_policy(verdict))
    if verdict["decision"] == "ask":
        words = (
            f"Not done: the rule {verdict['rule']} wants a person asked, and over MCP nobody can"
            f" be. {verdict['why']} Go on without it, or tell the person: a policy of theirs may"
            " allow it (`reprise policy`), or they do it in the notebook."
        )
        if verdict["rule"] == "taint":
            words += " If they vouch for what you read, they can start `reprise mcp --vouch`."
        return course.result_body(call.id, "denied", words)
    return None
