"""What brings cells back to how they were before the agent's edits, over nobody else's (pure)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reprise_server.agent.contract import Change, Edit
from reprise_server.agent.notebook.cells import Cell, by_id, cell_hash


class PutBack(NamedTuple):
    """What an undo does. kept: cells that somebody changed since; they stay as they are."""

    changes: tuple[Change, ...]
    kept: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells that it puts back, each once."""
        return tuple(dict.fromkeys(change.cell for change in self.changes))


def put_back(before: Mapping[str, Any], now: Mapping[str, Any], edits: Sequence[Edit]) -> PutBack:
    """What brings the cells of `edits` back to how they were `before`.

    before, now: as `normal` gives them.  edits: the agent's since `before`, in their order; ones
    that may not have been made (of a lost call) count as well.
    A cell that is not as one of these edits left it, or that somebody changed between two of them,
    is kept and named. Cells that the agent did not touch are not looked at.
    """
    then, there = by_id(before), by_id(now)
    touched: dict[str, list[Edit]] = {}
    for edit in edits:
        touched.setdefault(edit.cell, []).append(edit)
    changes: list[Change] = []
    kept: list[str] = []
    to_place: list[str] = []
    for name, made in touched.items():
        old, cell = then.get(name), there.get(name)
        known = {edit.after for edit in made} | {None if old is None else cell_hash(old)}
        found = None if cell is None else cell_hash(cell)
        if found is None and old is None:
            continue  # it was inserted, and is gone
        if found not in known or not _ours(made, old):
            kept.append(name)
        elif old is None:
            changes.append(Change("delete", name, was=found))
        elif cell is None:
            to_place.append(name)
        else:
            if cell != old:
                changes.append(Change("replace", name, was=found, restored=old))
            if any(edit.moved for edit in made):
                to_place.append(name)
    deleted = {change.cell for change in changes if change.what == "delete"}
    order = [name for name in there if name not in deleted]
    changes.extend(_places(list(then), order, then, set(to_place)))
    return PutBack(tuple(changes), tuple(kept))


def _ours(made: Sequence[Edit], old: Cell | None) -> bool:
    """Whether nobody else changed the cell before or between these edits of it."""
    known = {None if old is None else cell_hash(old)}
    for edit in made:
        if edit.before not in known:
            return False
        known.add(edit.after)
    return True


def _places(
    then: Sequence[str], order: list[str], cells: Mapping[str, Cell], to_place: set[str]
) -> Iterator[Change]:
    """Bring each cell of `to_place` behind the cell that it followed, the first ones first.

    order: the ids now, kept up to date.
    """
    waiting = set(to_place)
    anchor = ""
    for name in then:
        if name in to_place:
            present = name in order
            ahead = [other for other in order if other not in waiting or other == name]
            at = ahead.index(name) if present else -1
            if not present or (ahead[at - 1] if at else "") != anchor:
                if present:
                    order.remove(name)
                    yield Change("move", name, was=cell_hash(cells[name]), after=anchor)
                else:
                    yield Change("insert", name, after=anchor, restored=cells[name])
                order.insert(order.index(anchor) + 1 if anchor else 0, name)
            waiting.discard(name)
        if name in order:
            anchor = name
