"""The router: what each client message leads to, and where each answer goes.

It writes ahead: a message that changes state becomes a step, committed before it is sent to
the language kernel, and its end is told only after its outcome is committed. Messages that
change nothing pass at once. It is not a Python interpreter.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Callable, Coroutine

from reprise.errors import RepriseError, UsageError
from reprise.failpoints import failpoint
from reprise.jupyter import workspace
from reprise.jupyter.admission import Admission, record_mount
from reprise.jupyter.asking import Asking
from reprise.jupyter.clients import Clients
from reprise.jupyter.comms import Comms
from reprise.jupyter.connection import Sockets
from reprise.jupyter.lane import Lane
from reprise.jupyter.late import LateOutputs
from reprise.jupyter.live import Ended, LiveStep, too_large
from reprise.jupyter.live_call import LiveCall
from reprise.jupyter.live_status import Around, LiveStatus
from reprise.jupyter.passing import PASSED_CONTROL, PASSED_SHELL, Passing
from reprise.jupyter.repeated import repeat
from reprise.jupyter.request import Request
from reprise.jupyter.static.screen import Screen
from reprise.jupyter.steps import Parsing, StepRequest
from reprise.jupyter.waiting import WaitingCell
from reprise.jupyter.wire import Signer
from reprise.log.model import During, Json, OutputEntry, StepKind
from reprise.log.store import Notice
from reprise.replay.awaited import settle
from reprise.replay.engine import LiveSession
from reprise.replay.message import UNRECORDED, Malformed, Message, make
from reprise.replay.surroundings import Progress
from reprise.sandbox.contract import Limits
from reprise.sandbox.frames import Channel

log = logging.getLogger("reprise")

COMM = frozenset({"comm_open", "comm_msg", "comm_close"})

#: Seconds after which we ask whether a comm has been handled without a word, where no cell runs.
SILENT_S = 1.0

#: Seconds that a cell's end waits for comms that began beside it (in subshells).
COMM_GRACE_S = 0.05


class Router:
    """Between the clients' sockets and one live session."""

    def __init__(
        self,
        sockets: Sockets,
        signer: Signer,
        limits: Limits,
        around: Around,
        agent_token: str,
        screen: Screen,
        admission: Admission,
        on_shutdown: Callable[[], None],
        on_terminated: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._agent_token = agent_token
        self._on_shutdown = on_shutdown
        self._on_terminated = on_terminated
        self._info = sockets.info
        self._clients = Clients(sockets, signer, self._received, self._answered, screen)
        self._screen = screen
        self._admission = admission
        self._lanes: dict[str | None, Lane] = {}
        self._running: dict[LiveStep | LiveCall, None] = {}
        self._main: LiveStep | LiveCall | None = None
        self._accepting: Request | None = None
        self._next: LiveStep | LiveCall | None = None
        self._passing = Passing(
            self._clients,
            "" if around.backend.isolated else f"WARNING: {around.backend.isolation}",
            lambda: self.session,
            self._cell_coming,
            self._answering,
            self._begin,
        )
        self._comms = Comms(
            self._when_live,
            self._send_comm,
            self._comm_overtaken,
            self._comm_refused,
            lambda: not self.session.live and not self.session.resuming,
        )
        self._late = LateOutputs(
            limits.output,
            self._clients.publish,
            self._store_late,
            self._is_running,
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = WaitingCell(self._clients.show)
        self._starting: str | None = None
        self._status = LiveStatus(around, screen, lambda: self.session, lambda: self._starting)
        self._asking = Asking(self._clients, lambda: self.session, self._running, self._waiting)
        self._shutting_down = False
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._session: LiveSession | None = None

    @property
    def session(self) -> LiveSession:
        if self._session is None:
            raise RepriseError("The router has no session yet.")
        return self._session

    def serve(self, session: LiveSession) -> None:
        self._session = session
        self._clients.show(make("status", {"execution_state": "starting"}), b"status")

    # from the clients ------------------------------------------------------------------------

    def _received(self, request: Request) -> None:
        kind, channel = request.message.msg_type, request.channel
        if kind == "execute_request":
            self._lane(request).put(request)
        elif kind == "step_request" and channel == "shell":
            self._main_lane().put(request)
        elif kind in COMM and channel == "shell":
            self._comms.put(request, behind=self._cell_coming())
        elif kind == "interrupt_request":
            self._begin(self._interrupt_request(request))
        elif kind == "shutdown_request":
            self._begin(self._shutdown(request))
        elif kind == "workspace_request" and channel == "control":
            lane = self._main_lane()
            if workspace.between_steps(request.message, idle=lane.idle):
                lane.put(request)
            else:
                self._begin(self._workspace(request, between=False))
        elif kind == "status_request" and channel == "control":
            self._begin(self._tell_status(request))
        elif kind == "resume_request" and channel == "control":
            self._begin(self._resume_request(request))
        elif kind == "attach_request" and channel == "control":
            self._begin(self._attach(request))
        elif kind in ("question_request", "answer_request") and channel == "control":
            self._question(request)
        elif kind == "connect_request":
            self._clients.locally(request, {"status": "ok", **self._info.ports()})
        elif kind in PASSED_CONTROL and (channel == "control" or kind in PASSED_SHELL):
            self._passing.put(request)
        else:
            log.warning("Unknown message type %.100r on the %s channel.", kind, channel)

    def _answered(self, client: bytes, message: Message) -> None:
        self._asking.answered(client, message)

    def _main_lane(self) -> Lane:
        return self._lane_of(None)

    def _lane(self, request: Request) -> Lane:
        return self._lane_of(
            "control" if request.channel == "control" else request.message.subshell_id
        )

    def _lane_of(self, key: str | None) -> Lane:
        lane = self._lanes.get(key)
        if lane is None:
            for old in [k for k, v in self._lanes.items() if v.idle and k is not None]:
                del self._lanes[old]
            lane = self._lanes[key] = Lane(self._cell, self._clients.abort)
        return lane

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A request could not be handled.", exc_info=task.exception())

    # steps -----------------------------------------------------------------------------------

    async def _cell(self, request: Request) -> bool:
        """Run one request of a lane; True when cells queued behind it have to be aborted."""
        try:
            if request.message.msg_type == "step_request":
                return await self._requested(request)
            if request.message.msg_type == "workspace_request":
                await self._workspace(request, between=True)
                return False
            return await self._run_cell(request)
        except Exception as error:
            log.exception("A cell could not be handled.")
            # Whatever it is, the client must not wait for ever.
            self._clients.refuse(request, error)
            return True
        finally:
            # Nothing was accepted, or what came behind it is aborted.
            asyncio.get_running_loop().call_soon(self._follow)

    async def _run_cell(self, request: Request) -> bool:
        main = request.channel == "shell" and request.message.subshell_id is None
        try:
            content = request.message.content()
        except Malformed as error:
            log.warning("An execute_request was dropped: %s.", error)
            return False
        stop_on_error = not content.get("silent") and content.get("stop_on_error", True)
        step = self._live_step(request, "cell", main)
        return await self._run_step(request, step, main, stop_on_error=bool(stop_on_error))

    async def _run_step(
        self,
        request: Request,
        step: LiveStep | LiveCall,
        main: bool,
        *,
        stop_on_error: bool,
        asked: StepRequest | None = None,
    ) -> bool:
        """Run a step of a lane to its end and tell it; True when it failed and cells must stop.

        asked: the step_request it comes from, which is answered by a step_reply.
        """
        if main:
            self._accepting, self._next = request, step
        try:
            await self._ready(request, main)
            if main:
                await self._comms.sent()  # what came before this
            await step.accept()
        except (RepriseError, Malformed) as error:
            if stop_on_error:
                self._clients.drain()
            self._clients.refuse(request, error)
            return stop_on_error
        finally:
            if main:
                self._accepting = self._next = None
        self._begin_step(step, main)
        self._follow()
        if isinstance(step, LiveCall):
            self._clients.status(request, "busy")  # of a cell the language kernel says it
        try:
            ended = await step.end()
        except RepriseError as error:
            if stop_on_error:
                self._clients.drain()
            self._clients.refuse(request, error, busy=False)
            self._passing.release()
            return stop_on_error
        finally:
            self._end_step(step, main)
            self._asking.forget(step)
        if ended.terminated:
            # As with ipykernel: who sends SIGTERM wants the kernel gone. Nobody is answered, so
            # that clients see a dead kernel; the next start resumes before this cell.
            self._on_terminated()
            return True
        failed = bool(stop_on_error and ended.failed)
        if failed:
            # What a client sends after it has seen the error is not to be aborted.
            self._clients.drain()
        if asked is not None and isinstance(step, LiveStep):
            ended = step.as_requested(ended, asked, request)
        self._tell(request, ended)
        self._passing.release()
        return failed

    # steps that a client asks for by kind ------------------------------------------------------

    async def _requested(self, request: Request) -> bool:
        """Run one step_request, or give the answer that its key has got before."""
        try:
            asked = await self._asked(request)
            record = None
            if asked.key is not None:
                record = await self.session.writer.by_key(asked.key)
            if record is not None:
                await repeat(self._clients, self.session.writer.blobs, request, asked, record)
                return False
            if asked.kind == "mount":
                asked = await self._admission.admit(self.session, asked)
        except (RepriseError, Malformed) as error:
            self._clients.refuse(request, error)
            return False
        if asked.message is None:
            call = LiveCall(
                self.session,
                request,
                asked,
                self._limits,
                self._clients.publish,
                self._screen.accepted,
            )
            await self._run_step(request, call, True, stop_on_error=False, asked=asked)
            if call.done and call.kind == "mount" and call.step is not None:
                self._begin(record_mount(self.session, call.step))
            return False
        inner = Request(request.channel, request.idents, asked.message)
        step = self._live_step(inner, asked.kind, True)
        step.actor, step.key = asked.actor, asked.key
        content = asked.message.content()
        stops = asked.kind == "cell" and not content["silent"] and bool(content["stop_on_error"])
        return await self._run_step(request, step, True, stop_on_error=stops, asked=asked)

    async def _asked(self, request: Request) -> StepRequest:
        message = request.message
        if message.size > self._limits.request:
            raise too_large(message.size, self._limits.request)
        await self.session.writable()
        blobs = self.session.writer.blobs
        return await Parsing(self._agent_token, blobs, self._limits.output).request(message)

    def _follow(self) -> None:
        """Let follow what came behind a cell that is on its way or refused."""
        if self._cell_coming():
            return
        self._passing.follow()
        self._comms.release()

    def _cell_coming(self) -> bool:
        """Whether a cell is to be accepted next, as soon as it can be."""
        lane = self._lanes.get(None)
        queued = lane is not None and lane.waiting and self._main is None
        return self._accepting is not None or queued

    def _answering(self) -> bool:
        """Whether the main shell's cell has been answered, and its end is being stored."""
        run = None if self._main is None else self._main.run
        return run is not None and run.reply is not None

    async def _ready(self, request: Request, main: bool) -> None:
        session = self.session
        if not session.live:
            with self._waiting.of(request):
                await session.ready()
        if main:
            await session.fresh()
            await session.upkeep.sync_folder()

    def _live_step(self, request: Request, kind: StepKind, main: bool) -> LiveStep:
        return LiveStep(
            self.session,
            request,
            kind,
            self._limits,
            self._clients.publish,
            self._asking.ask,
            (lambda: None) if main else self._during,
            self._end_comms if main else _nothing,
            self._screen.accepted,
        )

    def _during(self) -> During | None:
        main = self._main
        if main is None or main.step is None or main.run is None or main.run.idle is not None:
            return None
        return During(main.step.seq, main.run.recorder.count)

    def _tell(self, request: Request, ended: Ended) -> None:
        failpoint("before-told")
        if ended.reply is not None:
            self._clients.answer(request, ended.reply)
        self._clients.publish(ended.idle, ended.idle_topic)
        failpoint("told")

    async def _when_live(self) -> None:
        await self.session.ready()

    async def _send_comm(self, request: Request) -> None:
        """A comm message never waits behind the main shell (a cell may be waiting for it)."""
        step = self._live_step(request, "comm", main=False)
        await step.accept()
        self._begin_step(step, main=False)
        self._begin(self._end_of_comm(request, step))

    async def _end_of_comm(self, request: Request, step: LiveStep) -> None:
        silent = asyncio.get_running_loop().call_later(SILENT_S, self._ask_after, step)
        try:
            ended = await step.end()
        except RepriseError as error:
            log.warning("%s", error)
            return
        finally:
            silent.cancel()
            self._end_step(step, main=False)
        self._tell(request, ended)
        if step.run is not None and step.run.idle is None:
            self._still_busy()

    def _ask_after(self, step: LiveStep) -> None:
        """A comm that a subshell's cell handled while it awaited: no main cell's end tells."""
        if self._main is None and step.run is not None and step.link is not None:
            self._begin(settle(step.link, [step.run]))

    def _comm_overtaken(self, request: Request) -> None:
        """Its page sends no more before it gets an idle."""
        self._clients.status(request, "busy")
        self._clients.status(request, "idle")
        self._still_busy()

    def _comm_refused(self, request: Request, error: Exception) -> None:
        log.warning("A widget message was not run: %s", error)
        self._comm_overtaken(request)

    def _still_busy(self) -> None:
        """After an idle of our own: pages show the last status, and the cell still runs."""
        if isinstance(self._main, LiveStep) and self._main.run and self._main.run.idle is None:
            self._clients.status(self._main.request, "busy")

    def _begin_step(self, step: LiveStep | LiveCall, main: bool) -> None:
        self._running[step] = None
        if step.interrupted:
            step.interrupt()
        self._quiet.clear()
        if main:
            self._main = step

    def _end_step(self, step: LiveStep | LiveCall, main: bool) -> None:
        self._running.pop(step, None)
        step.over.set()
        if not self._running:
            self._quiet.set()
        if main:
            self._main = None

    async def _end_comms(self) -> None:
        """Record the end of comms that a cell may have waited for before the cell's own outcome.

        A replay that has the cell must have them too. Those that still wait in the language
        kernel go on by themselves.
        """
        main = self._main
        if not isinstance(main, LiveStep) or main.run is None or main.link is None:
            return
        beside = [
            (step, step.run)
            for step in self._running
            if isinstance(step, LiveStep)
            and step.kind == "comm"
            and step.run is not None
            and step is not main  # as it is when a step_request asked for it
        ]
        if not beside:
            return
        await settle(main.link, [run for _, run in beside])
        ended = main.run.ended
        for step, run in beside:
            if run.finished.done():
                await step.over.wait()
        began = [
            step.over.wait()
            for step, run in beside
            if ended is not None and run.began is not None and run.began < ended
        ]
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*began), COMM_GRACE_S)

    # output that belongs to no running step ------------------------------------------------------

    def stray(self, message: Message, parent: str | None, topic: bytes) -> None:
        kind = message.msg_type
        if kind in UNRECORDED:
            if self._passing.knows(parent) or kind == "debug_event":
                self._clients.publish(message, topic)
            return
        if self._passing.knows(parent):
            self._clients.publish(message, topic)
            return
        session = self.session
        if not session.live:
            return  # a replay shows nothing twice
        seq = session.link.seqs.get(parent) if parent is not None else None
        if seq is None:
            seq = session.last_seq
            if seq is None or session.is_running(seq):
                return  # of an interpreter that a reset starts; no start shows its words
        self._late.add(seq, message, topic)

    def _is_running(self, seq: int) -> bool:
        return self.session.is_running(seq)

    async def _store_late(self, seq: int, entries: list[OutputEntry], blobs: list[bytes]) -> None:
        await self.session.show(seq, entries, blobs, late=True)

    # what the engine tells ---------------------------------------------------------------------

    def passed(self, _channel: Channel, message: Message, parent: str) -> None:
        """A reply that belongs to no step."""
        self._passing.passed(message, parent)

    def sandbox_gone(self) -> None:
        self._passing.sandbox_gone()

    async def ask_password(self, prompt: str) -> str | None:
        return await self._asking.ask_password(prompt)

    def notice(self, notice: Notice) -> None:
        """A custom iopub message; front ends that do not know it ignore it."""
        content = {"code": notice.code, "text": notice.text, "seq": notice.seq}
        self._clients.show(
            make("reprise_notice", {**content, "detail": dict(notice.detail)}), b"notice"
        )
        log.info("%s", notice.text)

    def progress(self, progress: Progress | None) -> None:
        if progress is None and not self._passing.replaying:
            # Nothing was played. Not even a message of ours then: strict clients expect a cell's
            # busy as the next thing they hear.
            return
        content: dict[str, Json] = {"done": 0, "total": 0, "over": True}
        if progress is not None:
            content = {
                "done": progress.done,
                "total": progress.total,
                "over": False,
                "estimate_s": round(progress.estimate_s, 3),
                "elapsed_s": round(progress.elapsed_s, 3),
                "remaining_s": round(progress.remaining_s, 3),
            }
        self._clients.show(make("reprise_progress", content), b"progress")
        self._passing.replays(progress is not None)
        self._waiting.progress(progress)

    def starting(self, text: str | None) -> None:
        """What the start of a sandbox does that takes long; None when it is there."""
        if text is None and self._starting is None:
            return
        self._starting = text
        content: dict[str, Json] = {"done": 0, "total": 0, "over": text is None}
        if text is not None:
            content["text"] = text
            log.info("%s", text)
        self._clients.show(make("reprise_progress", content), b"progress")
        self._waiting.says(text)

    def stands(self) -> None:
        """Tell pages what is unusual, and when it is over: they need not ask again and again."""
        self._comms.look()
        news = self._status.news() if self._session is not None else None
        if news is not None:
            self._clients.show(make("reprise_status", news), b"status")

    async def _tell_status(self, request: Request) -> None:
        self._clients.reply(request, {"status": "ok", **await self._status.asked()})

    async def _resume_request(self, request: Request) -> None:
        """Come back now, or stop coming back; neither touches a step (docs/messages.md)."""
        try:
            op = request.message.content().get("op")
        except Malformed as error:
            log.warning("A resume_request was dropped: %s.", error)
            return
        session = self.session
        if op not in ("start", "cancel"):
            text = f"A resume_request has the op start or cancel, not {op!r:.100}."
            said: dict[str, Json] = {"status": "error", "ename": "UsageError", "evalue": text}
            self._clients.reply(request, said)
            return
        if op == "start" and not session.live:
            session.resume()
        elif op == "cancel" and session.resuming:
            session.cancel_resume()
        self._clients.reply(request, {"status": "ok", "state": session.state})

    async def _attach(self, request: Request) -> None:
        """Go on with another session; the page and its clients stay (docs/messages.md)."""
        self._clients.status(request, "busy")
        try:
            content = request.message.content()
            session = _session_id(content.get("session"))
            await self._leave(interrupt=content.get("interrupt") is True)
            self._screen.changing(True)
            try:
                steps = await self.session.attach(session)
            finally:
                self._screen.changing(False)
            self._late.begin_anew()
        except (RepriseError, Malformed) as error:
            self._clients.reply(
                request, {"status": "error", "ename": type(error).__name__, "evalue": str(error)}
            )
        else:
            self._clients.show(make("reprise_attached", {"session": str(session)}), b"attached")
            self._clients.reply(request, {"status": "ok", "session": str(session), "steps": steps})
        self._clients.status(request, "idle")

    def _question(self, request: Request) -> None:
        """Which questions of cells wait, or an answer to one, from who is not its client."""
        try:
            content = request.message.content()
        except Malformed as error:
            log.warning("A %s was dropped: %s.", request.message.msg_type, error)
            return
        if request.message.msg_type == "question_request":
            said: Json = [question.to_json() for question in self._asking.questions]
            self._clients.reply(request, {"status": "ok", "questions": said})
            return
        answered = self._asking.answer(str(content.get("msg_id")), str(content.get("value", "")))
        self._clients.reply(request, {"status": "ok", "answered": answered})

    async def _leave(self, *, interrupt: bool) -> None:
        """Nothing runs when a kernel goes over to another session. Raises UsageError."""
        if self._running or self._accepting is not None:
            if not interrupt:
                raise UsageError(
                    "A step is running, so the kernel stays with its session. Wait for its end, "
                    "or interrupt it."
                )
            if self._running:
                await self._end_running()
        await self._late.finish(STOP_S)

    async def _workspace(self, request: Request, *, between: bool) -> None:
        """Somebody asks for files, or for a reset, of the live workspace."""
        asked = request.message.content()
        content, data = await workspace.answer(
            self.session, asked, self._agent_token, between=between
        )
        parent = request.message.raw_header
        self._clients.answer(request, make("workspace_reply", content, parent=parent, buffers=data))

    # control ---------------------------------------------------------------------------------

    async def _interrupt_request(self, request: Request) -> None:
        self._clients.status(request, "busy")
        self.interrupt()
        self._clients.reply(request, {"status": "ok"})
        self._clients.status(request, "idle")

    def interrupt(self) -> None:
        """Interrupt what runs, or the resume; harmless when nothing runs."""
        session = self.session
        running = [step for step in self._running if step.kind != "comm"]
        if not running:
            # A widget's callback that takes too long.
            running = [s for s in self._running if s.run is not None and s.run.began is not None]
        for step in running:
            step.interrupt()
        if not running and session.resuming:
            session.cancel_resume()
        elif self._next is not None and self._next not in self._running:
            # It is being committed: it is interrupted as soon as it runs.
            self._next.interrupted = True

    async def _shutdown(self, request: Request) -> None:
        if self._shutting_down:
            return
        try:
            restart = bool(request.message.content().get("restart"))
        except Malformed as error:
            log.warning("A shutdown_request was dropped: %s.", error)
            return
        self._shutting_down = True
        self._clients.status(request, "busy")
        await self.stop_running()
        if not restart:
            await self.session.upkeep.record_state(seconds=STATE_S)
        else:
            try:
                async with asyncio.timeout(RESTART_S):
                    await self.session.upkeep.restart_step(kept_s=KEEP_TREE_S)
            except TimeoutError:
                log.error("The restart was not recorded: the database did not answer in time.")
            except RepriseError as error:
                log.error("The restart was not recorded: %s", error)
        content = {"status": "ok", "restart": restart}
        self._clients.reply(request, content)
        parent = request.message.raw_header
        self._clients.show(make("shutdown_reply", content, parent=parent), b"shutdown")
        self._clients.status(request, "idle")
        self._on_shutdown()

    async def stop_running(self) -> None:
        """Interrupt what runs; end its sandbox if it does not stop (it is rolled back then).

        What came after its step's end, and waits to be stored with more, is stored.
        """
        self.session.closing()
        self.session.cancel_resume()
        if self._running:
            await self._end_running()
        await self._late.finish(STOP_S)

    async def _end_running(self) -> None:
        self.interrupt()
        try:
            async with asyncio.timeout(STOP_S):
                await self._quiet.wait()
        except TimeoutError:
            for step in self._running:
                step.killed = "shutdown"
            self.session.stop_sandbox()
            try:
                async with asyncio.timeout(LAST_WRITE_S):
                    await self._quiet.wait()
            except TimeoutError:
                # A kernel must be able to end without a database; nobody was told of the step.
                log.error("Postgres did not answer, so what ran at the end is recorded as lost.")

    async def close(self) -> None:
        for lane in self._lanes.values():
            await lane.close()
        for task in list(self._tasks):
            task.cancel()
        self._clients.close()


#: jupyter_client gives a kernel 5 s to shut down (KernelManager.shutdown_wait_time).
STOP_S = 1.0
LAST_WRITE_S = 1.5
KEEP_TREE_S = 2.5
RESTART_S = 3.5
STATE_S = 1.0


def _session_id(value: Json) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        raise UsageError(
            f"An attach_request names a session by its id, not {value!r:.100}."
        ) from None


async def _nothing() -> None:
    """What a step that has nothing beside it waits for."""
