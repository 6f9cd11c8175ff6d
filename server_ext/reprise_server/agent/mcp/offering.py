"""All sessions that one `reprise mcp` offers: which may be used, which are open, what there is."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from reprise.client.kernel import session_id
from reprise.errors import LeaseLost, NotAllowed, RepriseError, UsageError
from reprise.log.conversations import Conversations
from reprise.log.store import SessionInfo
from reprise_server.agent.contract import Act, Situation
from reprise_server.agent.mcp.offered_session import PROVIDER, Means, OfferedSession, Show
from reprise_server.agent.mcp.session_tools import BeginSession
from reprise_server.agent.policy.engine import evaluate
from reprise_server.agent.policy.levels import levels

#: Kernels that are kept; the one used longest ago ends, and comes back by replay when it is asked.
MOST_OPEN: Final = 4
#: Sessions of a listing, and conversations that are looked through for those begun here.
MOST_LISTED: Final = 100


@dataclass
class Offering:
    """What other agents may use.

    named: sessions that whoever started this named.  every: all of the owner's.  Else only those
    that were begun for other agents, by this process or an earlier one.
    own: whether a session is begun when one is needed and none is named (one client, over stdio).
    """

    means: Means
    named: Collection[uuid.UUID] = ()
    every: bool = False
    own: bool = False
    _open: OrderedDict[uuid.UUID, OfferedSession] = field(default_factory=OrderedDict)
    _begun: dict[uuid.UUID, None] = field(default_factory=dict)
    #: Those that earlier processes began, as far as they were looked up: that stays so.
    _before: set[uuid.UUID] = field(default_factory=set)
    _usual: uuid.UUID | None = None
    #: The usual session while nobody has used it.
    _unborn: uuid.UUID | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(
        self, session: str | None, tool: str, given: Mapping[str, Any], client: str, show: Show
    ) -> tuple[uuid.UUID, Mapping[str, Any]]:
        """One call in a session: its id, and the body of the call's `result`.

        Raises UsageError (a session that may not be used), and as `OfferedSession.open`, `call`.
        """
        wanted = await self._wanted(session)
        async with self._used(wanted, client) as opened:
            return wanted, await opened.call(tool, given, show)

    async def begin(self, client: str, show: Show) -> tuple[uuid.UUID, Mapping[str, Any]]:
        """Begin a session, which is judged as its first call: as `call`. One that may not be begun
        has nothing in it, and is let go of."""
        session = uuid.uuid4()
        async with self._used(session, client, new=True) as opened:
            result = await opened.call(BeginSession.name, {}, show)
        if result["status"] != "ok":
            await self._let_go(session)
        return session, result

    async def sessions(self) -> list[SessionInfo]:
        """Those that may be used, the one used last first. Raises NotAllowed, PolicyUnavailable."""
        means = self.means
        act = Act("list_sessions", "read", {}, "list the sessions")
        verdict = evaluate(
            await levels(means.log, means.settings),
            (),
            act,
            Situation(means.who, "", isolated=False),
        )
        if verdict.decision != "allow":
            raise NotAllowed(f"Not done, by the rule {verdict.rule}: {verdict.why}")
        found = await self.means.log.sessions()
        if not self.every:
            known = {*self.named, *self._begun, *await self._begun_before()}
            found = [info for info in found if info.id in known]
        return found[:MOST_LISTED]

    async def close(self) -> None:
        """End all conversations, and the kernels that were started here. Idempotent."""
        async with self._lock:
            opened = list(self._open.values())
            self._open.clear()
        await asyncio.gather(*(each.close() for each in opened))

    # which --------------------------------------------------------------------------------------

    async def _wanted(self, session: str | None) -> uuid.UUID:
        if session is None:
            if self._usual is None and len(self.named) == 1:
                [self._usual] = self.named
            if self._usual is None and not self.own:
                raise UsageError(
                    "Name a `session`: begin_session begins one, list_sessions shows those there"
                    " are. Nothing was done."
                )
            if self._usual is None:
                self._usual = self._unborn = uuid.uuid4()
            return self._usual
        wanted = session_id(session)
        if await self._allowed(wanted):
            return wanted
        raise UsageError(
            f"Session {wanted} is not offered here, or there is none. list_sessions shows those"
            " that are; begin_session begins one. Nothing was done."
        )

    async def _allowed(self, session: uuid.UUID) -> bool:
        if session in self.named or session in self._begun or session in self._before:
            return True
        if self.every:
            return any(info.id == session for info in await self.means.log.sessions())
        return session in await self._begun_before()

    async def _begun_before(self) -> set[uuid.UUID]:
        """Sessions that earlier processes began for other agents."""
        known = Conversations(self.means.log)
        found = set()
        for info in await known.list(most=MOST_LISTED):
            [first] = await known.entries(info.id, most=1)
            if first.body.get("provider") == PROVIDER and first.body.get("session_begun") is True:
                found.add(info.session)
        self._before |= found
        return found

    # open ---------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _used(
        self, session: uuid.UUID, client: str, *, new: bool = False
    ) -> AsyncIterator[OfferedSession]:
        """The session while it is used; one that somebody else writes by now is let go of."""
        async with self._lock:
            opened = self._open.get(session)
            if opened is None:
                opened = await self._opened(session, client, new=new)
            self._open.move_to_end(session)
            opened.users += 1
        try:
            yield opened
        except LeaseLost:
            await self._let_go(session)
            raise
        finally:
            opened.users -= 1

    async def _opened(self, session: uuid.UUID, client: str, *, new: bool) -> OfferedSession:
        await self._make_room()
        new = new or session == self._unborn
        began = new or session in self._begun
        opened = await OfferedSession.open(
            self.means, session, client, new=new, began=began, forked=self._forked
        )
        if new:
            self._begun[session] = None
        if session == self._unborn:
            self._unborn = None
        self._open[session] = opened
        return opened

    async def _let_go(self, session: uuid.UUID) -> None:
        async with self._lock:
            opened = self._open.pop(session, None)
        if opened is not None:
            await opened.close()

    def _forked(self, session: uuid.UUID) -> None:
        self._begun[session] = None

    async def _make_room(self) -> None:
        if len(self._open) < MOST_OPEN:
            return
        for session, opened in self._open.items():
            if not opened.users:
                del self._open[session]
                await opened.close()
                return
        raise RepriseError(
            f"{MOST_OPEN} sessions are busy, which are the most at once. Wait for one of them to"
            " end its call, then try again. Nothing was done."
        )
