"""A model's edits of a notebook: made exact, stale ones told, and what they do (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reprise.errors import UsageError
from reprise.log.model import Json, canonical, sha256_hex
from reprise_server.agent.contract import BadCall, Change, Edit, Stale
from reprise_server.agent.notebook.cells import Cell, apply, by_id, cell_hash, hash_of
from reprise_server.agent.notebook.listing import HASH, described, missing, source_of

#: Edits of one call: as many as a person can look through.
MOST: Final = 50
#: Characters of a hash that are enough to tell one state of a cell from another.
_ENOUGH: Final = 8
#: Characters of all sources of one call: the log keeps what a person was asked to approve.
MOST_SOURCE: Final = 1 << 20
#: Of the source of a cell that is not as it was read, and of all those that one answer shows.
_SHOWN, _ALL_SHOWN = 2_000, 8_000

#: Which fields each edit takes beside `do`; those with "?" may be left out.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "insert": ("source", "type?", "after?"),
    "replace": ("cell", "was", "source?", "type?"),
    "delete": ("cell", "was"),
    "move": ("cell", "was", "after"),
}


def exact(
    notebook: Mapping[str, Any], edits: Sequence[Mapping[str, Json]]
) -> list[dict[str, Json]]:
    """The edits with every cell named, its whole hash, type and source: what a person approves.

    notebook: as `cells.normal` gives it.  The same edits of the same notebook give the same ids to
    the cells that they insert. Raises BadCall, which says what to mend; nothing was done.
    """
    if not 1 <= len(edits) <= MOST:
        raise BadCall(f"One call makes 1 to {MOST} edits; this one has {len(edits)}.")
    making = _Making(notebook)
    found = [making.exact(number, edit) for number, edit in enumerate(edits, 1)]
    if sum(len(edit.get("source", "")) for edit in found) > MOST_SOURCE:
        raise BadCall(
            f"The sources of one call have at most {MOST_SOURCE:,} characters. Nothing was "
            "changed. Put data into files, and do the rest in several calls."
        )
    if making.stale:
        raise BadCall(stale(by_id(notebook), making.stale))
    try:
        apply(notebook, changes_of(found))
    except Stale as error:  # an anchor that is not there
        there = by_id(notebook)
        raise BadCall(missing(error.cells[0], there) + " Nothing was changed.") from error
    except UsageError as error:
        raise BadCall(f"{error} Nothing was changed.") from error
    return found


def changes_of(edits: Sequence[Mapping[str, Json]]) -> list[Change]:
    """The changes that exact edits are."""
    return [
        Change(
            edit["do"],
            edit["cell"],
            was=edit.get("was"),
            after=edit.get("after"),
            cell_type=edit.get("type"),
            source=edit.get("source"),
        )
        for edit in edits
    ]


def edits_of(act: Mapping[str, Json]) -> tuple[Edit, ...]:
    """What a call of `edit_notebook` or `run_cells` does to cells, by its act's exact input.

    So an undo knows what a call may have done whose result was lost with the server.
    """
    found: list[Edit] = []
    now: dict[str, str | None] = {}
    for edit in act.get("edits") or ():
        cell, what = edit["cell"], edit["do"]
        before = now.get(cell, edit.get("was"))
        after = before
        if what == "delete":
            after = None
        elif what != "move":
            after = hash_of(edit["type"], edit["source"])
        now[cell] = after
        found.append(Edit(cell, before, after, moved=what == "move"))
    found.extend(Edit(cell["cell"], cell["was"], cell["was"]) for cell in act.get("cells") or ())
    return tuple(found)


def stale(there: Mapping[str, Cell], names: Sequence[str]) -> str:
    """What to tell a model of cells that are not as it read them, with what they hold now."""
    lines: list[str] = []
    room = _ALL_SHOWN
    for name in dict.fromkeys(names):
        cell = there.get(name)
        if cell is None:
            lines.append(f"Cell {name} is not in the notebook any more.")
            continue
        lines.append(f"Not as you read it: {described(cell)}")
        if room > 0:
            source = source_of(cell, min(_SHOWN, room))
            room -= len(source)
            lines.append(source.rstrip("\n"))
    lines.append(
        "Nothing was changed, and nothing ran. Somebody works in these cells: keep what they did, "
        "and call again with these hashes if it still fits."
    )
    return "\n".join(lines)


class _Making:
    def __init__(self, notebook: Mapping[str, Any]) -> None:
        self._there = by_id(notebook)
        #: What earlier edits of the batch made of cells: (type, source).
        self._made: dict[str, tuple[str, str]] = {}
        self._inserted: dict[int, str] = {}
        self._order = list(self._there)
        self.stale: list[str] = []

    def exact(self, number: int, edit: Mapping[str, Json]) -> dict[str, Json]:
        what = str(edit["do"])
        self._fields(number, what, edit)
        if what == "insert":
            return self._insert(number, edit)
        name = str(edit["cell"])
        cell, made = self._there.get(name), self._made.get(name)
        if cell is None and made is None:
            raise BadCall(f"Edit {number}: {missing(name, self._there)} Nothing was changed.")
        now = hash_of(*made) if made is not None else cell_hash(cell or {})
        was = str(edit["was"])
        if not _meant(was, now) and not (
            cell is not None and made and _meant(was, cell_hash(cell))
        ):
            self.stale.append(name)
        found: dict[str, Json] = {"do": what, "cell": name, "was": now}
        if what == "replace":
            kind, source = made or (str(cell and cell["cell_type"]), str(cell and cell["source"]))
            kind = str(edit.get("type", kind))
            source = str(edit.get("source", source))
            self._made[name] = kind, source
            return {**found, "type": kind, "source": source}
        if name in self._order:
            self._order.remove(name)
        if what == "move":
            anchor = self._anchor(number, str(edit["after"]))
            self._put(name, anchor)
            return {**found, "after": anchor}
        return found

    def _insert(self, number: int, edit: Mapping[str, Json]) -> dict[str, Json]:
        after = edit.get("after")
        last = self._order[-1] if self._order else ""
        anchor = last if after is None else self._anchor(number, str(after))
        kind, source = str(edit.get("type", "code")), str(edit["source"])
        name = self._new([number, anchor, kind, source])
        self._inserted[number] = name
        self._made[name] = kind, source
        self._put(name, anchor)
        return {"do": "insert", "cell": name, "after": anchor, "type": kind, "source": source}

    def _put(self, name: str, anchor: str) -> None:
        """An anchor that is not there is told when the whole batch is looked at."""
        at = self._order.index(anchor) + 1 if anchor in self._order else 0
        self._order.insert(at, name)

    def _new(self, content: Json) -> str:
        """An id by what is inserted, so that looking at a call twice finds the same."""
        count = 0
        while True:
            name = sha256_hex(canonical([content, count]))[:8]
            if name not in self._there and name not in self._made:
                return name
            count += 1

    def _anchor(self, number: int, after: str) -> str:
        if not after.startswith("#"):
            return after
        of = int(after[1:]) if after[1:].isdecimal() and len(after) < 6 else 0
        if of not in self._inserted:
            raise BadCall(
                f"Edit {number}: {after[:20]!r} names the cell that an earlier edit of this call "
                "inserts, by that edit's number; there is no such. Nothing was changed."
            )
        return self._inserted[of]

    def _fields(self, number: int, what: str, edit: Mapping[str, Json]) -> None:
        known = _FIELDS[what]
        needed = [name for name in known if not name.endswith("?")]
        allowed = {"do", *(name.rstrip("?") for name in known)}
        lacks = [name for name in needed if name not in edit]
        more = sorted(edit.keys() - allowed)
        if what == "replace" and "source" not in edit and "type" not in edit:
            lacks.append("source")
        if lacks or more:
            said = [f"lacks `{name}`" for name in lacks] + [f"takes no `{name}`" for name in more]
            raise BadCall(
                f"Edit {number} ({what}) {', '.join(said)}. It takes "
                f"{', '.join(f'`{name}`' for name in known)}. Nothing was changed."
            )


def _meant(was: str, full: str) -> bool:
    return len(was) >= min(_ENOUGH, HASH) and full.startswith(was)
