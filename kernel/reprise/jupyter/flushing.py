"""Commits what a running step has shown so far, again and again until it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reprise.log.model import OutputEntry
from reprise.replay.engine import LiveSession
from reprise.replay.recorder import OutputRecorder

#: Seconds between two commits of what a running step has shown.
FLUSH_S = 0.2

#: Bytes of output that are committed at once.
FLUSH_BYTES = 2 << 20


class Flushing:
    """The commits of one step's outputs while it runs.

    blobs: takes the message buffers that the recorded entries name and that are not stored yet.
    """

    def __init__(
        self,
        session: LiveSession,
        seq: int,
        recorder: OutputRecorder,
        blobs: Callable[[], list[bytes]],
    ) -> None:
        self._session = session
        self._seq = seq
        self._recorder = recorder
        self._blobs = blobs
        self._stopped = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._arm()

    def recorded(self) -> None:
        """Something was recorded: a large output goes to the log at once, not at the end."""
        if self._recorder.pending_bytes > FLUSH_BYTES:
            self._flush()

    async def stop(self) -> None:
        """No more commits from here on; the one that is under way has ended."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await self._task

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        if self._task is None and not self._stopped:
            if self._timer is not None:
                self._timer.cancel()
            self._task = asyncio.get_running_loop().create_task(self._flush_once())

    async def _flush_once(self) -> None:
        if self._recorder.pending_bytes:
            blobs = self._blobs()
            entries: list[OutputEntry] = self._recorder.take()
            await self._session.show(self._seq, entries, blobs)
        self._task = None
        if not self._stopped:
            self._arm()
