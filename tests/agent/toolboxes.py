"""All tools of a conversation that has a notebook, on no session: for what they say of themselves."""

from __future__ import annotations

import re
import uuid
from typing import Any, cast

from reprise_server.agent.contract import Tool
from reprise_server.agent.tools.notebook_tools import notebook_tools
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.toolbox import toolbox


def all_tools() -> list[Tool]:
    nothing = cast(Any, None)
    place = Place(nothing, uuid.UUID(int=1))
    return toolbox(place, _View(), notebook=notebook_tools(nothing, place))  # type: ignore[arg-type]


class _View:
    """A view of the catalog that nobody asks anything."""


#: What each tool does, as policies name it.
EFFECTS = {
    "read_notebook": "read",
    "edit_notebook": "edit",
    "run_cells": "run",
    "run_command": "run",
    "read_file": "read",
    "write_file": "write",
    "list_files": "read",
    "search_files": "read",
    "search_skills": "read",
    "load_skill": "load",
    "read_skill_file": "load",
    "run_skill": "run",
    "save_artifact": "keep",
    "ask_user": "ask",
    "fork_session": "history",
    "rewind_session": "history",
}


def table() -> list[str]:
    """The rows of docs/agent-tools.md."""
    rows = []
    for tool in all_tools():
        takes = ", ".join(
            f"`{name}`" if name in tool.schema["required"] else f"[`{name}`]"
            for name in tool.schema["properties"]
        )
        said = re.sub(r"\s*\([^)]*\)", "", tool.description)
        first = re.split(r"[.:;](?:\s|$)", said, maxsplit=1)[0]
        rows.append(f"| `{tool.name}` | {EFFECTS[tool.name]} | {takes} | {first} |")
    return rows


if __name__ == "__main__":
    print("\n".join(table()))  # noqa: T201
