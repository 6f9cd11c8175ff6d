"""What the agent did to cells that still stands, with how each of them was before (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from reprise.log.model import Json
from reprise_server.agent.contract import Edit, Entry
from reprise_server.agent.course import undone_turns
from reprise_server.agent.notebook.cells import Cell, by_id, cell_hash, hash_of

#: Cells that stood before one, nearest first: where to put it back when some of them are gone.
BEHIND: Final = 20

Text = tuple[str, str]


@dataclass(frozen=True)
class Standing:
    """A cell as the agent left it.

    turn: the newest one that changed it.  before: the cell as it was, None where there was none.
    known: whether `before` is what the agent found; a person may have typed in between.
    behind: the cells that it followed then.  after: type and source now, None of a deleted one.
    """

    cell: str
    turn: int
    before: Cell | None
    known: bool
    behind: tuple[str, ...]
    after: Text | None
    moved: bool = False

    def to_json(self) -> dict[str, Json]:
        after = None if self.after is None else {"type": self.after[0], "source": self.after[1]}
        return {
            "cell": self.cell,
            "turn": self.turn,
            "before": self.before,
            "known": self.known,
            "behind": list(self.behind),
            "after": after,
            "moved": self.moved,
        }


@dataclass(frozen=True)
class TurnEdits:
    """One turn. sha256: of the notebook before it, None where none was stored."""

    turn: int
    sha256: str | None
    edits: tuple[Edit, ...]
    #: What the hashes of its edits stand for.
    texts: Mapping[str, Text]


def turns_of(entries: Iterable[Entry], since: int) -> list[TurnEdits]:
    """The turns from `since` on that changed cells and were not undone."""
    entries = list(entries)
    undone = undone_turns(entries)
    found: dict[int, TurnEdits] = {}
    acts: dict[str, Any] = {}
    for entry in entries:
        if entry.turn < max(since, 1) or entry.turn in undone:
            continue
        made = found.setdefault(entry.turn, TurnEdits(entry.turn, None, (), {}))
        body = entry.body
        if entry.kind == "notebook":
            found[entry.turn] = replace(made, sha256=str(body["sha256"]))
        elif entry.kind == "called":
            acts[str(body["id"])] = body.get("act")
        elif entry.kind == "result" and body["edits"]:
            edits = tuple(Edit.of(each) for each in body["edits"])
            texts = dict(made.texts)
            act = acts.get(str(body["id"])) or {}
            for each in (act.get("input") or {}).get("edits") or ():
                if "source" in each:
                    texts[hash_of(each["type"], each["source"])] = each["type"], each["source"]
            found[entry.turn] = replace(made, edits=(*made.edits, *edits), texts=texts)
    changed = (
        each for each in found.values() if any(e.moved or e.before != e.after for e in each.edits)
    )
    return sorted(changed, key=lambda each: each.turn)


def standing(
    turns: Sequence[TurnEdits], notebooks: Mapping[str, Mapping[str, Any]]
) -> list[Standing]:
    """What stands after these turns.

    notebooks: those before turns, by sha256, as `cells.normal` gives them. A cell that a person
    changed between two turns is theirs: what the agent did to it before does not stand any more.
    """
    found: dict[str, Standing] = {}
    hashes: dict[str, str | None] = {}
    for each in turns:
        notebook = notebooks.get(each.sha256 or "")
        there = {} if notebook is None else by_id(notebook)
        if notebook is not None:
            for name in list(found):
                old = there.get(name)
                if (None if old is None else cell_hash(old)) != hashes[name]:
                    del found[name]
        order = list(there)
        for edit in each.edits:
            if edit.before == edit.after and not edit.moved:
                continue
            known = found.get(edit.cell)
            if known is None or hashes[edit.cell] != edit.before:
                known = _first(edit, each.turn, there, order, stored=notebook is not None)
            after = None if edit.after is None else each.texts.get(edit.after, known.after)
            found[edit.cell] = replace(
                known, turn=each.turn, after=after, moved=known.moved or edit.moved
            )
            hashes[edit.cell] = edit.after
    return [each for each in found.values() if not _nothing(each, hashes[each.cell])]


def _first(
    edit: Edit, turn: int, there: Mapping[str, Cell], order: Sequence[str], *, stored: bool
) -> Standing:
    """A cell as a turn finds it."""
    old = there.get(edit.cell)
    was = None if old is None else cell_hash(old)
    at = order.index(edit.cell) if old is not None else 0
    behind = tuple(reversed(order[max(0, at - BEHIND) : at]))
    text = None if old is None else (str(old["cell_type"]), str(old["source"]))
    return Standing(edit.cell, turn, old, stored and was == edit.before, behind, text)


def _nothing(each: Standing, now: str | None) -> bool:
    """Whether the cell is as it was: nothing stands."""
    was = None if each.before is None else cell_hash(each.before)
    return each.known and was == now and not each.moved
