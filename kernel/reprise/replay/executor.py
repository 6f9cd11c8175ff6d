"""Plays recorded steps on a fresh sandbox and compares what comes out with the record.

Used by a live session that comes back and by `reprise verify` alike. It publishes nothing and
writes nothing: the record is canonical.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reprise.errors import GuestCallFailed, RepriseError, SandboxDied
from reprise.log.model import Json, OutputEntry
from reprise.log.postgres import now_us
from reprise.log.store import LogReader, StepRecord
from reprise.replay.awaited import settle
from reprise.replay.calls import CALLS, CallEnd, perform
from reprise.replay.compare import compare
from reprise.replay.difference import Comparison
from reprise.replay.identity import Pairing
from reprise.replay.link import KernelLink, Run, reply_entry
from reprise.replay.message import Message, make, request_from_payload
from reprise.replay.plan import Plan
from reprise.replay.recorder import OutputRecorder
from reprise.sandbox.contract import Limits
from reprise.sandbox.frames import Channel
from reprise.sandbox.network import is_recorded
from reprise.workspace.transfer import clear_workspace, put_tree

#: What a restart step names instead of a tree where the workspace is the notebook's own folder:
#: the files are wherever that folder is, not in the log.
IN_PLACE = "in-place"

#: The kinds of steps that leave something of theirs in an interpreter, or beside it.
USING = frozenset({"cell", "command"})

#: The identity under which a replay speaks to the language kernel.
REPLAY_CLIENT = b"reprise-replay"

#: Asks a person for a password that was never stored: prompt → answer, None when nobody can.
AskPassword = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True)
class Played:
    """What became of one recorded step on a replay.

    comparison: None when the step shows nothing to compare (an upload, a mount, a restart).
    problem: why it could not be run, in one sentence, or None.
    replayed: what it showed this time, bounded as the record is.
    """

    record: StepRecord
    comparison: Comparison | None = None
    problem: str | None = None
    replayed: tuple[OutputEntry, ...] = ()


@dataclass
class _Replayed:
    """The audience of a replayed run: shows nobody anything, feeds the recorded inputs."""

    link: KernelLink
    inputs: list[str | None]
    ask_password: AskPassword | None
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    missing_input: str | None = None

    def show(self, message: Message, topic: bytes) -> None:
        """A replay shows nothing twice."""

    def recorded(self, _run: Run) -> None:
        """Compared when the step has ended."""

    def ask(self, run: Run, message: Message) -> None:
        prompt = str(message.content().get("prompt", ""))
        if self.inputs:
            recorded = self.inputs.pop(0)
            if recorded is not None:
                self.link.answer_input(run, recorded)
                return
            task = asyncio.get_running_loop().create_task(self._password(run, prompt))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
            return
        self.missing_input = f"it asked for input ({prompt!r}) that the record does not hold"
        self.link.answer_input(run, "")

    async def _password(self, run: Run, prompt: str) -> None:
        answer = None if self.ask_password is None else await self.ask_password(prompt)
        if answer is None:
            self.missing_input = f"it asked for a password ({prompt!r}), which is never stored"
        if not run.finished.done():
            self.link.answer_input(run, answer or "")


@dataclass
class _Playing:
    record: StepRecord
    run: Run
    audience: _Replayed


class Player:
    """Plays steps of one session's log on one link, in the recorded partial order.

    isolated: whether the sandbox has a workspace of its own. Where it has none the workspace is
      the notebook's own folder: nothing is ever put there, removed or emptied by a replay.
    patience: seconds a step may take, given its recorded duration in seconds; None waits for ever.
    """

    def __init__(
        self,
        link: KernelLink,
        reader: LogReader,
        limits: Limits,
        *,
        isolated: bool,
        ask_password: AskPassword | None = None,
        patience: Callable[[float], float] | None = None,
    ) -> None:
        self._link = link
        self._reader = reader
        self._limits = limits
        self._isolated = isolated
        self._used = False
        #: what steps ran in, by its digest
        self._environments: dict[str, Mapping[str, Json]] = {}
        self._ask_password = ask_password
        self._patience = patience
        self._beside: list[_Playing] = []
        #: steps beside which another one ran that is not played again
        self._left_alone: set[int] = set()

    async def play(self, plan: Plan, stop: int) -> AsyncIterator[Played]:
        """Play the steps of `plan` (all before seq `stop`), yielding each as it ends.

        Raises SandboxDied when the sandbox ends on the way; the step it died in is
        `self.current`.
        """
        self.current: int | None = None
        if plan.start == "tree" and plan.start_seq is not None:
            for failed in await self._start_from_tree(plan.start_seq, plan.mounts):
                yield failed
        wanted = frozenset(plan.run)
        if not wanted:
            return
        async for group in self._groups(min(wanted), stop, wanted):
            async for played in self._play_group(group):
                yield played
        for playing in self._beside:
            yield await self._end(playing)
        self._beside.clear()

    async def _start_from_tree(self, seq: int, mounts: Sequence[int]) -> list[Played]:
        """Take a restart's tree as the start; the mounts before it that could not be shown."""
        failed: list[Played] = []
        for mount in mounts:
            # They lie outside the tree, and whatever comes next may read them.
            async for record in self._reader.records(mount, mount + 1, outputs=False):
                self.current = mount
                played = await self._play_performed(record)
                if played.problem is not None:
                    failed.append(played)
        self.current = None
        async for record in self._reader.records(seq, seq + 1, outputs=False):
            tree = record.step.payload["tree"]
            if tree != IN_PLACE and self._isolated:
                await put_tree(self._link.guest, self._reader.blobs, tree)
                await restart_interpreter(self._link)
        return failed

    async def _groups(
        self, start: int, stop: int, wanted: frozenset[int]
    ) -> AsyncIterator[list[StepRecord]]:
        """Each main step with the beside steps that were accepted while it ran."""
        group: list[StepRecord] = []
        async for record in self._reader.records(start, stop):
            during = record.step.new.during
            if record.step.seq not in wanted:
                if during is not None:
                    self._left_alone.add(during.seq)
                continue
            if during is not None and group and during.seq == group[0].step.seq:
                group.append(record)
                continue
            if group:
                yield group
            group = [record]
        if group:
            yield group

    async def _play_group(self, group: list[StepRecord]) -> AsyncIterator[Played]:
        first, beside = group[0], group[1:]
        self.current = first.step.seq
        # A beside step that had ended before this one was accepted has to end first again.
        for playing in [p for p in self._beside if _ended_before(p.record, first)]:
            self._beside.remove(playing)
            yield await self._end(playing)
        if await self._had_its_own(first):
            for playing in self._beside:
                yield await self._end(playing)
            self._beside.clear()
            await self._renew(first)
        if first.step.kind not in ("cell", "comm"):
            call = asyncio.get_running_loop().create_task(self._play_call(first))
            try:
                for record in beside:
                    self._beside.append(await self._begin(record))
                yield await call
            finally:
                await _cancelled(call)
            return
        main = await self._begin(first)
        after = [record for record in beside if _handled_after(record, first)]
        for record in beside:
            during = record.step.new.during
            if record in after or during is None:
                continue
            await _outputs_reached(main.run, during.outputs)
            self._beside.append(await self._begin(record))
        if first.step.new.during is not None or _is_beside(first):
            self._beside.append(main)
        else:
            yield await self._end(main)
            await settle(self._link, [p.run for p in self._beside if p.record.step.kind == "comm"])
        for record in after:
            self._beside.append(await self._begin(record))

    async def _had_its_own(self, record: StepRecord) -> bool:
        """Whether the step was given an interpreter that none had used (`reuse: never`)."""
        if record.step.kind not in USING or _is_beside(record):
            return False
        self._used, used = True, self._used
        return used and (await self._environment(record)).get("reuse") == "never"

    async def _environment(self, record: StepRecord) -> Mapping[str, Json]:
        """The recorded spec of the environment that the step ran in."""
        digest = record.step.new.environment
        if digest not in self._environments:
            self._environments[digest] = await self._reader.environment(digest)
        return self._environments[digest]

    async def _renew(self, record: StepRecord) -> None:
        """An unused interpreter for this step, its prompt number as it was."""
        await restart_interpreter(self._link)
        prompt = None if record.outcome is None else record.outcome.new.execution_count
        if prompt is not None and prompt > 1:
            await advance_prompt(self._link, prompt)

    async def _begin(self, record: StepRecord) -> _Playing:
        blobs = [await self._reader.blobs.get(sha) for sha in record.step.new.blobs]
        request = request_from_payload(record.step.payload, blobs)
        if request.subshell_id is not None:
            await ensure_subshell(self._link, request.subshell_id)
        inputs = [] if record.outcome is None else list(record.outcome.new.inputs)
        audience = _Replayed(self._link, inputs, self._ask_password)
        run = Run(
            request,
            REPLAY_CLIENT,
            OutputRecorder(self._limits.output),
            audience,
            expects_reply=record.step.kind == "cell",
        )
        self._link.seqs[request.msg_id] = record.step.seq
        pairing = Pairing((*record.outputs, *record.late))
        if pairing:
            self._link.pairings[request.msg_id] = pairing
        await self._begins(record)
        self._link.start(run)
        return _Playing(record, run, audience)

    async def _end(self, playing: _Playing) -> Played:
        record, run = playing.record, playing.run
        self.current = record.step.seq
        try:
            if record.step.kind == "comm":
                await self._begun(run)
            await asyncio.wait_for(asyncio.shield(run.finished), self._time_for(record))
        except TimeoutError:
            await self._give_up(run)
            problem = "it took many times its recorded time, and was cut"
            if record.step.seq in self._left_alone:
                problem += " (it may have waited for a step beside it that is left out)"
            return Played(record, problem=problem)
        finally:
            self._link.end(run)
            self._ends(record)
        final = reply_entry(run) if run.expects_reply else None
        if final is not None:
            run.recorder.add(final)
        replayed = run.recorder.take()
        self._link.replayed(run.request.msg_id)
        comparison = compare(
            record.outputs,
            replayed,
            recorded_cut=record.outcome is not None and record.outcome.new.cut,
            replayed_cut=run.recorder.cut,
            moments=(record.step.new.at, now_us()),
        )
        return Played(record, comparison, playing.audience.missing_input, tuple(replayed))

    async def _give_up(self, run: Run) -> None:
        """Interrupt a step that does not end; end its sandbox if that does not help."""
        await self._link.guest.call("interrupt")
        try:
            await asyncio.wait_for(asyncio.shield(run.finished), INTERRUPT_GRACE_S)
        except TimeoutError:
            await self._link.guest.kill()
            raise SandboxDied(
                "it took many times its recorded time and did not react to an interrupt"
            ) from None

    async def _begun(self, run: Run) -> None:
        """Wait until a comm has its turn; it may have had it without a word."""
        try:
            await asyncio.wait_for(run.heard.wait(), COMM_PATIENCE_S)
        except TimeoutError:
            await settle(self._link, [run])

    def _time_for(self, record: StepRecord) -> float | None:
        recorded = 0.0 if record.outcome is None else record.outcome.new.duration_us / 1e6
        if self._patience is not None:
            return None if record.outcome is None else self._patience(recorded)
        if record.step.seq in self._left_alone:
            return max(LEFT_ALONE_S, 3 * recorded)
        return None

    async def _play_call(self, record: StepRecord) -> Played:
        """A step that is no message to the interpreter."""
        payload = record.step.payload
        try:
            if record.step.kind in CALLS:
                return await self._play_performed(record)
            if payload.get("emptied") and self._isolated:
                await clear_workspace(self._link.guest)
            await restart_interpreter(self._link)
        except GuestCallFailed as error:
            return Played(record, problem=str(error))
        return Played(record)

    async def _play_performed(self, record: StepRecord) -> Played:
        kind = record.step.kind
        failed = record.outcome is not None and record.outcome.status == "error"
        if failed and kind != "command":
            return Played(record)  # it had changed nothing
        recorder = OutputRecorder(self._limits.output)
        await self._begins(record)
        try:
            async with asyncio.timeout(self._time_for(record)):
                end = await self._perform(record, recorder)
        except TimeoutError:
            await self._end_command(record)
            return Played(record, problem="it took many times its recorded time, and was ended")
        finally:
            self._ends(record)
        if kind != "command":
            return Played(record, problem=None if end.error is None else end.error[1])
        recorder.add(end.entry())
        replayed = recorder.take()
        comparison = compare(
            record.outputs,
            replayed,
            recorded_cut=record.outcome is not None and record.outcome.new.cut,
            replayed_cut=recorder.cut,
            moments=(record.step.new.at, now_us()),
        )
        return Played(record, comparison, replayed=tuple(replayed))

    async def _begins(self, record: StepRecord) -> None:
        """What is asked of the network from now on, this step asked before."""
        if self._link.egress is None:
            return
        recorded = is_recorded((await self._environment(record)).get("egress"))
        self._link.egress.begin(record.step.seq, replay=True, recorded=recorded)

    def _ends(self, record: StepRecord) -> None:
        if self._link.egress is not None:
            self._link.egress.end(record.step.seq)

    async def _perform(self, record: StepRecord, recorder: OutputRecorder) -> CallEnd:
        return await perform(
            record.step,
            self._link,
            self._reader.blobs,
            recorder.add,
            in_place=not self._isolated,
        )

    async def _end_command(self, record: StepRecord) -> None:
        """End a command that runs too long; end its sandbox if that does not help."""
        try:
            async with asyncio.timeout(INTERRUPT_GRACE_S):
                await self._link.guest.signal_command(str(record.step.seq), signal.SIGKILL)
        except (TimeoutError, GuestCallFailed):
            await self._link.guest.kill()
            raise SandboxDied(
                "it took many times its recorded time and could not be ended"
            ) from None


#: Seconds that an interrupted step has to end on a replay.
INTERRUPT_GRACE_S = 5.0

#: Seconds after which we ask whether a comm message has been handled without a word.
COMM_PATIENCE_S = 0.2

#: Seconds that a cell may take at least, where a step that ran beside it is left out: it may
#: wait for that step, and a resume must come to an end.
LEFT_ALONE_S = 30.0


async def _cancelled(task: asyncio.Task[Played]) -> None:
    """End a task that nobody waits for any more; nothing where it has ended."""
    if not task.done():
        task.cancel()
        await asyncio.wait([task])


def _is_beside(record: StepRecord) -> bool:
    return bool(record.step.payload.get("header", {}).get("subshell_id"))


def _handled_after(record: StepRecord, main: StepRecord) -> bool:
    """Whether a comm was sent while a cell ran and waited in the language kernel for its end."""
    return (
        record.step.kind == "comm"
        and not _is_beside(record)
        and main.outcome is not None
        and record.outcome is not None
        and record.outcome.event > main.outcome.event
    )


def _ended_before(record: StepRecord, other: StepRecord) -> bool:
    return record.outcome is not None and record.outcome.event < other.step.event


async def _outputs_reached(run: Run, outputs: int) -> None:
    """Wait until a run has shown as much as it had when the step beside it was accepted."""
    while run.recorder.count < outputs and not run.finished.done():
        run.heard.clear()
        await run.heard.wait()


async def request_reply(link: KernelLink, message: Message, channel: Channel) -> dict[str, Json]:
    """Send one request outside the log and return its reply's content. Raises SandboxDied."""
    run = Run(message, REPLAY_CLIENT, OutputRecorder(1 << 20), _Replayed(link, [], None))
    run.channel = channel
    link.start(run)
    try:
        await run.finished
    finally:
        link.end(run)
    return run.reply_content


async def ensure_subshell(link: KernelLink, recorded: str) -> None:
    """Make sure that the subshell a request names lives in this language kernel."""
    async with link.creating:
        if recorded in link.subshells:
            return
        content = await request_reply(link, make("create_subshell_request", {}), Channel.CONTROL)
        created = content.get("subshell_id")
        if not isinstance(created, str):
            raise RepriseError("The language kernel has not created a subshell that is needed.")
        link.subshells.add(recorded)
        link.ids.add(recorded, created)


async def restart_interpreter(link: KernelLink) -> None:
    """A clean interpreter on the same files: comms and subshells of the old one are gone."""
    link.forget()
    await link.guest.call("restart_kernel")
    await link.guest.ready()


#: Moves IPython's prompt number on past steps that are not played again, so that In, Out and
#: the number on the page agree. Runs silently: no history, no prompt number of its own.
_ADVANCE = """
get_ipython().history_manager.input_hist_parsed.extend([""] * {missing})
get_ipython().history_manager.input_hist_raw.extend([""] * {missing})
get_ipython().execution_count += {missing}
"""


async def advance_prompt(link: KernelLink, next_prompt: int) -> int:
    """Make the language kernel's next prompt number `next_prompt`.

    Returns what still has to be added to its numbers (0 when the kernel itself was moved, as
    IPython can be; other kernels keep counting from their own).
    """
    info: Mapping[str, Json] = link.guest.kernel_info or {}
    probe = await request_reply(link, _silent(""), Channel.SHELL)
    count = probe.get("execution_count")
    if not isinstance(count, int):
        return 0
    if info.get("implementation") == "ipython":
        # ipykernel answers a silent request with the number of the last prompt.
        missing = next_prompt - 1 - count
        if missing <= 0:
            return 0
        done = await request_reply(link, _silent(_ADVANCE.format(missing=missing)), Channel.SHELL)
        return 0 if done.get("status") == "ok" else missing
    return max(0, next_prompt - 1 - count)


def _silent(code: str) -> Message:
    return make(
        "execute_request",
        {
            "code": code,
            "silent": True,
            "store_history": False,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        },
    )


def died_on_replay(seq: int | None, error: SandboxDied) -> str:
    where = "" if seq is None else f" at step {seq}"
    return f"The sandbox died while the session was being brought back{where}: {error}"
