"""Serves the tunnels that must be read: opens TLS, and answers one request after the other."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Final

import h11

from reprise.egress.answers import Answer
from reprise.egress.authority import Authority
from reprise.egress.contract import (
    ByteStream,
    Destination,
    Dial,
    Moment,
    Refused,
    Report,
    Say,
    StreamGone,
    unheard,
)
from reprise.egress.exchange import Denied, Origin, asked, shown_url
from reprise.egress.http1 import Front, Malformed
from reprise.egress.passing import Passing
from reprise.egress.policy import place
from reprise.egress.recording import NoAnswer, Record, Unkept
from reprise.egress.secrets import Secrets
from reprise.egress.served import serve_recorded
from reprise.egress.tls import TlsFailed, TlsStream
from reprise.errors import RepriseError
from reprise.sandbox.network import NetworkRules

#: Seconds in which a program says what it wants; one that waits for the host to speak first (as
#: SSH and mail do) would wait for ever.
FIRST_S: Final = 15.0

#: Seconds in which a program that was refused closes its end.
PART_S: Final = 5.0

#: The first byte of a TLS connection: a handshake record.
_HANDSHAKE: Final = 0x16


class ReadingProxy:
    """The `contract.Interceptor` of one sandbox.

    authority: that the sandbox trusts.  record: to be bound to the session.
    trusted: what hosts' certificates are verified with; default this machine's trust store.
    """

    def __init__(
        self,
        rules: NetworkRules,
        authority: Authority,
        *,
        say: Say = unheard,
        environ: Mapping[str, str] = os.environ,
        trusted: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self.records = rules.record
        self.record = Record()
        self.authority = authority
        self.secrets = Secrets(rules.secrets, environ)
        self.say = say
        self._trusted = trusted
        self._trust: ssl.SSLContext | None = None

    def wants(self, destination: Destination, _moment: Moment) -> bool:
        return self.records or self.secrets.concern(destination.host, destination.port)

    async def serve(
        self,
        client: ByteStream,
        destination: Destination,
        now: Callable[[], Moment],
        dial: Dial,
        report: Callable[[Report], None],
    ) -> None:
        opened = await self._opened(client, destination)
        if opened is None:
            return
        origin, stream = opened
        front = Front(stream)
        passing = Passing(front, origin, dial, self.trust)
        connection = _Connection(self, front, passing, origin, now)
        try:
            while await connection.turn(report):
                pass
            await stream.end()
        finally:
            await passing.close()
            await front.stop()

    async def _opened(
        self, client: ByteStream, destination: Destination
    ) -> tuple[Origin, ByteStream] | None:
        """The stream on which the program speaks HTTP; None when it says nothing at all.

        Raises Refused, StreamGone.
        """
        host, port, via = destination
        if via == "http":
            return Origin("http", host, port), client
        try:
            async with asyncio.timeout(FIRST_S):
                first = await client.read()
        except TimeoutError:
            raise Refused(
                f"{place(host, port)} was not asked for anything within {FIRST_S:.0f} s: the proxy "
                "reads what is said to that host, so only HTTP can be spoken with it"
            ) from None
        if not first:
            return None
        begun = _Begun(first, client)
        if first[0] != _HANDSHAKE:
            return Origin("http", host, port), begun
        stream = TlsStream(begun, self.authority.context(host))
        try:
            await stream.handshake()
        except (TlsFailed, StreamGone) as error:
            text = (
                f"{place(host, port)}: the program and the proxy found no TLS between them "
                f"({error}). The proxy reads this host with a certificate of its own, which "
                "programs trust that obey SSL_CERT_FILE or REQUESTS_CA_BUNDLE and speak HTTP/1.1"
            )
            self.say("network-not-trusted", f"{text}.")
            await _parted(client)
            raise Refused(text) from error
        return Origin("https", host, port), stream

    async def trust(self) -> ssl.SSLContext:
        """What hosts' certificates are verified with. Reading it takes a moment, once."""
        if self._trust is None:
            context = await asyncio.to_thread(self._trusted)
            context.set_alpn_protocols(["http/1.1"])
            self._trust = context
        return self._trust


async def _parted(client: ByteStream) -> None:
    """Let a program hear the last that it was told, which a cut would overtake."""
    with contextlib.suppress(StreamGone, TimeoutError):
        async with asyncio.timeout(PART_S):
            await client.end()
            while await client.read():
                pass


class _Begun:
    """A stream of which some bytes have been read."""

    def __init__(self, first: bytes, rest: ByteStream) -> None:
        self._first = first
        self._rest = rest
        self.write = rest.write
        self.end = rest.end
        self.abort = rest.abort

    async def read(self, most: int = 65536) -> bytes:
        if self._first:
            data, self._first = self._first[:most], self._first[most:]
            return data
        return await self._rest.read(most)


class _Connection:
    """One connection of a program, and the requests on it."""

    def __init__(
        self,
        proxy: ReadingProxy,
        front: Front,
        passing: Passing,
        origin: Origin,
        now: Callable[[], Moment],
    ) -> None:
        self._proxy = proxy
        self._front = front
        self._passing = passing
        self._origin = origin
        self._now = now

    async def turn(self, report: Callable[[Report], None]) -> bool:
        """Answer the next request. Returns whether another may follow. Raises StreamGone."""
        front = self._front
        received, sent = front.received, front.sent
        malformed: Malformed | None = None
        try:
            request = await front.request()
            if request is None:
                return False
        except Malformed as error:
            request, malformed = None, error
        began, at, moment = time.monotonic(), time.time_ns() // 1000, self._now()
        answer = Answer(front)
        try:
            if request is not None:
                await self._answer(request, moment, answer)
            elif malformed is not None:
                await answer.say_no("refused", malformed.status, str(malformed))
        finally:
            report(
                Report(
                    moment=moment,
                    at=at,
                    verdict=answer.verdict,
                    reason=answer.reason,
                    bytes_up=front.received - received,
                    bytes_down=front.sent - sent,
                    duration_us=round((time.monotonic() - began) * 1e6),
                    detail=answer.detail,
                )
            )
        return not answer.last and front.again()

    async def _answer(self, request: h11.Request, moment: Moment, answer: Answer) -> None:
        proxy = self._proxy
        answer.method = request.method.decode("ascii")
        answer.detail["method"] = answer.method
        try:
            wanted = asked(
                self._origin,
                answer.method,
                request.target.decode("latin-1"),
                request.headers.raw_items(),
                records=proxy.records,
            )
            answer.detail["url"] = shown_url(wanted.url)
            if proxy.records and moment.replay and moment.recorded:
                await serve_recorded(wanted, proxy.record, moment, answer)
                return
            credentials = await proxy.secrets.of(self._origin)
            kept = proxy.records and not moment.replay
            keeping = proxy.record.keeping(wanted, moment) if kept else Unkept()
            await self._passing.exchange(wanted, credentials, keeping, answer)
        except Denied as error:
            await answer.say_no("refused", error.status, str(error))
        except NoAnswer as error:
            proxy.say("network-not-recorded", str(error))
            await answer.say_no("failed", 502, str(error))
        except Malformed as error:
            await answer.say_no("refused", error.status, str(error))
        except RepriseError as error:
            await answer.say_no("failed", 502, str(error))
        except h11.LocalProtocolError as error:
            # What came, or what is recorded, cannot be said in HTTP/1.1 as it stands.
            await answer.say_no("failed", 502, f"The answer cannot be passed on: {error}.")
