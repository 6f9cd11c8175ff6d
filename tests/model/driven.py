"""A real kernel and its model side by side: each act is done to both, and they have to agree."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from reprise.bundle.load import check_bundle, load_bundle
from reprise.bundle.source import Spooled
from reprise.bundle.write import write_bundle
from reprise.log.model import Status
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo, StepRecord
from tests.fixtures.kernel import PATIENCE, Client, Kernel, Kernels, Ran, is_state
from tests.model.draws import NAMES, WIDGETS
from tests.model.history import History, Listed, Mark, Mount, Restart, Slide, Upload, rebuilt
from tests.model.look import Look
from tests.model.programs import BEGUN, Did, File, Files, Folder, Program, State, Widget

T = TypeVar("T")

#: Times the engine starts a sandbox by itself before somebody asks for a step, less one.
UNASKED_REVIVALS = 2


@dataclass(frozen=True)
class Sent:
    """A program that was sent. requested: a cell by a step_request, not an execute_request."""

    msg_id: str
    program: Program
    command: bool
    requested: bool
    key: str | None

    @property
    def by_step_request(self) -> bool:
        return self.command or self.requested


class Driven:
    """One kernel, the sessions it goes through, and what must be true of them."""

    def __init__(self, kernels: Kernels, backend: str) -> None:
        self.kernels = kernels
        # What a mount makes of outputs in a page is no part of the model.
        folder = kernels.database.home / "environments"
        folder.mkdir(exist_ok=True)
        (folder / "live.json").write_text('{"output": "live"}')
        self.kernel: Kernel = kernels(backend, REPRISE_ENVIRONMENT="live")
        self.client: Client = self.kernel.client()
        self.here = History(self.kernel.session)
        self.sessions = {self.here.id: self.here}
        self.now = State()
        self.isolated = backend != "process"
        #: What the page shows: the comm and the display that each token stands for.
        self.comms: dict[int, str] = {}
        self.displays: dict[int, str] = {}
        self.differed: dict[uuid.UUID, set[int]] = {self.here.id: set()}
        #: Where each tree lies at its target, as seen from inside.
        self._lies_at: dict[tuple[str, Listed], str] = {}
        #: Times a sandbox was killed since somebody asked for a step.
        self._unasked = 0
        #: Whether the state may still be being rebuilt.
        self._on_the_way = False
        self.look()

    # programs -----------------------------------------------------------------------------------

    def send(
        self,
        program: Program,
        *,
        command: bool = False,
        requested: bool = False,
        key: str | None = None,
    ) -> Sent:
        more = {} if key is None else {"key": key}
        if command:
            msg_id = self.client.send_step("command", {"shell": program.command()}, **more)
        elif requested or key is not None:
            requested = True
            msg_id = self.client.send_step("cell", {"code": program.cell()}, **more)
        else:
            msg_id = self.client.execute(program.cell())
        return Sent(msg_id, program, command, requested, key)

    def run(self, program: Program, **how: Any) -> None:
        """A program that ends by itself."""
        self.finish(self.send(program, **how))

    def burst(self, programs: Sequence[tuple[Program, bool]]) -> None:
        """Several at once: they run in the order they were sent; a failing cell aborts cells."""
        sent = [self.send(program, command=command) for program, command in programs]
        failed = False
        for each in sent:
            ran = self.client.finish(each.msg_id)
            if ran.status == "aborted":
                assert failed, f"aborted without a reason: {each}"
                assert not each.command, f"a command was aborted: {each}"
                continue
            did = self._ended(each, ran)
            failed = failed or (did.error is not None and not each.command)

    def finish(self, sent: Sent) -> None:
        self._ended(sent, self.client.finish(sent.msg_id))

    def _ended(self, sent: Sent, ran: Ran) -> Did:
        """The program has ended by itself: so did the model's."""
        count = self.here.next_prompt
        did = sent.program.run(self.now)
        _agree("text", sent.program, ran.text(), did.text)
        _agree("status", sent.program, ran.status, "ok" if did.error is None else "error")
        if did.error is not None:
            _agree("error", sent.program, ran.error, _error_name(sent, did))
        status: Status = "ok" if did.error is None else "error"
        if sent.by_step_request:
            _agree("outcome", sent.program, ran.reply["outcome"], status)
            _agree("seq", sent.program, ran.reply["seq"], len(self.here.marks))
        mark = self._mark(sent, status, did)
        if not sent.command:
            reply = ran.reply["result"] if sent.requested else ran.reply
            _agree("prompt", sent.program, reply["execution_count"], count)
            mark.count = count
        self._learn(ran)
        return did

    def _asked(self) -> None:
        """A step has ended, so the state stands at the head of the log."""
        self._unasked, self._on_the_way = 0, False

    def _mark(self, sent: Sent, status: Status, did: Did | None = None) -> Mark:
        self._asked()
        mark = self.here.add("command" if sent.command else "cell", sent.program, status, did)
        mark.key = sent.key
        return mark

    def _learn(self, ran: Ran) -> None:
        """The page takes in widgets and displays; an update has to name one that it has."""
        for kind, content in ran.outputs:
            if kind == "comm_open":
                self.comms[content["data"]["token"]] = content["comm_id"]
            elif kind in ("display_data", "update_display_data"):
                # What a cell shows while it waits for a resume is none of ours.
                text = content["data"].get("text/plain", "").strip("'")
                shown = content["transient"].get("display_id")
                if kind == "display_data" and text.startswith("token "):
                    self.displays[int(text.split()[1])] = shown
                elif text == "updated":
                    known = {self.displays[token] for token in self.now.displays.values()}
                    assert shown in known, "an update of a display that the page has not"

    def begun(self, program: Program, **how: Any) -> Sent | None:
        """Start one that does not end by itself; None when it fails before it gets so far."""
        if self._fails(program, **how):
            return None
        sent = self.send(program, **how)
        self.client.shows(sent.msg_id, BEGUN)
        return sent

    def _fails(self, program: Program, **how: Any) -> bool:
        """Run one that would not get to its end without that end.

        A replay in a notebook's own folder may get further than the first run did.
        """
        if program.run(self.now.copy()).error is None:
            return False
        self.run(replace(program, end="ok"), **how)
        return True

    def interrupt(self, program: Program, **how: Any) -> None:
        """What it had done stays, until the state has to be rebuilt."""
        sent = self.begun(program, **how)
        if sent is None:
            return
        self.client.ask("interrupt_request", channel="control")
        self._interrupted(sent)

    def _interrupted(self, sent: Sent) -> None:
        count = self.here.next_prompt
        ran = self.client.finish(sent.msg_id)
        wanted = "Interrupted" if sent.command else "KeyboardInterrupt"
        _agree("error", sent.program, ran.error, wanted)
        sent.program.run(self.now)
        mark = self._mark(sent, "interrupted")
        mark.count = None if sent.command else count
        self._learn(ran)

    def die(self, program: Program, **how: Any) -> None:
        """A cell that kills its interpreter is rolled back."""
        if self._fails(program, **how):
            return
        self._died(self.send(program, **how))

    def kill_in(self, part: str, program: Program, **how: Any) -> None:
        """Kill a part while a program runs: it is rolled back, as died or as lost."""
        sent = self.begun(program, **how)
        if sent is None:
            return
        self.kernel.kill(part)
        if part == "router":
            self._mark(sent, "lost")
            self.now = _effects(self.now, sent)
            self._next_process()
        else:
            self._died(sent)

    def _died(self, sent: Sent) -> None:
        ran = self.client.finish(sent.msg_id)
        _agree("error", sent.program, ran.error, "SandboxDied")
        mark = self._mark(sent, "died")
        if not sent.command:
            reply = ran.reply["result"] if sent.requested else ran.reply
            # The prompt is known when its message came before the death.
            assert reply["execution_count"] in (0, None, self.here.next_prompt), reply
            mark.count = reply["execution_count"] or None
        self.now = _effects(self.now, sent)
        self.rebuild()

    # what happens to a session ------------------------------------------------------------------

    def rebuild(self) -> None:
        """The state that a fresh sandbox gets; where nothing isolates, once it is there."""
        came = rebuilt(self.here.marks, None if self.isolated else self.now.files)
        self.now = came.state
        self.differed[self.here.id] |= came.differs
        self._on_the_way = True
        if not self.isolated:
            # Half of a replay would have changed the folder already, and the next one again.
            self.look()

    def kill(self, part: str) -> None:
        """Kill a part while nothing runs."""
        if self._unasked >= UNASKED_REVIVALS:
            self.look()
        if part == "router":
            self.kernel.kill("router")
            self._next_process()
            return
        if self._on_the_way:
            self.kernel.kill(part)
            self._come_back()
            return
        before = self.kernel.pid("sandbox")
        self.kernel.kill(part)
        self._unasked += 1
        deadline = time.monotonic() + PATIENCE
        while self.kernel.pid("sandbox") == before:
            assert time.monotonic() < deadline, "no fresh sandbox came"
            self.client.pump(0.005)
        self.rebuild()

    def _come_back(self) -> None:
        """Ask until a cell is not refused, or rolled back, for a sandbox that was just killed."""
        program = Program(())
        while True:
            sent = self.send(program)
            ran = self.client.finish(sent.msg_id)
            if ran.error != "SandboxDied":
                break
            steps = self.kernels.read(self.kernel).steps
            if len(steps) > len(self.here.marks):
                self._mark(sent, "died").count = ran.reply["execution_count"] or None
        self.rebuild()
        self._ended(sent, ran)

    def _next_process(self) -> None:
        self.kernel = self.kernels.again(self.kernel, REPRISE_ENVIRONMENT="live")
        self.client = self.kernel.client()
        self._unasked = 0
        self.rebuild()

    def restart(self) -> None:
        self.look()
        kept = tuple(self.now.files.items()) if self.isolated else None
        self.kernel.shutdown(restart=True)
        self.here.add("restart", Restart(kept, in_place=not self.isolated), "ok")
        self.now.end_interpreter()
        self._next_process()

    def reset(self) -> None:
        """A clean interpreter and, where the workspace is the session's own, no files."""
        reply = self.client.ask("workspace_request", {"op": "reset"}, channel="control")
        assert reply == {"status": "ok", "seq": len(self.here.marks)}, reply
        kept = () if self.isolated else None
        self.here.add("restart", Restart(kept, emptied=True), "ok")
        self._asked()
        self.now.end_interpreter()
        if self.isolated:
            self.now.files.clear()

    # files --------------------------------------------------------------------------------------

    def upload(self, tree: Files, removed: Sequence[str] = (), key: str | None = None) -> None:
        if not tree and not removed:
            return
        payload = {"entries": entries_of(tree), "removed": list(removed)}
        more = {} if key is None else {"key": key}
        ran = self.client.step("upload", payload, buffers=bytes_of(tree), **more)
        assert ran.status == "ok", ran.reply
        _agree("result", tree, ran.reply["result"], amount(tree))
        upload = Upload(tuple(tree.items()), tuple(removed))
        upload.apply(self.now.files)
        self._asked()
        self.here.add("upload", upload, "ok").key = key

    def mount(self, target: str, tree: Files, key: str | None = None) -> None:
        payload = {"target": target, "entries": entries_of(tree)}
        more = {} if key is None else {"key": key}
        ran = self.client.step("mount", payload, buffers=bytes_of(tree), **more)
        assert ran.status == "ok", ran.reply
        result = dict(ran.reply["result"])
        path = self._lies_at[target, tuple(tree.items())] = result.pop("path")
        assert path == target or not self.isolated
        assert result == {"tree": result["tree"], **amount(tree)}, result
        self.now.mounts[target] = dict(tree)
        self._asked()
        self.here.add("mount", Mount(target, tuple(tree.items())), "ok").key = key

    # the page -----------------------------------------------------------------------------------

    def slide(self, name: str, *values: int) -> None:
        """The page sets a widget; of several at once, those overtaken may be left out."""
        widget = self.now.widgets.get(name)
        if widget is None:
            return
        comm = self.comms[widget.token]
        sent = {}
        for value in values:
            content = {"comm_id": comm, "data": {"method": "update", "state": {"value": value}}}
            sent[self.client.request("comm_msg", content)] = value
        for msg_id in sent:
            self.client.wait(lambda h, msg_id=msg_id: h.parent == msg_id and is_state(h, "idle"))  # type: ignore[misc]
        last = list(sent)[-1]
        echoes = [h.content for h in self.client.of(last) if h.type == "comm_msg"]
        wanted = [(comm, {"echo": values[-1]})]
        assert [(each["comm_id"], each["data"]) for each in echoes] == wanted, echoes
        recorded = list(sent) if len(sent) == 1 else self._recorded(sent)
        for msg_id in recorded:
            slide = Slide(name, widget.token, sent[msg_id])
            self.here.add("comm", slide, "ok")
        self._asked()
        self.now.widgets[name] = Widget(widget.token, values[-1])

    def _recorded(self, sent: dict[str, int]) -> list[str]:
        """Which of these messages are steps: some of them, in their order, and the last."""
        steps = self.kernels.read(self.kernel).steps[len(self.here.marks) :]
        found = [str(record.step.payload["header"]["msg_id"]) for record in steps]
        assert found == [msg_id for msg_id in sent if msg_id in found], found
        assert found[-1:] == list(sent)[-1:], found
        return found

    # other sessions -----------------------------------------------------------------------------

    def fork(self, at: int) -> History:
        self.settled()
        return self._forked(self._in_log(lambda log: log.fork(self.here.id, at)), at)

    def _forked(self, made: uuid.UUID, at: int) -> History:
        fork = self.sessions[made] = self.here.fork(at, made)
        self.differed[made] = set()
        return fork

    def fork_while_it_runs(self, program: Program, *, leave: bool, **how: Any) -> None:
        """Fork a session in the middle of a step, which is not in the fork.

        leave: the kernel goes over to the fork at once, which interrupts the step.
        """
        sent = self.begun(program, **how)
        if sent is None:
            return
        made = self._in_log(lambda log: log.fork(self.here.id))
        fork = self._forked(made, len(self.here.marks) - 1)
        if not leave:
            self.client.ask("interrupt_request", channel="control")
            self._interrupted(sent)
            return
        request = {"session": str(made), "interrupt": True}
        msg_id = self.client.request("attach_request", request, channel="control")
        self._interrupted(sent)
        assert self.client.reply(msg_id)["status"] == "ok"
        self._goes_on(fork)
        self.rebuild()

    def attach(self, session: History) -> None:
        """The kernel goes over; its page, its clients and its folder stay."""
        if not self.isolated:
            self.settled()
        request = {"session": str(session.id)}
        reply = self.client.ask("attach_request", request, channel="control")
        wanted = {"status": "ok", "session": str(session.id), "steps": len(session.marks)}
        assert reply == wanted, reply
        if session is not self.here:
            self._goes_on(session)
            self.rebuild()

    def change_process(self, session: History) -> None:
        """The next process takes another session from the start."""
        if not self.isolated:
            self.settled()
        self.kernel.kill("router")
        self._goes_on(session)
        self._next_process()

    def _goes_on(self, session: History) -> None:
        self.here = session
        self.kernel.session = session.id
        self._unasked = 0

    def export_and_import(self) -> History:
        """The session as a bundle, brought in under a new id."""
        self.settled()
        made = uuid.uuid4()
        path = self.kernels.folder / f"{made}.bundle"

        async def copied(log: Log) -> None:
            with path.open("wb") as file:
                await write_bundle(await log.reader(self.here.id), file)
            with path.open("rb") as file:
                bundle = Spooled(file)
                checked = check_bundle(bundle)
                loaded = await load_bundle(log, bundle, checked, as_new=made)
            assert (loaded.session, loaded.outcome) == (made, "imported")

        self._in_log(copied)
        marks = copy.deepcopy(self.here.marks)
        for mark in marks:
            mark.owner = made
        imported = History(made, marks)
        self.sessions[made] = imported
        self.differed[made] = set()
        return imported

    def _in_log(self, work: Callable[[Log], Awaitable[T]]) -> T:
        async def done() -> T:
            database = self.kernels.database
            log = await Log.connect(database.dsn, home=database.home)
            try:
                return await work(log)
            finally:
                await log.close()

        return asyncio.run(done())

    # keys ---------------------------------------------------------------------------------------

    def repeat(self, mark: Mark) -> None:
        """Ask again under the same key: what the session has is answered again, and not run."""
        assert mark.key is not None
        seq = self.here.by_key(mark.key)
        if seq is None:
            self._anew(mark)
            return
        known = self.here.marks[seq]
        deed = known.deed
        if isinstance(deed, Upload):
            tree = dict(deed.entries)
            payload = {"entries": entries_of(tree), "removed": list(deed.removed)}
            ran = self.client.step("upload", payload, buffers=bytes_of(tree), key=mark.key)
        elif isinstance(deed, Mount):
            tree = dict(deed.tree)
            payload = {"target": deed.target, "entries": entries_of(tree)}
            ran = self.client.step("mount", payload, buffers=bytes_of(tree), key=mark.key)
        else:
            assert isinstance(deed, Program)
            command = known.kind == "command"
            sent = self.send(deed, command=command, requested=True, key=mark.key)
            ran = self.client.finish(sent.msg_id)
        told = (ran.reply["repeated"], ran.reply["seq"], ran.reply["outcome"])
        _agree("repeated", deed, told, (True, seq, known.status))
        if known.did is not None:
            _agree("text again", deed, ran.text(), known.did.text)

    def _anew(self, mark: Mark) -> None:
        """Another session does not have the step, so here it runs."""
        deed = mark.deed
        match deed:
            case Upload():
                self.upload(dict(deed.entries), deed.removed, key=mark.key)
            case Mount():
                self.mount(deed.target, dict(deed.tree), key=mark.key)
            case Program(end="ok" | "raise"):
                self.run(deed, command=mark.kind == "command", key=mark.key)

    # judging ------------------------------------------------------------------------------------

    def settled(self) -> None:
        """The state stands at the head of the log, and is what the model says."""
        self.look()

    def look(self) -> None:
        """The real state, as a cell tells it, is the model's."""
        mounts = tuple(
            (target, self._lies_at[target, tuple(tree.items())])
            for target, tree in sorted(self.now.mounts.items(), key=lambda item: item[0])
        )
        program = Program((Look(NAMES, WIDGETS, mounts, not self.isolated),))
        sent = self.send(program)
        ran = self.client.finish(sent.msg_id)
        assert ran.status == "ok", ran.reply
        wanted = json.loads(program.run(self.now.copy()).text)
        _agree("state", program.end, json.loads(ran.text()), wanted)
        self._ended(sent, ran)

    def judge(self) -> None:
        """All sessions stand in the log as the model has them, whole and with their lineage."""
        self.settled()
        for session in self.sessions.values():
            self._judge(session)

    def _judge(self, session: History) -> None:
        recorded = self.kernels.database.read(session.id)
        assert recorded.report.ok, recorded.report
        found = [
            (
                record.step.seq,
                record.step.kind,
                None if record.outcome is None else record.outcome.status,
                None if record.outcome is None else record.outcome.new.execution_count,
                record.step.new.key,
            )
            for record in recorded.steps
        ]
        wanted = [
            (seq, mark.kind, mark.status, mark.count, mark.key)
            for seq, mark in enumerate(session.marks)
        ]
        _agree("log", session.id, found, wanted)
        for mark, record in zip(session.marks, recorded.steps, strict=True):
            if mark.did is not None:
                _agree("record", mark, _printed(record), mark.did.text)
        differed = {n.seq for n in recorded.notices if n.code == "divergence"}
        _agree("divergences", session.id, differed, self.differed[session.id])
        bad = [n for n in recorded.notices if n.code in ("not-replayed", "tree-not-kept")]
        assert bad == [], bad
        info: SessionInfo = self._in_log(lambda log: _info(log, session.id))
        lineage = (info.parent, info.fork_seq, info.steps)
        _agree("lineage", session.id, lineage, (session.parent, session.fork_seq, len(wanted)))


def _printed(record: StepRecord) -> str:
    streams = [e.content for e in record.outputs if e.type == "stream"]
    return "".join(str(each["text"]) for each in streams if each["name"] == "stdout")


async def _info(log: Log, session: uuid.UUID) -> SessionInfo:
    return await (await log.reader(session)).info()


def _effects(state: State, sent: Sent) -> State:
    """What a program that ran to its end and was then rolled back has done to a folder."""
    after = state.copy()
    sent.program.run(after)
    return after


def _error_name(sent: Sent, did: Did) -> str | None:
    return "CommandFailed" if sent.command else did.error


def entries_of(tree: Files) -> list[list[Any]]:
    """A tree as an upload or a mount names it."""
    entries: list[list[Any]] = []
    for path, node in tree.items():
        match node:
            case File():
                digest = hashlib.sha256(node.data).hexdigest()
                entries.append([path, "file", node.mode, len(node.data), digest])
            case Folder():
                entries.append([path, "dir", node.mode, 0, None])
            case _:
                entries.append([path, "link", 0o777, 0, node.target])
    return entries


def bytes_of(tree: Files) -> list[bytes]:
    return [node.data for node in tree.values() if isinstance(node, File)]


def amount(tree: Files) -> dict[str, int]:
    data = bytes_of(tree)
    return {"files": len(data), "bytes": sum(map(len, data))}


def _agree(what: str, of: object, found: object, wanted: object) -> None:
    assert found == wanted, f"{what} of {of}: the kernel has\n  {found}\nand the model\n  {wanted}"
