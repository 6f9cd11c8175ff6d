"""A fresh sandbox beside the live one, in which recorded steps can be played."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reprise.log.store import LogReader
from reprise.replay.executor import AskPassword, Player
from reprise.replay.link import KernelLink
from reprise.replay.recorded_network import recorded_network
from reprise.replay.vouched import vouched
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import Backend, SandboxSpec

#: A step may take this many times its recorded duration, and at least so many seconds.
PATIENCE_FACTOR = 20.0
PATIENCE_S = 60.0


def patience(recorded_s: float) -> float:
    """Seconds that a step may take on a replay, given what it took when it was recorded."""
    return max(PATIENCE_S, recorded_s * PATIENCE_FACTOR)


class DetachedSandbox:
    """A fresh sandbox beside the live one, brought to a state of a session and thrown away.

    Use as an async context manager; `played` is filled by `play`.
    """

    def __init__(self, reader: LogReader, backend: Backend, spec: SandboxSpec) -> None:
        self._reader = reader
        self._backend = backend
        self._spec = spec
        # Nobody listens to strays: late output of a replayed step is not compared.
        self.link = KernelLink()

    async def __aenter__(self) -> DetachedSandbox:
        known = await vouched(self._reader)
        self.link.trusts = known.trusts
        recorded = await recorded_network(self._reader)
        if self._spec.network is None and recorded is None:
            self.link.attach(await Guest.start(self._backend, self._spec, self.link))
        else:
            # Where nothing may go out, nobody pays for it.
            from reprise.replay.network import Network  # noqa: PLC0415

            network = await asyncio.to_thread(Network, self._spec, recorded)
            self.link.attach(await Guest.start(self._backend, network.spec, self.link))
            self.link.egress = network.beside(self.link.guest, self._reader, known.shut)
        try:
            await self.link.guest.ready()
        except BaseException:
            # Whoever was not let in does not leave either: nobody else would end it.
            await self.link.guest.kill()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.link.guest.kill()

    def player(
        self,
        *,
        ask_password: AskPassword | None = None,
        patience: Callable[[float], float] | None = None,
    ) -> Player:
        return Player(
            self.link,
            self._reader,
            self._spec.limits,
            isolated=self._backend.isolated,
            ask_password=ask_password,
            patience=patience,
        )
