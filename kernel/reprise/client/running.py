"""A step while it runs: its outputs as they come, then its result; each output shown once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from reprise.client.results import Output, merged

Result = TypeVar("Result")
Show = Callable[[Output], None]


class ShownOnce:
    """Passes outputs on, and not again when a repeated request brings the same ones anew.

    What is repeated comes from the record, where the pieces of a stream may be cut elsewhere: the
    text that was passed on counts, not its pieces.
    """

    def __init__(self, show: Show) -> None:
        self._show = show
        self._passed: list[Output] = []
        self._skip: deque[Output] = deque()

    def again(self) -> None:
        """The same outputs begin anew."""
        self._skip = deque(merged(self._passed))

    def __call__(self, output: Output) -> None:
        left = self._unseen(output)
        if left is not None:
            self._passed.append(left)
            self._show(left)

    def _unseen(self, output: Output) -> Output | None:
        """What of it was not passed on before; None when nothing is left."""
        while self._skip:
            seen = self._skip[0]
            if output.stream is None or seen.stream != output.stream:
                if output == seen:
                    self._skip.popleft()
                    return None
                break  # the record goes on otherwise than what was shown
            text = output.text
            same = _common(text, seen.text)
            if same == len(seen.text):
                self._skip.popleft()
            else:
                self._skip[0] = _piece(seen, seen.text[same:])
            if same == len(text):
                return None
            output = _piece(output, text[same:])
            if same < len(seen.text):
                break
        self._skip.clear()
        return output


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])


def _piece(stream: Output, text: str) -> Output:
    return Output("stream", {**stream.content, "text": text}, stream.metadata)


class Running(Generic[Result]):
    """`async for output in running: …`, then `await running` for the result; either or both.

    Cancelling who waits leaves the step running; `interrupt()` interrupts it.
    """

    def __init__(
        self,
        work: Callable[[Show], Coroutine[Any, Any, Result]],
        interrupt: Callable[[], Awaitable[None]],
        key: str,
    ) -> None:
        self.key = key
        self._outputs: asyncio.Queue[Output | None] = asyncio.Queue()
        self._interrupt = interrupt
        self._task = asyncio.get_running_loop().create_task(work(self._outputs.put_nowait))
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Result]) -> None:
        if not task.cancelled():
            task.exception()  # whoever awaits gets it; nobody has to
        self._outputs.put_nowait(None)

    def __await__(self) -> Generator[Any, None, Result]:
        return asyncio.shield(self._task).__await__()

    async def __aiter__(self) -> AsyncIterator[Output]:
        while (output := await self._outputs.get()) is not None:
            yield output
        self._outputs.put_nowait(None)  # for the next one who iterates

    @property
    def done(self) -> bool:
        return self._task.done()

    async def interrupt(self) -> None:
        await self._interrupt()
