"""A job: work that outlasts its request, as it is seen by whoever asks about it meanwhile.

What a job does runs on a loop of its own (`beside`), so everything here may be read and waited for
from any thread.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from reprise.errors import TooLarge
from reprise.log.as_json import iso
from reprise.log.model import Json

State = Literal["queued", "running", "done", "failed", "cancelled"]
ENDED: Final = frozenset({"done", "failed", "cancelled"})

#: What a step has shown last stays in memory; the step's record has all of it.
OUTPUT_BYTES: Final = 4 << 20
#: A result up to this lies in memory, larger ones in a file without a name.
_IN_MEMORY: Final = 256 << 10
#: A result that is larger is not kept: the report of a hundred thousand steps is well below.
RESULT_BYTES: Final = 256 << 20
#: Bytes of a result that are handed out at once.
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Progress:
    """How far a job is, in words; `done` of `total` steps where they can be counted.

    counts: what came out how so far.
    """

    text: str = ""
    done: int | None = None
    total: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Json]:
        return {
            "text": self.text,
            "done": self.done,
            "total": self.total,
            "counts": dict(self.counts),
        }


class Kept(Protocol):
    """What a job keeps besides its result, to be read in parts. size: in bytes."""

    @property
    def size(self) -> int: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Done:
    """What came of a job. summary: short, part of the job itself.  result: all of it, if more.
    kept: the same, in a form that is read in parts."""

    summary: Mapping[str, Json]
    result: Mapping[str, Json] | None = None
    kept: Kept | None = None


class Outputs:
    """What a step shows, numbered from 0, the last OUTPUT_BYTES of it.

    An output that is larger by itself is passed by; its number is missing then.
    """

    def __init__(self, limit: int = OUTPUT_BYTES) -> None:
        self._limit = limit
        self._kept: deque[tuple[int, int, Json]] = deque()
        self._size = 0
        self.count = 0

    def add(self, output: Json) -> None:
        # As it goes out: what a browser parses, not what Python holds.
        size = len(json.dumps(output, allow_nan=False))
        if size <= self._limit:
            self._kept.append((self.count, size, output))
            self._size += size
        self.count += 1
        while self._size > self._limit:
            self._size -= self._kept.popleft()[1]

    def since(self, after: int) -> tuple[list[Json], bool]:
        """The outputs behind number `after` that are kept, and whether some are not."""
        found = [output for number, _, output in self._kept if number > after]
        return found, len(found) < self.count - 1 - after


class Result:
    """A JSON object, written once and read in pieces by anybody."""

    def __init__(self, value: Mapping[str, Json]) -> None:
        """Raises TooLarge over RESULT_BYTES."""
        self._lock = threading.Lock()
        self.size = 0
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, prefix="reprise-result-")  # noqa: SIM115
        try:
            for piece in _encoded(value):
                self.size += len(piece)
                if self.size > RESULT_BYTES:
                    raise TooLarge(f"What came of it is over the bound of {RESULT_BYTES:,} bytes.")
                self._file.write(piece)
        except BaseException:
            self._file.close()
            raise

    def piece(self, offset: int) -> bytes:
        """Some bytes from `offset` on; none at the end, or when it was forgotten."""
        with self._lock:
            if self._file.closed:
                return b""
            self._file.seek(offset)
            return self._file.read(_PIECE)

    def close(self) -> None:
        with self._lock:
            self._file.close()


def _encoded(value: Mapping[str, Json]) -> Iterator[bytes]:
    """JSON, item by item of its lists: other threads run between them."""
    before = "{"
    for name, part in value.items():
        yield f"{before}{json.dumps(name)}:".encode()
        before = ","
        if isinstance(part, list):
            yield b"["
            for number, item in enumerate(part):
                yield (b"," if number else b"") + json.dumps(item, allow_nan=False).encode()
            yield b"]"
        else:
            yield json.dumps(part, allow_nan=False).encode()
    yield b"{}" if before == "{" else b"}"


def _now_us() -> int:
    return time.time_ns() // 1000


class Job:
    """One job. by: who asked for it, in words.  asked: what for, as the request said it."""

    def __init__(
        self, kind: str, session: uuid.UUID | None, by: str, asked: Mapping[str, Json]
    ) -> None:
        self.id = uuid.uuid4()
        self.kind = kind
        self.session = session
        self.by = by
        self.asked = asked
        self.created_at = _now_us()
        self.started_at: int | None = None
        self.ended_at: int | None = None
        #: When it ended by the clock of event loops, which nobody sets.
        self.ended_clock = 0.0
        self.state: State = "queued"
        self.cancelling = False
        self.progress = Progress("waiting for its turn")
        self.summary: Mapping[str, Json] | None = None
        self.error: Mapping[str, Json] | None = None
        self.result: Result | None = None
        self.kept: Kept | None = None
        #: Counts its changes; who has seen version N waits for the next.
        self.version = 0
        self._outputs = Outputs()
        self._lock = threading.Lock()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    # changed by the loop that it runs on --------------------------------------------------------

    def start(self) -> None:
        self.started_at = _now_us()
        self.state = "running"
        self._changed()

    def tell(self, progress: Progress) -> None:
        self.progress = progress
        self._changed()

    def show(self, output: Json) -> None:
        with self._lock:
            self._outputs.add(output)
        self._changed()

    def cancel(self) -> None:
        """It is being cancelled, which may take a moment."""
        self.cancelling = True
        self._changed()

    def end(
        self,
        state: State,
        *,
        summary: Mapping[str, Json] | None = None,
        result: Result | None = None,
        kept: Kept | None = None,
        error: Mapping[str, Json] | None = None,
    ) -> None:
        self.summary, self.result, self.kept, self.error = summary, result, kept, error
        self.ended_at = _now_us()
        self.ended_clock = time.monotonic()
        self.cancelling = False
        self.state = state
        self._changed()

    def _changed(self) -> None:
        with self._lock:
            self.version += 1
            waiting, self._waiting = self._waiting, set()
        for loop, future in waiting:
            loop.call_soon_threadsafe(_wake, future)

    # seen from anywhere -------------------------------------------------------------------------

    async def changed(self, since: int, patience_s: float) -> None:
        """Return when its version is no longer `since`, or after `patience_s` seconds."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        entry = (loop, future)
        with self._lock:
            if self.version != since:
                return
            self._waiting.add(entry)
        try:
            async with asyncio.timeout(patience_s):
                await future
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._waiting.discard(entry)

    def outputs(self, after: int) -> dict[str, Json]:
        """What was shown behind output number `after` (-1: all), as far as it is kept."""
        with self._lock:
            found, skipped = self._outputs.since(after)
            count = self._outputs.count
        return {"outputs": found, "next": count - 1, "skipped": skipped}

    @property
    def kept_bytes(self) -> int:
        return sum(each.size for each in (self.result, self.kept) if each is not None)

    def to_json(self) -> dict[str, Json]:
        state = self.state
        return {
            "id": str(self.id),
            "kind": self.kind,
            "session": None if self.session is None else str(self.session),
            "by": self.by,
            "asked": dict(self.asked),
            "state": state,
            "cancelling": self.cancelling,
            "created_at": iso(self.created_at),
            "started_at": None if self.started_at is None else iso(self.started_at),
            "ended_at": None if self.ended_at is None else iso(self.ended_at),
            "progress": self.progress.to_json(),
            "outputs": self._outputs.count,
            "summary": None if self.summary is None else dict(self.summary),
            "result_bytes": None if self.result is None else self.result.size,
            "error": None if self.error is None else dict(self.error),
            "version": self.version,
        }

    def forget(self) -> None:
        """Let go of what it keeps. Whoever waits hears of a change."""
        for each in (self.result, self.kept):
            if each is not None:
                each.close()
        self._changed()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
