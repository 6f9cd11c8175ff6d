"""One live session: its lease on the log, its sandbox, and the way back when either is lost.

The router asks it for three things: `ready` (the sandbox stands at the head of the log),
`accept` (a step is committed and may run) and `conclude` (its outcome is committed and may be
told). Between those it keeps the notebook's folder in step and starts sandboxes anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

from reprise.errors import (
    DatabaseUnavailable,
    LeaseHeld,
    LeaseLost,
    RepriseError,
    ResumeCancelled,
    SandboxDied,
    SandboxError,
    UnavailableError,
)
from reprise.failpoints import failpoint
from reprise.log.model import (
    Json,
    NewOutcome,
    NewStep,
    Outcome,
    OutputEntry,
    Step,
)
from reprise.log.postgres import Log, now_us
from reprise.log.store import NetworkRow, Notice, SessionLog, Standing
from reprise.replay.comms import Comms
from reprise.replay.condition import Condition, State
from reprise.replay.durable import DurableLog
from reprise.replay.executor import USING, advance_prompt, restart_interpreter
from reprise.replay.link import KernelLink
from reprise.replay.restarts import last_kept, next_prompt
from reprise.replay.resume import Resume
from reprise.replay.surroundings import Router, SessionPlan
from reprise.replay.upkeep import Upkeep
from reprise.replay.vouched import Vouched, vouched
from reprise.sandbox.connection import Guest, greet, launch
from reprise.sandbox.contract import Container, DeathCause, Renewable
from reprise.sandbox.environment import EnvironmentSpec, difference

log = logging.getLogger("reprise")

#: A resume that the planner expects to take longer waits for the first cell (design, "Attaching").
EAGER_RESUME_S = 30.0

#: Times a sandbox is started again by itself before somebody asks for something.
REVIVALS = 3


class LiveSession:
    """A session as long as this process holds it."""

    def __init__(
        self,
        router: Router,
        start: SessionPlan,
        open_log: Callable[[], Awaitable[tuple[Log, uuid.UUID]]],
        holder: Mapping[str, Json],
        on_open: Callable[[SessionLog, Vouched], Awaitable[None]],
        on_sandbox: Callable[[int], None],
        first: asyncio.Task[Container] | None = None,
    ) -> None:
        self._router = router
        self._start = start
        self._open_log = open_log
        self._holder = holder
        self._on_open = on_open
        self._on_sandbox = on_sandbox
        self._log: DurableLog | None = None
        self._lease_lost: str | None = None
        self._database: Log | None = None
        self._environment: str | None = None
        #: what the session does for its files and for whoever asks after them
        self.upkeep = Upkeep(self, start)
        #: the skills that the session has used, and how they stand
        self.vouched = Vouched()
        self._link: KernelLink | None = None
        #: a sandbox that was started before there was a session
        self._first = first
        self._launch: asyncio.Task[None] | None = None
        self._resume: asyncio.Task[None] | None = None
        self._order = asyncio.Lock()
        self._opening = asyncio.Lock()
        #: how it stands, as far as it is known
        self.condition = Condition()
        self._way = Resume(start, router, self.say, self.condition)
        #: the steps that run, and when they were accepted, microseconds, UTC
        self._running: dict[int, int] = {}
        self._revivals = 0
        self._closing = False
        self.live = False
        #: whether this process has looked if it comes back at once, or with the first cell
        self.decided = asyncio.Event()
        self.prompt_offset = 0
        self._next_prompt = 1
        #: whether a step has run in the interpreter that is there
        self._used = False
        self._renewing = asyncio.Lock()
        self._network = None
        if start.network is not None:
            self._network = start.network.live(self._store_rows, self._network_says)
        self._tasks: set[asyncio.Task[None]] = set()
        self.subshells: set[str] = set()
        self._deleted: set[str] = set()
        #: whether another process had the session before, so that pages may know its subshells
        self._continued = False
        self.last_seq: int | None = None

    # beginnings -----------------------------------------------------------------------------

    def launch(self) -> asyncio.Task[None]:
        """Start a fresh sandbox in the background, unless one is on its way or alive."""
        if self._launch is None or (
            self._launch.done()
            and (
                self._launch.exception() is not None
                or self._link is None
                or self._link.cause is not None
            )
        ):
            self._launch = asyncio.get_running_loop().create_task(self._launch_sandbox())
        return self._launch

    async def _launch_sandbox(self) -> None:
        started, self._first = self._first, None
        try:
            container = await (started or self._start_container())
        except SandboxError as error:
            log.error("%s", error)
            raise
        finally:
            self._router.starting(None)
        self._stand_in(container)

    def _stand_in(self, container: Container) -> None:
        link = KernelLink()
        link.trusts = self.trusts
        link.attach(Guest.of(container, self._start.spec, link))
        if self._network is not None:
            link.egress = self._network.carry(link.guest)
        # The link is the session's only once the guest is there: nobody can send to it before.
        link.listen(stray=self._router.stray, passed=self._router.passed, gone=self._sandbox_gone)
        self._link = link
        self._on_sandbox(link.guest.container.pid)

    async def _start_container(self) -> Container:
        return await launch(self._start.backend, self._start.spec, self._router.starting)

    async def kernel_info(self) -> Mapping[str, Json]:
        """The language kernel's kernel_info, as soon as it answers. Never waits for a resume."""
        while True:
            await asyncio.shield(self.launch())
            link = self.link
            try:
                return await link.guest.ready()
            except SandboxDied:
                if link is self._link and link.cause is not None:
                    raise

    @property
    def started(self) -> bool:
        """Whether a language kernel is there and answers."""
        return (
            self._link is not None
            and self._link.cause is None
            and self._link.guest.kernel_info is not None
        )

    @property
    def database(self) -> Log:
        """The log of the session's owner. Raises DatabaseUnavailable while it is not open."""
        if self._database is None:
            raise DatabaseUnavailable("The session's log is not open, so nothing was done.")
        return self._database

    @property
    def link(self) -> KernelLink:
        if self._link is None:
            raise SandboxDied("The sandbox has not started yet.")
        return self._link

    @property
    def comms(self) -> Comms | None:
        """The comms of the language kernel that is there."""
        return None if self._link is None else self._link.comms

    @property
    def session(self) -> uuid.UUID | None:
        return None if self._log is None else self._log.log.session

    @property
    def writer(self) -> SessionLog:
        return self._durable.log

    @property
    def _durable(self) -> DurableLog:
        if self._log is None:
            if self._lease_lost is not None:
                raise LeaseLost(self._lease_lost)
            raise DatabaseUnavailable(
                "The session's log is not open, so nothing was run. Run the cell again."
            )
        return self._log

    async def open(self) -> SessionLog:
        """Take the lease of the session. Raises DatabaseUnavailable, LeaseHeld, UsageError."""
        async with self._opening:
            if self._log is None:
                await self._acquire()
            return self.writer

    async def _acquire(self) -> None:
        if self._database is None:
            self._database, self._id = await self._open_log()
        opened = await self._take(self._database, self._id)
        self._log = DurableLog(opened, self._on_lease_lost, self._on_waits)
        if self._network is not None:
            self._network.opened(self._log, self.vouched.shut)
        self._lease_lost = None

    async def _take(self, database: Log, session: uuid.UUID) -> SessionLog:
        """Become the writer of a session, and set up what depends on it."""
        opened = await database.acquire(session, self._holder)
        failpoint("lease-taken")
        self._continued = self._log is not None or opened.next_seq > 0
        try:
            environment = await asyncio.to_thread(self._start.environment)
            if self._network is not None:
                environment = self._network.describing(environment)
            self._environment = environment.digest
            await self._tell_of_changes(opened, environment)
            await opened.record_environment(environment.digest, environment.to_json())
            await self.upkeep.begin(opened)
            known = await vouched(opened)
            await self._tell_of_revoked(opened, known)
            await self._on_open(opened, known)
        except BaseException:
            await opened.close()  # or the next attempt would wait for a lease of our own
            raise
        self.vouched = known
        return opened

    async def attach(self, session: uuid.UUID) -> int:
        """Go on with another session of the same owner; returns how many steps it has.

        The caller sees to it that no step runs. Raises LeaseHeld, SessionNotFound,
        DatabaseUnavailable; then everything is as before.
        """
        async with self._opening:
            if self._database is None:
                self._database, self._id = await self._open_log()
            if session == self._id and self._log is not None:
                return self.writer.next_seq
            before = self.upkeep
            self.upkeep = Upkeep(self, self._start)
            try:
                opened = await self._take(self._database, session)
            except BaseException:
                self.upkeep = before
                raise
            failpoint("attach-taken")
            self.cancel_resume()
            self.live = False  # so that the end of the old sandbox is no death
            left, self._log = (
                self._log,
                DurableLog(opened, self._on_lease_lost, self._on_waits),
            )
            if self._network is not None:
                self._network.opened(self._log, self.vouched.shut)
            self._id, self._lease_lost = session, None
            self.prompt_offset, self.last_seq = 0, None
            self.condition = Condition()
            self._way = Resume(self._start, self._router, self.say, self.condition)
            self._running.clear()
            if self._link is not None:
                await self._link.guest.kill()
            if left is not None:
                await left.close()
        self.launch()
        self._background(self.resume_eagerly())
        return opened.next_seq

    def had_subshell(self, subshell: str) -> bool:
        """Whether a page may know this subshell, of whatever language kernel it was."""
        return subshell in self.subshells or (self._continued and subshell not in self._deleted)

    def subshell_deleted(self, subshell: str) -> None:
        self.subshells.discard(subshell)
        self.link.subshells.discard(subshell)
        self._deleted.add(subshell)

    async def writable(self) -> SessionLog:
        """The log, when it can be written, whatever the sandbox does."""
        if self._log is None:
            return await self.open()
        await self._log.recovered()
        return self.writer

    async def _on_lease_lost(self, error: LeaseLost) -> None:
        """Another process goes on with this session. What stands here is no longer its state."""
        self._log, self._lease_lost = None, str(error)
        self.live = False
        if self._link is not None:
            await self._link.guest.kill()
        await self._fails(error)
        self._router.stands()

    def _on_waits(self, seq: int, error: UnavailableError) -> None:
        self._router.notice(_waits(seq, error))

    async def _tell_of_changes(self, opened: SessionLog, now: EnvironmentSpec) -> None:
        """A session goes on under the environment of today; the user is told what changed."""
        before = (await opened.info()).environment
        if before is None or before == now.digest:
            return
        changes = difference(await opened.environment(before), now.to_json())
        text = "The environment is not the one this session last ran in: " + "; ".join(changes)
        notice = Notice(None, now_us(), "environment-changed", f"{text}.", {"changes": changes})
        self._router.notice(notice)
        await opened.note(notice)

    async def _tell_of_revoked(self, opened: SessionLog, known: Vouched) -> None:
        for mount in known.revoked:
            text = (
                f"The skill {mount.target} (step {mount.seq}) was revoked. This session goes on "
                "with it, but it is mounted nowhere anew: `reprise skills show "
                f"sha256:{mount.tree}` says who revoked it and why."
            )
            notice = Notice(mount.seq, now_us(), "skill-revoked", text, {"tree": mount.tree})
            self._router.notice(notice)
            await opened.note(notice)

    def trusts(self, tree: str) -> bool:
        """Whether somebody vouches for a skill's content, in the session that there is now."""
        return self.vouched.trusts(tree)

    def vouch(self, tree: str, standing: Standing) -> None:
        """How the content of a skill stands that is about to be mounted."""
        self.vouched = self.vouched.mounting(tree, standing)

    # the way back ---------------------------------------------------------------------------

    async def ready(self) -> None:
        """Return when the sandbox stands at the head of the log.

        Raises ResumeCancelled when an interrupt stopped it, or what prevents it.
        """
        while not self.live:
            task = self.resume()
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if task.cancelled():
                    raise ResumeCancelled(
                        "Bringing the session back was interrupted. Its log is whole; "
                        "run a cell to go on."
                    ) from None
                raise

    async def fresh(self) -> None:
        """Stand in an interpreter that no step has used, where the environment wants that.

        Files stay, processes end. Where this fails the session resumes. Raises SandboxDied.
        """
        if self._start.spec.reuse != "never":
            return
        async with self._renewing:
            if not self._used or not self.live:
                return
            self._used = False
            await self._renew(self.link)
            if self._next_prompt > 1:
                self.prompt_offset = await advance_prompt(self.link, self._next_prompt)

    async def _renew(self, link: KernelLink) -> None:
        container = link.guest.container
        if not isinstance(container, Renewable):
            await restart_interpreter(link)
            return
        self.live = False  # so that the end of the old container is no death
        self.condition.deciding = True
        failpoint("renewing")
        await link.guest.goodbye()
        try:
            renewed = await container.renew(self._router.starting)
        finally:
            self._router.starting(None)
        await greet(renewed, self._start.backend, self._start.spec)
        self._stand_in(renewed)
        await self.link.guest.ready()
        self._caught_up()

    async def _fresh_ahead(self) -> None:
        """What the next step would wait for, done while nobody waits (never raises)."""
        try:
            if not self._running:
                await self.fresh()
        except RepriseError as error:
            log.warning("%s", error)

    def resume(self) -> asyncio.Task[None]:
        if self._resume is None or self._resume.done():
            self.condition.begins()
            self._resume = asyncio.get_running_loop().create_task(self._come_back())
            self._resume.add_done_callback(_retrieve)
        return self._resume

    async def resume_eagerly(self) -> None:
        """Start coming back at once when the plan says that it is quick (never raises)."""
        if self._closing:
            return
        condition, isolated = self.condition, self._start.backend.isolated
        try:
            opened = await self.open()
            steps = await opened.summaries()
            condition.plan = self._way.plan(steps)
            condition.kept = await last_kept(opened, steps, isolated=isolated)
            if condition.plan.estimate_s <= EAGER_RESUME_S:
                self.resume()
        except RepriseError as error:
            # The next cell tries again and tells the person; here nobody listens yet.
            log.warning("%s", error)
            await self._fails(error)
        finally:
            condition.deciding = False
            self.decided.set()
            self._router.stands()

    async def _come_back(self) -> None:
        condition = self.condition
        self._router.stands()
        try:
            await self._bring_back()
        except asyncio.CancelledError:
            condition.stopped = True
            raise
        except RepriseError as error:
            await self._fails(error)
            raise
        else:
            condition.arrived()
        finally:
            # The task itself ends right after this.
            asyncio.get_running_loop().call_soon(self._router.stands)

    async def _fails(self, error: RepriseError) -> None:
        """Keep why the session cannot be had; who has it instead, where somebody has."""
        self.condition.failed(error)
        if not isinstance(error, LeaseHeld | LeaseLost) or self._database is None:
            return
        try:
            info = await (await self._database.reader(self._id)).info()
        except RepriseError as unknown:
            log.warning("%s", unknown)
        else:
            if info.holder is not None:
                self.condition.held_by = {**info.holder, "session": str(self._id)}

    @property
    def state(self) -> State:
        """How the session stands; asking changes and waits for nothing."""
        if self.live:
            return "running" if self._running else "ready"
        condition = self.condition
        if condition.held_by is not None:
            return "held"
        if self.resuming or self._running:
            return "resuming" if self._brings_back_something else "starting"
        if condition.problem is not None:
            return "failed"
        if condition.stopped:
            return "stopped"
        if condition.deciding:
            return "resuming" if condition.death is not None else "starting"
        return "waiting"

    @property
    def _brings_back_something(self) -> bool:
        condition = self.condition
        return (
            condition.death is not None
            or condition.progress is not None
            or (condition.plan is not None and bool(condition.plan.run))
        )

    @property
    def running(self) -> int | None:
        """The step that runs; the first where several do."""
        return min(self._running, default=None)

    @property
    def running_since(self) -> int | None:
        """When that step was accepted, microseconds, UTC."""
        return None if self.running is None else self._running[self.running]

    @property
    def steps(self) -> int | None:
        """How many steps the session has; None while its log is not open."""
        return None if self._log is None else self.writer.next_seq

    @property
    def environment_digest(self) -> str | None:
        """Of the environment that it runs in; None while that is not known."""
        return self._environment

    @property
    def resuming(self) -> bool:
        return self._resume is not None and not self._resume.done()

    def cancel_resume(self) -> None:
        if self._resume is not None:
            self._resume.cancel()

    async def _bring_back(self) -> None:
        opened, isolated = await self.writable(), self._start.backend.isolated
        while True:
            await asyncio.shield(self.launch())
            link = self.link
            await link.guest.ready()
            steps = await opened.summaries()
            self.condition.plan = chosen = self._way.plan(steps)
            self.condition.kept = await last_kept(opened, steps, isolated=isolated)
            self._router.stands()
            started = time.monotonic()
            try:
                self.prompt_offset = await self._way.play(link, opened, chosen, steps)
            except SandboxDied as error:
                if self._closing:
                    raise
                await self._way.failed(error)
                continue
            except BaseException:
                # Half of a replay is no state to go on from: the next one begins afresh.
                await link.guest.kill()
                raise
            finally:
                self._router.progress(None)
            self._used = True
            self._caught_up()
            self._next_prompt = next_prompt(steps)
            await self._way.done(chosen, opened.next_seq - 1, time.monotonic() - started)
            return

    def _caught_up(self) -> None:
        """The sandbox stands at the head of the log."""
        self.live = True
        self.condition.deciding = False
        if self._network is not None:
            self._network.caught_up()

    async def say(
        self, seq: int | None, code: str, text: str, detail: Mapping[str, Json] | None = None
    ) -> None:
        notice = Notice(seq, now_us(), code, text, detail or {})
        self._router.notice(notice)
        if self._log is not None:
            await self._log.note(notice)

    def _sandbox_gone(self, cause: DeathCause) -> None:
        was_live, self.live = self.live, False
        log.info("The sandbox ended: %s", cause)
        if was_live or self._running or cause.what != "killed":
            self.condition.dies(cause, self.running)
        self._router.sandbox_gone()
        if was_live and not self._running:
            self._revive()
        self._router.stands()

    def _revive(self) -> None:
        """Bring the session back before anyone asks, unless it keeps dying on its own."""
        if self._closing or self._revivals >= REVIVALS:
            return
        self._revivals += 1
        self.condition.deciding = True
        self.launch()
        self._background(self.resume_eagerly())

    # steps ----------------------------------------------------------------------------------

    @property
    def environment(self) -> str:
        if self._environment is None:
            raise DatabaseUnavailable("The session's log is not open, so nothing was run.")
        return self._environment

    async def accept(self, new: NewStep, send: Callable[[Step], None] | None = None) -> Step:
        """Commit a step, then call `send` at once, so that acceptance order is run order.

        Raises DatabaseUnavailable when the log cannot take it in time, LeaseLost; then `send`
        was not called and nothing runs.
        """
        async with self._order:
            failpoint("before-accept")
            step = await self._durable.append(new)
            failpoint("accepted")
            self.last_seq = step.seq
            if self._network is not None:
                self._network.begin(step.seq)
            self._running[step.seq] = new.at
            self._used = self._used or new.kind in USING
            self._revivals = 0
            if send is not None:
                send(step)
                failpoint("sent")
            return step

    def is_running(self, seq: int) -> bool:
        """Whether a step was accepted here and has no outcome yet."""
        return seq in self._running

    async def show(
        self, seq: int, entries: list[OutputEntry], blobs: list[bytes], *, late: bool = False
    ) -> None:
        """Commit a batch of outputs, however long the database takes. Raises LeaseLost."""
        failpoint("before-outputs")
        await self._durable.show(seq, entries, blobs, late=late)
        failpoint("outputs-stored")

    async def conclude(
        self,
        step: Step,
        new: NewOutcome,
        entries: list[OutputEntry] | None = None,
        blobs: list[bytes] | None = None,
    ) -> Outcome:
        """Commit the last outputs and the outcome, however long the database takes.

        Raises LeaseLost.
        """
        if self._network is not None:
            await self._network.end(step.seq)
        failpoint("before-outcome")
        self._running.pop(step.seq, None)
        outcome = await self._durable.conclude(step.seq, new, entries or [], blobs or [])
        failpoint("outcome-recorded")
        if self.live and new.status in ("ok", "error"):
            self.condition.ended_well()
        if new.execution_count is not None:
            self._next_prompt = new.execution_count + 1
        if self._start.spec.reuse == "never":
            self._background(self._fresh_ahead())
        return outcome

    async def _store_rows(self, rows: Sequence[NetworkRow]) -> None:
        if self._log is not None:
            await self._log.network(rows)

    def _network_says(self, code: str, text: str) -> None:
        """What a person should know of a connection; it belongs to the step that runs."""
        seq = self.last_seq if self._running else None
        self._background(self.say(seq, code, text))

    def rolled_back(self, link: KernelLink, killed: str | None = None) -> None:
        """The sandbox died in a step: start a fresh one and bring it to the step before.

        killed: what we ended it for, if we did.
        """
        self.condition.rolled_back(killed)
        if link is not self._link or self.resuming:
            return  # several steps ran in it; the first of them did this
        self.live = False
        self._revive()

    # the end --------------------------------------------------------------------------------

    def _background(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop_sandbox(self) -> None:
        """End the sandbox now (shutdown, a step over its time); its runs end as died."""
        if self._link is not None and self._link.cause is None:
            self._background(self._link.guest.kill())

    def closing(self) -> None:
        """No fresh sandbox from now on."""
        self._closing = True

    async def close(self) -> None:
        """End the sandbox and give the lease back."""
        self._closing = True
        for task in (self._resume, self._launch, *self._tasks):
            if task is not None and not task.done():
                task.cancel()
        if self._link is not None:
            await self._link.guest.kill()
        if self._network is not None:
            await self._network.close()
        if self._log is not None:
            await self._log.close()
        if self._database is not None:
            await self._database.close()


def _waits(seq: int, error: UnavailableError) -> Notice:
    return Notice(
        seq,
        now_us(),
        "database-away",
        f"What step {seq} shows, or how it ended, cannot be stored now. It is kept here and stored "
        f"as soon as it can be; its end is told then. The reason: {error}",
        {},
    )


def _retrieve(task: asyncio.Task[None]) -> None:
    """A background task's error is told by whoever awaits it next; asyncio need not repeat it."""
    if not task.cancelled():
        task.exception()
