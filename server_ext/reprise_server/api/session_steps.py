"""`/sessions/{session}/steps…`: the history in pages, a step with what it showed, its bytes.

What a step showed is data here, whatever it is: HTML, SVG and scripts stand in JSON, and bytes are
offered for saving. Nothing of it is ever a page.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Any, Final

from reprise.errors import LogCorrupt
from reprise.log.as_json import step_json
from reprise.log.events import blob_in_pieces
from reprise.log.model import Json, OutputEntry
from reprise.log.reader import Reader
from reprise.log.search import StepFilter, find_steps
from reprise.log.store import StepRecord
from reprise_server.api.base import Asked, operation
from reprise_server.api.refusals import Refused
from reprise_server.api.sending import Sending
from reprise_server.api.sessions import SessionEndpoint

#: A payload in a list of steps, bytes; a larger one is told with the step itself.
PAYLOAD_BYTES: Final = 256 << 10
#: All outputs in one answer, bytes; one that is larger by itself is had alone.
OUTPUTS_BYTES: Final = 2 << 20


class StepEndpoint(SessionEndpoint):
    """What works on one step."""

    async def record(self, asked: Asked, *, outputs: bool) -> StepRecord:
        """Raises SessionNotFound, Refused (404)."""
        return await step_of(await self.reader(asked), asked.path["seq"], outputs=outputs)


async def step_of(reader: Reader, seq: int, *, outputs: bool) -> StepRecord:
    """Raises Refused (404)."""
    async for record in reader.records(seq, seq + 1, outputs=outputs):
        return record
    steps = (await reader.info()).steps
    last = f"its last one is {steps - 1}" if steps else "it has none yet"
    raise Refused(404, "step-not-found", f"Session {reader.session} has no step {seq}; {last}.")


class StepsEndpoint(SessionEndpoint):
    path = "/sessions/{session}/steps"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        query = asked.query
        page = await find_steps(
            reader,
            StepFilter(query["kind"], query["actor"], query["outcome"], query["q"] or ""),
            after=query["after"],
            newest=query["newest"],
            limit=query["limit"],
        )
        info = await reader.info()
        return {
            "session": str(reader.session),
            "total": info.steps,
            "steps": [_in_list(record) for record in page.rows],
            "next": page.next,
        }


def _in_list(record: StepRecord) -> dict[str, Json]:
    """As `reprise log --json` tells it, a large payload left out."""
    said = step_json(record, False)
    size = len(json.dumps(said["payload"], allow_nan=False))
    if size > PAYLOAD_BYTES:
        said["payload"] = None
    return {**said, "payload_bytes": size}


class OneStepEndpoint(StepEndpoint):
    path = "/sessions/{session}/steps/{seq}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        record = await self.record(asked, outputs=True)

        def told() -> bytes:
            said = step_json(record, False)
            said |= _page(record.outputs, -1, "outputs")
            said |= _page(record.late, -1, "late_outputs")
            return json.dumps(said, allow_nan=False).encode()

        # A payload may be as large as a step is allowed to be.
        data = await asyncio.to_thread(told)
        return Sending(_cut(data), len(data), None, "application/json")


class StepOutputsEndpoint(StepEndpoint):
    path = "/sessions/{session}/steps/{seq}/outputs"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        record = await self.record(asked, outputs=True)
        late = asked.query["late"]
        entries = record.late if late else record.outputs
        return await asyncio.to_thread(_page, entries, asked.query["after"], "outputs")


class StepOutputEndpoint(StepEndpoint):
    path = "/sessions/{session}/steps/{seq}/outputs/{number}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        record = await self.record(asked, outputs=True)
        entries = record.late if asked.query["late"] else record.outputs
        number = asked.path["number"]
        if number >= len(entries):
            raise Refused(
                404, "output-not-found", f"This step has {len(entries)} of these outputs."
            )
        data = await asyncio.to_thread(_encoded, entries[number])
        return Sending(_cut(data), len(data), None, "application/json")


class StepBlobEndpoint(StepEndpoint):
    path = "/sessions/{session}/steps/{seq}/blobs/{digest}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        record = await self.record(asked, outputs=True)
        digest = asked.path["digest"]
        entries = (*record.outputs, *record.late)
        if digest not in {*record.step.new.blobs, *(n for each in entries for n in each.blobs)}:
            raise Refused(404, "blob-not-found", "This step names no such bytes.")
        reader = await self.reader(asked)
        return await stored_bytes(reader, digest, digest)


async def stored_bytes(reader: Reader, digest: str, name: str) -> Sending:
    """A blob of the session, offered for saving under `name`.

    Raises LogCorrupt; where only the last bytes tell that they are not what they should be, the
    answer is cut off.
    """
    size, pieces = await blob_in_pieces(reader.blobs, digest)
    return Sending(_proven(digest, pieces), size, name)


async def _proven(digest: str, pieces: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The pieces, read where reading a disk keeps nobody waiting; the last when all are proven."""
    total = hashlib.sha256()
    held: bytes | None = None
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        if held is not None:
            yield held
        await asyncio.to_thread(total.update, piece)
        held = piece
    if total.hexdigest() != digest:
        raise LogCorrupt(f"Blob {digest} is stored with other bytes than its name says.")
    if held is not None:
        yield held


async def _cut(data: bytes) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(data), 1 << 20):
        yield data[at : at + (1 << 20)]


def _encoded(entry: OutputEntry) -> bytes:
    return json.dumps(entry.to_json(), allow_nan=False).encode()


def _page(entries: Sequence[OutputEntry], after: int, name: str) -> dict[str, Json]:
    """The outputs behind number `after`, within bounds.

    One that is larger by itself is null, and its number stands in `NAME_left_out` with its size.
    """
    shown: list[Json] = []
    left_out: list[Json] = []
    room = OUTPUTS_BYTES
    for entry in entries[after + 1 :]:
        size = len(_encoded(entry))
        if size > OUTPUTS_BYTES:
            left_out.append({"number": after + 1 + len(shown), "bytes": size})
            shown.append(None)
            continue
        if size > room:
            break
        room -= size
        shown.append(entry.to_json())
    last = after + len(shown)
    return {
        name: shown,
        f"{name}_left_out": left_out,
        f"{name}_next": last if last < len(entries) - 1 else None,
    }


ENDPOINTS: Final = (
    StepsEndpoint,
    OneStepEndpoint,
    StepOutputsEndpoint,
    StepOutputEndpoint,
    StepBlobEndpoint,
)
