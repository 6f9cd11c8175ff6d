"""What pages may have of a history's outputs: as the router published them, static where they were.

Where several steps make what one cell shows, each part is as the step was that it is of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from reprise.errors import LogCorrupt
from reprise.jupyter.static.recorded import Recorded, is_static, output_rule
from reprise.log.cells import naming_display, records_of
from reprise.log.model import OutputEntry
from reprise.log.reader import Reader
from reprise.log.store import StepRecord
from reprise.replay.vouched import vouched
from reprise.sandbox.named import OutputRule
from reprise_server.api.showing import Showing

#: Messages that pages have no use for, but tell which widgets there are.
COMM: Final = frozenset({"comm_open", "comm_close"})
#: Displays of other steps that are followed for one step.
DISPLAYS: Final = 50
#: Steps before one that are looked through for the widgets that it shows.
_WIDGETS_BEFORE: Final = 100
_WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"


class Published:
    """For one answer. since: the first untrusted step of the history."""

    def __init__(self, reader: Reader, since: int | None, recorded: Recorded) -> None:
        self._reader = reader
        self._since = since
        self._recorded = recorded
        self._rules: dict[str, OutputRule | None] = {}

    @classmethod
    async def of(cls, reader: Reader, recorded: Recorded) -> Published:
        since = await reader.first_untrusted((await vouched(reader)).trusted)
        return cls(reader, since, recorded)

    async def is_static(self, record: StepRecord, *, late: bool) -> bool:
        """Whether what a step showed was static. late: whether any of it came after its end."""
        digest = record.step.new.environment
        if digest not in self._rules:
            try:
                self._rules[digest] = output_rule(await self._reader.environment(digest))
            except LogCorrupt:
                self._rules[digest] = None  # what cannot be read is no permission
        rule = self._rules[digest]
        return rule is None or is_static(rule, self._since, record.step.seq, late=late)

    async def static(
        self, seq: int, entries: Sequence[OutputEntry], own: Sequence[OutputEntry]
    ) -> list[OutputEntry]:
        """Entries of a step as static output has them. own: messages of widgets among its own."""
        comms = [*await self._comms_before(seq, entries, own), *own]
        return await asyncio.to_thread(self._recorded.static, entries, comms)

    async def updated(
        self, showing: Showing, seq: int, *, until: int | None = None, originals: bool
    ) -> None:
        """Have the displays of a step as later ones updated them, below step `until`.

        originals: as they came, since all of it is made static afterwards.
        """
        for display in showing.displays[:DISPLAYS]:
            later = await naming_display(self._reader, display, after=seq, before=until)
            updates = [each for each in later if each.entry.type == "update_display_data"]
            if not updates:
                continue
            newest, entries = updates[-1], [updates[-1].entry]
            if not originals:
                (record,) = await records_of(self._reader, [newest.seq])
                if await self.is_static(record, late=newest.late):
                    # What the step itself opened counts as well.
                    entries = await self.static(newest.seq + 1, entries, ())
            showing.add_all(entries)

    async def _comms_before(
        self, seq: int, entries: Iterable[OutputEntry], own: Sequence[OutputEntry]
    ) -> list[OutputEntry]:
        """What opened the widgets that these entries show, where the step itself did not."""
        opened = [entry.content.get("comm_id") for entry in own]
        if all(model in opened for model in _models(entries)):
            return []
        return [
            entry
            async for record in self._reader.records(max(seq - _WIDGETS_BEFORE, 0), seq)
            for entry in (*record.outputs, *record.late)
            if entry.type in COMM
        ]


def _models(entries: Iterable[OutputEntry]) -> set[str]:
    """Of the widgets that these entries show."""
    found = set()
    for entry in entries:
        data = entry.content.get("data")
        view = data.get(_WIDGET_VIEW) if isinstance(data, dict) else None
        model = view.get("model_id") if isinstance(view, dict) else None
        if isinstance(model, str):
            found.add(model)
    return found
