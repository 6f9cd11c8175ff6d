"""Notebooks as nbformat 4.5 JSON: read from anything, changed all or nothing (pure)."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise.errors import RepriseError, TooLarge, UsageError
from reprise.jupyter.static.policy import EDITED_BY
from reprise.log.model import canonical, sha256_hex
from reprise_server.agent.contract import Change, Edit, Stale

#: nbformat JSON.
Notebook = dict[str, Any]
Cell = dict[str, Any]

#: Of a notebook as text. The server holds several such copies while it changes one.
MAX_BYTES: Final = 64 << 20
#: More is no notebook that anybody reads; each is looked at in every change.
MAX_CELLS: Final = 10_000
#: Of one cell's source as the agent may write it.
MAX_SOURCE: Final = 1 << 20

CELL_TYPES: Final = ("code", "markdown", "raw")
_OUTPUTS: Final = ("stream", "display_data", "execute_result", "error")
#: What nbformat 4.5 takes for the id of a cell.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


class BadNotebook(RepriseError):
    """What was read is no notebook; it is left as it is."""


@dataclass(frozen=True)
class Applied:
    """The notebook after changes, and what each of them did."""

    notebook: Notebook
    edits: tuple[Edit, ...]


# Reading ------------------------------------------------------------------------------------------


def hash_of(cell_type: str, source: str) -> str:
    """By which a stale edit is known: sha256 of a cell's type and source, nothing else of it."""
    return sha256_hex(canonical([cell_type, source]))


def cell_hash(cell: Mapping[str, Any]) -> str:
    """`hash_of` a cell of a notebook that `normal` gave."""
    return hash_of(cell["cell_type"], cell["source"])


def normal(given: object, name: str = "The notebook") -> Notebook:
    """nbformat 4 JSON as 4.5: each cell with an id of its own, each text in one piece. A copy.

    Cells without an id (4.0–4.4) get one by their content, the same at every reading; so does the
    later one of two with the same id. Raises BadNotebook, TooLarge.
    """
    try:
        return _normal(given, name)
    except RecursionError:
        raise BadNotebook(f"{name} is nested too deeply to be a notebook.") from None


def _normal(given: object, name: str) -> Notebook:
    if not isinstance(given, Mapping) or not isinstance(given.get("cells"), list):
        raise BadNotebook(f"{name} has no list of cells, so it is no notebook of format 4.")
    if given.get("nbformat") != 4:
        raise BadNotebook(
            f"{name} is of format {given.get('nbformat')!r:.20}. Open it in Jupyter and save it: "
            "then it is of format 4."
        )
    if len(given["cells"]) > MAX_CELLS:
        raise TooLarge(
            f"{name} has {len(given['cells']):,} cells; the agent works with {MAX_CELLS:,}."
        )
    minor, metadata = given.get("nbformat_minor"), given.get("metadata")
    notebook = {
        **copy.deepcopy({key: value for key, value in given.items() if key != "cells"}),
        "nbformat": 4,
        "nbformat_minor": max(minor, 5) if type(minor) is int else 5,
        "metadata": copy.deepcopy(dict(metadata)) if isinstance(metadata, Mapping) else {},
        "cells": [_cell(cell, name, at) for at, cell in enumerate(given["cells"])],
    }
    _name_cells(notebook["cells"])
    return notebook


def _cell(given: object, name: str, at: int) -> Cell:
    if not isinstance(given, Mapping) or given.get("cell_type") not in CELL_TYPES:
        raise BadNotebook(f"{name} has no cell of format 4 in place {at + 1}.")
    cell: Cell = copy.deepcopy(dict(given))
    cell["source"] = _joined(cell.get("source", ""))
    if not isinstance(cell["source"], str):
        raise BadNotebook(f"{name}: the source of cell {at + 1} is no text.")
    if not isinstance(cell.get("metadata"), dict):
        cell["metadata"] = {}
    if cell["cell_type"] == "code":
        outputs = cell.get("outputs")
        cell["outputs"] = [
            _output(output)
            for output in (outputs if isinstance(outputs, list) else [])
            if isinstance(output, Mapping) and output.get("output_type") in _OUTPUTS
        ]
        count = cell.get("execution_count")
        # Yjs keeps numbers as floating point numbers.
        whole = isinstance(count, int) or (isinstance(count, float) and count.is_integer())
        cell["execution_count"] = int(count) if whole and count is not None else None
    return cell


def _output(given: Mapping[str, Any]) -> dict[str, Any]:
    output = copy.deepcopy(dict(given))
    if output["output_type"] == "stream":
        output["text"] = _joined(output.get("text", ""))
    data = output.get("data")
    if isinstance(data, dict):
        output["data"] = {
            mime: value if _is_json(str(mime)) else _joined(value) for mime, value in data.items()
        }
    return output


def _joined(value: Any) -> Any:
    """A text that nbformat allows to be written as a list of lines."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return value


def _is_json(mime: str) -> bool:
    return mime == "application/json" or mime.endswith("+json")


def _name_cells(cells: Sequence[Cell]) -> None:
    own: set[str] = set()
    unnamed: list[Cell] = []
    for cell in cells:
        known = cell.get("id")
        if isinstance(known, str) and _ID.fullmatch(known) and known not in own:
            own.add(known)
        else:
            unnamed.append(cell)
    same: dict[str, int] = {}
    for cell in unnamed:
        content = cell_hash(cell)
        while True:
            same[content] = same.get(content, 0) + 1
            name = sha256_hex(f"{content}:{same[content]}".encode())[:12]
            if name not in own:
                break
        own.add(name)
        cell["id"] = name


def by_id(notebook: Mapping[str, Any]) -> dict[str, Cell]:
    """The cells of a notebook that `normal` gave, in their order."""
    return {cell["id"]: cell for cell in notebook["cells"]}


def snapshot(notebook: Mapping[str, Any]) -> bytes:
    """A notebook's one byte form, whose sha256 names it in the log.

    As `log.model.canonical`, but NaN, which some libraries leave in outputs, stays.
    """
    return json.dumps(notebook, sort_keys=True, separators=(",", ":")).encode("ascii")


# Changing -----------------------------------------------------------------------------------------


def apply(notebook: Mapping[str, Any], changes: Sequence[Change]) -> Applied:
    """The notebook after all of these changes, in their order; the one given stays as it is.

    notebook: as `normal` gives it.
    `was` is compared with the cell as it was before the first of them; what an earlier change of
    the same batch made of it is no surprise.
    Raises Stale when a cell is not as the change says, or gone; UsageError for a change that could
    never be made.
    """
    batch = _Batch(notebook)
    edits = tuple(edit for change in changes for edit in batch.change(change))
    stale = tuple(dict.fromkeys(batch.stale))
    if stale:
        raise Stale(_told(stale, by_id(notebook)), stale)
    return Applied({**notebook, "cells": batch.cells}, edits)


def _told(stale: Sequence[str], there: Mapping[str, Cell]) -> str:
    gone = [cell for cell in stale if cell not in there]
    other = [cell for cell in stale if cell in there]
    said = []
    if other:
        said.append(f"{_listed(other)} changed after the agent read the notebook.")
    if gone:
        said.append(f"{_listed(gone)} is not in the notebook any more.")
    return f"{' '.join(said)} None of these changes was made."


def _listed(cells: Sequence[str]) -> str:
    more = f" and {len(cells) - 5} more" if len(cells) > 5 else ""
    return f"Cell {', '.join(cells[:5])}{more}"


class _Batch:
    """Cells while changes are made to them; a cell is copied before it is touched."""

    def __init__(self, notebook: Mapping[str, Any]) -> None:
        self.cells: list[Cell] = list(notebook["cells"])
        self.stale: list[str] = []
        self._touched: set[str] = set()

    def change(self, change: Change) -> Iterator[Edit]:
        if change.what == "insert":
            yield from self._insert(change)
            return
        at = self._there(change.cell)
        if at is None or not self._as_read(change, self.cells[at]):
            self.stale.append(change.cell)
            return
        self._touched.add(change.cell)
        cell = self.cells[at]
        before = cell_hash(cell)
        if change.what == "replace":
            self.cells[at] = _replaced(cell, change)
            yield Edit(change.cell, before, cell_hash(self.cells[at]))
        elif change.what == "delete":
            del self.cells[at]
            yield Edit(change.cell, before, None)
        elif change.what == "move":
            if change.after == change.cell:
                raise UsageError(f"Cell {change.cell} cannot follow itself. Nothing was changed.")
            del self.cells[at]
            self._place(cell, change)
            yield Edit(change.cell, before, before, moved=True)
        elif cell["cell_type"] != "code":
            self.stale.append(change.cell)
        else:
            self.cells[at] = _painted(cell, change)
            yield Edit(change.cell, before, before)

    def _insert(self, change: Change) -> Iterator[Edit]:
        if not _ID.fullmatch(change.cell):
            raise UsageError(f"{change.cell!r:.80} cannot be the id of a cell.")
        if self._at(change.cell) is not None:
            raise UsageError(f"There is a cell {change.cell} already. Nothing was changed.")
        self._touched.add(change.cell)
        cell = _inserted(change)
        self._place(cell, change)
        yield Edit(change.cell, None, cell_hash(cell))

    def _as_read(self, change: Change, cell: Cell) -> bool:
        if change.what == "outputs" or change.cell in self._touched:
            return True
        if change.was is None:
            raise UsageError(f"To {change.what} cell {change.cell}, say how it was read (`was`).")
        return change.was == cell_hash(cell)

    def _place(self, cell: Cell, change: Change) -> None:
        if change.after is None:
            raise UsageError(f"To {change.what} cell {change.cell}, say which cell it follows.")
        at = -1 if change.after == "" else self._there(change.after)
        if at is None:
            self.stale.append(change.after)
        else:
            self.cells.insert(at + 1, cell)

    def _there(self, name: str) -> int | None:
        """Where it stands; None when somebody removed it. Raises UsageError if this batch did."""
        at = self._at(name)
        if at is None and name in self._touched:
            raise UsageError(f"An earlier change of this batch deletes cell {name}.")
        return at

    def _at(self, name: str) -> int | None:
        return next((at for at, cell in enumerate(self.cells) if cell["id"] == name), None)


def _inserted(change: Change) -> Cell:
    if change.restored is not None:
        return {**copy.deepcopy(dict(change.restored)), "id": change.cell}
    kind = _type(change.cell_type or "code")
    made = {"id": change.cell, "cell_type": kind, "metadata": {EDITED_BY: "agent"}}
    return _of_type({**made, "source": _source(change)}, kind)


def _replaced(cell: Cell, change: Change) -> Cell:
    if change.restored is not None:
        return {**copy.deepcopy(dict(change.restored)), "id": change.cell}
    kind = _type(change.cell_type or cell["cell_type"])
    metadata = {**cell["metadata"], EDITED_BY: "agent"}
    source = cell["source"] if change.source is None else _source(change)
    # What it showed stays until it runs again, as when a person edits it.
    return _of_type({**cell, "metadata": metadata, "source": source, "cell_type": kind}, kind)


def _of_type(cell: Cell, kind: str) -> Cell:
    """The keys that nbformat gives a cell of that type, and none that it forbids it."""
    if kind == "code":
        cell = {"outputs": [], "execution_count": None, **cell}
        cell.pop("attachments", None)
    else:
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    return cell


def _painted(cell: Cell, change: Change) -> Cell:
    outputs = [_output(output) for output in change.outputs or ()]
    if not all(output.get("output_type") in _OUTPUTS for output in outputs):
        raise UsageError(f"An output of cell {change.cell} is of no kind that a notebook keeps.")
    metadata = dict(cell["metadata"])
    if outputs:
        # Jupyter signs a notebook whose every output a person is said to trust.
        metadata["trusted"] = False
    painted = {"outputs": outputs, "execution_count": change.execution_count}
    return {**cell, "metadata": metadata, **painted}


def _type(cell_type: str) -> str:
    if cell_type not in CELL_TYPES:
        raise UsageError(f"A cell is {', '.join(CELL_TYPES)}, not {cell_type!r:.40}.")
    return cell_type


def _source(change: Change) -> str:
    source = change.source
    if not isinstance(source, str):
        raise UsageError(f"To {change.what} cell {change.cell}, give its `source`.")
    if len(source) > MAX_SOURCE:
        raise TooLarge(f"The source of a cell is at most {MAX_SOURCE:,} characters.")
    try:
        source.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"The source of cell {change.cell} has half a character (a lone surrogate) in place "
            f"{error.start}; no file can hold it."
        ) from error
    return source
