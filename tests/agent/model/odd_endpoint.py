"""An endpoint that answers what no good server would: bytes, chosen by the request as it came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Came:
    """A request, by its head, and the connection that it came on."""

    head: str
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


@dataclass
class Odd:
    url: str
    requests: list[str] = field(default_factory=list)


@asynccontextmanager
async def odd_endpoint(answer: Callable[[Came], Awaitable[None]]) -> AsyncIterator[Odd]:
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            size = next(
                int(line.partition(":")[2])
                for line in head.lower().splitlines()
                if line.startswith("content-length:")
            )
            body = await reader.readexactly(size)
            odd.requests.append(head + body.decode())
            await answer(Came(head, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    odd = Odd(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield odd
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def head(status: int, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""]).encode()


STREAM = ("content-type: text/event-stream", "connection: close")
