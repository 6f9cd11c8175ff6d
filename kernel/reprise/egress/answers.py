"""What becomes of one request: its answer on the way to the program, and what its row says."""

from __future__ import annotations

import http
from dataclasses import dataclass, field
from typing import Final

import h11

from reprise.egress.contract import Verdict
from reprise.egress.exchange import Head
from reprise.egress.http1 import Front
from reprise.log.model import Json

#: Answers that have no body, whatever their headers say.
_BODILESS: Final = frozenset({204, 304})


@dataclass
class Answer:
    """One answer. close: the connection ends with it.

    verdict, reason, detail: of its row; the first two say how it would end now.
    begun: whether the program has its head.  last: whether nothing can follow it.
    """

    front: Front
    close: bool = False
    method: str = ""
    verdict: Verdict = "failed"
    reason: str = "the connection was cut before it was answered"
    detail: dict[str, Json] = field(default_factory=dict)
    begun: bool = False
    last: bool = False

    def becomes(self, verdict: Verdict, reason: str = "") -> None:
        self.verdict, self.reason = verdict, reason

    async def begin(self, head: Head) -> None:
        """Send the head, unless it was sent. Raises StreamGone."""
        if self.begun:
            return
        self.begun = True
        self.detail["status"] = head.status
        headers = list(head.headers)
        if self.close:
            headers.append((b"Connection", b"close"))
        reason = head.reason.encode("latin-1")
        await self.front.send(h11.Response(status_code=head.status, headers=headers, reason=reason))

    async def body(self, data: bytes) -> None:
        """Send bytes of the body. Raises StreamGone."""
        if data:
            await self.front.send(h11.Data(data=data))

    async def end(self, head: Head) -> None:
        """Send the end, with the head before it if that was not sent. Raises StreamGone."""
        await self.begin(head)
        trailers = head.trailers if head.length is None else ()
        await self.front.send(h11.EndOfMessage(headers=list(trailers)))

    async def whole(self, head: Head, body: bytes) -> None:
        """All of a short answer. Raises StreamGone."""
        await self.begin(head)
        if self.has_body(head):
            await self.body(body)
        await self.end(head)

    async def cut(self, head: Head) -> None:
        """Leave an answer unfinished, so that the program notices. Raises StreamGone."""
        await self.begin(head)
        self._leave_unfinished()

    def _leave_unfinished(self) -> None:
        self.last = True
        if not self.front.framed:
            # Where the end of the connection is that of the body, only a cut tells.
            self.front.stream.abort()

    def has_body(self, head: Head) -> bool:
        return self.method != "HEAD" and head.status not in _BODILESS

    async def say_no(self, verdict: Verdict, status: int, sentence: str) -> None:
        """Tell the program in words why not; where an answer has begun, cut it."""
        self.becomes(verdict, sentence)
        self.last = self.close = True
        if self.begun:
            self._leave_unfinished()
        else:
            await self.whole(*own_answer(status, sentence))


def own_answer(status: int, sentence: str) -> tuple[Head, bytes]:
    """An answer of the proxy's own: a sentence as plain text."""
    body = f"{sentence}\n".encode()
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"),
        (b"Content-Length", str(len(body)).encode()),
    ]
    return Head(status, http.HTTPStatus(status).phrase, headers), body
