"""An MCP server reached by streamable HTTP, through a client that takes no boundless answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx2
from mcp.client.streamable_http import streamable_http_client

from reprise_server.agent.mcp.configured import ConfiguredServer
from reprise_server.agent.mcp.stdio import LONGEST_MESSAGE

#: Seconds for a connection and for a request's own bytes; a call's time is bounded above.
_CONNECT_S: Final = 15.0
_READ_S: Final = 3_600.0


async def _bounded(response: httpx2.Response) -> None:
    """Refuse a compressed answer (a small one may hold a huge one), cut a long one.

    Streams of events are bounded by the event (`max_sse_event_size`) and by the call's time.
    """
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise httpx2.RemoteProtocolError("its answer is compressed, which was not asked for")
    kind = response.headers.get("content-type", "").lower()
    if not kind.startswith("text/event-stream"):
        response.stream = _Counted(cast(httpx2.AsyncByteStream, response.stream))


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        came = 0
        async for chunk in self._inner:
            came += len(chunk)
            if came > LONGEST_MESSAGE:
                raise httpx2.StreamError(f"its answer is over {LONGEST_MESSAGE >> 20} MiB")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def reached(server: ConfiguredServer) -> AsyncIterator[Any]:
    """Streams to the server. No redirect leaves its origin: headers may hold a credential."""
    async with (
        httpx2.AsyncClient(
            headers={**server.headers, "Accept-Encoding": "identity"},
            timeout=httpx2.Timeout(_CONNECT_S, read=_READ_S),
            event_hooks={"response": [_bounded]},
        ) as client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=LONGEST_MESSAGE
        ) as streams,
    ):
        yield streams
