"""The session as tools see it: its kernel, steps under a call's key, and what came from outside."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Generic, Self, TypeVar

from reprise.client import (
    AsyncKernel,
    CellResult,
    CommandResult,
    Output,
    Patience,
    SkillResult,
    UploadResult,
    aconnect,
)
from reprise.client.results import Artifact, StepResult, Surroundings
from reprise.client.workspace import LiveWorkspace
from reprise.errors import RepriseError, UsageError
from reprise.log.model import Actor
from reprise.log.postgres import Log
from reprise.log.store import LogReader, SessionInfo, StepRecord
from reprise.sandbox.chosen import inherit
from reprise.skills.contract import Version
from reprise_server.agent.contract import Call, Show, TaintKind
from reprise_server.agent.policy.taint import of_path
from reprise_server.agent.tools.outside import MOST_NAMED, RUNNING, Seen, Sources, Traffic

#: Seconds between two looks whether a step that is to be ended has begun, and between two
#: interrupts of one that goes on.
LOOK_S: Final = 0.25
AGAIN_S: Final = 5.0
#: Seconds that a cancelled call waits for its step to come up in the queue. After that the step is
#: watched without anybody waiting, and interrupted as soon as it begins.
QUEUED_S: Final = 10.0
#: Steps that one call may ask for under its key, one after the other.
STEPS_OF_A_CALL: Final = 16

Ended = TypeVar("Ended", bound=StepResult)
Ended_co = TypeVar("Ended_co", bound=StepResult, covariant=True)


@dataclass(frozen=True)
class Under:
    """Whose step it is and under which key it is asked for; asked twice, it runs once."""

    key: str
    actor: Actor

    @classmethod
    def of(cls, call: Call, number: int = 1) -> Under:
        """The call's first step, or a later one."""
        key = call.key if number == 1 else f"{call.key}:{number}"
        return cls(key, Actor("agent", call.conversation, call.turn))


@dataclass(frozen=True)
class Ran(Generic[Ended_co]):
    """A step that has ended. taints: what untrusted content may be in what it showed.
    outside: what it did beyond the session, a line each."""

    result: Ended_co
    taints: tuple[tuple[TaintKind, str], ...] = ()
    outside: tuple[str, ...] = ()


class Place:
    """One session, reached when it is first needed; used on one event loop.

    Every method raises what `reprise.client` does (KernelGone, LeaseHeld, DatabaseUnavailable …);
    a step that ended badly is a result. A call that is cancelled first ends the step it asked for.
    """

    def __init__(
        self,
        log: Log,
        session: uuid.UUID | None = None,
        *,
        notebook: Path | None = None,
        connection_file: Path | None = None,
        folder: Path | None = None,
        environ: Mapping[str, str] | None = None,
        start: bool = True,
        patience: Patience | None = None,
        untrusted: Sequence[str] = (),
    ) -> None:
        """session, notebook, connection_file, folder, environ, start: as of `aconnect`.
        untrusted: patterns of files whose content the person does not trust."""
        self.log = log
        self.untrusted = tuple(untrusted)
        self._named: dict[str, None] = {}
        self._wanted = session
        self._connect: Callable[[], Awaitable[AsyncKernel]] = lambda: aconnect(
            self._wanted,
            notebook=notebook,
            connection_file=connection_file,
            folder=folder,
            env=environ,
            start=start,
            patience=patience,
        )
        self._kernel: AsyncKernel | None = None
        self._lock = asyncio.Lock()
        self._reader: LogReader | None = None
        self._seen: Seen | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the kernel; one that was started here ends. Idempotent."""
        for task in list(self._ending):
            task.cancel()
        await asyncio.gather(*self._ending, return_exceptions=True)
        async with self._lock:
            kernel, self._kernel = self._kernel, None
        if kernel is not None:
            await kernel.close()

    # what there is ------------------------------------------------------------------------------

    @property
    def session(self) -> uuid.UUID:
        """Where its steps go; another one once the kernel has gone over to it.

        Raises UsageError before a session that was not named is reached (`kernel`).
        """
        if self._kernel is not None:
            return self._kernel.session
        if self._wanted is None:
            raise UsageError("The session is not known before its kernel is reached.")
        return self._wanted

    async def kernel(self) -> AsyncKernel:
        """The kernel that holds the session, or one that is started for it."""
        async with self._lock:
            if self._kernel is None:
                self._kernel = await self._connect()
            return self._kernel

    async def workspace(self) -> LiveWorkspace:
        return (await self.kernel()).workspace

    async def files(self) -> LiveWorkspace:
        """The workspace, with what has changed in the notebook's folder brought in, as the next
        step would: before the first step nothing of it is there."""
        workspace = await self.workspace()
        await workspace.sync()
        return workspace

    async def surroundings(self) -> Surroundings:
        """What code runs in, as the kernel says now; nothing may go out once it is shut."""
        found = await (await self.workspace()).surroundings()
        if found.isolated and found.network and await (await self._known()).shut():
            return Surroundings(found.environment, True, (), found.workspace)
        return found

    async def reader(self) -> LogReader:
        """The session's log, as it stands."""
        if self._reader is None or self._reader.session != self.session:
            self._reader = await self.log.reader(self.session)
        return self._reader

    async def info(self) -> SessionInfo:
        return await (await self.reader()).info()

    async def _known(self) -> Seen:
        reader = await self.reader()
        if self._seen is None or self._seen.session != reader.session:
            self._seen = Seen(reader)
        return self._seen

    async def sources(self) -> Sources:
        """Where untrusted content in this session may have come from, whoever's steps brought it:
        what a step shows or a file holds may be of it."""
        around = await (await self.workspace()).surroundings()
        found = await (await self._known()).sources(watched=around.isolated)
        if around.isolated and around.network and await _open(await self.reader()):
            # What it has asked for is recorded when it has come.
            return replace(found, hosts=(*found.hosts, RUNNING))
        return found

    async def named(self) -> tuple[tuple[TaintKind, str], ...]:
        """What files named untrusted may bring into what code shows: those that lie in the
        workspace, or did when this looked before. Code reads them without telling."""
        if self.untrusted:
            for entry in (await (await self.workspace()).manifest(hashes=False)).entries:
                if entry.type != "dir" and len(self._named) < MOST_NAMED:
                    self._named |= {path: None for _, path in of_path(entry.path, self.untrusted)}
        return tuple(("named", path) for path in self._named)

    # steps --------------------------------------------------------------------------------------

    async def run_cell(
        self,
        code: str,
        under: Under,
        *,
        cell_id: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        show: Show | None = None,
    ) -> Ran[CellResult]:
        """Run a cell to its end. timeout: seconds after which it is interrupted."""
        kernel = await self.kernel()
        return await self._step(
            lambda: kernel.run(
                code,
                on_output=_shower(show),
                key=under.key,
                actor=under.actor,
                cell_id=cell_id,
                timeout=timeout,
            ),
            under,
        )

    async def command(
        self,
        command: str | Sequence[str],
        under: Under,
        *,
        cwd: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        show: Show | None = None,
    ) -> Ran[CommandResult]:
        """Run a command to its end: shell text, or words. cwd: relative to the notebook's place."""
        kernel = await self.kernel()
        return await self._step(
            lambda: kernel.command(
                command,
                on_output=_shower(show),
                key=under.key,
                actor=under.actor,
                cwd=cwd,
                timeout=timeout,
            ),
            under,
        )

    async def upload(
        self, data: bytes, path: str, under: Under, *, mode: int | None = None
    ) -> UploadResult:
        """Put a file into the workspace, whole or not at all. Raises TooLarge, StepFailed."""
        kernel = await self.kernel()
        asked = partial(kernel.upload, data, path, mode=mode, key=under.key, actor=under.actor)
        return (await self._step(asked, under)).result

    async def run_skill(
        self,
        version: Version,
        script: str,
        arguments: Sequence[str],
        under: Under,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        show: Show | None = None,
    ) -> Ran[SkillResult]:
        """Mount a version of a skill and run a script of it. The key is the script's; a mount and
        what is installed for it are steps without one."""
        kernel = await self.kernel()
        return await self._step(
            lambda: kernel.run_skill(
                version,
                script,
                arguments,
                on_output=_shower(show),
                on_progress=None if show is None else lambda said: show(f"{said.text}\n"),
                key=under.key,
                actor=under.actor,
                timeout=timeout,
            ),
            under,
        )

    async def keep(self, path: str, actor: Actor) -> Artifact:
        """Take a file out as an artifact."""
        return await (await self.workspace()).keep(path, actor=actor)

    async def quiet(self, tell: Callable[[int], None] | None = None) -> int:
        """Return when no step runs, with the number that the next one gets.

        tell: told once which step is waited for.
        """
        await self.kernel()  # without one nothing ends
        reader = await self.reader()
        while True:
            steps = (await reader.info()).steps
            running = await _open(reader)
            if not running:
                return steps
            if tell is not None:
                tell(running[0])
                tell = None
            # The log tells nobody of its changes.
            await asyncio.sleep(LOOK_S)

    # history ------------------------------------------------------------------------------------

    async def of_call(self, key: str) -> tuple[StepRecord, ...]:
        """The steps that were asked for under a call's key, as the log has them, outputs included.

        None: nothing of it was accepted, so nothing of it has run. One without an outcome runs
        still, or waits for its kernel to come back and be told that it is lost.
        """
        reader = await self.reader()
        found = []
        for number in range(1, STEPS_OF_A_CALL + 1):
            record = await reader.by_key(key if number == 1 else f"{key}:{number}")
            if record is not None:
                found.append(record)
            elif number > 1:
                break  # the first may be missing: not every call's first step is keyed so
        return tuple(found)

    async def fork(self, at: int | None = None, *, identity: uuid.UUID | None = None) -> uuid.UUID:
        """A new session that shares this one's history up to step `at`. identity: its id."""
        fork = await self.log.fork(self.session, at, identity=identity)
        inherit(self.session, fork)
        return fork

    async def rewind(self, at: int, *, identity: uuid.UUID | None = None) -> uuid.UUID:
        """Go on from step `at` in a fork; the kernel and the notebook go over to it.

        Refused while a step runs. The session that is left stays as it is.
        """
        kernel = await self.kernel()
        left = kernel.session
        fork = await self.fork(at, identity=identity)
        await kernel.attach(fork)
        await self.log.rebind(left, fork)
        return fork

    async def went_over(self, session: uuid.UUID) -> None:
        """Go on in a session that the kernel has gone over to already, unseen from here."""
        async with self._lock:
            kernel = self._kernel
            if kernel is not None and kernel.session != session:
                self._kernel = None
                await kernel.close()
            self._wanted = session

    # inside -------------------------------------------------------------------------------------

    async def _step(self, asked: Callable[[], Awaitable[Ended]], under: Under) -> Ran[Ended]:
        # Before, too: code may move what it reads.
        await self.named()
        task = asyncio.ensure_future(asked())
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await self._end(task, under)
            raise
        traffic = await self._traffic(result.seq)
        taints = (*(await self.sources()).taints(), *(await self.named()))
        return Ran(result, taints, traffic.lines(result.seq))

    async def _traffic(self, seq: int) -> Traffic:
        return await Traffic.of(await self.reader(), seq)

    async def _end(self, task: asyncio.Future[Ended], under: Under) -> None:
        """Interrupt the call's step, and no other one; a step that waits behind others cannot be
        taken back, so it is interrupted as soon as it begins."""
        begun = asyncio.get_running_loop().time()
        try:
            while not task.done() and asyncio.get_running_loop().time() - begun < QUEUED_S:
                if await self._interrupted(under):
                    begun = asyncio.get_running_loop().time()
                    await asyncio.wait([task], timeout=AGAIN_S)
                else:
                    await asyncio.wait([task], timeout=LOOK_S)
        finally:
            # Nobody waits for it any more; it is ended all the same.
            if not task.done():
                watching = asyncio.ensure_future(self._watch(task, under))
                self._ending.add(watching)
                watching.add_done_callback(self._ending.discard)
            elif not task.cancelled():
                task.exception()

    async def _watch(self, task: asyncio.Future[Ended], under: Under) -> None:
        try:
            while not task.done():
                interrupted = await self._interrupted(under)
                await asyncio.wait([task], timeout=AGAIN_S if interrupted else LOOK_S)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _interrupted(self, under: Under) -> bool:
        """Interrupt what runs when it is a step of this call, or of its turn (a skill's mount and
        its packages have no key); whether it was."""
        try:
            reader = await self.reader()
            mine = False
            for seq in await _open(reader):
                async for record in reader.records(seq, seq + 1, outputs=False):
                    mine = mine or record.step.new.actor == under.actor
            if mine:
                await (await self.kernel()).interrupt()
        except RepriseError:
            return False  # the log or the kernel is away; the next look may tell
        return mine


async def _open(reader: LogReader) -> list[int]:
    """The steps of the main shell that have no outcome yet; widget messages run beside them."""
    return [
        step.seq for step in await reader.summaries() if step.status is None and step.kind != "comm"
    ]


def _shower(show: Show | None) -> Callable[[Output], None] | None:
    return None if show is None else lambda output: show(output.text)
