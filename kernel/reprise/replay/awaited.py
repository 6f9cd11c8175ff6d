"""Tells which comms an awaiting cell has handled: ipykernel says neither busy nor idle of them.

A comm message that comes while a cell awaits is handled at once, without a status of its own
(ipykernel 7); one that comes while a cell computes waits in the language kernel and gets its busy
and idle after the cell. Only the first kind belongs to the cell's past.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from reprise.errors import SandboxDied
from reprise.log.model import canonical
from reprise.replay.link import KernelLink, Nobody, Run
from reprise.replay.message import Message, make
from reprise.replay.recorder import OutputRecorder


async def settle(link: KernelLink, beside: Sequence[Run]) -> None:
    """Finish those comms beside a cell that were handled while it awaited.

    beside: their runs in the order they were sent. Call it when the cell's idle has come. It
    takes a round trip at most, whatever still waits in the language kernel.
    """
    unheard = []
    for run in beside:
        if run.began is not None or run.finished.done():
            continue
        if run.heard.is_set():
            run.finish()  # it has shown something, and no busy before
        else:
            unheard.append(run)
    if not unheard:
        return
    asked = asyncio.get_running_loop().create_task(_answered(link, unheard))
    heard = [asyncio.get_running_loop().create_task(run.heard.wait()) for run in unheard]
    try:
        await asyncio.wait([asked, *heard], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in heard:
            task.cancel()
    if asked.done():
        return
    # One of them has its turn only now, so those that were sent before it on the same way have
    # had theirs. The others are told apart by the answer, when it comes.
    link.keep(asked)
    first = next(i for i, run in enumerate(unheard) if run.heard.is_set())
    for run in unheard[:first]:
        if _way(run) == _way(unheard[first]):
            run.finish()


async def _answered(link: KernelLink, unheard: Sequence[Run]) -> None:
    """Ask after them on each way they may have gone; then finish those that said no busy."""
    asking = []
    with contextlib.suppress(SandboxDied):  # then all runs have ended
        for client in dict.fromkeys(run.client for run in unheard):
            named = [run.request.subshell_id for run in unheard if run.client == client]
            # ipykernel may handle a message on the main shell although it names a subshell.
            for subshell in dict.fromkeys([None, *named]):
                run = Run(_question(subshell), client, OutputRecorder(1 << 20), Nobody())
                link.start(run)
                asking.append(run)
        for run in asking:
            await run.finished
        for run in unheard:
            if run.began is None and not run.finished.done():
                run.finish()
    for run in asking:
        link.end(run)


def _question(subshell: str | None) -> Message:
    """What every kernel answers, in the order of its queue, and what changes nothing."""
    message = make("kernel_info_request", {})
    if subshell is None:
        return message
    header = {**message.header, "subshell_id": subshell}
    return Message(header, canonical(header), b"{}", b"{}", b"{}")


def _way(run: Run) -> tuple[bytes, str | None]:
    return run.client, run.request.subshell_id
