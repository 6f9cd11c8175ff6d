"""`reprise mcp` in this process, on a database of the tests, used by the SDK's own client."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.types import CallToolResult

from reprise.log.postgres import Log
from reprise_server.agent.mcp.offered_session import Means
from reprise_server.agent.mcp.offering import Offering
from reprise_server.agent.mcp.server import serve
from reprise_server.agent.settings import RepriseAgent
from tests.fixtures.kernel import Database

_TAIL = re.compile(r"\[session ([0-9a-f-]{36})(?: · steps ([0-9, ]+))?(?: · (\w+))?\]")


@dataclass
class Answer:
    """What a call gave. steps: of the session.  status: where it is neither ok nor error."""

    result: CallToolResult
    text: str
    session: uuid.UUID | None
    steps: list[int]
    status: str | None

    @property
    def is_error(self) -> bool:
        return bool(self.result.is_error)


@dataclass
class Other:
    """The other agent."""

    client: Client
    offering: Offering
    log: Log

    async def call(self, name: str, **given: Any) -> Answer:
        result = await self.client.call_tool(name, given)
        *rest, last = [block.text for block in result.content if block.type == "text"] or [""]
        found = _TAIL.fullmatch(last)
        if found is None:
            return Answer(result, "\n".join([*rest, last]), None, [], None)
        steps = [int(each) for each in (found[2] or "").split(",") if each]
        return Answer(result, "\n".join(rest), uuid.UUID(found[1]), steps, found[3])


def offering_of(log: Log, folder: Path) -> Offering:
    """An offering that nobody works in."""
    return Offering(Means(log, RepriseAgent(), folder, {}, False, "me"))


@asynccontextmanager
async def other_agent(
    database: Database,
    folder: Path,
    *,
    backend: str = "bubblewrap",
    vouched: bool = False,
    named: tuple[uuid.UUID, ...] = (),
    every: bool = False,
    own: bool = True,
    **settings: Any,
) -> AsyncIterator[Other]:
    log = await Log.connect(database.dsn, home=database.home)
    environ = {
        "REPRISE_DSN": database.dsn,
        "REPRISE_HOME": str(database.home),
        "REPRISE_BACKEND": backend,
        "REPRISE_SESSION": "",
        "REPRISE_ENVIRONMENT": "",
    }
    means = Means(log, RepriseAgent(**settings), folder, environ, vouched, "me")
    offering = Offering(means, named, every, own)
    try:
        async with Client(await serve(offering)) as client:
            yield Other(client, offering, log)
    finally:
        await offering.close()
        await log.close()
