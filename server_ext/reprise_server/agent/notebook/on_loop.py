"""Work that belongs to another event loop: conversations run on one, the Jupyter server on its."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from reprise.errors import UnavailableError

T = TypeVar("T")


async def on_loop(loop: asyncio.AbstractEventLoop, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What `work` gives, run on `loop`; cancelled there when who waits here is.

    Raises UnavailableError when that loop has ended.
    """
    if asyncio.get_running_loop() is loop:
        return await work()
    asked = work()
    try:
        future = asyncio.run_coroutine_threadsafe(asked, loop)
    except RuntimeError as error:
        asked.close()
        raise UnavailableError(
            "The Jupyter server is ending, so its notebooks are out of reach."
        ) from error
    return await asyncio.wrap_future(future)
