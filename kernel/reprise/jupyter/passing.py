"""Requests that change nothing: passed to the language kernel at once, or answered here."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine

from reprise.errors import RepriseError, SandboxDied
from reprise.jupyter.clients import Clients
from reprise.jupyter.local import answer_without_kernel
from reprise.jupyter.request import Request
from reprise.log.model import Json
from reprise.replay.engine import LiveSession
from reprise.replay.message import Message
from reprise.sandbox.frames import Channel

log = logging.getLogger("reprise")

#: Never logged, and answered while the state is being brought back.
PASSED_SHELL = frozenset(
    {
        "complete_request",
        "inspect_request",
        "history_request",
        "is_complete_request",
        "comm_info_request",
        "kernel_info_request",
    }
)
PASSED_CONTROL = PASSED_SHELL | {
    "debug_request",
    "usage_request",
    "create_subshell_request",
    "delete_subshell_request",
    "list_subshell_request",
}

#: Passed requests remembered, the oldest forgotten first.
REMEMBERED = 4096


class Passing:
    """What passes by the log of one session.

    cell_coming: whether a cell that came earlier is still on its way to the language kernel.
    answering: whether the main shell's cell has been answered and its end is being stored.
    begin: runs a coroutine beside.
    """

    def __init__(
        self,
        clients: Clients,
        banner_note: str,
        session: Callable[[], LiveSession],
        cell_coming: Callable[[], bool],
        answering: Callable[[], bool],
        begin: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        self._clients = clients
        self._banner_note = banner_note
        self._get_session = session
        self._cell_coming = cell_coming
        self._answering = answering
        self._begin = begin
        self._replaying = False
        self._behind: list[Request] = []
        self._held: list[tuple[Request, Message]] = []
        self._passing: OrderedDict[str, Request] = OrderedDict()
        self._passed: OrderedDict[str, None] = OrderedDict()

    @property
    def _session(self) -> LiveSession:
        return self._get_session()

    @property
    def replaying(self) -> bool:
        return self._replaying

    def replays(self, replaying: bool) -> None:
        """The state is being brought back, which may take long: nothing waits for it in here."""
        self._replaying = replaying
        if replaying:
            self._pass_behind()

    def put(self, request: Request) -> None:
        """Pass a request on, behind the cells that came before it, or answer it."""
        if request.message.msg_type == "kernel_info_request" and not self._kernel_can_say(request):
            self._begin(self._kernel_info(request))
        elif request.channel == "control":
            self._begin(self._pass_when_started(request))
        elif self._cell_first():
            # A cell that came before this is being committed; the kernel gets it first.
            self._behind.append(request)
        elif self._session.live:
            self._pass_on(request)
        else:
            self._answer_here(request)

    def follow(self) -> None:
        """No cell is before what waited behind one."""
        self._pass_behind()

    def release(self) -> None:
        """The cell's end is told: so may be what the language kernel answered after it."""
        held, self._held = self._held, []
        for request, message in held:
            self._clients.answer(request, message)

    def knows(self, parent: str | None) -> bool:
        """Whether a message of the language kernel belongs to a request that was passed."""
        return parent in self._passed

    def passed(self, message: Message, parent: str) -> None:
        """A reply that belongs to no step."""
        request = self._passing.pop(parent, None)
        if request is None:
            return
        session = self._session
        if message.msg_type == "create_subshell_reply":
            subshell = message.content().get("subshell_id")
            if isinstance(subshell, str):
                session.link.subshells.add(subshell)
                session.subshells.add(subshell)
        if message.msg_type == "delete_subshell_reply" and message.content().get("status") == "ok":
            session.subshell_deleted(str(request.message.content().get("subshell_id")))
        if message.msg_type == "kernel_info_reply" and self._banner_note:
            message = message.with_content(self._noted(message.content()))
        if request.channel == "shell" and self._answering():
            # The main shell answers in order: this comes after the cell whose end is being stored.
            self._held.append((request, message))
            return
        self._clients.answer(request, message)

    def sandbox_gone(self) -> None:
        """Nobody will answer what was passed on: answer it here, so that no client hangs."""
        while self._passing:
            _, request = self._passing.popitem(last=False)
            self._clients.reply(request, answer_without_kernel(request.message))
            self._clients.status(request, "idle")

    def _pass_behind(self) -> None:
        behind, self._behind = self._behind, []
        for request in behind:
            self.put(request)

    def _kernel_can_say(self, request: Request) -> bool:
        """Whether the language kernel itself is there to answer; else we answer for it."""
        if request.channel == "control":
            return self._session.started
        return self._session.live or self._cell_first()

    def _cell_first(self) -> bool:
        """Whether a cell that came earlier goes first."""
        return not self._replaying and self._cell_coming()

    async def _kernel_info(self, request: Request) -> None:
        try:
            info = dict(await self._session.kernel_info())
        except RepriseError as error:
            # Without this reply a client could never be shown the error of its first cell.
            info = answer_without_kernel(request.message)
            log.error("%s", error)
        self._clients.locally(request, self._noted(info))

    def _noted(self, info: dict[str, Json]) -> dict[str, Json]:
        if self._banner_note:
            info["banner"] = f"{self._banner_note}\n{info.get('banner', '')}"
        return info

    def _answer_here(self, request: Request) -> None:
        session = self._session
        coming = session.resuming or not session.decided.is_set()
        if request.message.msg_type == "comm_info_request" and coming:
            self._begin(self._pass_when_back(request))
        else:
            self._clients.locally(request, answer_without_kernel(request.message))

    async def _pass_when_started(self, request: Request) -> None:
        try:
            await self._session.kernel_info()
        except RepriseError:
            self._clients.locally(request, answer_without_kernel(request.message))
            return
        self._pass_on(request)

    async def _pass_when_back(self, request: Request) -> None:
        """A page that is told of no comm now would not bring its widgets back later."""
        session = self._session
        await session.decided.wait()
        try:
            if session.resuming:
                await session.ready()
        except RepriseError:
            log.info("A page asked for its widgets, and the session did not come back.")
        if session.live:
            self.put(request)
        else:
            self._clients.locally(request, answer_without_kernel(request.message))

    def _pass_on(self, request: Request) -> None:
        message = request.message
        self._passing[message.msg_id] = request
        self._passed[message.msg_id] = None
        for known in (self._passing, self._passed):
            while len(known) > REMEMBERED:
                known.popitem(last=False)
        channel = Channel.CONTROL if request.channel == "control" else Channel.SHELL
        try:
            self._session.link.send(channel, request.client, message)
        except SandboxDied:
            self._passing.pop(message.msg_id, None)
            self._clients.locally(request, answer_without_kernel(message))
