"""All tools of one conversation, in the order that every request has them."""

from __future__ import annotations

from collections.abc import Sequence

from reprise_server.agent.contract import Tool
from reprise_server.agent.tools.commands import RunCommand
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.reading import Files, ListFiles, ReadFile
from reprise_server.agent.tools.writing import WriteFile


def toolbox(
    place: Place, *, notebook: Sequence[Tool] = (), more: Sequence[Tool] = ()
) -> list[Tool]:
    """The tools, names unique.

    notebook: those of the notebook, where there is one.  more: those of MCP servers, sorted.
    """
    files = Files(place)
    return [
        *notebook,
        RunCommand(place),
        ReadFile(files),
        WriteFile(files),
        ListFiles(files),
        *more,
    ]
