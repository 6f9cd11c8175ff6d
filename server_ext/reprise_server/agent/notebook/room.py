"""The notebook in the server's collaborative room, which every page that has it open sees."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from reprise_server.agent.contract import Change
from reprise_server.agent.notebook.cells import Cell, Notebook, apply, by_id, normal
from reprise_server.agent.notebook.elsewhere import Elsewhere
from reprise_server.agent.notebook.on_loop import on_loop

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp

#: The server extension of jupyter-collaboration, which is optional.
EXTENSION: Final = "jupyter_server_ydoc"

#: Keys of a cell that are types of their own in a room (jupyter_ydoc.YNotebook).
_NESTED: Final = ("source", "metadata", "outputs")


class Rooms:
    """The rooms of a Jupyter server. None are open where nobody has the notebook open."""

    def __init__(self, server: ServerApp, loop: asyncio.AbstractEventLoop) -> None:
        """loop: the server's."""
        self.loop = loop
        self._server = server

    async def find(self, path: str) -> RoomNotebook | None:
        """The room of a notebook that is open in one. path: as the contents API has it."""
        found = await on_loop(self.loop, lambda: self.document(path))
        return None if found is None else RoomNotebook(path, self)

    async def document(self, path: str) -> Any:
        """What the room shares (`jupyter_ydoc.YNotebook`), or None; to be called on `loop`.

        Rooms come and go with their pages, so it is good until the next wait.
        """
        apps = self._server.extension_manager.extension_apps.get(EXTENSION, ())
        extension = next(iter(apps), None)
        if extension is None:
            return None
        named = {"path": path, "content_type": "notebook", "file_format": "json"}
        if extension.document_load_progressively:
            # A copy is given only once all of it has come.
            await extension.get_document(**named, copy=True)
        return await extension.get_document(**named, copy=False)


class RoomNotebook:
    """A `Document` (agent.contract) in a room, only touched on its loop.

    Finding, reading, comparing and changing is one stretch without a wait, so nothing comes
    between; the room saves itself, as after a person's edit. Raises Elsewhere once it is closed.
    """

    where: Literal["room", "page", "file"] = "room"

    def __init__(self, path: str, rooms: Rooms) -> None:
        self.path = path
        self._rooms = rooms

    async def read(self) -> Mapping[str, Any]:
        """Raises BadNotebook, TooLarge."""
        return await on_loop(self._rooms.loop, self._read)

    async def apply(self, changes: Sequence[Change]) -> None:
        """Raises Stale, UsageError; then the room is as it was."""
        await on_loop(self._rooms.loop, lambda: self._apply(changes))

    async def close(self) -> None:
        """The room is its pages'."""

    async def _read(self) -> Notebook:
        return _now(await self._found(), self.path)

    async def _apply(self, changes: Sequence[Change]) -> None:
        document = await self._found()
        before = _now(document, self.path)
        after = apply(before, changes).notebook
        with document.ydoc.transaction():
            _name(document, before["cells"])
            _order(document, before["cells"], after["cells"])
            then = by_id(before)
            for live, cell in zip(document.ycells, after["cells"], strict=True):
                old = then.get(cell["id"])
                if old is not None and old["cell_type"] == cell["cell_type"]:
                    _bring(live, old, cell)

    async def _found(self) -> Any:
        document = await self._rooms.document(self.path)
        if document is None:
            raise Elsewhere
        return document


def _now(document: Any, name: str) -> Notebook:
    content = document.get(deduplicate=False)
    # Below 4.5 the room keeps ids all the same, and leaves them out here.
    for cell, live in zip(content["cells"], document.ycells, strict=True):
        if "id" in live:
            cell["id"] = live["id"]
    return normal(content, name)


def _name(document: Any, cells: Sequence[Cell]) -> None:
    """Keep the ids by which the agent knows the cells: below 4.5 no file has any."""
    meta = document.ydoc["meta"]
    if meta.get("nbformat_minor", 0) < 5:
        meta["nbformat_minor"] = 5
    for live, cell in zip(document.ycells, cells, strict=True):
        if live.get("id") != cell["id"]:
            live["id"] = cell["id"]


def _order(document: Any, before: Sequence[Cell], after: Sequence[Cell]) -> None:
    """Remove what is gone, insert what is new, in the order of `after`.

    A cell that moved or has another type is made anew, as a page does it: Yjs has no move.
    """
    live = document.ycells
    wanted = {cell["id"]: cell["cell_type"] for cell in after}
    kept = [cell["id"] for cell in before if wanted.get(cell["id"]) == cell["cell_type"]]
    stays = _in_order(kept, [cell["id"] for cell in after])
    for at in range(len(before) - 1, -1, -1):
        if before[at]["id"] not in stays:
            del live[at]
    for at, cell in enumerate(after):
        if cell["id"] not in stays:
            live.insert(at, document.create_ycell(cell))


def _bring(live: Any, old: Cell, new: Cell) -> None:
    """Change what differs, so that cursors and what somebody types elsewhere stay."""
    if old["source"] != new["source"]:
        _retype(live["source"], new["source"])
    if old["metadata"] != new["metadata"]:
        _update(live["metadata"], new["metadata"])
    if old.get("outputs") != new.get("outputs"):
        outputs = live["outputs"]
        outputs.clear()
        outputs.extend(_live_output(live, output) for output in new["outputs"])
    for key in (old.keys() | new.keys()) - {*_NESTED, "id", "cell_type"}:
        if key not in new:
            del live[key]
        elif old.get(key) != new[key] or key not in old:
            live[key] = new[key]


def _in_order(before: Sequence[str], after: Sequence[str]) -> set[str]:
    """Most of the cells of `before` that need not move to stand as in `after`."""
    place = {name: at for at, name in enumerate(after)}
    # The longest run of rising places: of each length the one that ends earliest, and its way.
    ends: list[int] = []
    at_end: list[int] = []
    previous: list[int | None] = []
    for number, name in enumerate(before):
        low, high = 0, len(ends)
        while low < high:
            middle = (low + high) // 2
            if ends[middle] < place[name]:
                low = middle + 1
            else:
                high = middle
        ends[low:] = [place[name], *ends[low + 1 :]]
        at_end[low:] = [number, *at_end[low + 1 :]]
        previous.append(at_end[low - 1] if low else None)
    found: set[str] = set()
    step = at_end[-1] if at_end else None
    while step is not None:
        found.add(before[step])
        step = previous[step]
    return found


def _retype(text: Any, wanted: str) -> None:
    """Replace only the middle in which the texts differ. text: a pycrdt Text, in UTF-8 bytes."""
    now = str(text)
    most = min(len(now), len(wanted))
    head = next((at for at in range(most) if now[at] != wanted[at]), most)
    room = most - head
    tail = next((at for at in range(room) if now[-1 - at] != wanted[-1 - at]), room)
    start = len(now[:head].encode())
    end = start + len(now[head : len(now) - tail].encode())
    if end > start:
        del text[start:end]
    if new := wanted[head : len(wanted) - tail]:
        text.insert(start, new)


def _update(live: Any, wanted: Mapping[str, Any]) -> None:
    now = live.to_py()
    for key in now.keys() - wanted.keys():
        del live[key]
    for key, value in wanted.items():
        if key not in now or now[key] != value:
            live[key] = value


def _live_output(cell: Any, output: Mapping[str, Any]) -> Any:
    """An output as rooms keep it. The types are pycrdt's, which comes with the collaboration."""
    map_type, text_type = type(cell), type(cell["source"])
    if output["output_type"] == "stream":
        return map_type({**output, "text": text_type(output["text"])})
    return map_type(dict(output))
