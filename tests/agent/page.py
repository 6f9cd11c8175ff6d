"""A page as docs/agent-notebook.md asks one to be, built from that text alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any


class ReferencePage:
    """Holds a notebook and answers the server's requests about it.

    holds: what it was told of the lease.  answer: given instead of doing what is asked, once.
    """

    def __init__(self, notebook: dict[str, Any]) -> None:
        self.notebook = copy.deepcopy(notebook)
        self.holds: list[bool] = []
        self.asked: list[Mapping[str, Any]] = []
        self.answer: Any = None

    def told(self, holds: bool) -> None:
        self.holds.append(holds)

    def sources(self) -> list[str]:
        return [cell["source"] for cell in self.notebook["cells"]]

    async def ask(self, request: Mapping[str, Any]) -> Any:
        asked = json.loads(json.dumps(request))
        self.asked.append(asked)
        if asked["do"] == "read":
            return {"notebook": json.loads(json.dumps(self.notebook))}
        if self.answer is not None:
            answer, self.answer = self.answer, None
            return answer
        cells = copy.deepcopy(self.notebook["cells"])
        found = [make(cells, change) for change in asked["changes"]]
        if stale := [name for name in found if name is not None]:
            return {"stale": stale}
        self.notebook["cells"] = cells
        return {"applied": True}


def make(cells: list[dict[str, Any]], change: Mapping[str, Any]) -> str | None:
    """Make one change; the id that is stale otherwise."""
    name, what = change["cell"], change["what"]
    places = {cell["id"]: at for at, cell in enumerate(cells)}
    if what == "insert":
        return place(cells, change["put"], change["after"])
    if name not in places:
        return str(name)
    cell = cells[places[name]]
    expect = change.get("expect")
    if expect is not None and expect != {"type": cell["cell_type"], "source": cell["source"]}:
        return str(name)
    if what == "delete":
        del cells[places[name]]
    elif what == "move":
        del cells[places[name]]
        return place(cells, cell, change["after"])
    elif what == "replace":
        if cell["cell_type"] == "code" != change["put"]["cell_type"]:
            del cell["outputs"], cell["execution_count"]
        if cell["cell_type"] != "code" == change["put"]["cell_type"]:
            cell.update(outputs=[], execution_count=None)
            cell.pop("attachments", None)
        cell.update(change["put"])
        cell["metadata"].update(change.get("mark", {}))
    else:
        cell["outputs"], cell["execution_count"] = change["outputs"], change["execution_count"]
        if change["outputs"]:
            cell["metadata"]["trusted"] = False
    return None


def place(cells: list[dict[str, Any]], cell: dict[str, Any], after: str) -> str | None:
    names = [each["id"] for each in cells]
    if after and after not in names:
        return after
    cells.insert(names.index(after) + 1 if after else 0, cell)
    return None
