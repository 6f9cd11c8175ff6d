"""What a step showed, as a page has it: the shortest messages that lead to it, bounded (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from reprise.bundle.outputs import Outputs
from reprise.jupyter.static.recorded import SHOWN
from reprise.log.cells import display_of
from reprise.log.model import Json, OutputEntry

#: Of all that one cell is filled with, bytes as JSON. What is larger stays in the session's log.
SHOWN_BYTES: Final = 8 << 20
#: A text that alone is larger is cut, and this much of its end stays as well.
_END: Final = 64 << 10


@dataclass(frozen=True)
class LeftOut:
    """What a page is not given: whole outputs, and bytes of them and of those that were cut."""

    outputs: int
    size: int

    def to_json(self) -> dict[str, Json]:
        return {"outputs": self.outputs, "bytes": self.size}


class Showing:
    """Outputs of one step, added in their order; what a cell shows by now, as few messages."""

    def __init__(self) -> None:
        self._displays: dict[str, list[dict[str, Json]]] = {}
        self._outputs = Outputs(self._displays, None)
        self._clear = False

    def add(self, entry: OutputEntry) -> None:
        if entry.type not in SHOWN:
            return
        self._outputs.add(entry)
        if entry.type == "clear_output":
            self._clear = entry.content.get("wait") is True
        elif entry.type != "update_display_data":
            self._clear = False

    def add_all(self, entries: Iterable[OutputEntry]) -> None:
        for entry in entries:
            self.add(entry)

    @property
    def displays(self) -> list[str]:
        """Ids of the displays that are to be seen, which later steps may update."""
        shown = {id(output) for output in self._outputs.list}
        return [
            name
            for name, outputs in self._displays.items()
            if any(id(output) in shown for output in outputs)
        ]

    def entries(self) -> list[OutputEntry]:
        """Messages that show the same in an empty cell."""
        named = {id(output): name for name, outputs in self._displays.items() for output in outputs}
        found = []
        for output in self._outputs.list:
            content = {key: value for key, value in output.items() if key != "output_type"}
            if id(output) in named:
                content["transient"] = {"display_id": named[id(output)]}
            found.append(OutputEntry(output["output_type"], content))
        if self._clear:
            found.append(OutputEntry("clear_output", {"wait": True}))
        return found


def unknown_displays(entries: Iterable[OutputEntry], known: Iterable[str]) -> list[str]:
    """Displays of other steps that these entries update, in order."""
    own = set(known)
    found: dict[str, None] = {}
    for entry in entries:
        display = display_of(entry)
        if display is None:
            continue
        if entry.type == "update_display_data":
            if display not in own:
                found[display] = None
        else:
            own.add(display)
    return list(found)


def bounded(entries: Sequence[OutputEntry], seq: int) -> tuple[list[OutputEntry], LeftOut | None]:
    """As many of the entries as a page is given, and what is not among them.

    seq: of the step, which has it all.
    """
    room = SHOWN_BYTES
    shown: list[OutputEntry] = []
    for at, entry in enumerate(entries):
        size = _size(entry)
        if size <= room:
            room -= size
            shown.append(entry)
            continue
        left = entries[at:]
        total = sum(map(_size, left))
        if entry.type == "stream" and room > 2 * _END:
            part = _cut(entry, room, seq)
            shown.append(part)
            total, left = max(total - _size(part), 0), left[1:]
        if left:
            shown.append(_note(f"{len(left)} more outputs of this cell are not shown here", seq))
        return shown, LeftOut(len(left), total)
    return shown, None


def _cut(entry: OutputEntry, room: int, seq: int) -> OutputEntry:
    """The beginning and the end of a text."""
    text = str(entry.content.get("text", ""))
    # A character is up to six bytes of JSON (\\uXXXX), and up to twelve beyond the first plane.
    begin = text[: (room - _END) // 12]
    end = text[-_END // 12 :]
    middle = (
        f"\n[Reprise: {len(text) - len(begin) - len(end):,} characters of this text are not shown"
    )
    content = {
        **entry.content,
        "text": f"{begin}{middle} here; step {seq} of the session has it.]\n{end}",
    }
    return OutputEntry("stream", content)


def _note(what: str, seq: int) -> OutputEntry:
    text = f"[Reprise: {what}, since they are too large. Step {seq} of the session has them.]\n"
    return OutputEntry("stream", {"name": "stderr", "text": text})


def _size(entry: OutputEntry) -> int:
    return len(json.dumps(dict(entry.content)))
