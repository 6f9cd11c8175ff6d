"""The queue of widget messages: one order, and no update that was overtaken before it was sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass

from reprise.errors import RepriseError
from reprise.jupyter.request import Request
from reprise.log.model import canonical
from reprise.replay.message import Malformed

#: Longer messages are not looked into: reading them would cost more than sending them.
LONGEST = 1 << 20

_UPDATE_KEYS = frozenset({"method", "state", "buffer_paths"})


@dataclass(frozen=True)
class Update:
    """What an ipywidgets update sets: whole values of some of a model's keys.

    sender: the client and its subshell. Another client's update is never overtaken: its page
      waits for the echo of its own.
    paths: canonical buffer_paths; each takes a value out of the state and into a buffer.
    """

    comm: str
    sender: tuple[bytes, str | None]
    keys: frozenset[str]
    paths: bytes

    def overtakes(self, older: Update) -> bool:
        """Whether nothing of the older one can be seen once this one is there."""
        return (
            self.comm == older.comm
            and self.sender == older.sender
            and self.paths == older.paths
            and self.keys >= older.keys
        )


def update_of(request: Request) -> Update | None:
    """What a request updates; None for every other message."""
    message = request.message
    if message.msg_type != "comm_msg" or message.size > LONGEST:
        return None
    try:
        content = message.content()
    except Malformed:
        return None
    comm, data = content.get("comm_id"), content.get("data")
    if not isinstance(comm, str) or not isinstance(data, dict):
        return None
    state, paths = data.get("state"), data.get("buffer_paths", [])
    if data.get("method") != "update" or not data.keys() <= _UPDATE_KEYS:
        return None
    if not isinstance(state, dict) or not isinstance(paths, list):
        return None
    sender = (request.client, message.subshell_id)
    return Update(comm, sender, frozenset(state), canonical(paths))


#: The comm over which a page asks a kernel for its widgets, by itself, as soon as it is opened.
CONTROL = "jupyter.widget.control"


def unasked(requests: Iterable[Request]) -> bool:
    """Whether pages sent all of these by themselves: nobody wants anything of the session."""
    opened: set[str] = set()
    for request in requests:
        message = request.message
        if message.size > LONGEST:
            return False
        try:
            content = message.content()
        except Malformed:
            return False
        comm = content.get("comm_id")
        if not isinstance(comm, str):
            return False
        if message.msg_type == "comm_open" and content.get("target_name") == CONTROL:
            opened.add(comm)
        elif comm not in opened:
            return False
    return True


class Waiting:
    """Requests in the order they came, without the updates that a later one overtook.

    Whatever is no update is never passed: a click on a button sees the values that its page had
    sent before it.
    """

    def __init__(self) -> None:
        self._queue: deque[tuple[Request, Update | None]] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Request]:
        return (request for request, _ in self._queue)

    def put(self, request: Request) -> list[Request]:
        """Take it in; returns those that it overtook."""
        update = update_of(request)
        overtaken: list[Request] = []
        if update is not None:
            later: list[tuple[Request, Update | None]] = []
            while self._queue and (other := self._queue[-1][1]) is not None:
                entry = self._queue.pop()
                if update.overtakes(other):
                    overtaken.append(entry[0])
                else:
                    later.append(entry)
            self._queue.extend(reversed(later))
            overtaken.reverse()
        self._queue.append((request, update))
        return overtaken

    def take(self) -> Request:
        return self._queue.popleft()[0]


class Comms:
    """Sends comm messages one after the other, as they came.

    ready: returns when messages can be sent. send: sends one; returns when it is on its way.
    drop: answers one that was overtaken. refuse: answers one that could not be sent, and why.
    rests: whether the session would have to be brought back first, and nobody does. It is not
      brought back for what pages send by themselves; that waits until somebody does (`look`).
    """

    def __init__(
        self,
        ready: Callable[[], Awaitable[None]],
        send: Callable[[Request], Awaitable[None]],
        drop: Callable[[Request], None],
        refuse: Callable[[Request, Exception], None],
        rests: Callable[[], bool],
    ) -> None:
        self._rests = rests
        self._news = asyncio.Event()
        #: whether a cell waits for what came before it
        self._awaited = False
        self._ready = ready
        self._send = send
        self._drop = drop
        self._refuse = refuse
        self._queue = Waiting()
        self._behind = Waiting()
        self._task: asyncio.Task[None] | None = None

    def put(self, request: Request, *, behind: bool) -> None:
        """Take one in. behind: a cell that came before it has to be accepted first."""
        for overtaken in (self._behind if behind else self._queue).put(request):
            self._drop(overtaken)
        if not behind and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        self.look()

    def look(self) -> None:
        """The session may be on its way back, or be back."""
        self._news.set()

    def release(self) -> None:
        """No cell is before those that waited behind one."""
        behind, self._behind = self._behind, Waiting()
        for request in behind:
            self.put(request, behind=False)

    async def sent(self) -> None:
        """Return when all that came is on its way (what waits behind a cell left aside)."""
        if self._task is None:
            return
        self._awaited = True
        self.look()
        try:
            await asyncio.wait([self._task])
        finally:
            self._awaited = False

    async def _run(self) -> None:
        try:
            while self._queue:
                if self._rests() and not self._awaited and unasked(self._queue):
                    self._news.clear()
                    await self._news.wait()
                    continue
                try:
                    await self._ready()
                except RepriseError as error:
                    # All of them: the next one would only begin again what was just given up.
                    while self._queue:
                        self._refuse(self._queue.take(), error)
                    return
                request = self._queue.take()
                try:
                    await self._send(request)
                except (RepriseError, Malformed) as error:
                    self._refuse(request, error)
        finally:
            self._task = None

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
