"""Passes a request on to its host, and the answer back; what is recorded is stored on the way.

The program has the end of an answer only when that is in the record, so that whatever a step has
read whole, a replay of it can read again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace

import h11

from reprise.egress.answers import Answer, own_answer
from reprise.egress.body import RequestBody
from reprise.egress.contract import Dial, NotReached, Refused, StreamGone
from reprise.egress.exchange import Asked, Head, Headers, Origin, response_headers
from reprise.egress.http1 import Back, Broken, Front
from reprise.egress.recording import Keeping
from reprise.egress.secrets import Credential, Mask, with_credentials
from reprise.egress.tls import TlsFailed, TlsStream


class Passing:
    """The host's side of one connection of a program, kept for its next request.

    trust: what the host's certificate is verified with.
    """

    def __init__(
        self,
        front: Front,
        origin: Origin,
        dial: Dial,
        trust: Callable[[], Awaitable[ssl.SSLContext]],
    ) -> None:
        self._front = front
        self._origin = origin
        self._dial = dial
        self._trust = trust
        self._back: Back | None = None

    async def close(self) -> None:
        back, self._back = self._back, None
        if back is not None:
            await back.leave()

    async def exchange(
        self,
        asked: Asked,
        credentials: Sequence[Credential],
        keeping: Keeping,
        answer: Answer,
    ) -> None:
        """Ask, and answer with what comes. Raises StreamGone, Malformed, RepriseError."""
        body = RequestBody(self._front, keeping.asked_whole)
        try:
            try:
                response = await self._asked(asked, credentials, body)
            except (Refused, NotReached) as error:
                await body.read()
                await _tell(error, keeping, answer)
            except (StreamGone, asyncio.CancelledError):
                keeping.left(None)
                raise
            else:
                answer.becomes("allowed")
                await self._answered(response, body, Mask.of(credentials), keeping, answer)
        finally:
            await body.stop()
            answer.last = answer.last or not body.whole
            if not (body.whole and self._back is not None and self._back.again()):
                await self.close()

    # Asking -----------------------------------------------------------------------------------

    async def _asked(
        self, asked: Asked, credentials: Sequence[Credential], body: RequestBody
    ) -> h11.Response:
        """Send the request, its body as it comes; the head of what is answered.

        A connection that was idle may be ended by the host at this very moment: then a request
        that does no harm goes out once more, and others get a connection of their own.
        Raises Refused, NotReached, StreamGone, Malformed.
        """
        request = h11.Request(
            method=asked.method,
            target=asked.target,
            headers=[
                (b"Host", asked.origin.authority.encode("ascii")),
                *with_credentials(asked.headers, credentials),
                *([(b"Transfer-Encoding", b"chunked")] if asked.chunked else []),
            ],
        )
        while True:
            kept = self._back if asked.repeatable else None
            if kept is not None and not kept.idle():
                kept = None
            try:
                back = kept or await self._connected()
                await back.send(request)
                return await body.answered(back)
            except Broken as error:
                await self.close()
                if kept is None:
                    raise NotReached(f"{self._origin.host} did not answer: {error}") from error

    async def _connected(self) -> Back:
        await self.close()
        stream = await self._dial()
        if self._origin.scheme == "https":
            tls = TlsStream(stream, await self._trust(), self._origin.host)
            try:
                await tls.handshake()
            except (TlsFailed, StreamGone) as error:
                stream.abort()
                raise NotReached(f"No TLS with {self._origin}: {error}") from error
            stream = tls
        self._back = Back(stream)
        return self._back

    # Answering --------------------------------------------------------------------------------

    async def _answered(
        self,
        response: h11.Response,
        request_body: RequestBody,
        mask: Mask,
        keeping: Keeping,
        answer: Answer,
    ) -> None:
        head = Head(
            response.status_code,
            bytes(response.reason).decode("latin-1"),
            mask.headers(response_headers(response.headers.raw_items())),
        )
        left = head.length if answer.has_body(head) else None
        last = b""
        try:
            async for data in self._body(mask):
                await keeping.add(data)
                left = None if left is None else left - len(data)
                if left == 0:
                    last = data  # with it the program would know that all has come
                    continue
                await answer.begin(head)
                await answer.body(data)
        except (StreamGone, asyncio.CancelledError):
            keeping.left(head)
            raise
        except Broken as error:
            why = f"{self._origin.host} ended the connection before its answer was whole: {error}"
            await keeping.end(request_body, head, why)
            answer.becomes("allowed", why)
            await answer.cut(head)
            return
        head = replace(head, trailers=mask.headers(self._trailers))
        answer.becomes("allowed", await keeping.end(request_body, head))
        await answer.begin(head)
        await answer.body(last)
        await answer.end(head)

    async def _body(self, mask: Mask) -> AsyncIterator[bytes]:
        """The body as the program may see it; afterwards its trailers are known.

        Raises Broken, StreamGone.
        """
        self._trailers: Headers = ()
        back = self._back
        if back is None:
            raise Broken("the connection is gone")
        while isinstance(event := await self._front.unless_gone(back.next()), h11.Data):
            if data := mask.feed(bytes(event.data)):
                yield data
        if isinstance(event, h11.EndOfMessage):
            self._trailers = event.headers.raw_items()
        if data := mask.end():
            yield data


async def _tell(error: Refused | NotReached, keeping: Keeping, answer: Answer) -> None:
    """The host was not asked: that is an answer too, and a replay gives it again."""
    refused = isinstance(error, Refused)
    head, text = own_answer(403 if refused else 502, str(error))
    if answer.has_body(head):
        await keeping.add(text)
    await keeping.end(None, head)
    answer.becomes("refused" if refused else "failed", str(error))
    await answer.whole(head, text)
