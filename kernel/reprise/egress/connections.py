"""Carries the connections of one sandbox to the hosts that its environment allows.

A tunnel is judged by its host and port, resolved on this machine, judged by where it leads, and
dialled at the very address that was judged; then bytes pass, or an interceptor serves them. Every
way it can end is a row, and a sentence for whoever asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import get_args

from reprise.egress.addresses import Address, parse
from reprise.egress.contract import (
    ByteStream,
    Destination,
    Interceptor,
    Moment,
    NotReached,
    Over,
    Refused,
    Resolver,
    Say,
    Sink,
    StreamGone,
    Verdict,
    Via,
    unheard,
)
from reprise.egress.ledger import Entry, Ledger
from reprise.egress.policy import NoHost, Policy, normal_host, place
from reprise.egress.resolve import own_addresses, system_resolver
from reprise.egress.tunnel import Tunnel
from reprise.egress.upstream import Upstream, dial
from reprise.sandbox.connection import Guest
from reprise.sandbox.frames import FrameError, decode_id
from reprise.sandbox.network import NetworkRules

log = logging.getLogger("reprise")

#: Seconds without a byte after which a connection is cut.
IDLE_S = 600.0

#: The same for one whose host has ended: programs keep such in pools, and never look at them again.
HALF_S = 60.0

#: Seconds that a program has to take the rest and close, once its connection has been served.
LINGER_S = 5.0

#: Tunnels that are over for us while the guest has not said so yet; a sane one says so at once.
UNANSWERED = 4096

#: Longest JSON of an opened tunnel.
_MOST_OPEN = 8192

_VIAS: frozenset[str] = frozenset(get_args(Via))


class Egress:
    """The connections of one sandbox; a `sandbox.connection.TunnelListener`.

    sink: hears each row.  say: told what a person should know, once a step for each thing.
    index: places of the package index (`package_index`).
    own: the addresses of this machine.  environment: its name, for the sentences.
    offline: no replay touches the network, whether its step was recorded or not.
    """

    def __init__(
        self,
        rules: NetworkRules,
        sink: Sink,
        *,
        say: Say = unheard,
        resolver: Resolver = system_resolver,
        interceptor: Interceptor | None = None,
        index: Iterable[str] = (),
        environment: str = "default",
        own: Callable[[], frozenset[Address]] = own_addresses,
        offline: bool = False,
    ) -> None:
        self._rules = rules
        self._policy = Policy(rules, index=index, environment=environment)
        self._ledger = Ledger(rules, sink, time.monotonic, lambda: time.time_ns() // 1000)
        self._say = say
        self._resolver = resolver
        self._interceptor = interceptor
        self._own = own
        self._offline = offline
        self._guest: Guest | None = None
        self._tunnels: dict[int, Tunnel] = {}
        self._shut: tuple[int, str] | None = None
        self._last = 0
        self._serving: dict[int, asyncio.Task[None]] = {}

    def attach(self, guest: Guest) -> None:
        """Carry the connections of this guest, from its first on."""
        self._guest = guest
        guest.tunnels = self

    def shut(self, after: int, why: str) -> None:
        """Nothing is connected from the end of step `after` on, live or replayed, whatever the
        rules allow; what is open then is cut. why: a clause for whoever asks."""
        self._shut = (after, why)

    def begin(self, step: int, replay: bool = False, recorded: bool = True) -> None:
        """A step runs from now on: what is opened belongs to it, until it ends or another begins.

        recorded: whether its answers were recorded at its first run, where the rules record: then
          its replay does not touch the network.
        What a thread opens between steps belongs to none. Its bytes count towards the limit of the
        step that was begun last.
        """
        self._ledger.begin(step, replay, recorded or self._offline)
        if self._shut is not None and step > self._shut[0]:
            for tunnel in self._tunnels.values():
                tunnel.ended_by(Over(self._shut[1]))

    def end(self, step: int) -> None:
        """A step has ended; rows of all that it has asked so far are with the sink."""
        self._ledger.end(step)

    def replays(self, going_on: bool) -> None:
        """Whether what comes between steps belongs to a replay; a step that begins says so too."""
        self._ledger.replaying = going_on

    @property
    def moment(self) -> Moment:
        """The step that what happens now belongs to."""
        return self._ledger.moment

    async def close(self) -> None:
        """Cut every connection; returns when they are gone. Idempotent."""
        self.over()
        while self._serving:
            await asyncio.gather(*self._serving.values(), return_exceptions=True)

    # TunnelListener ---------------------------------------------------------------------------

    def over(self) -> None:
        for tunnel in self._tunnels.values():
            tunnel.cut(StreamGone("the sandbox has ended"))
        self._tunnels.clear()
        for task in self._serving.values():
            task.cancel()

    def frame(self, parts: list[bytes]) -> None:
        if len(parts) != 3:
            raise FrameError(f"a TUNNEL frame of {len(parts)} parts")
        number, verb, data = decode_id(parts[0]), parts[1], parts[2]
        if verb == b"o":
            self._opened(number, data)
            return
        tunnel = self._tunnels.get(number)
        if tunnel is None:
            raise FrameError("a TUNNEL frame of a tunnel that is not there")
        match verb:
            case b"d":
                tunnel.data(data)
            case b"w":
                tunnel.window(data)
            case b"e":
                tunnel.ended()
            case b"x":
                del self._tunnels[number]
                tunnel.finished()  # which answers, unless this is the answer
                if number in self._serving and not tunnel.accepted:
                    self._serving[number].cancel()
            case _:
                raise FrameError("a TUNNEL frame with a verb that does not exist")

    def _opened(self, number: int, data: bytes) -> None:
        if number != self._last + 1:
            raise FrameError("a tunnel opened out of order, or twice")
        self._last = number
        if len(self._tunnels) > UNANSWERED + len(self._serving):
            raise FrameError("tunnels are opened, and their ends not heard")
        host, port, via = _asked(data)
        try:
            destination = Destination(normal_host(host), port, via)
            trouble = None
        except NoHost as error:
            destination = Destination(host, port, via)
            trouble = f"{host[:200]!r} is no host: {error}"
        limit = self._ledger.over_limit() if trouble is None else None
        entry = self._ledger.open(destination)
        tunnel = Tunnel(number, self._send, lambda up, down: self._ledger.count(entry, up, down))
        self._tunnels[number] = tunnel
        if trouble is not None:
            self._refuse(tunnel, entry, 400, trouble, "network-refused")
        elif limit is not None:
            text = f"{host[:200]} was not asked: {limit}"
            self._refuse(tunnel, entry, 429, text, "network-limit")
        else:
            task = asyncio.get_running_loop().create_task(self._serve(tunnel, entry, destination))
            self._serving[number] = task
            task.add_done_callback(lambda done: self._served(number, tunnel, entry, done))

    def _served(self, number: int, tunnel: Tunnel, entry: Entry, task: asyncio.Task[None]) -> None:
        del self._serving[number]
        # Here, since a task that is cancelled at once never begins.
        if task.cancelled():
            ended = "the program gave up" if tunnel.closed.is_set() else "the sandbox has ended"
            self._ledger.close(entry, "allowed" if entry.accepted else "failed", ended)

    def _send(self, tunnel: bytes, verb: bytes, data: bytes) -> None:
        if self._guest is not None:
            self._guest.send_tunnel(tunnel, verb, data)

    # One tunnel -------------------------------------------------------------------------------

    async def _serve(self, tunnel: Tunnel, entry: Entry, destination: Destination) -> None:
        try:
            reason = await self._carry(tunnel, entry, destination)
            await _lingered(tunnel)
            self._ledger.close(entry, "allowed", reason)
        except Refused as error:
            self._refuse(tunnel, entry, 403, str(error), "network-refused")
        except NotReached as error:
            self._refuse(tunnel, entry, 502, str(error), None)
        except Over as error:
            self._ledger.close(entry, "allowed", str(error))
            self._tell(entry, "network-limit", f"{destination.host} was cut off: {error}")
        except StreamGone as error:
            self._ledger.close(entry, "allowed" if entry.accepted else "failed", str(error))
        except Exception:
            log.exception("A connection to %s could not be carried.", destination.host)
            self._refuse(tunnel, entry, 502, "Reprise failed to carry this connection", None)
        finally:
            tunnel.abort()

    async def _carry(self, tunnel: Tunnel, entry: Entry, destination: Destination) -> str:
        """Serve it to its end. Returns why it was cut, "" when it was not.

        Raises Refused, NotReached, StreamGone.
        """
        self._policy.judge(destination.host, destination.port)
        moment = self.moment
        self._refuse_shut(destination, moment)
        recorded = self._is_recorded(moment)
        interceptor = self._interceptor
        if interceptor is not None and interceptor.wants(destination, moment):
            reach = None if recorded else await self._reached(entry, destination)

            async def reached() -> ByteStream:
                nonlocal reach
                self._refuse_replay(destination)
                if reach is None:
                    reach = await self._reached(entry, destination)
                return await reach()

            entry.intercepted = True
            self._accept(tunnel, entry)
            await interceptor.serve(
                tunnel,
                destination,
                lambda: self.moment,
                reached,
                lambda report: self._ledger.report(entry, report),
            )
            return ""
        self._refuse_replay(destination)
        upstream = await (await self._reached(entry, destination))()
        try:
            self._accept(tunnel, entry)
            return await _pump(tunnel, upstream, entry)
        finally:
            upstream.abort()

    def _refuse_shut(self, destination: Destination, moment: Moment) -> None:
        if self._shut is None:
            return
        after, why = self._shut
        if (moment.latest if moment.step is None else moment.step) >= after:
            raise Refused(f"{place(destination.host, destination.port)} was not asked: {why}")

    def _refuse_replay(self, destination: Destination) -> None:
        """Where the environment records, a replay touches no network, whoever serves it."""
        if self._is_recorded(self.moment):
            raise Refused(
                f"{place(destination.host, destination.port)} is not in the record of this step, "
                "and a replay of it does not touch the network"
            )

    def _is_recorded(self, moment: Moment) -> bool:
        return self._rules.record and moment.replay and moment.recorded

    def _accept(self, tunnel: Tunnel, entry: Entry) -> None:
        tunnel.accept()
        entry.accepted = True

    async def _reached(
        self, entry: Entry, destination: Destination
    ) -> Callable[[], Awaitable[Upstream]]:
        """How the destination is dialled, at addresses that were judged. Raises Refused,
        NotReached."""
        host, port, _ = destination
        found = [host] if parse(host) is not None else await self._resolver(host)
        addresses = self._policy.admitted(host, port, found, self._own())

        async def reach() -> Upstream:
            upstream = await dial(host, port, addresses)
            entry.address = upstream.address
            return upstream

        return reach

    def _refuse(
        self, tunnel: Tunnel, entry: Entry, status: int, text: str, code: str | None
    ) -> None:
        """Answer no, in words. code: of the notice, None for what only the program is told."""
        verdict: Verdict = "failed" if status >= 500 else "refused"
        if tunnel.accepted:
            tunnel.abort()
        else:
            tunnel.refuse(status, text)
        news = self._ledger.close(entry, verdict, text)
        if news and code is not None:
            self._tell(entry, code, text)

    def _tell(self, entry: Entry, code: str, text: str) -> None:
        if not entry.moment.replay:
            self._say(code, f"{text[:1].upper()}{text[1:]}.")


async def _pump(tunnel: Tunnel, upstream: Upstream, entry: Entry) -> str:
    """Carry bytes both ways until both have ended. Returns why it was cut, "" when it was not.

    A host that takes no more may still have an answer on its way, so only its own end, the
    program's cut or a long silence ends the connection.
    """
    clock = asyncio.get_running_loop().time
    up = asyncio.create_task(_carry_all(tunnel, upstream))
    down = asyncio.create_task(_carry_all(upstream, tunnel))
    # Both may wait for the host while the program is long gone.
    cut = asyncio.create_task(tunnel.was_cut.wait())
    tasks = {up, down}
    try:
        touched, moved = clock(), -1
        while not down.done() or (down.exception() is None and not up.done()):
            await asyncio.wait(
                {cut, *(task for task in tasks if not task.done())},
                timeout=min(IDLE_S, HALF_S) / 10,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if tunnel.gone is not None:
                break
            if entry.moved != moved:
                touched, moved = clock(), entry.moved
            elif down.done() and clock() - touched > HALF_S:
                return ""
            elif clock() - touched > IDLE_S:
                return f"nothing passed for {IDLE_S / 60:.0f} minutes"
        for task in tasks:
            if task.done() and not isinstance(error := task.exception(), StreamGone | None):
                raise error
        if tunnel.gone is not None:
            if isinstance(tunnel.gone, Over):
                raise tunnel.gone
            return ""
        if (error := down.exception()) is not None:
            return str(error)
        if up.exception() is None:
            upstream.close()
        return ""
    finally:
        cut.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(cut, *tasks, return_exceptions=True)


async def _carry_all(source: ByteStream, target: ByteStream) -> None:
    while data := await source.read():
        await target.write(data)
    await target.end()


async def _lingered(tunnel: Tunnel) -> None:
    """Give the program time to take what was sent, if that was all there is to send."""
    if not tunnel.over and tunnel.ended_here:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                await tunnel.closed.wait()


def _asked(data: bytes) -> tuple[str, int, Via]:
    """What a guest wants a tunnel to. Raises FrameError."""
    if len(data) > _MOST_OPEN:
        raise FrameError("a tunnel opened with too many words")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        raise FrameError("a tunnel opened with what is no JSON") from None
    match body:
        case {"host": str(host), "port": int(port), "via": "connect" | "http" | "socks" as via} if (
            type(port) is int and 0 < port < 65536
        ):
            return host, port, via
    raise FrameError("a tunnel opened without host, port and way")
