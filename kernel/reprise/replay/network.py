"""The network of a session's sandboxes: who carries their connections, what is kept of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from reprise.egress.connections import Egress
from reprise.egress.contract import Say, unheard
from reprise.errors import RepriseError
from reprise.log.store import LogReader, NetworkRow
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import SandboxSpec

log = logging.getLogger("reprise")

#: Seconds after which what was asked between steps is stored.
IDLE_ROWS_S = 0.5

Store = Callable[[Sequence[NetworkRow]], Awaitable[None]]


class Network:
    """What the sandboxes of one kernel process, or of one replay beside it, have in common.

    spec: with what the guest needs to offer its proxy.
    """

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec

    def live(self, store: Store, say: Say) -> LiveNetwork:
        """For a session that is held: what is asked becomes rows of its log."""
        return LiveNetwork(self, store, say)

    def beside(self, guest: Guest, reader: LogReader) -> Egress:
        """For a replay beside the live session, of which nothing is recorded."""
        return self.carry(guest, lambda _row: None)

    def carry(self, guest: Guest, sink: Callable[[NetworkRow], None], say: Say = unheard) -> Egress:
        """Make the connections of this guest from now on."""
        egress = Egress(self.spec.rules, sink, say=say, environment=self.spec.environment)
        egress.attach(guest)
        return egress


class LiveNetwork:
    """The network of a live session, whatever sandbox it has just now."""

    def __init__(self, network: Network, store: Store, say: Say) -> None:
        self._network = network
        self._store = store
        self._say = say
        self._egress: Egress | None = None
        self._rows: list[NetworkRow] = []
        self._storing = asyncio.Lock()
        self._later: asyncio.Task[None] | None = None

    def carry(self, guest: Guest) -> Egress:
        """A fresh sandbox has taken the place of the one before."""
        self._egress = self._network.carry(guest, self._row, self._say)
        return self._egress

    def begin(self, seq: int) -> None:
        """A step was accepted and is about to run."""
        if self._egress is not None:
            self._egress.begin(seq)

    async def end(self, seq: int) -> None:
        """A step has ended: what it asked is stored when this returns. Raises LeaseLost."""
        if self._egress is not None:
            self._egress.end(seq)
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
        if self._later is not None:
            self._later.cancel()
        await self._flush()
