"""An event loop in a thread of its own: what takes long there keeps no request waiting.

Jupyter Server answers everything on one loop. A comparison of ten megabytes that runs there would
stop all kernels' messages for as long as it takes.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Beside:
    """The loop. It is there as long as it was not closed, and so are the processes started by it:
    a sandbox dies with the thread that it was started by (prctl(2), PR_SET_PDEATHSIG)."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            left = asyncio.all_tasks(self.loop)
            for task in left:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def post(self, call: Callable[..., object], *values: Any) -> None:
        """Have it called there; calls keep their order."""
        self.loop.call_soon_threadsafe(call, *values)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it there and wait for it here; cancelled here, it is cancelled there."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    async def close(self) -> None:
        """End the loop and its thread; what still runs there is cancelled."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        await asyncio.to_thread(self._thread.join)
