"""Turns of the agent in processes of their own, which stop or kill themselves at a named point.

The processes are forked from one that has imported everything, so that each costs a fork and not
the imports. What they run is what `reprise agent` and the server run: `running.Running`.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time
import uuid
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from typing import Any, Final

import psutil

from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise.log.store import StepRecord
from reprise_server.agent.contract import Entry
from reprise_server.agent.scripted import Asked, Call, Reply, ScriptedModel, reply, says
from tests.faults.history import REFUSED
from tests.fixtures.kernel import PATIENCE, Database, Kernel, Kernels, Ran

#: A command of a turn: it shows itself, and runs for a while when that is wanted.
COMMAND: Final = "echo {token} >> trace; echo ran {token}; {more}"

#: Exit code of a process that was to continue a turn which had come to its end.
NOTHING: Final = 3

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload([__name__, "reprise_server.agent.running", "anthropic"])


@dataclass(frozen=True)
class Order:
    """What a process is to do. words: None continues.  point: such as
    "after-entry-running:kill"."""

    conversation: uuid.UUID
    words: str | None
    point: str
    environ: dict[str, str]


def run(order: Order) -> None:
    """In the process: one turn, or the rest of one, to its end."""
    import reprise.failpoints
    import reprise.log.conversation_writer
    from reprise.client import Patience
    from reprise_server.agent.assembled import Assembly
    from reprise_server.agent.conversation import NothingToContinue
    from reprise_server.agent.running import Running
    from reprise_server.agent.settings import RepriseAgent
    from reprise_server.agent.tools.place import Place

    os.environ.update(order.environ)
    reprise.log.conversation_writer.failpoint = reprise.failpoints.arm(order.point)

    async def connect() -> Log:
        return await Log.connect(os.environ["REPRISE_DSN"])

    def place(log: Log, session: uuid.UUID, path: str | None) -> Place:
        return Place(log, session, start=False, patience=Patience(back=PATIENCE))

    async def work() -> None:
        running = Running(connect, Assembly(RepriseAgent(), None, place))
        try:
            if order.words is None:
                await running.go_on(order.conversation)
            else:
                await running.say(order.conversation, order.words)
            await running.wait(order.conversation)
        except NothingToContinue:
            sys.exit(NOTHING)
        finally:
            await running.close()

    asyncio.run(work())


@dataclass
class Agent:
    """A session with its kernel, and conversations in it; tokens are those of all commands."""

    kernels: Kernels
    kernel: Kernel
    model: ScriptedModel
    tokens: int = 0
    scripts: dict[str, list[Reply]] = field(default_factory=dict)

    @classmethod
    def begin(cls, kernels: Kernels) -> Agent:
        kernel = kernels("bubblewrap")
        agent = cls(kernels, kernel, ScriptedModel())
        agent.model = ScriptedModel(agent.answer).start()
        kernel.client().shell("touch trace")
        return agent

    @property
    def database(self) -> Database:
        return self.kernels.database

    def answer(self, asked: Asked) -> Reply:
        """Each conversation has a script of its own, by its first words."""
        script = self.scripts[asked.messages[0]["content"][0]["text"]]
        return script[min(asked.answers, len(script) - 1)]

    def conversation(self, *more: str) -> tuple[uuid.UUID, str]:
        """A new one that runs a command for each of `more`, in one answer, then one more in a
        second answer; and the words that begin it."""
        commands = [*(self._call(each) for each in more)]
        words = f"Run from {self.tokens}."
        self.scripts[words] = [reply(*commands), reply(self._call(":")), says("Done.")]
        return asyncio.run(self._begun()), words

    def _call(self, more: str) -> Call:
        self.tokens += 1
        return Call("run_command", {"command": COMMAND.format(token=self.tokens, more=more)})

    async def _begun(self) -> uuid.UUID:
        log = await Log.connect(self.database.dsn, home=self.database.home)
        try:
            body = {"model": "claude-sonnet-5-5", "provider": "anthropic", "policy": []}
            return await Conversations(log).begin(self.kernel.session, body=body)
        finally:
            await log.close()

    def start(
        self, conversation: uuid.UUID, words: str | None, point: str = ""
    ) -> ForkServerProcess:
        environ = {
            "REPRISE_DSN": self.database.dsn,
            "REPRISE_HOME": str(self.database.home),
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": self.model.key,
        }
        order = Order(conversation, words, point, environ)
        process = _processes.Process(target=run, args=(order,))
        process.start()
        return process

    def again(self) -> None:
        """The next kernel process on the session."""
        self.kernel = self.kernels.again(self.kernel)
        self.kernel.client()

    # what came of it ----------------------------------------------------------------------------

    def entries(self, conversation: uuid.UUID) -> list[Entry]:
        async def read() -> list[Entry]:
            log = await Log.connect(self.database.dsn, home=self.database.home)
            try:
                known = Conversations(log)
                assert (await known.check(conversation)).broken is None
                return await known.entries(conversation, most=100_000)
            finally:
                await log.close()

        return asyncio.run(read())

    def steps(self, conversation: uuid.UUID) -> dict[str, StepRecord]:
        """The steps of a conversation, by the id of their call."""
        found: dict[str, StepRecord] = {}
        for record in self.kernels.read(self.kernel).steps:
            key = record.step.new.key or ""
            if key.startswith(f"{conversation}:"):
                call = key.split(":")[1]
                assert call not in found, "a call is two steps"
                found[call] = record
        return found

    def runs(self, conversation: uuid.UUID) -> None:
        """Wait until a step of the conversation runs."""
        deadline = time.monotonic() + PATIENCE
        while not any(record.outcome is None for record in self.steps(conversation).values()):
            told = [(entry.kind, str(entry.body)[:200]) for entry in self.entries(conversation)]
            assert time.monotonic() < deadline, told
            time.sleep(0.05)

    def trace(self) -> list[int]:
        """Tokens of the commands whose effects stand, in order."""
        while True:
            ran: Ran = self.kernel.clients[0].shell("cat trace")
            if ran.error not in ("SandboxDied", *REFUSED):
                return [int(word) for word in ran.text().split()]


def ended(process: ForkServerProcess) -> int:
    """Wait for its end; its exit code."""
    process.join(PATIENCE)
    assert process.exitcode is not None, "the turn does not end"
    return process.exitcode


def stopped(process: ForkServerProcess) -> None:
    """Wait until it has stopped itself."""
    pid = process.pid
    assert pid is not None
    deadline = time.monotonic() + PATIENCE
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline, "it did not come to the point"
        assert process.is_alive(), "it ended before the point"
        time.sleep(0.002)


def go_on(process: ForkServerProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)


def whole(agent: Agent, conversation: uuid.UUID) -> dict[str, Any]:
    """The conversation is whole: every call has one end, none ran twice, the model was told of all.

    Returns the results by call.
    """
    entries = agent.entries(conversation)
    asked = [
        block["id"]
        for entry in entries
        if entry.kind == "answered" and not entry.body.get("partial")
        for block in entry.body["content"]
        if block["type"] == "tool_use"
    ]
    running = [entry.body["id"] for entry in entries if entry.kind == "running"]
    assert len(running) == len(set(running)), "a call ran twice"
    results = [entry.body for entry in entries if entry.kind == "result"]
    assert [body["id"] for body in results] == asked
    assert entries[-1].body["status"] == "done"
    trace = agent.trace()
    assert len(trace) == len(set(trace)), "a command ran twice"
    steps = agent.steps(conversation)
    assert set(steps) <= set(running), "a step was not announced"
    told = next(
        exchange.asked
        for exchange in reversed(agent.model.exchanges)
        if exchange.asked.messages[0]["content"][0]["text"] == _first(entries)
    )
    sent = {
        block["tool_use_id"]: block
        for message in told.messages
        for block in message["content"]
        if block["type"] == "tool_result"
    }
    for body in results:
        assert sent[body["id"]]["content"][0]["text"] == body["content"][0]["text"]
    return {body["id"]: body for body in results}


def _first(entries: list[Entry]) -> str:
    return next(str(entry.body["text"]) for entry in entries if entry.kind == "said")
