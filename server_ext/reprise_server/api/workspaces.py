"""Workspaces of past steps that stand for a while: built once by a replay, then listed and read."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from reprise.client.beside import PastWorkspace, past_workspace
from reprise.errors import SandboxDied
from reprise.log.postgres import Log

#: Each is a sandbox. When one more is built, the one that was used longest ago goes.
MOST: Final = 2
#: Seconds that one stands without being asked for anything.
IDLE_S: Final = 300.0

Key = tuple[uuid.UUID, int]


@dataclass
class _Standing:
    """A workspace. `over`: set when it is to go; `holder` then ends."""

    workspace: PastWorkspace
    over: asyncio.Event
    holder: asyncio.Task[None]
    used_at: float
    users: int = 0
    timer: asyncio.TimerHandle | None = field(default=None)


class Workspaces:
    """All that stand, on the loop that the jobs run on. One of a step is the same for everybody."""

    def __init__(self, idle_s: float = IDLE_S, most: int = MOST) -> None:
        self._idle_s = idle_s
        self._most = most
        self._standing: dict[Key, _Standing] = {}
        self._holders: set[asyncio.Task[None]] = set()

    def stands(self, session: uuid.UUID, at: int) -> bool:
        """Whether it stands; may be asked from any thread."""
        return (session, at) in self._standing

    async def build(self, session: uuid.UUID, at: int, on_progress: Callable[[str], None]) -> None:
        """Have the workspace as after step `at` stand. Raises as `past_workspace`.

        Cancelled, it leaves no sandbox.
        """
        key = (session, at)
        if key in self._standing:
            self._touch(self._standing[key])
            return
        await self._make_room()
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[PastWorkspace] = loop.create_future()
        over = asyncio.Event()
        # One task enters and leaves it: it is cancelled as a whole, or not at all.
        holder = loop.create_task(_hold(key, on_progress, ready, over))
        self._holders.add(holder)
        holder.add_done_callback(self._holders.discard)
        either: list[asyncio.Future[Any]] = [ready, holder]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            holder.cancel()
            await asyncio.wait([holder])
            raise
        if not ready.done():
            await holder  # raises what it could not be built for
        found = _Standing(ready.result(), over, holder, loop.time())
        self._standing[key] = found
        holder.add_done_callback(lambda _: self._gone(key, found))
        self._touch(found)
        # Another one may have been built at the same time.
        await self._make_room(beside=found)

    @contextlib.asynccontextmanager
    async def use(self, session: uuid.UUID, at: int) -> AsyncIterator[PastWorkspace]:
        """One that stands; it stays while it is used. Raises KeyError when none does."""
        found = self._standing[session, at]
        found.users += 1
        try:
            yield found.workspace
        except SandboxDied:
            found.over.set()
            raise
        finally:
            found.users -= 1
            self._touch(found)

    def _touch(self, found: _Standing) -> None:
        loop = asyncio.get_running_loop()
        found.used_at = loop.time()
        if found.timer is not None:
            found.timer.cancel()
        found.timer = loop.call_later(self._idle_s, self._rest, found)

    def _rest(self, found: _Standing) -> None:
        if found.users:
            self._touch(found)
        else:
            found.over.set()

    def _gone(self, key: Key, found: _Standing) -> None:
        if found.timer is not None:
            found.timer.cancel()
        if self._standing.get(key) is found:
            del self._standing[key]

    async def _make_room(self, beside: _Standing | None = None) -> None:
        """For one more, or `beside` one that has its room already."""
        while len(others := [e for e in self._standing.values() if e is not beside]) >= self._most:
            await self._end(min(others, key=lambda each: (each.users > 0, each.used_at)))

    async def _end(self, found: _Standing) -> None:
        found.over.set()
        await asyncio.wait([found.holder])
        # Its own callback comes a moment later; nobody may find it meanwhile.
        self._standing = {key: each for key, each in self._standing.items() if each is not found}

    async def leave(self, session: uuid.UUID) -> None:
        """The session is gone."""
        for key, found in list(self._standing.items()):
            if key[0] == session:
                await self._end(found)

    async def close(self) -> None:
        """End all; returns when no sandbox of theirs is left."""
        for found in list(self._standing.values()):
            found.over.set()
        if self._holders:
            await asyncio.wait(self._holders)


async def _hold(
    key: Key,
    on_progress: Callable[[str], None],
    ready: asyncio.Future[PastWorkspace],
    over: asyncio.Event,
) -> None:
    played = 0

    def on_step(_: object) -> None:
        nonlocal played
        played += 1
        on_progress(f"{played} steps replayed")

    log = await Log.connect()
    try:
        reader = await log.reader(key[0])
        on_progress("starting a sandbox …")
        async with past_workspace(reader, key[1], on_step=on_step) as workspace:
            ready.set_result(workspace)
            await over.wait()
    finally:
        await log.close()
