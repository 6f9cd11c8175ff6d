"""The seams of egress: who is told what, and how a tunnel may be served by reading it.

An `Egress` (`connections.Egress`) belongs to one sandbox. For each tunnel that its guest opens it
decides by the rules, resolves the host, dials the very address it checked, and carries bytes. Where
the rules want requests read (`NetworkRules.opens_tls`) an `Interceptor` serves the tunnel instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

from reprise.log.model import Json
from reprise.log.store import NetworkRow, Verdict

__all__ = [
    "ByteStream",
    "Destination",
    "Dial",
    "Interceptor",
    "Moment",
    "NetworkRow",
    "NotReached",
    "Over",
    "Refused",
    "Report",
    "Resolver",
    "Say",
    "Sink",
    "StreamGone",
    "Verdict",
    "Via",
    "unheard",
]

Via = Literal["connect", "http", "socks"]

#: Takes each row, in order, in the event loop; must not block. Rows of a step are all handed over
#: when `Egress.end` of that step returns.
Sink = Callable[[NetworkRow], None]

#: Tells a person something of the session: (code of the notice, sentence).
Say = Callable[[str, str], None]


def unheard(_code: str, _text: str) -> None:
    """A `Say` that nobody hears."""


class Refused(Exception):
    """The rules do not allow it; the message is the sentence for the person."""


class NotReached(Exception):
    """The host could not be resolved or reached; the message is the sentence for the person."""


class StreamGone(Exception):
    """A byte stream was cut: by its other end, by a limit, or with the sandbox."""


class Over(StreamGone):
    """A limit of the environment is used up, or the network is shut; the message says which."""


class Resolver(Protocol):
    """Finds the addresses of a host."""

    async def __call__(self, host: str) -> list[str]:
        """IP addresses as text, the preferred first. Raises NotReached."""


class ByteStream(Protocol):
    """One end of a connection, as bytes in order with back-pressure.

    Bytes that pass a tunnel's end are counted, and held to the limits, there.
    """

    async def read(self, most: int = 65536) -> bytes:
        """What has arrived, at least one byte; b"" after the peer's last. Raises StreamGone."""

    async def write(self, data: bytes) -> None:
        """Send all of it; returns when there is room for more. Raises StreamGone."""

    async def end(self) -> None:
        """No more is written; the other way stays open. Raises StreamGone."""

    def abort(self) -> None:
        """Cut both ways at once. Idempotent."""


class Moment(NamedTuple):
    """Which step runs now (None: none does), and whether it is being replayed.

    latest: the step that began last, running or not; -1 before the first.
    recorded: whether what it asked at its first run was recorded, where the environment records.
    """

    step: int | None
    replay: bool
    latest: int = -1
    recorded: bool = True


class Destination(NamedTuple):
    """What a tunnel leads to. host: normalised, an IP address in its one usual spelling."""

    host: str
    port: int
    via: Via


#: Connects to the destination, at an address that was checked and stays the same however often it
#: is dialled. Raises NotReached, Refused.
Dial = Callable[[], Awaitable[ByteStream]]


@dataclass(frozen=True)
class Report:
    """One request that an interceptor served; the row is made of it and of the connection.

    moment: when the request began.  at: microseconds since the epoch.  bytes: of the request and
    of the response as they passed the sandbox's end.  detail: nothing secret.
    """

    moment: Moment
    at: int
    verdict: Verdict
    reason: str
    bytes_up: int
    bytes_down: int
    duration_us: int
    detail: Mapping[str, Json] = field(default_factory=dict)


class Interceptor(Protocol):
    """Serves tunnels by reading what they carry: opens TLS, records, adds credentials."""

    def wants(self, destination: Destination, moment: Moment) -> bool:
        """Whether it serves this one. Asked once the rules allow the host, before it is resolved.

        Where the environment records, a replayed step gets nothing but what the interceptor
        serves: a tunnel that it does not want is refused.
        """

    async def serve(
        self,
        client: ByteStream,
        destination: Destination,
        now: Callable[[], Moment],
        dial: Dial,
        report: Callable[[Report], None],
    ) -> None:
        """Serve an accepted tunnel to its end; what is left open is cut when this returns.

        client: the sandbox's end. `via` "http": plain HTTP, one request in origin-form with
          "Connection: close", as the guest made it of what the program asked its proxy; the guest
          is not to be believed, so what comes may be anything.
        now: the moment, asked anew for each request of a connection that is kept alive.
        dial: may be called late and often: a connection that a replayed step opened may be used by
          a step that runs for the first time. An interceptor that records never calls it for a
          replayed step.
        report: one for each request; of a tunnel without any the egress makes a row itself.

        Raises StreamGone when an end is gone, Refused or NotReached with a sentence for the row.
        """
