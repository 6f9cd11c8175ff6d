"""What came into a session from outside, and what its steps did beyond it, as its log tells."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from reprise.log.store import LogReader, NetworkRow
from reprise.replay.vouched import Vouched, vouched
from reprise_server.agent.contract import TaintKind

#: Hosts that are named one by one; the rest stand together, so that a result stays small.
MOST_NAMED: Final = 40
#: What stands for the rest of them.
OTHERS: Final = "other hosts"
#: Where nothing watches the network, any step may have brought anything from anywhere.
UNWATCHED: Final = "any host (nothing isolates this session)"

#: What a step may be fetching that runs just now.
RUNNING: Final = "any host of its environment (a step runs)"

#: Verdicts on a connection by which something came in, from the host or from its record.
_CAME_IN: Final = ("allowed", "served")


@dataclass(frozen=True)
class Sources:
    """Where untrusted content in a session may have come from.

    hosts: those that steps have heard from.  skills: references or folders of skills that nobody
    vouches for.
    """

    hosts: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()

    def taints(self) -> tuple[tuple[TaintKind, str], ...]:
        return (
            *(("network", host) for host in self.hosts),
            *(("skill", skill) for skill in self.skills),
        )


def named(hosts: Iterable[str]) -> tuple[str, ...]:
    """In order of first sight, a bounded number of them."""
    found = tuple(dict.fromkeys(hosts))
    if len(found) <= MOST_NAMED:
        return found
    return (*found[:MOST_NAMED], OTHERS)


class Seen:
    """What one session's log has told so far; a look reads what may be new."""

    def __init__(self, reader: LogReader) -> None:
        self.session = reader.session
        self._reader = reader
        self._hosts: dict[str, None] = {}
        self._rows = 0
        self._steps = 0

    async def sources(self, *, watched: bool) -> Sources:
        """watched: whether the host carries and records every connection."""
        steps = (await self._reader.info()).steps
        rows = await self._reader.network_count()
        if rows != self._rows and len(self._hosts) <= MOST_NAMED:
            # All of them: a slow request that is answered now may be of any step before.
            async for row in self._reader.network():
                if row.verdict in _CAME_IN and len(self._hosts) <= MOST_NAMED:
                    self._hosts.setdefault(row.host)
        self._rows = rows
        hosts = named(self._hosts)
        if not watched and await self._has_run(steps):
            hosts = (*hosts, UNWATCHED)
        known = await vouched(self._reader)
        skills = dict.fromkeys(
            mount.target for mount in known.mounts if not known.trusts(mount.tree)
        )
        return Sources(hosts, tuple(skills))

    async def _has_run(self, steps: int) -> bool:
        """Whether any code has run in it."""
        if self._steps == 0:
            async for record in self._reader.records(0, None, outputs=False):
                if record.step.kind in ("cell", "command", "comm"):
                    self._steps = steps
                    break
        return self._steps > 0

    async def shut(self) -> bool:
        """Whether nothing is connected any more, for a skill that nobody vouches for."""
        known: Vouched = await vouched(self._reader)
        return known.shut is not None


@dataclass
class Traffic:
    """What one step exchanged with hosts. by place ("host:port"): connections, bytes sent."""

    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    async def of(cls, reader: LogReader, seq: int) -> Traffic:
        found = cls()
        async for row in reader.network(seq, seq + 1):
            found.add(row)
        return found

    def add(self, row: NetworkRow) -> None:
        if row.verdict != "allowed" or row.replay:
            return
        place = f"{row.host}:{row.port}"
        if place not in self.places and len(self.places) >= MOST_NAMED:
            place = OTHERS
        count, sent = self.places.get(place, (0, 0))
        self.places[place] = (count + 1, sent + row.bytes_up)

    def lines(self, seq: int) -> tuple[str, ...]:
        return tuple(f"step {seq} sent {line}" for line in self.places_told())

    def places_told(self) -> tuple[str, ...]:
        """What was sent where, a phrase each."""
        return tuple(
            f"{sent:,} bytes to {place}" + ("" if count == 1 else f" in {count:,} requests")
            for place, (count, sent) in self.places.items()
        )
