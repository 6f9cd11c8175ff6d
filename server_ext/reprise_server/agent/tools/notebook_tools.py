"""The tools that work in the notebook: read it, change it, run its cells."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from reprise.client.results import CellResult
from reprise.errors import RepriseError
from reprise.log.model import Json
from reprise_server.agent.contract import (
    RESULT_CHARACTERS,
    Act,
    BadCall,
    Call,
    Change,
    Document,
    Edit,
    Result,
    Situation,
    Stale,
    TaintKind,
    Tool,
    text,
)
from reprise_server.agent.notebook.batch import MOST_SOURCE, changes_of, edits_of, exact, stale
from reprise_server.agent.notebook.cells import Notebook, by_id, cell_hash, normal
from reprise_server.agent.notebook.listing import HASH, Asked, listing, missing, quoted
from reprise_server.agent.notebook.outputs import painted
from reprise_server.agent.notebook.parted import left, parts_of
from reprise_server.agent.policy.page_loads import edits_may_load
from reprise_server.agent.policy.taint import of_path
from reprise_server.agent.tools.images import chosen
from reprise_server.agent.tools.large import within
from reprise_server.agent.tools.place import STEPS_OF_A_CALL, Place, Ran, Under
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import blocks, headline, summary

#: Cells of one call: each is a step of it, and one more keeps a large result.
MOST_RUN: Final = STEPS_OF_A_CALL - 1
#: Characters of an error in a note.
_NOTE: Final = 500
#: Seconds for painting what a cut cell showed, when the turn is being cancelled.
_PAINT_S: Final = 5.0

Taints = tuple[tuple[TaintKind, str], ...]


def notebook_tools(document: Document, place: Place) -> list[Tool]:
    """In the order in which the model is offered them."""
    return [
        ReadNotebook(document, place),
        EditNotebook(document),
        RunCells(document, place),
    ]


async def _read(document: Document) -> Notebook:
    return normal(await document.read(), document.path)


def _named(document: Document, situation: Situation) -> Taints:
    """The taint of a notebook that the person named untrusted."""
    return of_path(document.path, situation.untrusted_paths)


@dataclass
class ReadNotebook:
    document: Document
    place: Place
    name: str = field(default="read_notebook", init=False)
    description: str = field(
        default=(
            "Read the notebook as it is now: each cell with its id, type, prompt number, hash,"
            " source (each line behind `| `) and what it shows (behind `> `), images as images."
            " Without arguments from the top, as far as it fits; the answer says how to read on."
            " Name `cells` to see more of each. Edits name cells by id and give these hashes."
        ),
        init=False,
    )
    schema: Mapping[str, Any] = field(
        default_factory=lambda: fields(
            {},
            {
                "cells": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Ids of the cells to read.",
                },
                "first": texts("Instead of `cells`: the id of the cell to begin at."),
                "most": {"type": "integer", "description": "How many cells, from `first` on."},
                "outputs": {
                    "type": "boolean",
                    "description": "false leaves out what cells show. Default true.",
                },
                "line": {
                    "type": "integer",
                    "description": "With one cell: the line of its source to begin at.",
                },
            },
        ),
        init=False,
    )

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        path = self.document.path
        return Act(self.name, "read", given, f"read the notebook {path}", paths=(path,))

    async def run(self, call: Call, act: Act) -> Result:
        given = act.input
        asked = Asked(
            tuple(given.get("cells") or ()),
            given.get("first"),
            given.get("most"),
            bool(given.get("outputs", True)),
            max(1, given.get("line", 1)),
        )
        found = listing(await _read(self.document), self.document.path, asked)
        taints = _named(self.document, call.situation)
        if found.outputs:
            sources = await self.place.sources()
            taints = (*taints, *sources.taints(), *(await self.place.named()))
        return Result(found.blocks, taints=taints)


@dataclass
class EditNotebook:
    document: Document
    name: str = field(default="edit_notebook", init=False)
    description: str = field(
        default=(
            "Change cells of the notebook: all edits of the call in their order, or none. Put"
            " edits that belong together in one call. A cell is named by its id, with its hash as"
            " you read it (`was`), so that nothing is written over what somebody changed"
            " meanwhile; the answer gives the new hashes. Cells do not run by being edited.\n"
            "insert: `source`, `type` (default code), `after`. replace: `cell`, `was`, `source`"
            " (the whole new one) or `type`. delete: `cell`, `was`. move: `cell`, `was`, `after`."
        ),
        init=False,
    )
    schema: Mapping[str, Any] = field(
        default_factory=lambda: fields(
            {
                "edits": {
                    "type": "array",
                    "items": fields(
                        {"do": {"type": "string", "enum": ["insert", "replace", "delete", "move"]}},
                        {
                            "cell": texts("The cell's id (not of an insert: it gets one)."),
                            "was": texts("The cell's hash, as it was read."),
                            "after": texts(
                                'The id of the cell that it comes after; "" for the top; "#2" for'
                                " the cell that edit 2 of this call inserts. An insert without it"
                                " goes to the end."
                            ),
                            "type": {"type": "string", "enum": ["code", "markdown", "raw"]},
                            "source": texts("The whole source, without the bars of read_notebook."),
                        },
                    ),
                }
            }
        ),
        init=False,
    )

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        path = self.document.path
        edits = exact(await _read(self.document), given["edits"])
        count = len({edit["cell"] for edit in edits})
        title = f"change {count} cell{'' if count == 1 else 's'} of {path}"
        asked: dict[str, Json] = {"notebook": path, "edits": list(edits)}
        # A front end that draws it fetches what it names.
        out = edits_may_load(edits)
        return Act(self.name, "edit", asked, title, paths=(path,), carries_out=out)

    def parts(self, act: Act) -> tuple[str, ...]:
        return parts_of(act.input["edits"])

    def without(self, act: Act, rejected: Mapping[str, str | None]) -> Act:
        return replace(act, input={**act.input, "rejected": dict(rejected)})

    async def run(self, call: Call, act: Act) -> Result:  # noqa: ARG002
        edits, rejected = act.input["edits"], act.input.get("rejected") or {}
        if rejected:
            edits = left(edits, rejected, list(by_id(await _read(self.document))))
        try:
            await self.document.apply(changes_of(edits))
        except Stale as error:
            if not error.cells:
                raise BadCall(str(error)) from error
            there = by_id(await _read(self.document))
            raise BadCall(stale(there, error.cells)) from error
        made = edits_of({"edits": edits})
        lines = [_told(edit, done) for edit, done in zip(edits, made, strict=True)]
        lines += [_told_rejected(part, reason) for part, reason in rejected.items()]
        done = "Done, but for what the person rejected." if rejected else "Done."
        return Result([text("\n".join([done, *lines]))], edits=made)


def _told_rejected(part: str, reason: str | None) -> str:
    said = f" They say: {reason}" if reason else " They gave no reason."
    return f"cell {part} · your edit was rejected, so it was not made.{said}"


def _told(edit: Mapping[str, Json], made: Edit) -> str:
    words = {"insert": "inserted", "replace": "replaced", "delete": "deleted", "move": "moved"}
    now = "" if made.after is None else f" · hash {made.after[:HASH]}"
    kind = f" · {edit['type']}" if "type" in edit else ""
    return f"cell {made.cell} {words[edit['do']]}{kind}{now}"


@dataclass
class RunCells:
    document: Document
    place: Place
    name: str = field(default="run_cells", init=False)
    description: str = field(
        default=(
            "Run cells of the notebook in the order given, and see what they show; it is painted"
            f" into the notebook. At most {MOST_RUN} in a call. It stops at the first one that"
            " fails, or that somebody changed meanwhile. Cells without code are passed over."
        ),
        init=False,
    )
    schema: Mapping[str, Any] = field(
        default_factory=lambda: fields(
            {
                "cells": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "Ids of cells, in the order in which to run them.",
                }
            },
            {
                "timeout": {
                    "type": "number",
                    "description": "Seconds after which a cell is interrupted. Default: no limit"
                    " but the environment's.",
                }
            },
        ),
        init=False,
    )

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        path = self.document.path
        there = by_id(await _read(self.document))
        names = given["cells"]
        for name in names:
            if name not in there:
                raise BadCall(f"{missing(name, there)} Nothing ran.")
        cells = [there[name] for name in names if there[name]["cell_type"] == "code"]
        if not cells:
            raise BadCall("None of these is a code cell, so there is nothing to run.")
        if len(cells) > MOST_RUN:
            raise BadCall(
                f"One call runs at most {MOST_RUN} cells, and these are {len(cells)}. Nothing ran. "
                "Run the first ones, look, and run the rest in another call."
            )
        code = "\n\n".join(cell["source"] for cell in cells)
        if len(code) > MOST_SOURCE:
            raise BadCall(
                f"The sources of one call have at most {MOST_SOURCE:,} characters, and these have "
                f"{len(code):,}. Nothing ran. Run them in several calls."
            )
        asked: dict[str, Json] = {
            "notebook": path,
            "cells": [
                {"cell": cell["id"], "was": cell_hash(cell), "source": cell["source"]}
                for cell in cells
            ],
        }
        if (timeout := given.get("timeout")) is not None:
            if not 0 < timeout < 1e9:
                raise BadCall(f"`timeout` is a number of seconds above 0, not {timeout}.")
            asked["timeout"] = timeout
        title = f"run {len(cells)} cell{'' if len(cells) == 1 else 's'} of {path}"
        return Act(self.name, "run", asked, title, code=code, paths=(path,))

    async def run(self, call: Call, act: Act) -> Result:
        running = _Run(self.document, self.place, call, act.input["cells"])
        await running.all(act.input.get("timeout"))
        return await running.result(_named(self.document, call.situation))


class _Run:
    """One call of `run_cells` on its way."""

    def __init__(
        self, document: Document, place: Place, call: Call, cells: Sequence[Mapping[str, Json]]
    ) -> None:
        self._document = document
        self._place = place
        self._call = call
        self._cells = cells
        #: Of all cells, since their images are numbered together; `mark` before each cell's.
        self._shown: list[Mapping[str, Any]] = []
        self._mark = f"\n{secrets.token_hex(16)}\n"
        #: How each cell ended, and what else is to be said; seen however long the rest is.
        self._heads: list[str] = []
        self._notes: list[str] = []
        self._ran: list[Ran[CellResult]] = []

    async def all(self, timeout: float | None) -> None:  # noqa: ASYNC109
        for number, cell in enumerate(self._cells, 1):
            there = by_id(await _read(self._document))
            now = there.get(cell["cell"])
            if now is None or cell_hash(now) != cell["was"]:
                if not self._ran:
                    raise BadCall(stale(there, [cell["cell"]]))
                self._stopped(cell, "somebody changed it meanwhile: read it again")
                return
            ran = await self._cell(number, cell, timeout)
            if not ran.result.ok:
                if number < len(self._cells):
                    self._stopped(self._cells[number], f"cell {cell['cell']} failed")
                return

    async def _cell(
        self,
        number: int,
        cell: Mapping[str, Json],
        timeout: float | None,  # noqa: ASYNC109
    ) -> Ran[CellResult]:
        under = Under.of(self._call, number)
        try:
            ran = await self._place.run_cell(
                cell["source"],
                under,
                cell_id=cell["cell"],
                timeout=timeout,
                show=self._call.show,
            )
        except asyncio.CancelledError:
            await self._paint_cut(cell, under)
            raise
        self._ran.append(ran)
        result = ran.result
        outputs = painted(result.outputs, result.execution_count, result.seq)
        self._heads.append(f"cell {cell['cell']} · {headline(result)}")
        self._shown.append({"output_type": "stream", "name": "stdout", "text": self._mark})
        self._shown.extend(outputs)
        try:
            await self._paint(cell, outputs, result.execution_count)
        except RepriseError as error:
            self._notes.append(
                f"What cell {cell['cell']} shows could not be painted into the notebook: "
                f"{str(error)[:_NOTE]}"
            )
        return ran

    async def _paint(
        self, cell: Mapping[str, Json], outputs: Sequence[Mapping[str, Any]], count: int | None
    ) -> None:
        change = Change("outputs", cell["cell"], outputs=outputs, execution_count=count)
        await self._document.apply([change])

    async def _paint_cut(self, cell: Mapping[str, Json], under: Under) -> None:
        """Paint what the log has of a cell that was cut; the person sees how far it came."""

        async def paint() -> None:
            for record in await self._place.of_call(under.key):
                count = None if record.outcome is None else record.outcome.new.execution_count
                outputs = painted(record.outputs, count, record.step.seq)
                await self._paint(cell, outputs, count)
                return

        # Whatever becomes of it, the turn is cancelled; what was shown stays in the log.
        with contextlib.suppress(RepriseError, TimeoutError):
            await asyncio.wait_for(paint(), _PAINT_S)

    def _stopped(self, cell: Mapping[str, Json], why: str) -> None:
        self._notes.append(f"Cell {cell['cell']} and those after it did not run: {why}.")

    async def result(self, named: Taints) -> Result:
        found = summary(self._shown)
        images, left = chosen(found.images)
        if left:
            self._notes.append(f"{left} more images are not shown here.")
        notes = "".join(f"[{note}]\n" for note in self._notes)
        shown = found.text.split(self._mark)[1:]
        parts = [
            head + (quoted(text) if text.strip("\n") else "")
            for head, text in zip(self._heads, shown, strict=True)
        ]
        head, body = "", "".join(parts) + notes
        if len(body) > RESULT_CHARACTERS:
            head, body = f"{''.join(self._heads)}{notes}\n", "".join(parts)
        number = len(self._cells) + 1
        words, kept = await within(self._place, self._call, head, body, number=number)
        last = self._ran[-1].result
        return Result(
            blocks(words, images),
            "ok" if last.ok else "lost" if last.status == "lost" else "error",
            steps=(*(ran.result.seq for ran in self._ran), *kept),
            taints=tuple(
                dict.fromkeys([*named, *(taint for ran in self._ran for taint in ran.taints)])
            ),
            edits=tuple(
                Edit(cell["cell"], cell["was"], cell["was"])
                for cell in self._cells[: len(self._ran)]
            ),
            outside=tuple(line for ran in self._ran for line in ran.outside),
        )
