"""What a session does for its files: the folder's changes, restarts, resets, what is taken out."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Protocol

from reprise.errors import GuestCallFailed, RepriseError, SandboxDied
from reprise.log.model import (
    NO_OUTPUTS,
    SYSTEM,
    USER,
    Actor,
    Json,
    NewOutcome,
    NewStep,
    Outcome,
    Status,
    Step,
)
from reprise.log.postgres import Log, now_us
from reprise.log.store import Artifact, SessionLog, StateRecord
from reprise.replay import states
from reprise.replay.artifacts import keep_file
from reprise.replay.calls import HALF_INSTALLED
from reprise.replay.executor import IN_PLACE, restart_interpreter
from reprise.replay.link import KernelLink
from reprise.replay.restarts import reset_step
from reprise.replay.surroundings import SessionPlan
from reprise.workspace.sync import FolderSync
from reprise.workspace.transfer import clear_workspace, keep_tree

log = logging.getLogger("reprise")


class Session(Protocol):
    """What this needs of a live session (`engine.LiveSession`)."""

    live: bool
    prompt_offset: int

    @property
    def link(self) -> KernelLink: ...
    @property
    def writer(self) -> SessionLog: ...
    @property
    def database(self) -> Log: ...
    @property
    def environment(self) -> str: ...
    async def ready(self) -> None: ...
    async def writable(self) -> SessionLog: ...
    async def accept(self, new: NewStep) -> Step: ...
    async def conclude(self, step: Step, new: NewOutcome) -> Outcome: ...
    async def say(
        self, seq: int | None, code: str, text: str, detail: Mapping[str, Json] | None = None
    ) -> None: ...
    def rolled_back(self, link: KernelLink) -> None: ...


class Upkeep:
    """The files of one live session, as long as this process holds it."""

    def __init__(self, session: Session, start: SessionPlan) -> None:
        self._session = session
        self._start = start
        self._sync: FolderSync | None = None

    async def begin(self, opened: SessionLog) -> None:
        """Begin from what the session's steps have brought in of the notebook's folder so far."""
        if self._start.folder is not None:
            self._sync = await FolderSync.begin(self._start.folder(), opened)

    async def state(self, *, seconds: float = states.SECONDS) -> StateRecord:
        """What stands in the sandbox after the last step; the caller sees that none runs."""
        seq = self._session.writer.next_seq - 1
        isolated = self._start.backend.isolated
        files, variables = await states.take(
            self._session.link, self._session.writer.blobs, isolated, seconds=seconds
        )
        return StateRecord(seq, now_us(), files, variables)

    async def record_state(self, *, seconds: float) -> None:
        """Keep what stands in the sandbox for a later `verify`, if it is quickly had."""
        if not self._session.live or self._session.writer.next_seq == 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._session.writer.record_state(await self.state(seconds=seconds))
        except (TimeoutError, RepriseError) as error:
            log.info("The state at the end was not taken down: %r", error)

    async def keep(self, path: str, actor: Actor) -> Artifact:
        """Take a file out of the workspace: a blob and a row that says who and when."""
        await self._session.ready()
        session = self._session
        return await keep_file(session.link.guest, session.database, session.writer, path, actor)

    async def sync_folder(self) -> None:
        """Bring what changed in the notebook's folder into the workspace, as an upload step."""
        if self._sync is None:
            return
        change = await self._sync.changes(self._session.link.guest)
        if change is None:
            return
        for told in change.notices:
            await self._session.say(None, told.code, told.text, told.detail)
        if change.payload is None:
            return
        began = time.monotonic()
        link = self._session.link
        await change.store(self._session.writer.blobs)
        payload = change.payload
        step = await self._session.accept(
            NewStep(
                "upload", payload, self._session.environment, now_us(), SYSTEM, blobs=change.blobs
            )
        )
        cause: dict[str, Json] | None = None
        status: Status = "ok"
        try:
            await change.apply(link.guest, self._session.writer.blobs)
        except GuestCallFailed as error:
            status, cause = "error", {"what": "upload", "detail": str(error)}
            if error.kind == HALF_INSTALLED:
                # Neither the state before nor the one after: a fresh sandbox has one of them.
                status = "died"
                await link.guest.kill()
            await self._session.say(
                step.seq, "upload-failed", f"A changed file was not copied in: {error}"
            )
        except SandboxDied as error:
            status, cause = "died", {"what": "upload", "detail": str(error)}
        took = round((time.monotonic() - began) * 1e6)
        await self._session.conclude(
            step, NewOutcome(status, NO_OUTPUTS, now_us(), took, cause=cause)
        )
        if status == "died":
            self._session.rolled_back(link)
            raise SandboxDied(
                "The sandbox died while files of the notebook's folder were copied in, so the cell "
                f"was not run. The state is as after step {step.seq - 1}. Run it again."
            )
        self._sync.done(change)

    async def restart_step(self, *, kept_s: float) -> None:
        """Record a restart: the interpreter ends, the files stay as they are.

        kept_s: seconds that keeping the workspace's tree may take; without a tree a resume
        replays what came before the restart too.
        """
        opened = await self._session.writable()
        if opened.next_seq == 0:
            return
        tree: str | None = None
        if not self._start.backend.isolated:
            tree = IN_PLACE
        elif self._session.live:
            try:
                async with asyncio.timeout(kept_s):
                    tree = await keep_tree(self._session.link.guest, opened.blobs)
            except (TimeoutError, GuestCallFailed, SandboxDied) as error:
                log.warning("The workspace's files were not kept at the restart: %r", error)
        if tree is None:
            await self._session.say(
                None,
                "tree-not-kept",
                "The restart did not keep a copy of the workspace's files (too large, or out of "
                "time): the steps before it will be played again to bring them back.",
            )
        step = await self._session.accept(
            NewStep(
                "restart",
                {"tree": tree, "emptied": False},
                self._session.environment,
                now_us(),
                USER,
            )
        )
        await self._session.conclude(step, NewOutcome("ok", NO_OUTPUTS, now_us()))

    async def reset(self) -> int:
        """A clean interpreter and an empty workspace, as a step; returns its seq."""
        opened = self._session.writer
        step = await self._session.accept(await reset_step(opened.blobs, self._session.environment))
        if self._start.backend.isolated:
            await clear_workspace(self._session.link.guest)
        await restart_interpreter(self._session.link)
        await self._session.conclude(step, NewOutcome("ok", NO_OUTPUTS, now_us()))
        if self._start.folder is not None:
            self._sync = await FolderSync.begin(self._start.folder(), opened)
        self._session.prompt_offset = 0
        return step.seq
