"""The network of a session's sandboxes: who carries their connections, what is kept of them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reprise.egress.connections import Egress
from reprise.egress.contract import Say, unheard
from reprise.egress.package_index import index_for
from reprise.egress.policy import forwards
from reprise.errors import RepriseError
from reprise.log.store import LogReader, NetworkRow
from reprise.replay.durable import DurableLog
from reprise.replay.recorded_network import RecordedNetwork, with_index
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import GuestNetwork, SandboxSpec
from reprise.sandbox.environment import EnvironmentSpec

if TYPE_CHECKING:
    from reprise.egress.authority import Authority
    from reprise.egress.recording import Record

log = logging.getLogger("reprise")

#: Seconds after which what was asked between steps is stored.
IDLE_ROWS_S = 0.5

#: After which step nothing is connected any more, and why (`vouched.Vouched.shut`).
Shut = tuple[int, str]

Store = Callable[[Sequence[NetworkRow]], Awaitable[None]]


class Network:
    """What the sandboxes of one kernel process, or of one replay beside it, have in common.

    spec: with what the guest needs to offer its proxy.
    """

    def __init__(self, spec: SandboxSpec, recorded: RecordedNetwork | None = None) -> None:
        """recorded: for a replay that is served from the record. Blocks, for `package-index`."""
        self._rules = spec.rules if recorded is None else recorded.rules
        self._index = index_for(self._rules) if recorded is None else recorded.index
        # The rules of a recorded session may be a stranger's: nothing is asked by them here.
        self._offline = recorded is not None
        self._rules = self._index.added_to(self._rules)
        network = GuestNetwork(
            index=self._index.variables, forwards=forwards(self._rules, self._index.places)
        )
        self._authority: Authority | None = None
        if self._rules.opens_tls:
            # Only then: an environment that neither records nor has credentials need not load it.
            from reprise.egress.authority import Authority  # noqa: PLC0415

            self._authority = Authority()
            network = replace(network, authority=self._authority.certificate)
        self.spec = replace(spec, network=network)

    def describing(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """An environment with what this network makes of its rules."""
        return with_index(environment, self._index)

    def live(self, store: Store, say: Say) -> LiveNetwork:
        """For a session that is held: what is asked becomes rows of its log."""
        return LiveNetwork(self, store, say)

    def beside(self, guest: Guest, reader: LogReader, shut: Shut | None = None) -> Egress:
        """For a replay beside the live session, of which nothing is recorded."""
        egress, record = self.carry(guest, lambda _row: None)
        if shut is not None:
            egress.shut(*shut)
        if record is not None:
            record.bind(reader)
        return egress

    def carry(
        self, guest: Guest, sink: Callable[[NetworkRow], None], say: Say = unheard
    ) -> tuple[Egress, Record | None]:
        """Make the connections of this guest from now on, which is to be brought to some state.

        Returns with it what it records and is answered from, where its requests are read.
        """
        proxy = None
        if self._authority is not None:
            from reprise.egress.intercept import ReadingProxy  # noqa: PLC0415

            environ = self._index.environ(os.environ)
            proxy = ReadingProxy(self._rules, self._authority, say=say, environ=environ)
        egress = Egress(
            self._rules,
            sink,
            say=say,
            interceptor=proxy,
            index=self._index.places,
            environment=self.spec.environment,
            offline=self._offline,
        )
        egress.replays(True)
        egress.attach(guest)
        return egress, None if proxy is None else proxy.record


class LiveNetwork:
    """The network of a live session, whatever sandbox it has just now."""

    def __init__(self, network: Network, store: Store, say: Say) -> None:
        self._network = network
        self._store = store
        self._say = say
        self._egress: Egress | None = None
        self._record: Record | None = None
        self._log: DurableLog | None = None
        self._shut: Shut | None = None
        self._rows: list[NetworkRow] = []
        self._storing = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None

    def carry(self, guest: Guest) -> Egress:
        """A fresh sandbox has taken the place of the one before."""
        self._egress, self._record = self._network.carry(guest, self._row, self._say)
        if self._log is not None:
            self.opened(self._log, self._shut)
        return self._egress

    def describing(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """See `Network.describing`."""
        return self._network.describing(environment)

    def opened(self, log: DurableLog, shut: Shut | None) -> None:
        """This is the session from now on."""
        self._log, self._shut = log, shut
        if shut is not None and self._egress is not None:
            self._egress.shut(*shut)
        if self._record is not None:
            self._record.bind(log.log, log.respond)

    def caught_up(self) -> None:
        """The sandbox stands where the session does: what comes now is asked for the first time."""
        if self._egress is not None:
            self._egress.replays(False)

    def begin(self, seq: int) -> None:
        """A step was accepted and is about to run."""
        if self._egress is not None:
            self._egress.begin(seq)

    async def end(self, seq: int) -> None:
        """A step has ended: what it asked is stored when this returns. Raises LeaseLost."""
        if self._egress is not None:
            self._egress.end(seq)
        if self._record is not None:
            await self._record.settled()
        await self._flush()

    def _row(self, row: NetworkRow) -> None:
        self._rows.append(row)
        if self._later is None:
            self._later = asyncio.get_running_loop().create_task(self._soon())

    async def _soon(self) -> None:
        """Between steps there is no end to wait for."""
        try:
            await asyncio.sleep(IDLE_ROWS_S)
            await self._flush()
        except RepriseError as error:
            log.warning("What was asked of the network could not be stored: %s", error)
        finally:
            self._later = None

    async def _flush(self) -> None:
        async with self._storing:
            rows, self._rows = self._rows, []
            if rows:
                await self._store(rows)

    async def close(self) -> None:
        """Cut what is open, and store what there is to store."""
        if self._egress is not None:
            await self._egress.close()
        if self._record is not None:
            await self._record.settled()
        await self._flush()  # first: it waits for a store that is under way
        if self._later is not None:
            self._later.cancel()
