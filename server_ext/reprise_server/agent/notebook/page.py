"""The notebook in the browser page that holds its edit lease, over the page's own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from reprise.errors import RepriseError
from reprise.jupyter.static.policy import EDITED_BY
from reprise.log.model import Json
from reprise_server.agent.contract import Change, Stale
from reprise_server.agent.notebook.cells import Notebook, apply, by_id, cell_hash, normal
from reprise_server.agent.notebook.on_loop import on_loop
from reprise_server.agent.notebook.pages import Page, PageGone, Pages

#: Seconds. A page that is hidden or busy is throttled to a look each second, not longer.
PATIENCE: Final = 20.0
#: Of what a page says of its own, in an error that the model reads.
_TOLD: Final = 300


class PageRefused(RepriseError):
    """The page could not do what it was asked; the notebook in it is as it was."""


class PageNotebook:
    """A `Document` (agent.contract). The page compares and changes in one go, and saves by itself.

    Its two requests and their answers are in docs/agent-notebook.md. What does not come back in
    time may have been done, and is told so: it is never sent twice, nor done elsewhere instead.
    """

    where: Literal["room", "page", "file"] = "page"

    def __init__(self, path: str, page: Page, pages: Pages, patience: float = PATIENCE) -> None:
        self.path = path
        self._page = page
        self._pages = pages
        self._patience = patience

    async def read(self) -> Mapping[str, Any]:
        """Raises PageGone, BadNotebook, TooLarge."""
        return await on_loop(self._pages.loop, self._read)

    async def apply(self, changes: Sequence[Change]) -> None:
        """Raises Stale, UsageError, PageRefused, PageGone."""
        await on_loop(self._pages.loop, lambda: self._apply(changes))

    async def close(self) -> None:
        """The page stays open."""

    async def _read(self) -> Notebook:
        answer = await self._ask({"do": "read"}, "Nothing was changed.")
        return normal(answer.get("notebook"), self.path)

    async def _apply(self, changes: Sequence[Change]) -> None:
        notebook = await self._read()
        apply(notebook, changes)  # which says whether they can be made
        asked = list(requests(notebook, changes))
        answer = await self._ask(
            {"do": "apply", "changes": asked},
            "Whether it made these changes is not known: read the notebook before you go on.",
        )
        if answer.get("applied") is True:
            return
        found = answer.get("stale")
        if isinstance(found, list) and found:
            cells = [str(name)[:64] for name in found[: len(changes)]]
            raise Stale(
                f"Somebody changed {', '.join(cells[:5])} in the page at this moment. None of "
                "these changes was made.",
                cells,
            )
        said = answer.get("error")
        words = f": {said[:_TOLD]}" if isinstance(said, str) and said else "."
        raise PageRefused(f"The page that has {self.path} open made none of the changes{words}")

    async def _ask(self, request: Mapping[str, Json], state: str) -> Mapping[str, Json]:
        try:
            async with asyncio.timeout(self._patience):
                answer = await self._page.ask(request)
        except TimeoutError:
            raise PageGone(
                f"The page that has {self.path} open did not answer in {self._patience:.0f} s. "
                f"{state}"
            ) from None
        except PageGone as error:
            raise PageGone(f"{error} {state}") from error
        if not isinstance(answer, Mapping):
            raise PageRefused(f"The page that has {self.path} open answered nothing usable.")
        return answer


def requests(notebook: Notebook, changes: Sequence[Change]) -> Iterator[dict[str, Json]]:
    """Changes as a page gets them: what it is to find (`expect`), and what it is to put there.

    A page compares texts, since plain HTTP gives it no sha256. notebook: as it was read, of which
    the changes are known to be possible.
    """
    found = by_id(notebook)
    seen: set[str] = set()
    for change in changes:
        asked: dict[str, Json] = {"what": change.what, "cell": change.cell}
        old = by_id(notebook).get(change.cell)
        if change.cell in found and change.cell not in seen and change.what != "outputs":
            before = found[change.cell]
            asked["expect"] = {"type": before["cell_type"], "source": before["source"]}
        seen.add(change.cell)
        known = change if old is None else replace(change, was=cell_hash(old))
        notebook = apply(notebook, [known]).notebook
        if change.what in ("insert", "move"):
            asked["after"] = change.after
        if change.what in ("insert", "replace"):
            asked |= _put(change, by_id(notebook)[change.cell])
        if change.what == "outputs":
            asked["outputs"] = [dict(output) for output in change.outputs or ()]
            asked["execution_count"] = change.execution_count
        yield asked


def _put(change: Change, cell: Mapping[str, Any]) -> dict[str, Json]:
    """What a cell is to be. What `put` does not name stays, `mark` is added to the metadata: a
    person may have changed those in the same moment."""
    if change.restored is not None or change.what == "insert":
        return {"put": dict(cell)}
    return {
        "put": {name: cell[name] for name in ("cell_type", "source")},
        "mark": {EDITED_BY: cell["metadata"][EDITED_BY]},
    }
