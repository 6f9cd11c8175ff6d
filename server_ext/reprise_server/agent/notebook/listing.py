"""A notebook as a model reads it: cells by their ids, within bounds, the way to the rest (pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reprise.jupyter.static.policy import EDITED_BY
from reprise_server.agent.contract import RESULT_CHARACTERS, BadCall, Block, text
from reprise_server.agent.notebook.cells import Cell, by_id, cell_hash
from reprise_server.agent.tools.images import Image, chosen
from reprise_server.agent.tools.shown import LINE, fitted, harmless, summary

#: Hexadecimal characters of a cell's hash that the model sees and gives back.
HASH: Final = 12
#: Characters of one cell's source and of its outputs, among others; and when it is read alone.
_SOURCE, _OUTPUTS = 3_000, 1_500
_SOURCE_ALONE, _OUTPUTS_ALONE = 9_000, 5_000
#: What the end of a listing needs: which cells are left out.
_END: Final = 400
#: Ids that are named where one is not there.
_NAMED: Final = 40


@dataclass(frozen=True)
class Asked:
    """What is to be read: these cells, or up to `most` from cell `first` on; all by default.

    outputs: whether they are shown.  line: from which line of the source on, of one cell alone.
    """

    cells: tuple[str, ...] = ()
    first: str | None = None
    most: int | None = None
    outputs: bool = True
    line: int = 1


@dataclass
class Listing:
    """blocks: text and images, within a result's bound.  outputs: whether some are shown."""

    blocks: list[Block] = field(default_factory=list)
    outputs: bool = False


def listing(notebook: Mapping[str, Any], path: str, asked: Asked) -> Listing:
    """notebook: as `cells.normal` gives it. Raises BadCall naming a cell that is not there."""
    there = by_id(notebook)
    names = _chosen(there, asked)
    alone = len(names) == 1
    if asked.line != 1 and not alone:
        raise BadCall("`line` goes with one cell alone: name it in `cells`.")
    writing = _Writing(list(there), asked, alone=alone)
    writing.say(_head(notebook, path, len(there)))
    for at, name in enumerate(names):
        if not writing.cell(there[name]):
            rest = names[at:]
            more = f'. Read on with first="{rest[0]}"' if not asked.cells else ""
            writing.end(
                f"{len(rest)} cells from {rest[0]} on are left out here, since they do not fit"
                f"{more}; or name fewer `cells`, or ask without `outputs`.\n"
            )
            break
    else:
        if names and not asked.cells and asked.most is not None:
            writing.after(names[-1])
    return writing.done()


def missing(name: str, there: Mapping[str, Cell]) -> str:
    """That there is no such cell, and which there are."""
    known = ", ".join(list(there)[:_NAMED]) or "none"
    more = f" and {len(there) - _NAMED} more" if len(there) > _NAMED else ""
    return f"There is no cell {harmless(name[:80])!r} in the notebook. Its cells: {known}{more}."


def described(cell: Mapping[str, Any]) -> str:
    """One line of a cell: its id, what it is, and the hash by which an edit of it is checked."""
    parts = [f"cell {cell['id']}", cell["cell_type"]]
    if cell.get("execution_count") is not None:
        parts.append(f"ran as [{cell['execution_count']}]")
    parts.append(f"hash {cell_hash(cell)[:HASH]}")
    if cell["metadata"].get(EDITED_BY) == "agent":
        parts.append("written by an agent")
    return " · ".join(parts)


def source_of(cell: Mapping[str, Any], most: int, line: int = 1) -> str:
    """A cell's source, each line behind a bar, from `line` on, within about `most` characters."""
    lines = harmless(cell["source"]).split("\n")
    if line > len(lines):
        raise BadCall(f"Cell {cell['id']} has {len(lines):,} lines, so line {line:,} is not there.")
    found: list[str] = []
    room = most
    for number, each in enumerate(lines[line - 1 :], line):
        cut = each if len(each) <= LINE else f"{each[:LINE]} [… {len(each):,} characters in all]"
        room -= len(cut) + 3
        if room < 0 and found:
            found.append(
                f"[lines {number:,} to {len(lines):,} are left out; read them with "
                f'cells=["{cell["id"]}"] and line={number}]'
            )
            break
        found.append(f"| {cut}")
    return "\n".join(found) + "\n"


def quoted(shown: str) -> str:
    """What a cell showed, each line behind `> `: none of it passes for a line of ours."""
    return "".join(
        f"{line}\n" if line.startswith(("> ", "[… ")) else f"> {line}\n"
        for line in shown.rstrip("\n").split("\n")
    )


def _chosen(there: Mapping[str, Cell], asked: Asked) -> list[str]:
    for name in (*asked.cells, *(() if asked.first is None else (asked.first,))):
        if name not in there:
            raise BadCall(missing(name, there))
    if asked.cells:
        if asked.first is not None or asked.most is not None:
            raise BadCall("Give either `cells`, or `first` and `most`.")
        return list(dict.fromkeys(asked.cells))
    names = list(there)
    start = 0 if asked.first is None else names.index(asked.first)
    if asked.most is None:
        return names[start:]
    if asked.most < 1:
        raise BadCall(f"`most` is a number of cells from 1 on, not {asked.most}.")
    return names[start : start + asked.most]


def _head(notebook: Mapping[str, Any], path: str, count: int) -> str:
    metadata = notebook["metadata"]
    language = metadata.get("language_info")
    named = language.get("name") if isinstance(language, Mapping) else None
    known = f", {harmless(str(named)[:40])}" if named else ""
    return f"{harmless(path)}: {count} cell{'' if count == 1 else 's'}{known}\n"


class _Writing:
    """Blocks within a result's bound."""

    def __init__(self, names: Sequence[str], asked: Asked, *, alone: bool) -> None:
        self._names = names
        self._asked = asked
        self._most = (_SOURCE_ALONE, _OUTPUTS_ALONE) if alone else (_SOURCE, _OUTPUTS)
        self._room = RESULT_CHARACTERS - _END
        self._text: list[str] = []
        self._images: list[Image] = []
        self._found = Listing()

    def say(self, words: str) -> None:
        self._text.append(words)
        self._room -= len(words)

    def cell(self, cell: Cell) -> bool:
        """Whether it had room."""
        words = f"\n{described(cell)}\n{source_of(cell, self._most[0], self._asked.line)}"
        shown = summary(cell["outputs"] if self._asked.outputs and "outputs" in cell else ())
        if shown.text:
            where = f'read_notebook with cells=["{cell["id"]}"] shows more of it.'
            words += quoted(fitted(quoted(shown.text), self._most[1], where).text)
        if len(words) > self._room:
            return False
        self.say(words)
        if shown.text or shown.images:
            self._found.outputs = True
        kept, left = chosen([*self._images, *shown.images])
        new = kept[len(self._images) :]
        self._images = kept
        if left:
            self.say(f"[{left} images of it are not shown here: read this cell alone]\n")
        if new:
            self._flush()
            self._found.blocks.extend(image.block() for image in new)
        return True

    def after(self, last: str) -> None:
        at = self._names.index(last) + 1
        if at < len(self._names):
            left = len(self._names) - at
            self.end(f'{left} more cells follow. Read on with first="{self._names[at]}".\n')

    def end(self, words: str) -> None:
        self._text.append(f"\n{words}")

    def done(self) -> Listing:
        self._flush()
        return self._found

    def _flush(self) -> None:
        if self._text:
            self._found.blocks.append(text("".join(self._text)))
            self._text.clear()
