"""The record of a session's network as the proxy uses it: written by first runs, read by replays.

An answer is stored under its step, the key of its request (`exchange.Asked.key`) and how many
requests of that key the step had made before; so it does not matter in which order requests of
different keys come, of which clients make several at once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, TypeVar

from reprise.egress.contract import Moment
from reprise.egress.exchange import Asked, Head, shown_url, stored_headers
from reprise.errors import DatabaseUnavailable
from reprise.log.store import Blobs, RecordedResponse
from reprise.quantities import amount
from reprise.settings import RECORDED_BYTES

log = logging.getLogger("reprise")

Result = TypeVar("Result")

#: A body is stored in blobs of this size, and one such piece of each answer is held in memory.
PIECE_BYTES: Final = 1 << 20

#: Steps whose requests are counted still: beside the one that runs, some that ran beside it.
_COUNTED_STEPS: Final = 16

#: Stores a response, and those pieces of its body that are not stored yet, durably.
Write = Callable[[RecordedResponse, Sequence[bytes]], Awaitable[None]]


class Recorded(Protocol):
    """What is read of a log (`log.store.LogReader` is one)."""

    @property
    def blobs(self) -> Blobs: ...

    async def recorded(
        self, seq: int, key: str, nth: int, *, idle: bool = False
    ) -> RecordedResponse | None: ...

    async def recorded_count(self, seq: int, key: str) -> int: ...


class NoAnswer(Exception):
    """The record holds none to this request; the message is the sentence for the person."""


class Record:
    """What one sandbox's proxy records and is answered from."""

    def __init__(self) -> None:
        self._reader: Recorded | None = None
        self._write: Write | None = None
        self._counts: OrderedDict[tuple[int, bool], Counter[str]] = OrderedDict()
        self._storing: set[asyncio.Task[Any]] = set()

    async def stored(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of storing something, which goes on whoever gives up waiting for it."""
        return await asyncio.shield(self.store_later(work))

    def store_later(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        task = asyncio.get_running_loop().create_task(work)
        self._storing.add(task)
        task.add_done_callback(self._is_stored)
        return task

    def _is_stored(self, task: asyncio.Task[Any]) -> None:
        self._storing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("An answer of the network could not be recorded: %s", error)

    async def settled(self) -> None:
        """Return when all that was to be stored by now is."""
        await asyncio.gather(*self._storing, return_exceptions=True)

    def bind(self, reader: Recorded, write: Write | None = None) -> None:
        """From now on this is the session. write: None where nothing is recorded (a replay)."""
        self._reader, self._write = reader, write
        self._counts.clear()

    async def place(self, moment: Moment, key: str) -> Place:
        """Where the next request of this key at this moment stands."""
        reader = self._bound()
        seq, idle = _step(moment)
        counts = self._counts.setdefault((seq, moment.replay), Counter())
        while len(self._counts) > _COUNTED_STEPS:
            self._counts.popitem(last=False)
        if idle and not moment.replay and key not in counts:
            # An earlier process of this session may have been asked the same after this step.
            counts[key] = max(counts[key], await reader.recorded_count(seq, key))
        nth = counts[key]
        counts[key] += 1
        return Place(seq, idle, key, nth)

    async def answer(self, place: Place, asked: Asked) -> RecordedResponse:
        """What the record says. Raises NoAnswer."""
        found = await self._bound().recorded(place.seq, place.key, place.nth, idle=place.idle)
        step = "Before the first step" if place.seq < 0 else f"In step {place.seq}"
        what = f"{asked.method} {shown_url(asked.url)}"
        if found is None:
            raise NoAnswer(
                f"{step} the record has no answer to {what}"
                + (f", asked for the {_ordinal(place.nth + 1)} time" if place.nth else "")
                + ". A replay does not touch the network; the code asked for something else than "
                "when it was recorded."
            )
        if found.state == "absent":
            raise NoAnswer(f"{step} the answer to {what} was not recorded: {found.why}.")
        return found

    async def body(self, found: RecordedResponse) -> AsyncIterator[bytes]:
        """The bytes of a recorded answer. Raises LogCorrupt when they are not there."""
        for name in found.pieces:
            yield await self._bound().blobs.get(name)

    def keeping(self, asked: Asked, moment: Moment) -> Recording:
        """An answer that is about to be recorded. Raises DatabaseUnavailable."""
        if self._write is None:
            raise DatabaseUnavailable(
                "This session's log is not open, so its network cannot be recorded, and nothing "
                "was sent."
            )
        return Recording(self, self._bound().blobs, self._write, asked, moment)

    def _bound(self) -> Recorded:
        if self._reader is None:
            raise DatabaseUnavailable(
                "This session's log is not open, so its network cannot be recorded."
            )
        return self._reader


@dataclass(frozen=True)
class Place:
    """Which request of a session this is."""

    seq: int
    idle: bool
    key: str
    nth: int


class Keeping(Protocol):
    """What is kept of one answer for replays; `Unkept` where nothing is."""

    async def asked_whole(self, body_sha256: str) -> None:
        """All of the request has been read."""

    async def add(self, data: bytes) -> None:
        """The next bytes of the answer's body. Raises UnavailableError."""

    def left(self, head: Head | None) -> None:
        """The program does not want the rest: keep what there is, in the background.

        head: None where there was no answer yet.
        """

    async def end(self, request: Request | None, head: Head, why: str = "") -> str:
        """Keep it, durably when this returns. Returns why not all of it is kept, or "".

        request: the rest of which may be waited for.  why: the answer was ended early.
        Raises RepriseError.
        """


class Request(Protocol):
    """A request's body that may still be on its way."""

    async def rest(self) -> bool:
        """Whether all of it has been read, within the time that is left for that."""


class Unkept:
    """Where nothing is recorded."""

    async def asked_whole(self, _body_sha256: str) -> None:
        return

    async def add(self, _data: bytes) -> None:
        return

    def left(self, _head: Head | None) -> None:
        return

    async def end(self, _request: Request | None, _head: Head, why: str = "") -> str:
        return why


class Recording:
    """One answer on its way into the record. Its pieces are stored as they come."""

    def __init__(
        self, record: Record, blobs: Blobs, write: Write, asked: Asked, moment: Moment
    ) -> None:
        self._record = record
        self._blobs = blobs
        self._write = write
        self._asked = asked
        self._moment = moment
        self._at = time.time_ns() // 1000
        self._place: Place | None = None
        self._ending = False
        self._size = 0
        self._names: list[str] = []
        self._piece = bytearray()

    async def asked_whole(self, body_sha256: str) -> None:
        # Numbered now and not when it is answered: a replay numbers requests as they come.
        self._place = await self._record.place(self._moment, self._asked.key(body_sha256))

    async def add(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > RECORDED_BYTES:
            self._names.clear()
            self._piece.clear()
            return
        self._piece += data
        while len(self._piece) >= PIECE_BYTES:
            piece = bytes(self._piece[:PIECE_BYTES])
            name = await self._record.stored(self._blobs.put(piece))
            # Only now: who is cancelled meanwhile keeps it with the rest.
            del self._piece[:PIECE_BYTES]
            self._names.append(name)

    def left(self, head: Head | None) -> None:
        if self._place is None or self._ending:
            return
        why = "the program did not read it to its end"
        if head is None:
            why = "the program gave up before there was one"
        self._record.store_later(self._end(self._place, head, why))

    async def end(self, request: Request | None, head: Head, why: str = "") -> str:
        if self._place is None and request is not None:
            await request.rest()
        if self._place is None:
            return "it was not recorded: it came before the request was whole"
        self._ending = True
        return await self._record.stored(self._end(self._place, head, why))

    async def _end(self, place: Place, head: Head | None, why: str) -> str:
        state: Literal["whole", "part", "absent"] = "part" if why else "whole"
        if self._size > RECORDED_BYTES:
            state = "absent"
            why = f"its body is over {amount(RECORDED_BYTES)}, the most that is recorded"
        if head is None:
            state, head = "absent", Head(0, "", ())
        rest = [bytes(self._piece)] if self._piece else []
        names = [*self._names, *[hashlib.sha256(piece).hexdigest() for piece in rest]]
        response = RecordedResponse(
            seq=place.seq,
            idle=place.idle,
            key=place.key,
            nth=place.nth,
            at=self._at,
            state=state,
            why=why,
            method=self._asked.method,
            url=shown_url(self._asked.url),
            status=head.status,
            reason=head.reason,
            headers=stored_headers(head.headers),
            trailers=stored_headers(head.trailers),
            pieces=tuple(names),
            size=self._size,
        )
        await self._write(response, rest)
        return f"it was not recorded: {why}" if state == "absent" else why


def _step(moment: Moment) -> tuple[int, bool]:
    return (moment.latest, True) if moment.step is None else (moment.step, False)


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number % 100 not in (11, 12, 13) else 0)
    return f"{number}{suffix or 'th'}"
