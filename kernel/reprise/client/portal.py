"""An event loop in a private thread, and calls into it from plain code, Ctrl-C included."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from reprise.client.failures import ClientClosed

T = TypeVar("T")


def serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop in this thread until it is stopped; what is left in it is cancelled."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        # Whoever still waits in another thread is told, rather than left there.
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


class Portal:
    """One thread with one event loop, for one client.

    So it works where a loop runs already (a notebook's cell), and the kernel is heard at any time.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=serve, args=(self._loop,), name="reprise-client", daemon=True
        )
        self._thread.start()

    def call(
        self,
        work: Callable[[Asked], Coroutine[Any, Any, T]],
        on_interrupt: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Run `work` in the loop and wait for it here.

        What it asks through its `Asked` (a caller's callback) is called here, in this thread.
        on_interrupt: what the first Ctrl-C starts; the call then goes on to its end and raises
        KeyboardInterrupt. A second one, or the first where there is none, leaves at once.
        """
        if not self.open:
            raise ClientClosed("This client is closed. Connect again; the session is in the log.")
        asked = Asked(self._loop)
        future = asyncio.run_coroutine_threadsafe(work(asked), self._loop)
        future.add_done_callback(lambda _: asked.queue.put(None))
        interrupted = False
        while True:
            try:
                if not asked.answer_one():
                    break
            except KeyboardInterrupt:
                if interrupted or on_interrupt is None:
                    future.cancel()
                    raise
                interrupted = True
                asyncio.run_coroutine_threadsafe(on_interrupt(), self._loop)
            except BaseException:
                future.cancel()
                raise
        if interrupted:
            raise KeyboardInterrupt
        if future.cancelled():
            raise ClientClosed("The client was closed meanwhile. What ran is in the session's log.")
        return future.result()

    @property
    def open(self) -> bool:
        return self._thread.is_alive() and not self._loop.is_closed()

    def close(self) -> None:
        """Stop the loop and its thread. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()


class Asked:
    """What a call into the loop asks of the thread that waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.queue: SimpleQueue[tuple[Callable[[], Any], Future[Any] | None] | None] = SimpleQueue()
        self._loop = loop

    def tell(self, function: Callable[..., Any], *args: Any) -> None:
        """Have `function` called there, some time; from the loop."""
        self.queue.put((lambda: function(*args), None))

    async def ask(self, function: Callable[..., T], *args: Any) -> T:
        """Have `function` called there, and its result here."""
        future: Future[T] = Future()
        self.queue.put((lambda: function(*args), future))
        return await asyncio.wrap_future(future, loop=self._loop)

    def answer_one(self) -> bool:
        """Wait for one thing asked and do it; False when the call is over."""
        item = self.queue.get()
        if item is None:
            return False
        function, future = item
        if future is None:
            function()
            return True
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)
            raise
        return True
