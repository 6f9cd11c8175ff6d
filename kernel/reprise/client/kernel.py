"""A session and its kernel used from Python, asynchronously; a lost answer is asked for again."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, Unpack

from reprise.client import requests, results, sources
from reprise.client.asking import Asking, CellOptions, CommandOptions
from reprise.client.background import Background
from reprise.client.beside import PastWorkspace, past_workspace
from reprise.client.comparison import FileChange, Workspace, compared
from reprise.client.failures import refusal
from reprise.client.file_changes import FileChanges, as_upload
from reprise.client.incoming import stored, tree_of
from reprise.client.reach import Patience, Reach, Wanted
from reprise.client.requests import StepRequest
from reprise.client.results import (
    Artifact,
    CellResult,
    CommandResult,
    MountResult,
    State,
    UploadResult,
)
from reprise.client.running import Running, Show
from reprise.client.skill_results import Progress, RunOptions, SkillMounted, SkillResult
from reprise.client.skills import SessionSkills
from reprise.client.workspace import BackgroundStatus, LiveWorkspace
from reprise.errors import UsageError
from reprise.log.model import Actor, Json
from reprise.log.store import StepRecord
from reprise.sandbox.chosen import inherit
from reprise.skills.contract import Reference, Version
from reprise.workspace.manifest import Entry
from reprise.workspace.replaced import replacing


class AsyncKernel:
    """A session and the kernel that holds it. Made by `aconnect`; an async context manager.

    Each step carries an idempotency key (`key=`, else one that is drawn). When its answer is lost
    because the kernel process ended, the client goes to the session's next kernel, or starts it,
    and asks again under that key: the first answer comes, and nothing runs twice.

    Errors: KernelGone when there is no way back, NoAnswer when a time ran out, what the kernel
    refuses a step with (UsageError, TooLarge, LeaseHeld, DatabaseUnavailable …), ClientClosed.
    A step that ended badly is a result, not an error, unless `check=True` was given.
    """

    def __init__(self, wanted: Wanted, patience: Patience, actor: Actor | None) -> None:
        self._reach = Reach(wanted, patience)
        self._actor = actor
        self._asking = Asking(self._reach)
        self._workspace = LiveWorkspace(self._reach, actor)
        self._skills = SessionSkills(self._reach, self._asking, self._workspace, actor)

    # life ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def session(self) -> uuid.UUID:
        return self._reach.session

    @property
    def connection_file(self) -> Path | None:
        """Of the kernel that was reached last."""
        return self._reach.connection

    @property
    def workspace(self) -> LiveWorkspace:
        """The live workspace, for what the methods here leave out."""
        return self._workspace

    @property
    def started(self) -> bool:
        """Whether the kernel process is this client's own, and ends with it."""
        return self._reach.own is not None

    async def connect(self) -> None:
        """Reach the kernel now; else the first request does."""
        await self._reach.line()

    async def close(self) -> None:
        """End a kernel that this client started, and leave one that it found. Idempotent."""
        await self._reach.close()

    def on_notice(self, tell: Callable[[Mapping[str, Json]], None] | None) -> None:
        """Call `tell` with each notice of the kernel: {code, text, seq, detail}."""

        def other(kind: str, content: Mapping[str, Json]) -> None:
            if kind == "reprise_notice" and tell is not None:
                tell(content)

        self._reach.listen(other)

    # cells --------------------------------------------------------------------------------------

    def stream(self, code: str, **options: Unpack[CellOptions]) -> Running[CellResult]:
        """Run a cell, its outputs as they come."""
        on_input = options.get("on_input")
        payload = requests.cell_payload(
            code,
            silent=options.get("silent", False),
            store_history=options.get("store_history", True),
            allow_stdin=on_input is not None,
            user_expressions=options.get("user_expressions"),
            cell_id=options.get("cell_id"),
        )
        asked = requests.request(
            "cell", payload, key=options.get("key"), actor=options.get("actor") or self._actor
        )
        return self._asking.running(asked, results.cell_result, on_input, options.get("timeout"))

    async def run(
        self,
        code: str,
        *,
        check: bool = False,
        on_output: Show | None = None,
        **options: Unpack[CellOptions],
    ) -> CellResult:
        """Run a cell to its end.

        on_output: called with each output as it comes.  check: raise StepFailed unless it ends as
        ok.  The rest as in `CellOptions`.
        """
        return await self._asking.finish(self.stream(code, **options), on_output, check)

    # commands -----------------------------------------------------------------------------------

    def stream_command(
        self, command: str | Sequence[str], **options: Unpack[CommandOptions]
    ) -> Running[CommandResult]:
        """Run a command, its output as it comes."""
        payload, blobs = requests.command_payload(
            command,
            cwd=options.get("cwd"),
            env=options.get("env"),
            stdin=options.get("stdin"),
            timeout=options.get("timeout"),
            output_bytes=options.get("output_bytes"),
            output_lines=options.get("output_lines"),
        )
        key, actor = options.get("key"), options.get("actor")
        asked = self._asked("command", payload, key, actor, blobs)
        return self._asking.running(asked, results.command_result)

    async def command(
        self,
        command: str | Sequence[str],
        *,
        check: bool = False,
        on_output: Show | None = None,
        **options: Unpack[CommandOptions],
    ) -> CommandResult:
        """Run a command to its end: shell text, or words.

        on_output, check: as of `run`.  The rest as in `CommandOptions`.
        """
        return await self._asking.finish(self.stream_command(command, **options), on_output, check)

    async def background(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: str | bytes | None = None,
        key: str | None = None,
        actor: Actor | None = None,
    ) -> Background:
        """Start a command that stays. Raises StepFailed when it could not be started."""
        payload, blobs = requests.command_payload(
            command, cwd=cwd, env=env, stdin=stdin, background=True
        )
        asked = self._asked("command", payload, key, actor, blobs)
        begun = await self._asking.perform(asked, results.background_start)
        return self.background_command(begun.check().command)

    def background_command(self, command: int) -> Background:
        """The background command of that number."""
        return Background(command, self._workspace, self._stop_command)

    async def background_commands(self) -> list[BackgroundStatus]:
        """All background commands of the sandbox, running and ended."""
        return await self._workspace.commands()

    async def _stop_command(self, command: int) -> CommandResult:
        return await self._asking.perform(
            self._asked("command", {"stop": command}, None, None), results.command_result
        )

    # files in -----------------------------------------------------------------------------------

    async def upload(
        self,
        source: str | Path | bytes,
        to: str | None = None,
        *,
        exclude: Sequence[str] = (),
        mode: int | None = None,
        bound: sources.Bound | None = None,
        key: str | None = None,
        actor: Actor | None = None,
        check: bool = True,
    ) -> UploadResult:
        """Bring a file or a folder of the host, or bytes, into the workspace: whole or not at all.

        to: where it lies then (its name by default; "" brings a folder's content into the root).
        exclude: shell patterns of what is left out of a folder; nothing is unless asked.
        Modes are kept. Raises UsageError, TooLarge (over `bound`), and StepFailed unless `check`
        is False.
        """
        tree = await tree_of(source, to, exclude, mode, bound)
        if not tree.manifest:
            raise UsageError(f"{source!s} is empty: there is nothing to bring in.")
        blobs = await stored(self._reach, tree)
        payload = {"entries": [entry.to_json() for entry in tree.manifest], "removed": []}
        asked = self._asked("upload", payload, key, actor, blobs)
        done = await self._asking.perform(asked, results.upload_result)
        return done.check() if check else done

    async def change_files(
        self,
        wanted: FileChanges,
        *,
        key: str | None = None,
        actor: Actor | None = None,
        check: bool = True,
    ) -> UploadResult:
        """Make, move, copy and remove files of the workspace, as one upload step.

        Raises PathTaken, PathNotFound, TooLarge, UsageError: then there was no step.
        """
        await self._workspace.sync()  # so that what is to be changed is there
        blobs = (await (await self._reach.log()).reader(self.session)).blobs
        upload = await as_upload(self._workspace, blobs, wanted)
        payload = {
            "entries": [entry.to_json() for entry in upload.entries.values()],
            "removed": upload.removed,
        }
        done = await self._asking.perform(
            self._asked("upload", payload, key, actor), results.upload_result
        )
        return done.check() if check else done

    async def mount(
        self,
        folder: str | Path,
        target: str | None = None,
        *,
        exclude: Sequence[str] = (),
        bound: sources.Bound | None = None,
        key: str | None = None,
        actor: Actor | None = None,
        check: bool = True,
    ) -> MountResult:
        """Show a folder of the host read-only, as it is now, at `target` (default /skills/NAME).

        It is named by its digest: a later change of the folder changes nothing inside.
        """
        path = await asyncio.to_thread(Path(folder).resolve)
        place = requests.mount_target(target, path.name)
        if not await asyncio.to_thread(path.is_dir):
            raise UsageError(f"{path} is not a folder, so it cannot be mounted.")
        tree = await tree_of(path, "", exclude, None, bound)
        blobs = await stored(self._reach, tree)
        entries = [entry.to_json() for entry in tree.manifest]
        asked = self._asked("mount", {"target": place, "entries": entries}, key, actor, blobs)
        done = await self._asking.perform(asked, results.mount_result)
        return done.check() if check else done

    # skills -------------------------------------------------------------------------------------

    async def mount_skill(
        self,
        ref: Reference | str | Version,
        *,
        actor: Actor | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> SkillMounted:
        """Show the very version that a reference means at /skills/NAME, unless it lies there.

        on_progress: called with what is about to be done.
        Raises SkillNotFound, SkillRevoked, SkillNotTrusted; then nothing was mounted.
        """
        return await self._skills.mount(ref, actor=actor, tell=on_progress or _silent)

    async def run_skill(
        self,
        ref: Reference | str | Version,
        script: str,
        args: Sequence[str] = (),
        *,
        check: bool = False,
        on_output: Show | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        **options: Unpack[RunOptions],
    ) -> SkillResult:
        """Mount a skill and run a script of it to its end (docs/running-skills.md).

        script: its path within the skill; `scripts/` may be left out.  args: its arguments, in
        which {workspace} and {scratch} stand for those folders.  on_output, check: as of `run`.
        on_progress: as of `mount_skill`.  The rest as in `RunOptions`.
        Raises as `mount_skill`; UsageError, BadSkill, DependenciesMissing, ProgramMissing for what
        cannot be run: then the script was not.
        """
        told = on_progress or _silent
        done = await self._skills.run(ref, script, args, options, on_output, told)
        return done.check() if check else done

    # files out ----------------------------------------------------------------------------------

    async def files(self, at: int | None = None, *, hashes: bool = True) -> tuple[Entry, ...]:
        """What lies in the workspace now, or lay there after step `at` (built beside)."""
        if at is None:
            return (await self._workspace.manifest(hashes=hashes)).entries
        async with self.at(at) as past:
            return (await past.manifest(hashes=hashes)).entries

    async def read(self, path: str, *, at: int | None = None, limit: int | None = None) -> bytes:
        """A file of the workspace, now or as after step `at`. Raises TooLarge over `limit`."""
        if at is None:
            return await self._workspace.read(path, limit=limit)
        async with self.at(at) as past:
            return await past.read(path, limit)

    @asynccontextmanager
    async def at(self, seq: int) -> AsyncIterator[PastWorkspace]:
        """The workspace as after a past step, built in a fresh sandbox beside the live one."""
        await self._reach.line()
        reader = await (await self._reach.log()).reader(self.session)
        async with past_workspace(
            reader, seq, folder=self._reach.folder, environ=self._reach.environ
        ) as past:
            yield past

    async def changes(self, since: int, until: int | None = None) -> list[FileChange]:
        """What differs in the workspace between after step `since` and now (or after `until`).

        Past states are built beside, so what a replay gives anew (times in a file) differs too.
        """
        async with contextlib.AsyncExitStack() as opened:
            before = await opened.enter_async_context(self.at(since))
            after: Workspace = self._workspace
            if until is not None:
                after = await opened.enter_async_context(self.at(until))
            return await compared(before, after)

    async def get(
        self, path: str, to: str | Path | None = None, *, force: bool = False
    ) -> Artifact:
        """Take a file out: it is stored as an artifact and, with `to`, written there.

        to: a file or a folder of the host; a file that is there is replaced only with `force`.
        """
        if to is None:
            return await self._workspace.keep(path)
        target = await asyncio.to_thread(_free, Path(to), path.rpartition("/")[2], force)
        with replacing(target) as file:
            return await self._workspace.keep_and_fetch(path, file)

    async def artifacts(self) -> list[Artifact]:
        """All artifacts of the session, in the order they were taken."""
        found = await (await self._reach.log()).artifacts(self.session)
        return [Artifact(**vars(each)) for each in found]

    async def artifact_bytes(self, artifact: Artifact) -> bytes:
        reader = await (await self._reach.log()).reader(artifact.session)
        return await reader.blobs.get(artifact.sha256)

    # history ------------------------------------------------------------------------------------

    async def steps(
        self, start: int = 0, stop: int | None = None, *, outputs: bool = False
    ) -> list[StepRecord]:
        """Steps start ≤ seq < stop as the log has them, with what they showed if asked."""
        reader = await (await self._reach.log()).reader(self.session)
        return [record async for record in reader.records(start, stop, outputs=outputs)]

    async def fork(self, at: int | None = None) -> uuid.UUID:
        """A new session that shares this one's history up to step `at` (default: the last one)."""
        fork = await (await self._reach.log()).fork(self.session, at)
        inherit(self.session, fork)
        return fork

    async def attach(self, session: uuid.UUID | str, *, interrupt: bool = False) -> None:
        """Let the kernel go on with another session. Raises what it refuses with."""
        wanted = session_id(session)
        line = await self._reach.line()
        content = {"session": str(wanted), "interrupt": interrupt}
        reply = await line.ask("attach_request", content, timeout_s=self._reach.patience.start)
        if reply.content.get("status") != "ok":
            raise refusal(reply.content)
        self._reach.session = wanted

    async def rewind(self, at: int, *, interrupt: bool = False) -> uuid.UUID:
        """Go on from step `at`: a fork there, and the kernel goes over to it. Returns its id."""
        fork = await self.fork(at)
        await self.attach(fork, interrupt=interrupt)
        return fork

    # the kernel ---------------------------------------------------------------------------------

    async def interrupt(self) -> None:
        """Interrupt what runs; harmless when nothing does."""
        await self._asking.interrupt()

    async def restart(self) -> None:
        """A clean interpreter on the same files (a `restart` step), in a new kernel process."""
        await self._reach.restart()

    async def reset(self) -> int:
        """A clean interpreter and an empty workspace, as a step; returns its seq."""
        return await self._workspace.reset()

    async def state(self) -> State:
        """What stands in the sandbox: digests of its files and variables."""
        return await self._workspace.state()

    # asking for steps ---------------------------------------------------------------------------

    def _asked(
        self,
        kind: Literal["command", "upload", "mount"],
        payload: Mapping[str, Json],
        key: str | None,
        actor: Actor | None,
        blobs: Mapping[str, bytes] | None = None,
    ) -> StepRequest:
        return requests.request(kind, payload, key=key, blobs=blobs, actor=actor or self._actor)


def _silent(_: Progress) -> None:
    """Nobody wants to know how far it has come."""


def session_id(session: uuid.UUID | str) -> uuid.UUID:
    """Raises UsageError for what is no whole id."""
    if isinstance(session, uuid.UUID):
        return session
    with contextlib.suppress(ValueError):
        return uuid.UUID(session)
    raise UsageError(f"{session!r} is not a session's whole id. `reprise sessions` shows them.")


def _free(target: Path, name: str, force: bool) -> Path:
    """Where to write a file called `name`. Raises UsageError when something is there."""
    if target.is_dir():
        target /= name
    if not force and (target.exists() or target.is_symlink()):
        raise UsageError(f"{target} is there already. Name another file, or use force=True.")
    return target
