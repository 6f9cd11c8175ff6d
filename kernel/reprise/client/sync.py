"""`Kernel`: everything that `AsyncKernel` does, for code without an event loop."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from reprise.client.asking import (
    CellOptions,
    CommandOptions,
    MountOptions,
    PlainCellOptions,
    UploadOptions,
)
from reprise.client.background import Background, Stream
from reprise.client.beside import PastWorkspace
from reprise.client.comparison import FileChange
from reprise.client.kernel import AsyncKernel
from reprise.client.portal import Asked, Portal
from reprise.client.results import (
    Artifact,
    CellResult,
    CommandResult,
    MountResult,
    Output,
    State,
    StepResult,
    UploadResult,
)
from reprise.client.running import Running
from reprise.client.skill_results import Progress, RunOptions, SkillMounted, SkillResult
from reprise.client.workspace import BackgroundStatus
from reprise.log.model import Actor
from reprise.log.store import StepRecord
from reprise.skills.contract import Reference, Version
from reprise.workspace.manifest import Entry

T = TypeVar("T")
Made = TypeVar("Made", bound=StepResult)


class Kernel:
    """A session and the kernel that holds it. Made by `connect`; a context manager.

    Methods and errors are those of `AsyncKernel`. Callbacks are called in the thread that waits.
    Ctrl-C while a step runs interrupts the step, waits for its end and raises KeyboardInterrupt; a
    second Ctrl-C leaves at once. May be used from several threads.
    """

    def __init__(self, portal: Portal, kernel: AsyncKernel) -> None:
        self._portal = portal
        self._kernel = kernel

    # life

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def session(self) -> uuid.UUID:
        return self._kernel.session

    @property
    def connection_file(self) -> Path | None:
        return self._kernel.connection_file

    @property
    def started(self) -> bool:
        """Whether the kernel process is this client's own, and ends with it."""
        return self._kernel.started

    def close(self) -> None:
        """End a kernel that this client started, and leave one that it found. Idempotent."""
        try:
            if self._portal.open:
                self._do(self._kernel.close)
        finally:
            self._portal.close()

    # steps

    def run(
        self,
        code: str,
        *,
        on_output: Callable[[Output], None] | None = None,
        on_input: Callable[[str, bool], str] | None = None,
        check: bool = False,
        **options: Unpack[PlainCellOptions],
    ) -> CellResult:
        async def work(asked: Asked) -> CellResult:
            return await self._kernel.run(
                code,
                on_output=_told(asked, on_output),
                on_input=None if on_input is None else lambda *args: asked.ask(on_input, *args),
                check=check,
                **options,
            )

        return self._portal.call(work, self._kernel.interrupt)

    def stream(self, code: str, **options: Unpack[CellOptions]) -> RunningHere[CellResult]:
        """Run a cell; iterate over what comes back for its outputs, `result()` for its end."""
        return RunningHere(self._portal, lambda: self._kernel.stream(code, **options))

    def command(
        self,
        command: str | Sequence[str],
        *,
        on_output: Callable[[Output], None] | None = None,
        check: bool = False,
        **options: Unpack[CommandOptions],
    ) -> CommandResult:
        async def work(asked: Asked) -> CommandResult:
            told = _told(asked, on_output)
            return await self._kernel.command(command, on_output=told, check=check, **options)

        return self._portal.call(work, self._kernel.interrupt)

    def stream_command(
        self, command: str | Sequence[str], **options: Unpack[CommandOptions]
    ) -> RunningHere[CommandResult]:
        return RunningHere(self._portal, lambda: self._kernel.stream_command(command, **options))

    def background(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        key: str | None = None,
        actor: Actor | None = None,
    ) -> BackgroundHere:
        found = self._do(
            lambda: self._kernel.background(
                command, cwd=cwd, env=env, stdin=stdin, key=key, actor=actor
            )
        )
        return BackgroundHere(self._portal, found)

    def background_command(self, command: int) -> BackgroundHere:
        return BackgroundHere(self._portal, self._kernel.background_command(command))

    def background_commands(self) -> list[BackgroundStatus]:
        return self._do(self._kernel.background_commands)

    def upload(
        self,
        source: str | Path | bytes,
        to: str | None = None,
        **options: Unpack[UploadOptions],
    ) -> UploadResult:
        return self._do(lambda: self._kernel.upload(source, to, **options))

    def mount(
        self, folder: str | Path, target: str | None = None, **options: Unpack[MountOptions]
    ) -> MountResult:
        return self._do(lambda: self._kernel.mount(folder, target, **options))

    def mount_skill(
        self,
        ref: Reference | str | Version,
        *,
        actor: Actor | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> SkillMounted:
        async def work(asked: Asked) -> SkillMounted:
            told = _told(asked, on_progress)
            return await self._kernel.mount_skill(ref, actor=actor, on_progress=told)

        return self._portal.call(work, self._kernel.interrupt)

    def run_skill(
        self,
        ref: Reference | str | Version,
        script: str,
        args: Sequence[str] = (),
        *,
        check: bool = False,
        on_output: Callable[[Output], None] | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        **options: Unpack[RunOptions],
    ) -> SkillResult:
        async def work(asked: Asked) -> SkillResult:
            return await self._kernel.run_skill(
                ref,
                script,
                args,
                check=check,
                on_output=_told(asked, on_output),
                on_progress=_told(asked, on_progress),
                **options,
            )

        return self._portal.call(work, self._kernel.interrupt)

    # files

    def files(self, at: int | None = None, *, hashes: bool = True) -> tuple[Entry, ...]:
        return self._do(lambda: self._kernel.files(at, hashes=hashes))

    def read(self, path: str, *, at: int | None = None, limit: int | None = None) -> bytes:
        return self._do(lambda: self._kernel.read(path, at=at, limit=limit))

    def changes(self, since: int, until: int | None = None) -> list[FileChange]:
        return self._do(lambda: self._kernel.changes(since, until))

    @contextmanager
    def at(self, seq: int) -> Iterator[PastHere]:
        """The workspace as after a past step, built beside the live one."""
        past = self._kernel.at(seq)
        found = self._do(past.__aenter__)
        try:
            yield PastHere(self._portal, found)
        finally:
            self._do(lambda: past.__aexit__(None, None, None))

    def get(self, path: str, to: str | Path | None = None, *, force: bool = False) -> Artifact:
        return self._do(lambda: self._kernel.get(path, to, force=force))

    def artifacts(self) -> list[Artifact]:
        return self._do(self._kernel.artifacts)

    def artifact_bytes(self, artifact: Artifact) -> bytes:
        return self._do(lambda: self._kernel.artifact_bytes(artifact))

    # history

    def steps(
        self, start: int = 0, stop: int | None = None, *, outputs: bool = False
    ) -> list[StepRecord]:
        return self._do(lambda: self._kernel.steps(start, stop, outputs=outputs))

    def fork(self, at: int | None = None) -> uuid.UUID:
        return self._do(lambda: self._kernel.fork(at))

    def rewind(self, at: int, *, interrupt: bool = False) -> uuid.UUID:
        return self._do(lambda: self._kernel.rewind(at, interrupt=interrupt))

    def attach(self, session: uuid.UUID | str, *, interrupt: bool = False) -> None:
        self._do(lambda: self._kernel.attach(session, interrupt=interrupt))

    # the kernel

    def interrupt(self) -> None:
        """Interrupt what runs, from another thread."""
        self._do(self._kernel.interrupt)

    def restart(self) -> None:
        self._do(self._kernel.restart)

    def reset(self) -> int:
        return self._do(self._kernel.reset)

    def state(self) -> State:
        return self._do(self._kernel.state)

    def on_notice(self, tell: Callable[[Mapping[str, Any]], None] | None) -> None:
        """Call `tell` with each notice of the kernel, in the client's own thread."""
        self._kernel.on_notice(tell)

    def _do(self, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async def work(_: Asked) -> T:
            return await ask()

        return self._portal.call(work)


class RunningHere(Generic[Made]):
    """A step while it runs: iterate for its outputs, then `result()`."""

    def __init__(self, portal: Portal, begin: Callable[[], Running[Made]]) -> None:
        self._portal = portal

        async def work(_: Asked) -> Running[Made]:
            return begin()

        self._running = portal.call(work)
        self._outputs = self._running.__aiter__()

    def __iter__(self) -> Iterator[Output]:
        async def work(_: Asked) -> Output | None:
            return await anext(self._outputs, None)

        while (output := self._portal.call(work, self._running.interrupt)) is not None:
            yield output

    def result(self) -> Made:
        """How it ended, as soon as it has."""

        async def work(_: Asked) -> Made:
            return await self._running

        return self._portal.call(work, self._running.interrupt)

    def interrupt(self) -> None:
        async def work(_: Asked) -> None:
            await self._running.interrupt()

        self._portal.call(work)


class BackgroundHere:
    """A background command; see `Background`."""

    def __init__(self, portal: Portal, background: Background) -> None:
        self._portal = portal
        self._background = background
        self.command = background.command

    def __repr__(self) -> str:
        return repr(self._background)

    def status(self) -> BackgroundStatus:
        return self._portal.call(lambda _: self._background.status())

    def read(self, stream: Stream = "stdout", offset: int = 0) -> bytes:
        return self._portal.call(lambda _: self._background.read(stream, offset))

    def wait(self, timeout: float | None = None) -> BackgroundStatus:
        return self._portal.call(lambda _: self._background.wait(timeout))

    def stop(self) -> CommandResult:
        return self._portal.call(lambda _: self._background.stop())


class PastHere:
    """A past state of the workspace; see `PastWorkspace`."""

    def __init__(self, portal: Portal, past: PastWorkspace) -> None:
        self._portal = portal
        self._past = past

    def files(self, *, hashes: bool = True) -> tuple[Entry, ...]:
        async def work(_: Asked) -> tuple[Entry, ...]:
            return (await self._past.manifest(hashes=hashes)).entries

        return self._portal.call(work)

    def read(self, path: str, limit: int | None = None) -> bytes:
        return self._portal.call(lambda _: self._past.read(path, limit))


def _told(asked: Asked, tell: Callable[[T], None] | None) -> Callable[[T], None] | None:
    """What calls `tell` in the thread that waits."""
    if tell is None:
        return None
    return lambda told: asked.tell(tell, told)
