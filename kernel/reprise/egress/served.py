"""Answers a request of a replayed step from the record, without the network."""

from __future__ import annotations

import hashlib

import h11

from reprise.egress.answers import Answer
from reprise.egress.contract import Moment
from reprise.egress.exchange import Asked, Head
from reprise.egress.http1 import Front
from reprise.egress.recording import Record
from reprise.log.store import RecordedResponse


async def body_digest(front: Front) -> str:
    """Read a request's body to its end; its sha256 (hex). Raises Malformed, StreamGone."""
    total = hashlib.sha256()
    while not isinstance(event := await front.next(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            total.update(event.data)
    return total.hexdigest()


async def serve_recorded(asked: Asked, record: Record, moment: Moment, answer: Answer) -> None:
    """Raises NoAnswer, Malformed, StreamGone, and RepriseError when the log cannot be read."""
    place = await record.place(moment, asked.key(await body_digest(answer.front)))
    found = await record.answer(place, asked)
    head = _head(found)
    answer.becomes("served", found.why)
    if answer.has_body(head):
        async for piece in record.body(found):
            await answer.begin(head)
            await answer.body(piece)
    if found.state == "part" and found.size != head.length:
        # The program that was recorded did not see more either.
        await answer.cut(head)
        return
    await answer.end(head)


def _head(found: RecordedResponse) -> Head:
    return Head(
        found.status,
        found.reason,
        [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found.headers],
        [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found.trailers],
    )
