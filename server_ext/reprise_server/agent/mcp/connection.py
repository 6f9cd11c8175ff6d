"""One configured server: started when it is needed, asked within bounds, found dead, ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import httpx2
from mcp import Client, MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    Implementation,
    PaginatedRequestParams,
)

from reprise import __version__
from reprise.errors import RepriseError, UnavailableError
from reprise.skills.quoted import cut, one_line
from reprise_server.agent.mcp.configured import ConfiguredServer
from reprise_server.agent.mcp.listed import Given, ListedTool, Listing, listing
from reprise_server.agent.mcp.reached import reached
from reprise_server.agent.mcp.stdio import Ending, Streams, child

#: Seconds for a start with its handshake (an interpreter on a loaded machine), and for a list.
_START_S: Final = 45.0
_LIST_S: Final = 30.0
#: Seconds that a server and its transport have to end (more than stdio.py takes).
_END_S: Final = 30.0
_MOST_PAGES: Final = 20
_MOST_LISTED: Final = 1_000

#: What comes of a server that is gone or speaks nonsense: told, none of it is ours.
_FAILURES: Final = (
    *(OSError, RuntimeError, ValueError, MCPError, httpx2.HTTPError, httpx2.StreamError),
)


class ServerUnavailable(UnavailableError):
    """A configured server cannot be asked; it was asked nothing. Says which and why."""


class ToolRefused(RepriseError):
    """The server answered with an error of the protocol instead of a result. Its words."""


class AnswerLost(RepriseError):
    """The server was asked and gave no answer: it may have done what it was asked for."""


class Connection:
    """A server while it is used. Everything of it runs on one event loop.

    A server that went is started again by the next call, once; a call that was under way when it
    went is never made again.
    """

    def __init__(self, server: ConfiguredServer) -> None:
        self.server = server
        self._client: Client | None = None
        self._holding: asyncio.Task[None] | None = None
        self._enough = asyncio.Event()
        self._opening = asyncio.Lock()
        self._ending = Ending()
        #: What was listed, and by which start of the server.
        self._known: tuple[Client, Mapping[str, ListedTool]] | None = None

    async def list(self) -> Listing:
        """What it offers now. Raises ServerUnavailable."""
        client = await self._opened()
        found = await self._listed(client)
        self._known = client, {tool.original: tool for tool in found.tools}
        return found

    async def current(self, tool: str) -> ListedTool | None:
        """A tool as the server that runs now lists it. Raises ServerUnavailable."""
        client = await self._opened()
        if self._known is None or self._known[0] is not client:
            await self.list()
        return None if self._known is None else self._known[1].get(tool)

    async def _listed(self, client: Client) -> Listing:
        given: list[Given] = []
        cursor: str | None = None
        try:
            async with asyncio.timeout(_LIST_S):
                for _ in range(_MOST_PAGES):
                    page = await client.session.list_tools(
                        params=PaginatedRequestParams(cursor=cursor)
                    )
                    given += [
                        Given(
                            tool.name,
                            self.server.hide(tool.description or ""),
                            self.server.hidden_in(tool.input_schema),
                        )
                        for tool in page.tools
                    ]
                    cursor = page.next_cursor
                    if cursor is None or len(given) > _MOST_LISTED:
                        break
        except (*_FAILURES, TimeoutError) as error:
            raise self._unavailable("did not list its tools", error) from error
        return listing(self.server.name, given[:_MOST_LISTED], self.server.tools)

    async def call(
        self, tool: str, arguments: Mapping[str, Any], show: Callable[[str], None]
    ) -> CallToolResult:
        """One call, within the server's time. tool: by the server's own name.

        Cancelling it tells the server that nobody waits any more.
        Raises ServerUnavailable (it was asked nothing), ToolRefused, AnswerLost.
        """
        client = await self._opened()
        request = CallToolRequest(
            params=CallToolRequestParams(name=tool, arguments=dict(arguments))
        )

        async def told(progress: float, total: float | None, message: str | None) -> None:
            of = "" if total is None else f" of {total:g}"
            said = self.server.hide(message or "")
            show(cut(one_line(f"{progress:g}{of} {said}"), 200) + "\n")

        try:
            async with asyncio.timeout(self.server.timeout_s):
                # Not `call_tool`, which checks the result with the server's own output schema:
                # a regular expression in one can take for ever.
                return await client.session.send_request(
                    request, CallToolResult, progress_callback=told
                )
        except TimeoutError:
            raise AnswerLost(
                f"The MCP server {self.server.name} gave no answer to {self._named(tool)} in "
                f"{self.server.timeout_s:g} seconds. It may have done what it was asked for, or "
                "still do it."
            ) from None
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                raise await self._lost(tool) from error
            words = cut(one_line(self.server.hide(error.message)), 2_000)
            raise ToolRefused(
                f"The MCP server {self.server.name} refused {self._named(tool)}: {words}"
            ) from error
        except ValueError as error:  # pydantic's, or what no JSON can be
            raise AnswerLost(
                f"The MCP server {self.server.name} answered {self._named(tool)} with something "
                "that is no result. It may have done what it was asked for."
            ) from error
        except _FAILURES as error:
            raise await self._lost(tool) from error

    async def close(self) -> None:
        """End it. Idempotent."""
        async with self._opening:
            await self._let_go()

    @staticmethod
    def _named(tool: str) -> str:
        return cut(one_line(tool), 80)

    async def _lost(self, tool: str) -> AnswerLost:
        await self.close()
        return AnswerLost(
            f"The MCP server {self.server.name} went while it was asked for {self._named(tool)}"
            f"{self._why()}. It may have done what it was asked for. The next call starts it again."
        )

    async def _opened(self) -> Client:
        async with self._opening:
            if self._client is not None and self._holding and not self._holding.done():
                return self._client
            await self._let_go()
            self._ending, self._enough = Ending(), asyncio.Event()
            ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
            # A task of its own: what the SDK opens in one task, that very task must close.
            self._holding = asyncio.create_task(self._hold(ready), name=f"mcp {self.server.name}")
            try:
                async with asyncio.timeout(_START_S):
                    self._client = await asyncio.shield(ready)
            except BaseException as error:
                await self._let_go()
                if isinstance(error, TimeoutError):
                    raise self._unavailable(f"did not start in {_START_S:g} seconds") from None
                raise
            return self._client

    async def _hold(self, ready: asyncio.Future[Client]) -> None:
        try:
            async with Client(
                _Watched(self._transport(), self._enough),
                client_info=Implementation(name="reprise", version=__version__),
                cache=None,
            ) as client:
                if not ready.done():
                    ready.set_result(client)
                await self._enough.wait()
        except* _FAILURES as group:
            if not ready.done():
                ready.set_exception(self._unavailable("could not be started", group))
                ready.exception()

    def _transport(self) -> AbstractAsyncContextManager[Streams]:
        return reached(self.server) if self.server.url else child(self.server, self._ending)

    async def _let_go(self) -> None:
        holding, client = self._holding, self._client
        self._holding = self._client = None
        if holding is None:
            return
        self._enough.set()
        if client is None:
            holding.cancel()  # it waits for a handshake that does not come
        done, _ = await asyncio.wait({holding}, timeout=_END_S)
        if not done:
            holding.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await holding

    def _unavailable(self, what: str, error: BaseException | None = None) -> ServerUnavailable:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        said = "" if error is None or isinstance(error, TimeoutError) else str(error)
        said = f": {cut(one_line(self.server.hide(said)), 500)}" if said else ""
        return ServerUnavailable(
            f"The MCP server {self.server.name} {what}{said}{self._why()}. It was asked nothing."
        )

    def _why(self) -> str:
        """What is known of its end, for people: a stranger's words, on one line."""
        parts = []
        if self._ending.why:
            parts.append(self._ending.why)
        if self._ending.code is not None:
            parts.append(f"exit code {self._ending.code}")
        if self._ending.stderr:
            # Hidden before it is cut: what the cut left of a secret would not be found.
            parts.append(cut(one_line(self.server.hide(self._ending.stderr)[-600:]), 600))
        return f" ({'; '.join(parts)})" if parts else ""


class _Watched:
    """A transport that says when the server's side has ended, so that nobody asks a dead one."""

    def __init__(self, inner: AbstractAsyncContextManager[Streams], ended: asyncio.Event) -> None:
        self._inner = inner
        self._ended = ended

    async def __aenter__(self) -> tuple[Any, Any]:
        received, sent = await self._inner.__aenter__()
        return _Received(received, self._ended), sent

    async def __aexit__(self, *details: Any) -> bool | None:
        return await self._inner.__aexit__(*details)


class _Received:
    """A stream of messages; sets the event at its end."""

    def __init__(self, inner: Any, ended: asyncio.Event) -> None:
        self._inner = inner
        self._ended = ended

    def __aiter__(self) -> _Received:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._inner.__anext__()
        except StopAsyncIteration:
            self._ended.set()
            raise

    async def receive(self) -> Any:
        return await self._inner.receive()

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def __aenter__(self) -> _Received:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> bool | None:
        found: bool | None = await self._inner.__aexit__(*details)
        return found
