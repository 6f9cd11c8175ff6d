"""Keeps account of one sandbox's connections: which step they belong to, rows, and limits.

A connection belongs to the step that runs: the one begun last, where several do; between steps to
none. One that is still open when a step begins or ends gets a row for what it has carried so far,
and goes on under the step that runs then. What is refused again and again in one step is one row
that counts; the bytes of a step count from its begin to the next begin.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from reprise.egress.contract import Destination, Moment, NetworkRow, Over, Report, Sink, Verdict
from reprise.log.model import Json
from reprise.quantities import amount
from reprise.sandbox.network import NetworkRules

#: Connections at once where the rules set no limit: what one stream carries well.
MOST_CONNECTIONS = 1024

#: Refusals of one step that get a row of their own; those after them share one.
MOST_REFUSALS = 200

#: Characters of a host and of a reason that are recorded.
_SHOWN = 300


@dataclass(eq=False)
class Entry:
    """One connection, from being asked for to its end. moved: all bytes, both ways."""

    destination: Destination
    moment: Moment
    at: int
    began: float
    address: str | None = None
    accepted: bool = False
    intercepted: bool = False
    #: since the last row
    up: int = 0
    down: int = 0
    rows: int = 0
    moved: int = 0


@dataclass
class _Repeated:
    """Refusals of one kind after the first."""

    row: NetworkRow
    times: int = 0


@dataclass
class _Limits:
    """What of the limits is used up. opened: when, in the last minute."""

    spent: int = 0
    opened: deque[float] = field(default_factory=deque)


class Ledger:
    """clock: seconds that never go back.  now: microseconds since the epoch."""

    def __init__(
        self,
        rules: NetworkRules,
        sink: Sink,
        clock: Callable[[], float],
        now: Callable[[], int],
    ) -> None:
        self._rules = rules
        self._sink = sink
        self._clock = clock
        self._now = now
        self._running: dict[int, Moment] = {}
        self._latest = -1
        #: whether what comes between steps belongs to a replay
        self.replaying = False
        self._entries: set[Entry] = set()
        self._refusals: dict[tuple[str, int, str, str], _Repeated] = {}
        self._limits = _Limits()

    # Steps ------------------------------------------------------------------------------------

    @property
    def moment(self) -> Moment:
        """The step that what happens now belongs to."""
        if not self._running:
            return Moment(None, self.replaying, self._latest)
        return next(reversed(self._running.values()))._replace(latest=self._latest)

    def begin(self, step: int, replay: bool, recorded: bool = True) -> None:
        self._settle()
        self._running.pop(step, None)
        self._running[step] = Moment(step, replay, recorded=recorded)
        self._latest = step
        self.replaying = replay
        self._limits.spent = 0
        self._go_on()

    def end(self, step: int) -> None:
        self._settle()
        self._running.pop(step, None)
        self._go_on()

    def _settle(self) -> None:
        """Rows for all that has happened up to now."""
        for entry in self._entries:
            if (
                entry.accepted
                and not entry.intercepted
                and (not entry.rows or entry.up + entry.down)
            ):
                self._row(entry, "allowed", "")
        for repeated in self._refusals.values():
            if repeated.times:
                detail: dict[str, Json] = {**repeated.row.detail, "times": repeated.times}
                self._sink(replace(repeated.row, detail=detail, id=uuid.uuid4()))
        self._refusals.clear()

    def _go_on(self) -> None:
        for entry in self._entries:
            if entry.accepted:
                entry.moment = self.moment

    # Connections ------------------------------------------------------------------------------

    def over_limit(self) -> str | None:
        """Why no connection may be opened now; None when one may, which is counted then."""
        now, opened = self._clock(), self._limits.opened
        while opened and now - opened[0] >= 60.0:
            opened.popleft()
        most = self._rules.connections or MOST_CONNECTIONS
        if len(self._entries) >= most:
            return f"{most} connections are open at once, the limit of this environment"
        if self._rules.rate and len(opened) >= self._rules.rate:
            rate = self._rules.rate
            return f"{rate} connections were opened in a minute, the limit of this environment"
        if self._rules.bytes and self._limits.spent >= self._rules.bytes:
            return self._spent()
        opened.append(now)
        return None

    def _spent(self) -> str:
        return f"this step has moved {amount(self._rules.bytes)}, the limit of this environment"

    def open(self, destination: Destination) -> Entry:
        now = self._clock()
        entry = Entry(_bounded(destination), self.moment, self._now(), now)
        self._entries.add(entry)
        return entry

    def count(self, entry: Entry, up: int, down: int) -> None:
        """Bytes have passed. Raises Over at the limit; they count all the same."""
        entry.moved += up + down
        entry.up += up
        entry.down += down
        self._limits.spent += up + down
        if self._rules.bytes and self._limits.spent > self._rules.bytes:
            raise Over(self._spent())

    def close(self, entry: Entry, verdict: Verdict, reason: str = "") -> bool:
        """It is over. Returns whether this is news: not for a refusal that repeats one."""
        self._entries.discard(entry)
        if verdict in ("refused", "failed"):
            return self._refused(entry, verdict, reason)
        if entry.intercepted and entry.rows:
            return False
        if not entry.rows or entry.up + entry.down or reason:
            self._row(entry, verdict, reason)
        return True

    def report(self, entry: Entry, report: Report) -> None:
        """A request that an interceptor served."""
        entry.rows += 1
        entry.up = entry.down = 0
        self._sink(
            NetworkRow(
                seq=report.moment.step,
                at=report.at,
                host=entry.destination.host,
                port=entry.destination.port,
                address=None if report.verdict == "served" else entry.address,
                via=entry.destination.via,
                verdict=report.verdict,
                reason=report.reason[:_SHOWN],
                bytes_up=report.bytes_up,
                bytes_down=report.bytes_down,
                duration_us=report.duration_us,
                replay=report.moment.replay,
                detail=report.detail,
            )
        )

    def _refused(self, entry: Entry, verdict: Verdict, reason: str) -> bool:
        host, port, via = entry.destination
        key = (host, port, via, reason)
        known = self._refusals.get(key)
        if known is None and len(self._refusals) >= MOST_REFUSALS:
            key = ("*", 0, via, "")
            known = self._refusals.get(key)
            entry.destination = Destination("*", 0, via)
            reason = "more was refused or failed in this step than is told one by one"
        if known is not None:
            known.times += 1
            return False
        self._refusals[key] = _Repeated(self._row(entry, verdict, reason))
        return True

    def _row(self, entry: Entry, verdict: Verdict, reason: str) -> NetworkRow:
        now = self._clock()
        host, port, via = entry.destination
        row = NetworkRow(
            seq=entry.moment.step,
            at=entry.at,
            host=host,
            port=port,
            address=entry.address,
            via=via,
            verdict=verdict,
            reason=reason[:_SHOWN],
            bytes_up=entry.up,
            bytes_down=entry.down,
            duration_us=max(0, round((now - entry.began) * 1e6)),
            replay=entry.moment.replay,
            detail={"continued": True} if entry.rows else {},
        )
        entry.rows += 1
        entry.up = entry.down = 0
        entry.at, entry.began = self._now(), now
        self._sink(row)
        return row


def _bounded(destination: Destination) -> Destination:
    return destination._replace(host=destination.host[:_SHOWN])
