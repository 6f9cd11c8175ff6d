"""Answers a step_request whose key has been used before: with what its step showed and answered."""

from __future__ import annotations

from reprise.errors import UsageError
from reprise.jupyter.clients import Clients
from reprise.jupyter.request import Request
from reprise.jupyter.steps import StepRequest, stored_reply
from reprise.log.store import Blobs, StepRecord
from reprise.replay.link import entry_message

#: Entries of a record that are no outputs of their own.
_NOT_SHOWN = frozenset({"step_reply", "execute_reply", "input_request"})


async def repeat(
    clients: Clients, blobs: Blobs, request: Request, asked: StepRequest, record: StepRecord
) -> None:
    """Show and tell again; nothing runs.

    Raises UsageError when the step asked for something else, or still runs.
    """
    seq = record.step.seq
    if not asked.same(record):
        raise UsageError(
            f"The key {asked.key!r} belongs to step {seq}, which asked for something else. Nothing "
            "ran; use a key of its own for each request."
        )
    if record.outcome is None:
        raise UsageError(f"Step {seq} with the key {asked.key!r} still runs.")
    clients.status(request, "busy")
    for entry in record.outputs:
        if entry.type not in _NOT_SHOWN:
            buffers = [await blobs.get(sha256) for sha256 in entry.blobs]
            message = entry_message(entry, request.message.raw_header, buffers)
            clients.publish(message, entry.type.encode())
    last = stored_reply(record)
    clients.answer(request, asked.reply(request, record.step, record.outcome, last, repeated=True))
    clients.status(request, "idle")
