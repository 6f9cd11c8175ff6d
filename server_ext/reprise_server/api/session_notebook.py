"""`/sessions/{session}/notebook`: the notebook's cells as they stood after a step, for a page.

Each cell is as it last ran by then, with what it showed, as the router published it: of a static
session nothing is an original. What the record does not hold (Markdown, cells that never ran) is
not in it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from reprise.bundle.notebook import CELL_ID, kernel_metadata
from reprise.bundle.outputs import Outputs, clean
from reprise.jupyter.static.policy import EDITED_BY
from reprise.log.cells import Ran, batches, cells_until
from reprise.log.model import Json, OutputEntry
from reprise.log.reader import Reader
from reprise.log.store import StepRecord
from reprise_server.api.base import Asked, operation
from reprise_server.api.published import COMM, Published
from reprise_server.api.session_files import step_within
from reprise_server.api.sessions import SessionEndpoint
from reprise_server.api.showing import Showing, bounded

#: Of all outputs of a notebook, bytes as JSON; of all sources, characters.
OUTPUTS_BYTES: Final = 32 << 20
SOURCE_CHARACTERS: Final = 8 << 20


class NotebookEndpoint(SessionEndpoint):
    path = "/sessions/{session}/notebook"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        info = await reader.info()
        at = asked.query["at"]
        if at is None:
            at = info.steps - 1
        else:
            await step_within(reader, at)
        attached = asked.query["attached"]
        published = await Published.of(reader, self.service.sanitised.of(info))
        past = _Past(reader, at, published)
        ran, older = await cells_until(reader, at)
        await past.read(ran)
        metadata = await kernel_metadata(reader, info, attached=attached)
        place = {"step": at} if attached else {"at": at}
        metadata["reprise"] = {"session": str(reader.session), **place}
        return {
            "session": str(reader.session),
            "at": at,
            "notebook": {
                "nbformat": 4,
                "nbformat_minor": 5,
                "metadata": metadata,
                "cells": past.cells,
            },
            "left_out": {"older_cells": older, "outputs": past.left_out},
        }


@dataclass
class _Past:
    """A notebook as of step `at`, while it is put together."""

    reader: Reader
    at: int
    published: Published
    cells: list[dict[str, Json]] = field(default_factory=list)
    left_out: list[dict[str, Json]] = field(default_factory=list)
    _ids: set[str] = field(default_factory=set)
    _room: int = OUTPUTS_BYTES
    _sources: int = SOURCE_CHARACTERS

    async def read(self, ran: list[Ran]) -> None:
        for each in ran:
            await self._add(each.cell, each.last)

    async def _add(self, cell: str | None, record: StepRecord) -> None:
        content = record.step.payload.get("content")
        content = content if isinstance(content, Mapping) else {}
        if content.get("silent") or content.get("store_history") is False:
            return  # what a front end asks for itself
        source = clean(str(content.get("code", "")))
        self._sources -= len(source)
        outcome = record.outcome
        count = None if outcome is None else outcome.new.execution_count
        said = {"seq": record.step.seq, "outcome": None if outcome is None else outcome.status}
        metadata: dict[str, Json] = {"reprise": said}
        own = record.step.payload.get("metadata")
        if isinstance(own, Mapping) and own.get(EDITED_BY) == "agent":
            metadata[EDITED_BY] = "agent"
        shown = await self._outputs(record, count)
        self.cells.append(
            {
                "cell_type": "code",
                "id": self._id(cell, record),
                "metadata": metadata,
                "source": source if self._sources >= 0 else _TOO_LONG,
                "execution_count": count,
                "outputs": shown,
            }
        )

    def _id(self, cell: str | None, record: StepRecord) -> str:
        fits = cell is not None and CELL_ID.fullmatch(cell) and cell not in self._ids
        chosen = str(cell) if fits else record.step.digest.hex()[:16]
        self._ids.add(chosen)
        return chosen

    async def _outputs(self, record: StepRecord, count: int | None) -> list[dict[str, Json]]:
        """What a cell showed by step `at`, as a page may show it, within bounds."""
        seq, showing, late, more, place = record.step.seq, Showing(), False, True, None
        comms: list[OutputEntry] = []
        while more:
            page, more = await batches(self.reader, seq, place)
            if not page:
                break
            place = page[-1].place
            late = late or any(batch.late for batch in page)
            entries = [entry for batch in page for entry in batch.entries]
            comms += [entry for entry in entries if entry.type in COMM]
            await asyncio.to_thread(showing.add_all, entries)
        static = await self.published.is_static(record, late=late)
        await self.published.updated(showing, seq, until=self.at + 1, originals=static)
        found = showing.entries()
        if static:
            found = await self.published.static(seq, found, comms)
        kept, left = await asyncio.to_thread(bounded, found, seq)
        outputs = Outputs({}, count)
        for entry in kept:
            outputs.add(entry)
        size = len(json.dumps(outputs.list))
        if size > self._room:
            self.left_out.append({"seq": seq, "outputs": len(found), "bytes": size})
            return []
        self._room -= size
        if left is not None:
            self.left_out.append({"seq": seq, **left.to_json()})
        return outputs.list


_TOO_LONG: Final = "# Reprise: this cell is too long to be shown here; its step has it.\n"


ENDPOINTS: Final = (NotebookEndpoint,)
