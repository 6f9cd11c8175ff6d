"""A batch of edits cell by cell: its cells, and what is left without some (pure)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from reprise.log.model import Json

Edits = Sequence[Mapping[str, Json]]


def parts_of(edits: Edits) -> tuple[str, ...]:
    """The cells of exact edits, each once, in the order in which they are first touched.

    A cell's edits go together: the later one of two is written against what the first one makes.
    """
    return tuple(dict.fromkeys(str(edit["cell"]) for edit in edits))


def of_part(edits: Edits, part: str) -> list[Mapping[str, Json]]:
    """The edits of one cell."""
    return [edit for edit in edits if edit["cell"] == part]


def left(edits: Edits, rejected: Collection[str], order: Sequence[str]) -> list[dict[str, Json]]:
    """The edits without those of some cells.

    order: the cells of the notebook now, by id.  What was to follow a cell that is not inserted
    now follows the cell that stands where that one would have stood.
    """
    #: The cells as they would stand, those that are not inserted among them.
    places = list(order)
    absent: set[str] = set()
    found: list[dict[str, Json]] = []
    for edit in edits:
        cell, what = str(edit["cell"]), edit["do"]
        kept = cell not in rejected
        made = dict(edit)
        if what in ("insert", "move") and (kept or what == "insert"):
            anchor = str(edit["after"])
            if what == "move" and cell in places:
                places.remove(cell)
            at = places.index(anchor) + 1 if anchor in places else 0
            # A cell that is not there stays away whether or not it is looked for here.
            if anchor in places or anchor == "":
                made["after"] = next(
                    (each for each in reversed(places[:at]) if each not in absent), ""
                )
            places.insert(at, cell)
            if not kept:
                absent.add(cell)
        elif what == "delete" and kept and cell in places:
            places.remove(cell)
        if kept:
            found.append(made)
    return found
