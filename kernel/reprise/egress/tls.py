"""TLS over any byte stream: towards a program inside, and towards a host."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final

from reprise.egress.contract import ByteStream, StreamGone

_CHUNK: Final = 65536

#: Seconds that a handshake may take: a slow host under load answers within these.
HANDSHAKE_S: Final = 60.0


class TlsFailed(Exception):
    """No TLS came about; the message is OpenSSL's reason, in words."""


class TlsStream:
    """A `ByteStream` within another one, which it takes over.

    Reads and writes may overlap: OpenSSL is asked under no lock, since it never waits, and what it
    wants sent goes out in order.
    """

    def __init__(
        self, inner: ByteStream, context: ssl.SSLContext, server_hostname: str | None = None
    ) -> None:
        """server_hostname: of the peer, whose certificate must name it; None when we serve."""
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )
        self._sending = asyncio.Lock()

    async def handshake(self) -> None:
        """Raises TlsFailed, and StreamGone when the other end went away in it."""
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                await self._handshake()
        except TimeoutError:
            raise TlsFailed("the other end did not finish the handshake") from None

    async def _handshake(self) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except ssl.SSLEOFError as error:
                raise StreamGone("the other end left in the handshake") from error
            except ssl.SSLError as error:
                await self._say_why()
                raise TlsFailed(reason(error)) from error
            else:
                await self._flush()
                return

    async def _say_why(self) -> None:
        """Send the alert that tells the other end."""
        try:
            await self._flush()
        except StreamGone:
            return

    async def read(self, most: int = _CHUNK) -> bytes:
        while True:
            try:
                data = self._tls.read(most)
            except ssl.SSLWantReadError:
                await self._flush()
                await self._feed()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Many servers end the connection without a word of TLS; HTTP tells by its own
                # framing whether all has come.
                return b""
            except ssl.SSLError as error:
                raise StreamGone(f"TLS broke: {reason(error)}") from error
            else:
                await self._flush()
                return data

    async def _feed(self) -> None:
        data = await self._inner.read(_CHUNK)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._tls.write(view[:_CHUNK]) :]
            except ssl.SSLError as error:
                raise StreamGone(f"TLS broke: {reason(error)}") from error
            await self._flush()

    async def end(self) -> None:
        # The peer's own goodbye has not come; ours lies in the outgoing bytes all the same.
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        await self._flush()
        await self._inner.end()

    def abort(self) -> None:
        self._inner.abort()

    async def _flush(self) -> None:
        if not self._outgoing.pending:
            return
        async with self._sending:
            while data := self._outgoing.read(_CHUNK):
                await self._inner.write(data)


def reason(error: ssl.SSLError) -> str:
    """Why OpenSSL refused, in words: "certificate verify failed: unable to get local issuer …"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate cannot be trusted ({error.verify_message.rstrip('.')})"
    if error.reason == "CALLBACK_FAILED":
        return "it asks for another host than the connection was opened to"
    return (error.reason or str(error)).replace("_", " ").lower()
