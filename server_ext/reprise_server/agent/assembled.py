"""Puts together what a conversation works with: model, session, notebook, tools, policies."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reprise.errors import RepriseError
from reprise.log.postgres import Log
from reprise.skills.disclosure import Disclosure
from reprise_server.agent import course
from reprise_server.agent.bound import BoundPolicies, LoggedSession, Surrounded
from reprise_server.agent.contract import (
    Document,
    Entry,
    Tool,
)
from reprise_server.agent.conversation import Assemble
from reprise_server.agent.mcp.opening import open_servers
from reprise_server.agent.model import open_model
from reprise_server.agent.parts import Parts
from reprise_server.agent.policy.levels import levels
from reprise_server.agent.settings import RepriseAgent
from reprise_server.agent.tools.notebook_tools import notebook_tools
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.toolbox import toolbox

if TYPE_CHECKING:
    from reprise_server.agent.mcp.tools import Offered

#: Opens the notebook at a path, wherever it is live.
OpenDocument = Callable[[str], Awaitable[Document]]
#: Opens the session of a conversation, given its notebook's path if it has one.
OpenPlace = Callable[[Log, uuid.UUID, str | None], Place]


@dataclass(frozen=True)
class Assembly:
    """How this process opens what its conversations work with.

    document: None where there are no notebooks.  where: of a kernel that has to be started.
    scripted: no model answers, but a script; each conversation says so.
    skills: without, the model is told of none and has no tool for them (`reprise eval`).
    """

    settings: RepriseAgent
    document: OpenDocument | None = None
    place: OpenPlace = lambda log, session, _: Place(log, session)
    scripted: bool = False
    skills: bool = True

    async def beginning(self, log: Log, model: str | None) -> dict[str, Any]:
        """The body of `begun` of a new conversation. Raises UsageError, UnavailableError: where the
        model cannot be asked or a policy not be read, none is begun."""
        settings = self.settings
        opened = open_model(settings, name=model)
        await opened.close()
        policy = [
            {"level": each.name, "digest": each.policy.digest}
            for each in await levels(log, settings)
        ]
        body: dict[str, Any] = {
            "model": opened.name,
            "provider": settings.provider,
            "policy": policy,
        }
        return {**body, "scripted": True} if self.scripted else body

    def of(self, log: Log) -> Assemble:
        """Opens the parts of a conversation whose log this is."""

        async def assemble(conversation: uuid.UUID, entries: Sequence[Entry], task: str) -> Parts:
            del conversation
            return await self._assembled(log, entries, task)

        return assemble

    async def _assembled(self, log: Log, entries: Sequence[Entry], task: str) -> Parts:
        settings, begun = self.settings, entries[0].body
        async with contextlib.AsyncExitStack() as opened:
            model = open_model(settings, name=str(begun["model"]))
            opened.push_async_callback(model.close)
            session = uuid.UUID(course.session_of(entries))
            path = begun.get("notebook")
            place = self.place(log, session, path)
            place.untrusted = tuple(settings.untrusted_paths)
            opened.push_async_callback(place.close)
            document = None
            if path is not None and self.document is not None:
                document = await self.document(str(path))
                opened.push_async_callback(document.close)
            view = await _disclosure(log, entries, document, task) if self.skills else None
            offered = await _of_servers(settings, place, opened)
            tools: list[Tool] = toolbox(
                place,
                view,
                notebook=[] if document is None else notebook_tools(document, place),
                more=() if offered is None else offered.tools,
            )
            closing = opened.pop_all()
        around = Surrounded(settings, place, begun.get("by"), path)
        return Parts(
            model,
            {tool.name: tool for tool in tools},
            BoundPolicies(log, settings),
            LoggedSession(place),
            around.situation,
            document,
            _no_view if view is None else view.state,
            () if offered is None else offered.taints,
            () if offered is None else offered.problems,
            settings.approval_patience,
            closing.aclose,
        )


async def _of_servers(
    settings: RepriseAgent, place: Place, opened: contextlib.AsyncExitStack
) -> Offered | None:
    """What the configured MCP servers offer; None where there are none."""
    servers = open_servers(settings)
    if servers is None:
        return None
    opened.push_async_callback(servers.close)
    from reprise_server.agent.mcp.tools import in_workspace  # noqa: PLC0415  the SDK's weight

    return await servers.offered(in_workspace(place))


async def _disclosure(
    log: Log, entries: Sequence[Entry], document: Document | None, task: str
) -> Disclosure:
    """The view of the catalog that the conversation has, or that it begins with.

    Only skills that somebody vouches for stand in the prompt: what nobody approved comes in by a
    call, whose result says so.
    """
    stored = course.disclosure_of(entries)
    if stored is not None:
        return Disclosure.of(log, stored)
    notebook = None
    if document is not None:
        with contextlib.suppress(RepriseError):  # what it is about is told by the task alone then
            notebook = await document.read()
    path = "" if document is None else document.path
    view = await Disclosure.begin(log, notebook, path=path, task=task, untrusted=False)
    return Disclosure(log, view.choice, untrusted=True)


def _no_view() -> None:
    """What there is to store of a catalog that nobody is told of."""
