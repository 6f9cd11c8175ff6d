"""Answers that are sent piece by piece, as fast as they are taken: files, ranges, bundles."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from reprise_server.api.refusals import Refused

if TYPE_CHECKING:
    from reprise_server.api.base import Endpoint

BYTES: Final = "application/octet-stream"

#: One range of bytes; several at once, and what else there may be, are answered with the whole
#: (RFC 9110, section 14.2).
_RANGE: Final = re.compile(r"bytes=(?:([0-9]{1,18})-([0-9]{0,18})|-([0-9]{1,18}))")


@dataclass(frozen=True)
class Sending:
    """pieces: the body.  size: in bytes, None when it is not known before.

    name: as it is offered for saving; None for JSON, which is no file, and for a page.
    headers: further ones. A page has a policy of its own among them.
    """

    pieces: AsyncGenerator[bytes, None]
    size: int | None
    name: str | None
    content_type: str = BYTES
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """What a browser would show is offered for saving, or is sandboxed by its own policy."""
        policy = self.headers.get("Content-Security-Policy", "")
        sandboxed = "default-src 'none'" in policy and policy.startswith("sandbox ")
        if self.name is None and self.content_type != "application/json" and not sandboxed:
            raise ValueError(f"{self.content_type} has to be offered for saving under a name")

    async def send(self, endpoint: Endpoint) -> None:
        """Send it; each piece has to be taken within the server's patience.

        A body that cannot be sent to its end is cut off, so that nobody takes it for whole.
        """
        async with aclosing(self.pieces) as pieces:
            # The first piece before the head: what it is refused with is told as a refusal.
            first = await anext(pieces, b"")
            self._head(endpoint)
            try:
                await _pass_on(endpoint, first)
                async for piece in pieces:
                    await _pass_on(endpoint, piece)
            except asyncio.CancelledError:
                endpoint.detach().close()
                raise
            except Exception as error:  # noqa: BLE001  # the head is out: it can only be cut off
                if not endpoint.request.connection.stream.closed():  # type: ignore[union-attr]
                    endpoint.log.warning("Reprise: %s was cut off: %s", endpoint.path, error)
                    endpoint.detach().close()
                return
        endpoint.finish()

    def _head(self, endpoint: Endpoint) -> None:
        endpoint.set_status(self.status)
        endpoint.set_header("Content-Type", self.content_type)
        if self.name is not None:
            endpoint.set_attachment_header(self.name)
        if self.size is not None:
            endpoint.set_header("Content-Length", str(self.size))
        for name, value in self.headers.items():
            endpoint.set_header(name, value)


async def _pass_on(endpoint: Endpoint, piece: bytes) -> None:
    endpoint.write(piece)
    async with asyncio.timeout(endpoint.service.settings.patience):
        await endpoint.flush()


@dataclass(frozen=True)
class Range:
    """start ≤ byte < stop of a file of `size` bytes. whole: nobody asked for a range."""

    start: int
    stop: int
    size: int
    whole: bool

    @property
    def status(self) -> int:
        return 200 if self.whole else 206

    @property
    def headers(self) -> dict[str, str]:
        found = {"Accept-Ranges": "bytes"}
        if not self.whole:
            found["Content-Range"] = f"bytes {self.start}-{self.stop - 1}/{self.size}"
        return found


def asked_range(header: str | None, size: int) -> Range:
    """The part of a file that a Range header asks for. Raises Refused (416)."""
    found = _RANGE.fullmatch((header or "").strip())
    if found is None:
        return Range(0, size, size, whole=True)
    first, last, suffix = found.groups()
    if last and int(last) < int(first):
        return Range(0, size, size, whole=True)  # no range at all (RFC 9110, section 14.1.1)
    if suffix is not None:
        start, stop = max(0, size - int(suffix)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
    if start >= stop:
        raise Refused(
            416, "no-such-range", f"The file holds {size:,} bytes; there are none in that range."
        )
    return Range(start, stop, size, whole=False)
