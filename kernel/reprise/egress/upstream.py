"""Connects to addresses that were checked, and to nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence

from reprise.egress.contract import NotReached, StreamGone

#: Seconds until one address counts as not answering, and until the next is tried beside it.
CONNECT_S = 20.0
NEXT_S = 0.3

#: Seconds that a host has to take the rest of what was sent to it.
CLOSE_S = 30.0

#: Bytes that wait to be sent before `write` waits.
_ROOM = 1 << 18


class Upstream:
    """A `ByteStream` to a host. address: the one that was dialled."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._closed = False

    async def read(self, most: int = 65536) -> bytes:
        try:
            return await self._reader.read(most)
        except OSError as error:
            raise StreamGone(f"the host cut the connection: {_reason(error)}") from error

    async def write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise StreamGone(f"the host cut the connection: {_reason(error)}") from error

    async def end(self) -> None:
        try:
            self._writer.write_eof()
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise StreamGone(f"the host cut the connection: {_reason(error)}") from error

    def abort(self) -> None:
        """Cut it, unless it was closed in order."""
        if not self._closed:
            self._writer.transport.abort()

    def close(self) -> None:
        """Both ways have ended: let go of it, once the rest is sent or the peer takes too long."""
        self._closed = True
        self._writer.close()
        asyncio.get_running_loop().call_later(CLOSE_S, self._writer.transport.abort)


async def dial(host: str, port: int, addresses: Sequence[str]) -> Upstream:
    """Connect to the first of these addresses that answers. Raises NotReached.

    host: for the sentence; it is not looked up.
    """
    attempts: set[asyncio.Task[Upstream]] = set()
    waiting = list(addresses)
    last: BaseException | None = None
    try:
        while waiting or attempts:
            if waiting:
                attempts.add(asyncio.create_task(_connect(waiting.pop(0), port)))
            done, attempts = await asyncio.wait(
                attempts,
                timeout=NEXT_S if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            found: Upstream | None = None
            for each in done:
                if (error := each.exception()) is not None:
                    last = error
                elif found is None:
                    found = each.result()
                else:
                    each.result().abort()
            if found is not None:
                return found
    finally:
        for each in attempts:
            each.cancel()
        for ended in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(ended, Upstream):
                ended.abort()
    raise NotReached(f"{host} port {port} cannot be reached: {_reason(last)}") from last


async def _connect(address: str, port: int) -> Upstream:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        async with asyncio.timeout(CONNECT_S):
            # An address as a number: connect(2) asks no name server.
            await asyncio.get_running_loop().sock_connect(sock, (address, port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=_ROOM)
    except BaseException:
        sock.close()
        raise
    return Upstream(reader, writer, address)


def _reason(error: BaseException | None) -> str:
    if isinstance(error, TimeoutError) and not getattr(error, "errno", None):
        return f"nothing answered within {CONNECT_S:.0f} s"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)  # asyncio puts words of its own in its place
    return str(error) or type(error).__name__
