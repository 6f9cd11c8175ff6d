"""One replay of a session in a fresh sandbox, looked at on the way: what `verify` compares."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from reprise.errors import SandboxDied
from reprise.log.store import LogReader
from reprise.replay import states, variables
from reprise.replay.detached import DetachedSandbox, patience
from reprise.replay.executor import AskPassword, Played
from reprise.replay.link import KernelLink
from reprise.replay.plan import Plan
from reprise.replay.variables import Variables
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import Backend, SandboxSpec
from reprise.workspace.manifest import Manifest

#: Seconds that looking at one state may take; a recorded one had less.
LOOK_S: Final = 5.0
READ_S: Final = 30.0

#: Looking after every step, to find the first that left something else, may cost so many seconds
#: and this share of the replay itself.
WATCH_S: Final = 3.0
WATCH_SHARE: Final = 0.25


@dataclass(frozen=True)
class State:
    """What stood in a sandbox. None: it could not be had (too much, another language)."""

    files: Manifest | None
    variables: Variables | None


@dataclass
class Watched:
    """How digests of names and paths changed from step to step; None: gone, or not comparable."""

    changes: dict[int, dict[str, str | None]] = field(default_factory=dict)
    #: whether there was time to look after every step
    to_the_end: bool = True
    _last: dict[str, str | None] = field(default_factory=dict)

    def add(self, seq: int, now: Mapping[str, str | None]) -> None:
        changed = {key: value for key, value in now.items() if self._last.get(key) != value}
        changed |= {key: None for key in self._last if key not in now}
        self.changes[seq] = changed
        self._last = dict(now)


def first_difference(left: Watched, right: Watched) -> dict[str, int]:
    """Keys that differ at the end of both, and the step since which they have."""
    ours: dict[str, str | None] = {}
    theirs: dict[str, str | None] = {}
    since: dict[str, int] = {}
    touched: set[str] = set()
    for seq in sorted(left.changes.keys() | right.changes.keys()):
        for side, watched in ((ours, left), (theirs, right)):
            side.update(watched.changes.get(seq, {}))
            touched.update(watched.changes.get(seq, {}))
        if seq not in left.changes or seq not in right.changes:
            continue  # only one side was looked at here: compared at the next step of both
        for key in touched:
            if ours.get(key) == theirs.get(key):
                since.pop(key, None)
            else:
                since.setdefault(key, seq)
        touched = set()
    return since


OnPlayed = Callable[[Played, float], Awaitable[None]]
OnDied = Callable[[int, SandboxDied], Awaitable[None]]


class Passage:
    """Plays a plan once. Its last sandbox stays until it is closed (an async context manager).

    looks: steps after which the state is taken; `on_state` gets it while the sandbox stands there.
    watch: also look after each step, as far as that is cheap, for `watched`.
    """

    def __init__(
        self,
        reader: LogReader,
        backend: Backend,
        spec: SandboxSpec,
        route: Plan,
        stop: int,
        *,
        looks: Collection[int] = (),
        watch: bool = False,
        on_played: OnPlayed,
        on_died: OnDied,
        on_state: Callable[[int, State], Awaitable[None]],
        ask_password: AskPassword | None = None,
    ) -> None:
        self._reader = reader
        self._backend = backend
        self._spec = spec
        self._left = route
        self._stop = stop
        self._looks = set(looks)
        self._watch = watch
        self._on_played = on_played
        self._on_died = on_died
        self._on_state = on_state
        self._ask_password = ask_password
        self._sandbox: DetachedSandbox | None = None
        self._seen: set[int] = set()
        self._spared: set[int] = set()
        self._watched_s = 0.0
        self._began = time.monotonic()
        #: by "name …" and "file …"
        self.watched = Watched()

    async def __aenter__(self) -> Passage:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.__aexit__(None, None, None)

    @property
    def _link(self) -> KernelLink:
        if self._sandbox is None:
            raise SandboxDied("Nothing was replayed yet.")
        return self._sandbox.link

    @property
    def guest(self) -> Guest:
        return self._link.guest

    async def play(self) -> None:
        """Play it to its end. A step that ends its sandbox is told and left out.

        Raises SandboxError when no sandbox can be started; SandboxDied when one ends in no step.
        """
        while True:
            await self._leave()
            self._sandbox = await DetachedSandbox(
                self._reader, self._backend, self._spec
            ).__aenter__()
            player = self._sandbox.player(ask_password=self._ask_password, patience=patience)
            try:
                if self._left.run:
                    await self._play_in(player.play(self._left, self._stop))
                return
            except SandboxDied as error:
                seq = player.current
                if seq is None:
                    raise
                if seq in self._seen and seq not in self._spared:
                    # It had ended well, so our look at it may be what the sandbox died of.
                    self._spared.add(seq)
                    self._looks.discard(seq)
                    self._watch = self.watched.to_the_end = False
                    continue
                self._seen.add(seq)
                await self._on_died(seq, error)
                self._left = self._left.without({seq})

    async def _play_in(self, playing: AsyncIterator[Played]) -> None:
        before = time.monotonic()
        async for played in playing:
            seq = played.record.step.seq
            took = time.monotonic() - before
            if seq not in self._seen:
                self._seen.add(seq)
                await self._on_played(played, took)
            if seq in self._looks:
                self._looks.discard(seq)
                await self._on_state(seq, await self.look())
            if self._watch:
                await self._watch_after(seq)
            before = time.monotonic()

    async def look(self) -> State:
        """The state as it is now."""
        return State(
            await states.files(self.guest, seconds=READ_S),
            await variables.ask(self._link, LOOK_S),
        )

    async def _watch_after(self, seq: int) -> None:
        began = time.monotonic()
        if self._watched_s > WATCH_S + WATCH_SHARE * (began - self._began):
            self.watched.to_the_end = False
            return
        held = await variables.ask(self._link)
        tree = await states.files(self.guest)
        now: dict[str, str | None] = {}
        if held is not None:
            now |= {f"name {name}": each.digest for name, each in held.by_name.items()}
        if tree is not None:
            now |= {f"file {each.path}": str(each.to_json()) for each in tree}
        self.watched.add(seq, now)
        self._watched_s += time.monotonic() - began
