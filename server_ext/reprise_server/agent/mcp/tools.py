"""The tools of configured MCP servers, as tools of our agent, under the same policies as its own.

async with Servers(configured_servers(settings.mcp_servers, os.environ)) as servers:
    offered = await servers.offered(in_workspace(place))   # once for a conversation
    offered.tools, offered.taints, offered.problems
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from reprise.log.model import Json
from reprise.skills.quoted import cut, one_line
from reprise_server.agent.contract import (
    Act,
    BadCall,
    Block,
    Call,
    CallEnd,
    Result,
    Situation,
    TaintKind,
    text,
)
from reprise_server.agent.mcp.configured import ConfiguredServer
from reprise_server.agent.mcp.connection import (
    AnswerLost,
    Connection,
    ServerUnavailable,
    ToolRefused,
)
from reprise_server.agent.mcp.content import answer
from reprise_server.agent.mcp.listed import ListedTool, Listing
from reprise_server.agent.tools.large import within
from reprise_server.agent.tools.place import Place

#: A text within what the model gets: of one that is too long, head and tail, and where all of it
#: lies; and the steps that this took.
Fitted = Callable[[Call, str], Awaitable[tuple[str, tuple[int, ...]]]]

#: Characters of a call's input in the line that says what was done outside.
_LINE: Final = 160


def in_workspace(place: Place) -> Fitted:
    """Long texts go to a file of the session's workspace (`tools/large.py`)."""

    async def fitted(call: Call, words: str) -> tuple[str, tuple[int, ...]]:
        return await within(place, call, "", words, number=1)

    return fitted


@dataclass(frozen=True)
class Offered:
    """What the servers offer to one conversation; it stays the same while the conversation lasts.

    taints: that the descriptions, which servers wrote, are in the context.
    problems: for the person: servers that could not be asked, tools that are left out.
    """

    tools: tuple[ServerTool, ...] = ()
    taints: tuple[tuple[TaintKind, str], ...] = ()
    problems: tuple[str, ...] = ()


class Servers:
    """All configured servers of a process, each started when it is first asked."""

    def __init__(self, configured: Iterable[ConfiguredServer]) -> None:
        self._connections = [Connection(server) for server in configured]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def offered(self, fitted: Fitted) -> Offered:
        """What they offer now, all asked at once. Raises nothing of theirs: a server that cannot be
        asked offers nothing, and is named."""
        listings = await asyncio.gather(*map(_listed, self._connections))
        tools: list[ServerTool] = []
        taints: list[tuple[TaintKind, str]] = []
        problems: list[str] = []
        for connection, found in zip(self._connections, listings, strict=True):
            if found.tools:
                taints.append(("mcp", f"{connection.server.name} (what it says of its tools)"))
            tools += [ServerTool(connection, each, fitted) for each in found.tools]
            problems += found.problems
        return Offered(
            tuple(sorted(tools, key=lambda tool: tool.name)), tuple(taints), tuple(problems)
        )

    async def close(self) -> None:
        """End all of them. Idempotent."""
        await asyncio.gather(*(connection.close() for connection in self._connections))


async def _listed(connection: Connection) -> Listing:
    try:
        return await connection.list()
    except ServerUnavailable as error:
        return Listing((), (str(error),))


class ServerTool:
    """One tool of a server (a `contract.Tool`)."""

    def __init__(self, connection: Connection, listed: ListedTool, fitted: Fitted) -> None:
        self._connection = connection
        self._listed = listed
        self._fitted = fitted
        self.name = listed.wire
        self.description = listed.description
        self.schema: Mapping[str, Any] = listed.schema

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        server = self._connection.server
        return Act(
            self._listed.name,
            "outside",
            given,
            f"use {self._listed.name.rpartition('/')[2]} of the MCP server {server.name}",
            hosts=(server.host,) if server.host else (),
            # Whatever it is said to do: what it does is decided by whoever wrote it.
            carries_out=True,
        )

    async def run(self, call: Call, act: Act) -> Result:
        outside = (self._line(act),)
        try:
            await self._as_offered()
            got = await self._connection.call(self._listed.original, act.input, call.show)
        except ServerUnavailable as error:
            raise BadCall(f"{error} Go on without it, or tell the person.") from error
        except ToolRefused as error:
            return Result([text(str(error))], "error", taints=self._taints(act), outside=outside)
        except AnswerLost as error:
            return Result([text(str(error))], "lost", taints=self._taints(act), outside=outside)
        came = got.model_dump(by_alias=True, mode="json", exclude_none=True)
        said = answer(came["content"], came.get("structuredContent"))
        words = self._connection.server.hide(said.text)
        words, steps = await self._fitted(call, words)
        content: list[Block] = [text(words or "(it answered nothing)"), *said.images]
        status: CallEnd = "error" if got.is_error else "ok"
        return Result(content, status, steps=steps, taints=self._taints(act), outside=outside)

    async def _as_offered(self) -> None:
        """A server that was started again may be another one by now.

        Raises BadCall when what this tool says of itself is not what the conversation was offered.
        """
        current = await self._connection.current(self._listed.original)
        if current is None or current.digest != self._listed.digest:
            raise BadCall(
                f"The MCP server {self._connection.server.name} has changed this tool since the "
                "conversation began, so it was not called. A new conversation is offered it as it "
                "is now."
            )

    def _taints(self, act: Act) -> tuple[tuple[TaintKind, str], ...]:
        return (("mcp", act.tool.removeprefix("mcp/")),)

    def _line(self, act: Act) -> str:
        said = cut(one_line(json.dumps(dict(act.input), ensure_ascii=False)), _LINE)
        return f"{act.tool} {said}"
