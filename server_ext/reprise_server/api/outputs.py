"""`/sessions/{session}/cells` and what cells showed, for pages: as the router published it.

A page fills in what its notebook has missed from here. Nothing of a static session is an original.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection

from reprise.client.glance import glance
from reprise.client.holder import running_kernel
from reprise.errors import RepriseError, SessionNotFound, UnavailableError
from reprise.log.cells import (
    Place,
    batches,
    cell_of,
    late_since,
    naming_display,
    newest_of_cells,
    records_of,
    shared_until,
)
from reprise.log.model import Json, OutputEntry
from reprise.log.reader import Reader
from reprise.log.store import SessionInfo, StepRecord
from reprise_server.api.base import Asked, operation
from reprise_server.api.published import COMM, DISPLAYS, Published
from reprise_server.api.refusals import Refused
from reprise_server.api.session_steps import StepEndpoint
from reprise_server.api.sessions import SessionEndpoint
from reprise_server.api.showing import Showing, bounded, unknown_displays

#: Seconds that a kernel has to say which questions wait.
_ASKED_S: Final = 5.0

_CURSOR: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,18})")


class CellsEndpoint(SessionEndpoint):
    path = "/sessions/{session}/cells"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """The newest step of each cell behind what the notebook has."""
        reader = await self.reader(asked)
        info = await reader.info()
        after, outputs = await self._known(reader, asked)
        records = await newest_of_cells(reader, -1 if after is None else after)
        late, stored = await late_since(reader, 0 if outputs is None else outputs)
        cells = [_cell_json(record) for record in records]
        if outputs is not None and after is not None:
            # Of cells that the notebook has, unless a newer step of theirs is told already.
            named = {each["cell"] for each in cells}
            before = await records_of(reader, [seq for seq in late if seq <= after])
            cells += [
                {**_cell_json(record), "late_only": True}
                for record in before
                if cell_of(record.step.payload) not in {None, *named}
            ]
        return {
            "session": str(reader.session),
            "steps": info.steps,
            "outputs": stored,
            "own": str(len(await reader.line())),
            "after": after,
            "cells": cells,
        }

    async def _known(self, reader: Reader, asked: Asked) -> tuple[int | None, int | None]:
        """What the notebook has of this history, by what it says: a step, batches of outputs."""
        after, outputs = asked.query["after"], asked.query["outputs"]
        of = asked.query["of"]
        if after is None or of is None or uuid.UUID(of) == reader.session:
            return after, outputs
        log = await self.service.log()
        try:
            other = await (await log.reader(uuid.UUID(of))).line()
        except SessionNotFound:
            return -1, None  # of somebody else's: all that there is here is newer
        return min(after, shared_until(await reader.line(), other)), None


def _cell_json(record: StepRecord) -> dict[str, Json]:
    new, outcome = record.step.new, record.outcome
    header = new.payload.get("header")
    header = header if isinstance(header, dict) else {}
    client = str(header.get("session", ""))
    return {
        "cell": cell_of(new.payload),
        "seq": record.step.seq,
        "msg_id": str(header.get("msg_id", "")),
        "client": client,
        "connected": _connected(client),
        "actor": new.actor.kind,
        "outcome": None if outcome is None else outcome.status,
        "execution_count": None if outcome is None else outcome.new.execution_count,
        "late_only": False,
    }


def _connected(client: str) -> bool:
    """Whether the page that asked has its kernel's websocket open on this server."""
    end = f":{client}"
    return bool(client) and any(
        key.endswith(end) for key in ZMQChannelsWebsocketConnection._open_sessions
    )


@dataclass(frozen=True)
class _Read:
    """What a page gets of a step's outputs. touched: cells whose outputs it changed."""

    entries: list[OutputEntry]
    place: Place | None
    more: bool
    left_out: Json
    static: bool
    touched: list[dict[str, Json]]


class ShownEndpoint(StepEndpoint):
    path = "/sessions/{session}/steps/{seq}/shown"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        info = await reader.info()
        after = _place(asked.query["after"])
        # The outcome first: with it, whatever the step showed before its end is stored.
        record = await self.record(asked, outputs=False)
        read = await self._of_step(reader, info, record, after)
        question = None
        if record.outcome is None and not read.more:
            question = await _question(info, record)
        return {
            **_cell_json(record),
            "static": read.static,
            "whole": after is None,
            "messages": [[entry.type, dict(entry.content)] for entry in read.entries],
            "next": None if read.place is None else str(read.place),
            "more": read.more,
            "left_out": read.left_out,
            "touched": read.touched,
            "question": question,
        }

    async def _of_step(
        self, reader: Reader, info: SessionInfo, record: StepRecord, after: Place | None
    ) -> _Read:
        seq = record.step.seq
        found: list[OutputEntry] = []
        comms: list[OutputEntry] = []
        showing = Showing()
        late, more, place = False, True, after
        while more:
            page, more = await batches(reader, seq, place)
            if not page:
                break
            place = page[-1].place
            late = late or any(batch.late for batch in page)
            entries = [entry for batch in page for entry in batch.entries]
            comms += [entry for entry in entries if entry.type in COMM]
            if after is not None:
                found = entries
                break
            await asyncio.to_thread(showing.add_all, entries)
            # What a page has to know of displays that are not this cell's.
            found += [entry for entry in entries if entry.type == "update_display_data"]
        touched = await self._touched(reader, record, found, showing)
        published = await Published.of(reader, self.service.sanitised.of(info))
        static = await published.is_static(record, late=late)
        if after is None:
            await published.updated(showing, seq, originals=static)
            found = showing.entries()
        if static:
            found = await published.static(seq, found, comms)
        else:
            found = [entry for entry in found if entry.type not in COMM]
        shown, left_out = await asyncio.to_thread(bounded, found, seq)
        said = None if left_out is None else left_out.to_json()
        return _Read(shown, place, more, said, static, touched)

    async def _touched(
        self,
        reader: Reader,
        record: StepRecord,
        entries: Sequence[OutputEntry],
        showing: Showing,
    ) -> list[dict[str, Json]]:
        """The cells of earlier steps whose displays these entries update."""
        found: dict[int, None] = {}
        for display in unknown_displays(entries, showing.displays)[:DISPLAYS]:
            before = await naming_display(reader, display, before=record.step.seq)
            found |= {e.seq: None for e in before if e.entry.type != "update_display_data"}
        if not found:
            return []
        # A cell that has run again since shows another step.
        newest = await newest_of_cells(reader, min(found) - 1)
        return [
            {"cell": cell_of(each.step.payload), "seq": each.step.seq}
            for each in newest
            if each.step.seq in found
        ]


async def _question(info: SessionInfo, record: StepRecord) -> Json:
    """What the step waits for: an answer to `input()`, as its kernel says it."""
    header = record.step.payload.get("header")
    msg_id = header.get("msg_id") if isinstance(header, dict) else None
    # What the step has shown is told whatever its kernel says.
    with contextlib.suppress(RepriseError):
        said = await _ask(info, "question_request", {})
        for question in said.get("questions", []):
            if question.get("msg_id") == msg_id:
                return {"prompt": question["prompt"], "password": question["password"]}
    return None


async def _ask(info: SessionInfo, kind: str, content: dict[str, Json]) -> dict[str, Json]:
    """What the session's kernel says. Raises UnavailableError, and what it refuses with."""
    connection = running_kernel(info)
    if connection is None:
        raise UnavailableError("No kernel on this machine holds the session.")
    return await glance(connection, kind, content, _ASKED_S)


def _place(text: str | None) -> Place | None:
    """Raises Refused (400) for what no answer told."""
    if text is None:
        return None
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise Refused(
            400,
            "bad-cursor",
            "`after` is what the answer before says as `next`; this is something else.",
        )
    return Place(int(found[1]), int(found[2]))


class AnswersEndpoint(SessionEndpoint):
    path = "/sessions/{session}/answers"
    auth_resource = "reprise-session-steps"

    @operation("execute")
    async def post(self, asked: Asked) -> Any:
        """The page that a cell asked with `input()` may be gone; another one answers."""
        info = await (await self.reader(asked)).info()
        answer = {"msg_id": asked.body["msg_id"], "value": asked.body["value"]}
        said = await _ask(info, "answer_request", answer)
        if said.get("answered") is not True:
            raise Refused(
                409,
                "not-asked",
                "This cell asks for nothing now: it has ended, or somebody has answered. Nothing"
                " was changed.",
            )
        return {"answered": True}


class PainterEndpoint(SessionEndpoint):
    path = "/sessions/{session}/painter"

    @operation("write")
    async def post(self, asked: Asked) -> Any:
        """Only one page at a time writes what cells showed into the notebook."""
        session = (await self.reader(asked)).session
        page, painters = asked.body["page"], self.service.painters
        if asked.body["paints"]:
            paints, seconds = painters.paint(session, page)
        else:
            painters.done(session, page)
            paints, seconds = False, 0.0
        return {"paints": paints, "seconds": round(seconds, 3)}


ENDPOINTS: Final = (CellsEndpoint, ShownEndpoint, AnswersEndpoint, PainterEndpoint)
