"""The body of a request on its way in: kept within bounds, or dropped once the request is refused.

One that may be large goes to a file. A client sends its whole request before it listens. One whose
connection is closed meanwhile hears of a broken pipe and never why; so where little is left to
come, that is read and dropped first.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Final

from reprise_server.api.refusals import Refused

if TYPE_CHECKING:
    from tornado.httputil import HTTPHeaders

#: So much of a body that nobody wants is read all the same.
_DROPPED: Final = 4 << 20


class Incoming:
    """One body.

    headers: of the request.  hold, release: count bytes that all requests of a server keep in
    memory; `hold` may refuse.
    """

    def __init__(
        self, headers: HTTPHeaders, hold: Callable[[int], None], release: Callable[[int], None]
    ) -> None:
        self._hold = hold
        self._release = release
        self._most = 0
        self._file: IO[bytes] | None = None
        self._size = 0
        self._dropped = 0
        self._said = headers.get("Content-Length", "")
        self.body = bytearray()
        #: Whether all of it has come, or none was to come.
        self.whole = False
        self.refusal: Exception | None = None
        self.packed = headers.get("Content-Encoding", "identity").lower() != "identity"
        #: Whether one was announced.
        self.comes = "Transfer-Encoding" in headers or self._said.strip("0") != ""

    @property
    def announced(self) -> int | None:
        """Its size, where the client says it; Tornado has refused what is no number."""
        return int(self._said[:20]) if self._said.isdecimal() else None

    def expect(self, most: int, *, on_disk: bool = False) -> None:
        """It may come, up to `most` bytes, into a file with `on_disk`. Raises Refused."""
        if self.packed:
            raise Refused(415, "content-encoding", "Send the body as it is, not compressed.")
        if (self.announced or 0) > most:
            raise too_large(most)
        self._most = most
        if on_disk:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  # `let_go` closes it

    @property
    def file(self) -> IO[bytes]:
        """What has come, where it was expected on a disk; it is gone after `let_go`."""
        if self._file is None:
            raise ValueError("this body was not expected on a disk")
        self._file.seek(0)
        return self._file

    @property
    def size(self) -> int:
        """Bytes that have come."""
        return self._size

    def drop(self, refusal: Exception) -> bool:
        """Keep nothing of it; whether what comes is read all the same, before `refusal` is said."""
        self.let_go()
        self.refusal = refusal
        return (self.announced or 0) <= _DROPPED

    def take(self, chunk: bytes) -> None:
        """Keep a piece. Raises Refused once no more of it is wanted."""
        if self.refusal is not None:
            self._dropped += len(chunk)
            if self._dropped > _DROPPED:
                raise Refused(413, "too-large", "The request was refused while its body came.")
            return
        if self._size + len(chunk) > self._most:
            raise too_large(self._most)
        self._size += len(chunk)
        if self._file is None:
            self._hold(len(chunk))
            self.body += chunk
            return
        try:
            self._file.write(chunk)
        except OSError as error:
            raise Refused(
                503,
                "no-room",
                f"The upload could not be written down ({error.strerror}). Nothing was changed.",
            ) from error

    def let_go(self) -> None:
        """Its bytes are no longer kept."""
        self._release(len(self.body))
        self.body = bytearray()
        if self._file is not None:
            self._file.close()
            self._file = None


def too_large(most: int) -> Refused:
    return Refused(413, "too-large", f"The body is over {most:,} bytes, the most that this takes.")
