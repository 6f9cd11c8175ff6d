"""Output that comes after its step's idle (threads send it): shown, and recorded as late."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from reprise.log.model import OutputEntry
from reprise.replay.link import entry_message
from reprise.replay.message import Message, output_entry
from reprise.replay.recorder import OutputRecorder

log = logging.getLogger("reprise")

#: Seconds that late outputs wait to be committed together.
LATE_S = 0.25

#: Steps whose late output is counted against its bound, the oldest forgotten first.
REMEMBERED = 4096


class LateOutputs:
    """The late output of all steps of a session.

    limit: bytes that one step may send late.
    show: shows a message to the clients.
    store: commits a batch of one step's (seq, entries, the bytes of buffers that they name).
    running: whether a step has no outcome yet; before that nothing of it can be stored as late.
    """

    def __init__(
        self,
        limit: int,
        show: Callable[[Message, bytes], None],
        store: Callable[[int, list[OutputEntry], list[bytes]], Awaitable[None]],
        running: Callable[[int], bool],
    ) -> None:
        self._limit = limit
        self._show = show
        self._store = store
        self._running = running
        self._recorders: OrderedDict[int, OutputRecorder] = OrderedDict()
        self._blobs: dict[int, list[bytes]] = {}
        self._task: asyncio.Task[None] | None = None
        self._now = asyncio.Event()

    def add(self, seq: int, message: Message, topic: bytes) -> None:
        """Show it, within the step's bound, and store it soon. Raises Malformed."""
        recorder = self._recorders.get(seq)
        if recorder is None:
            recorder = self._recorders[seq] = OutputRecorder(self._limit)
        entry = output_entry(message)
        for shown in recorder.add(entry, message.payload_size):
            whole = shown is entry
            if whole and message.buffers:
                self._blobs.setdefault(seq, []).extend(message.buffers)
            self._show(message if whole else entry_message(shown, message.raw_parent), topic)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._store_soon())
            self._task.add_done_callback(self._stored)

    async def _store_soon(self) -> None:
        waits = True
        while waits:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._now.wait(), LATE_S)
            waits = False
            for seq, recorder in list(self._recorders.items()):
                if not recorder.pending_bytes:
                    continue
                if self._running(seq) and not self._now.is_set():
                    waits = True
                    continue
                await self._store(seq, recorder.take(), self._blobs.pop(seq, []))
        while len(self._recorders) > REMEMBERED:
            self._recorders.popitem(last=False)

    def _stored(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and task.exception() is not None:
            log.warning("Late output was not stored: %s", task.exception())

    async def finish(self, timeout_s: float) -> None:
        """Store at once what waits; what comes later is stored at once too."""
        self._now.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_s)

    def begin_anew(self) -> None:
        """Another session: its steps have the same numbers, and bounds of their own."""
        self._now.clear()
        self._recorders.clear()
        self._blobs.clear()
