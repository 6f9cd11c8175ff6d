"""Both ends of an HTTP/1.1 exchange over byte streams: towards the program, and towards the host.

h11 holds the rules of the protocol; here are the waiting, the bounds, and what an end's failure is.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable
from typing import Final, TypeVar

import h11

from reprise.egress.contract import ByteStream, StreamGone

#: Bytes of a request's or a response's head.
MAX_HEAD: Final = 128 << 10

#: Seconds that one end may say nothing while the other waits for it.
SILENCE_S: Final = 600.0

Result = TypeVar("Result")


class Malformed(Exception):
    """The program does not speak HTTP/1.1; says so. status: with which it is answered."""

    def __init__(self, reason: str, status: int) -> None:
        super().__init__(f"This is no HTTP/1.1 request, and nothing else can be read: {reason}.")
        self.status = status


class Broken(Exception):
    """The host ended the connection early, or does not speak HTTP/1.1; the message says which."""


class _End:
    """One h11 connection and its stream, of which one read is outstanding at most.

    received, sent: bytes of HTTP so far.
    """

    def __init__(self, role: type[h11.SERVER] | type[h11.CLIENT], stream: ByteStream) -> None:
        self.stream = stream
        self.received = 0
        self.sent = 0
        self._http = h11.Connection(role, max_incomplete_event_size=MAX_HEAD)
        self._reading: asyncio.Task[bytes] | None = None

    def _read_ahead(self) -> asyncio.Task[bytes]:
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self.stream.read())
        return self._reading

    async def _event(self) -> h11.Event:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            await self._before_read()
            # Shielded: who gives up waiting must not lose what comes.
            data = await asyncio.shield(self._read_ahead())
            self._reading = None
            self.received += len(data)
            self._http.receive_data(data)
        if event is h11.PAUSED:
            # Nobody asks for more before the exchange at hand has ended.
            raise AssertionError("a second request was read before the first was answered")
        assert not isinstance(event, type)  # noqa: S101 - the two signals are dealt with
        return event

    async def _before_read(self) -> None:
        """For the end that has to say something first."""

    async def send(self, event: h11.Event) -> None:
        """Raises StreamGone."""
        data = self._http.send(event)
        if data:
            self.sent += len(data)
            await self.stream.write(data)

    def again(self) -> bool:
        """Whether another exchange can follow on this connection; if so it may begin."""
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return True
        return False

    async def stop(self) -> None:
        """Give up the outstanding read."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


class Front(_End):
    """The end towards the program: we are its server."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(h11.SERVER, stream)

    async def request(self) -> h11.Request | None:
        """The next request; None when the program has asked for all it wants.

        Raises Malformed, StreamGone.
        """
        try:
            async with asyncio.timeout(SILENCE_S):
                event = await self.next()
        except TimeoutError:
            return None
        return event if isinstance(event, h11.Request) else None

    async def next(self) -> h11.Event:
        """What comes of the request. Raises Malformed, StreamGone."""
        try:
            return await self._event()
        except h11.RemoteProtocolError as error:
            raise Malformed(str(error), error.error_status_hint) from error

    async def _before_read(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            # Ours to say: whatever the host thinks of the body, we want to read it.
            await self.send(
                h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
            )

    @property
    def framed(self) -> bool:
        """Whether the program knows by HTTP that an answer is not whole yet."""
        return self._http.their_http_version not in (None, b"1.0")

    async def unless_gone(self, work: Awaitable[Result]) -> Result:
        """The result of `work`, unless the program goes away before. Raises StreamGone.

        Only once the request has been read whole: what a program says then is that it leaves (a
        half-closed connection counts as that, as with other proxies), or its next request.
        """
        task = asyncio.ensure_future(work)
        reading = self._read_ahead()
        try:
            await asyncio.wait({task, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not reading.result():
                raise StreamGone("the program left before the answer was whole")
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


class Back(_End):
    """The end towards the host: we are its client."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(h11.CLIENT, stream)

    async def send(self, event: h11.Event) -> None:
        """Raises Broken."""
        try:
            await super().send(event)
        except (StreamGone, h11.LocalProtocolError) as error:
            raise Broken(str(error)) from error

    async def response(self) -> h11.Response:
        """The response's head; what comes before it (103 Early Hints) is not passed on.

        Raises Broken.
        """
        while True:
            event = await self.next()
            if isinstance(event, h11.Response):
                return event
            if isinstance(event, h11.ConnectionClosed):
                raise Broken("it ended the connection without an answer")
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                raise Broken("it changed to another protocol, unasked")

    async def next(self) -> h11.Event:
        """What comes of the response. Raises Broken."""
        try:
            async with asyncio.timeout(SILENCE_S):
                return await self._event()
        except TimeoutError:
            raise Broken(f"it said nothing for {SILENCE_S / 60:.0f} minutes") from None
        except StreamGone as error:
            raise Broken(str(error)) from error
        except h11.RemoteProtocolError as error:
            raise Broken(f"what it sent is not whole, or no HTTP ({error})") from error

    def idle(self) -> bool:
        """Whether it is still connected, and has said nothing that nobody asked for."""
        return not self._read_ahead().done()

    async def leave(self) -> None:
        """End the connection."""
        self.stream.abort()
        with contextlib.suppress(StreamGone):
            await self.stop()
