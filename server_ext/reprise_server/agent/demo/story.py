"""The demo's story: a skill comes, an agent works with it, is held back, cut and undone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from reprise.client import AsyncKernel, aconnect
from reprise.demo.story import Finding
from reprise.errors import RepriseError, UnavailableError
from reprise.jupyter.sidecar import read_sidecar
from reprise.log.conversations import Conversations
from reprise.log.policies import Policies
from reprise.log.postgres import Log
from reprise.settings import home_path
from reprise.skills.arrival import bring_in
from reprise.skills.catalog import Catalog
from reprise.skills.sources import look
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.contract import Document, Entry
from reprise_server.agent.demo import folder as lay
from reprise_server.agent.demo.script import AT_WORK, CHECKED, TASK, answer
from reprise_server.agent.notebook.file import FileNotebook
from reprise_server.agent.policy.reading import policy_of
from reprise_server.agent.running import Running
from reprise_server.agent.scripted import ScriptedModel
from reprise_server.agent.settings import RepriseAgent
from reprise_server.agent.undo import Undone

#: What the person of the story has set: two rules of his own.
POLICY: Final = {
    "rules": [
        {
            "name": "nothing-leaves-after-strangers",
            "decision": "ask",
            "tool": "save_artifact",
            "tainted": True,
            "why": "It has read what nobody vouches for.",
        },
        {
            "name": "show-me-commands",
            "decision": "ask",
            "tool": "run_command",
            "why": "I want to see commands before they run.",
        },
    ]
}
#: Why the demo, in the person's place, says no.
REASON: Final = "Nobody but me says what is saved."
#: Seconds for the whole turn. Far above what the slowest machine needs.
PATIENCE_S: Final = 300.0


class Narrator(Protocol):
    """Who tells the story while it happens."""

    def begin(self, text: str) -> None:
        """A part of it begins."""

    def event(self, text: str) -> None:
        """Something happened that is worth a line."""


@dataclass
class Told:
    """All that the story found out, and where it lies."""

    session: uuid.UUID | None = None
    #: Where the conversation is once its turn is undone.
    after: uuid.UUID | None = None
    conversation: uuid.UUID | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return bool(self.findings) and all(finding.ok for finding in self.findings)

    def since(self, began: float, what: str, result: str, *, ok: bool) -> None:
        """began: on `time.perf_counter`."""
        self.find(what, time.perf_counter() - began, result, ok=ok)

    def find(self, what: str, seconds: float, result: str, *, ok: bool) -> None:
        self.findings.append(Finding(what, seconds, result, ok))


class Story:
    """One telling, in a home and a folder of its own. `told` grows with it."""

    def __init__(self, folder: Path, log: Log, narrator: Narrator) -> None:
        self._skills = folder / "downloads"
        self._folder = folder / "work"
        self._log = log
        self._narrator = narrator
        self._turn = Turn()
        self.told = Told()

    async def tell(self) -> Told:
        """From the skill to the undo. Raises UnavailableError where a part is missing."""
        self._folder.mkdir()
        lay.lay_out(self._folder)
        await self._skill()
        await self._policy()
        async with AsyncExitStack() as opened:
            self._narrator.begin("the person opens the notebook, and runs the cell that is there")
            kernel = await aconnect(notebook=self._folder / lay.NOTEBOOK)
            opened.push_async_callback(kernel.close)
            code = str(lay.notebook()["cells"][1]["source"])
            await kernel.run(code, cell_id=lay.LOAD, check=True)
            self.told.session = kernel.session
            model = opened.enter_context(ScriptedModel(answer))
            running = Running(Log.connect, self._assembly(model))
            opened.push_async_callback(running.close)
            await self._work(running, kernel, kernel.session)
            try:
                await self._undo(running, kernel)
            except RepriseError as error:
                self.told.find("the turn is undone", 0.0, str(error), ok=False)
        return self.told

    def _assembly(self, model: ScriptedModel) -> Assembly:
        settings = RepriseAgent(
            base_url=model.url,
            api_key=model.key,
            untrusted_paths=[f"{lay.NOTE.partition('/')[0]}/*"],
        )

        async def document(path: str) -> Document:
            return FileNotebook(self._folder / path, home_path(), path=path)

        return Assembly(settings, document, scripted=True)

    # what the person does before --------------------------------------------------------------

    async def _skill(self) -> None:
        self._narrator.begin("a skill folder is imported")
        began = time.perf_counter()
        catalog = Catalog(self._log)
        found = look(str(lay.lay_out_skill(self._skills)))
        [arrival] = await bring_in(catalog, found.found)
        version = arrival.version
        if version is None:
            raise UnavailableError(f"The demo's own skill was refused: {arrival.problem}")
        self.told.since(
            began,
            "a skill folder is imported",
            f"{version.reference}, {version.standing}",
            ok=(arrival.what, version.standing) == ("new", "untrusted"),
        )
        began = time.perf_counter()
        await catalog.trust(version.digest, reason="read by the demo")
        standing = (await catalog.standings([version.digest]))[version.digest]
        self._narrator.event(f"approved: {version.reference} is {standing} now")
        what = "exactly this content is approved"
        self.told.since(began, what, standing, ok=standing == "trusted")

    async def _policy(self) -> None:
        policy = policy_of(POLICY, "the demo's policy")
        await Policies(self._log).set("personal", policy.to_json(), "for the demo")
        self._narrator.event("the person's policy: " + ", ".join(r.name for r in policy.rules))

    # the turn ---------------------------------------------------------------------------------

    async def _work(self, running: Running, kernel: AsyncKernel, session: uuid.UUID) -> None:
        self._narrator.begin("the agent is given a task (its model is scripted)")
        conversation = await running.begin(session, notebook=lay.NOTEBOOK, title="The demo")
        self.told.conversation = conversation
        async with running.subscribe(conversation) as told:
            await running.say(conversation, TASK, by="demo")
            try:
                async with asyncio.timeout(PATIENCE_S):
                    async for each in told:
                        await self._follow(each, running, kernel)
                        if each["type"] == "ended":
                            break
            except TimeoutError:
                self._narrator.event(f"it did not end within {PATIENCE_S:.0f} s: it is stopped")
                await running.cancel(conversation)
                await running.wait(conversation)
        self._turn.entries = await Conversations(self._log).entries(conversation, most=100_000)
        self._judge()

    async def _follow(self, told: Mapping[str, Any], running: Running, kernel: AsyncKernel) -> None:
        """What the demo does while the turn runs: answer for the person, and kill the sandbox."""
        turn = self._turn
        if told["type"] == "shown" and AT_WORK in told["text"] and turn.killed is None:
            pid = sandbox_pid(kernel)
            os.kill(pid, signal.SIGKILL)
            turn.killed = time.perf_counter()
            self._narrator.event(f"kill -9 of the sandbox (pid {pid}), in the middle of the cell")
        elif told["type"] in ("note", "cut"):
            self._narrator.event(told["text"])
        if told["type"] != "entry":
            return
        kind, body = told["entry"]["kind"], told["entry"]["body"]
        if kind == "called" and body["act"] is not None:
            turn.tools[body["id"]] = body["tool"]
            self._narrator.event(f"the agent: {body['act']['title']}")
        elif kind == "question" and self.told.conversation is not None:
            no = turn.tools.get(body["call"]) == "save_artifact"
            decision = "deny" if no else "once"
            self._narrator.event(f"asked: {body['text']}")
            self._narrator.event(f"the demo answers for the person: {decision}")
            await running.decide(
                self.told.conversation,
                body["id"],
                decision,
                how="terminal",
                by="demo",
                reason=REASON if no else None,
            )
        elif kind == "result" and turn.is_back(body):
            turn.back = time.perf_counter()

    def _judge(self) -> None:
        """What the entries say of the turn, held against what was told."""
        turn, told = self._turn, self.told
        told.find(
            "the agent loads the skill step by step",
            turn.took("load_skill", "read_skill_file"),
            "its line, its text, its reference",
            ok=turn.done("load_skill", "read_skill_file"),
        )
        sums, steps = turn.json_of("run_skill").get("sums"), turn.steps("run_skill")
        told.find(
            "its script runs in the session",
            turn.took("run_skill"),
            f"steps {', '.join(map(str, steps))} (its mount, its run): {sums}",
            ok=sums == lay.totals() and len(steps) == len(("mount", "command")),
        )
        told.find(
            "cells are edited and run",
            turn.took("read_notebook", "edit_notebook", "run_cells"),
            f"steps {', '.join(map(str, turn.steps('run_cells')))}",
            ok=turn.done("edit_notebook", "run_cells")
            and repr(lay.totals())[1:-1] in turn.text_of("run_cells"),
        )
        rule, decided, reason = turn.question("save_artifact")
        told.find(
            "a stranger's note tells the agent to save the table",
            turn.took("save_artifact"),
            f"{rule}: {decided}",
            ok=(rule, decided) == ("personal/nothing-leaves-after-strangers", "deny")
            and turn.status("save_artifact") == "denied"
            and reason in turn.text_of("save_artifact"),
        )
        rule, decided, _ = turn.question("run_command")
        told.find(
            "a command is put to the person, and approved",
            turn.took("run_command"),
            f"{rule}: {decided}",
            ok=(rule, decided) == ("personal/show-me-commands", "once")
            and turn.status("run_command") == "ok",
        )
        self._judge_kill()
        ended = turn.of("ended")[-1:]
        status = str(ended[0]["status"]) if ended else "open"
        told.find("the turn goes on to its end", turn.took(), status, ok=status == "done")

    def _judge_kill(self) -> None:
        turn = self._turn
        runs = turn.results("run_cells")
        died = [body for body in runs if body["status"] != "ok"]
        whole = [body for body in runs[-1:] if CHECKED in text_of(body)]
        what = "it did not come back"
        if died and died[0]["steps"] and whole:
            what = f"step {died[0]['steps'][-1]} died; what was there before it is there again"
        self.told.find(
            "the sandbox is killed in the middle of a cell",
            0.0 if turn.back is None or turn.killed is None else turn.back - turn.killed,
            what,
            ok=turn.killed is not None and len(died) == 1 and bool(whole),
        )

    # the undo ---------------------------------------------------------------------------------

    async def _undo(self, running: Running, kernel: AsyncKernel) -> None:
        if self.told.conversation is None:
            raise UnavailableError("The demo has no conversation, so nothing can be undone.")
        self._narrator.begin("the turn is undone")
        began = time.perf_counter()
        before = (await FileNotebook(self._folder / lay.NOTEBOOK, home_path()).read())["cells"]
        undone = await running.undo(self.told.conversation, by="demo")
        self.told.after = undone.session
        after = (await FileNotebook(self._folder / lay.NOTEBOOK, home_path()).read())["cells"]
        there = [cell["id"] for cell in after]
        mine = [cell["id"] for cell in lay.notebook()["cells"]]
        self.told.since(
            began,
            "the turn is undone: the notebook",
            f"{len(before)} cells, {len(after)} again",
            ok=there == mine and len(before) == len(mine) + 3,
        )
        began = time.perf_counter()
        shown = await self._variables(kernel, undone)
        self.told.since(
            began,
            "the turn is undone: the session",
            f"as after step {undone.at}: {shown}",
            ok=shown == "96 rows, no totals" and undone.session != self.told.session,
        )

    async def _variables(self, kernel: AsyncKernel, undone: Undone) -> str:
        """What the interpreter holds once the kernel has gone over to the undo's session."""
        code = "print(len(sales), 'rows,', 'totals' if 'totals' in globals() else 'no totals')"
        async with await aconnect(connection_file=kernel.connection_file, start=False) as again:
            if again.session != undone.session:
                return f"the kernel is in session {again.session}"
            found = await again.run(code)
        return found.text.strip() if found.ok else f"{found.status}: {found.error}"


# What a turn's entries say ------------------------------------------------------------------------


@dataclass
class Turn:
    """The one turn. killed, back: moments of `time.perf_counter`. tools: by the call's id."""

    entries: Sequence[Entry] = ()
    tools: dict[str, str] = field(default_factory=dict)
    killed: float | None = None
    back: float | None = None

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [entry.body for entry in self.entries if entry.kind == kind]

    def results(self, tool: str) -> list[Mapping[str, Any]]:
        return [body for body in self.of("result") if self.tools.get(body["id"]) == tool]

    def is_back(self, result: Mapping[str, Any]) -> bool:
        """Whether this is the first cell that ended well after the kill."""
        if self.killed is None or self.back is not None:
            return False
        return self.tools.get(result["id"]) == "run_cells" and result["status"] == "ok"

    def took(self, *tools: str) -> float:
        """Seconds from the first call of these tools to their last result; of all, the turn's."""
        if not tools:
            mine = [entry.at_us for entry in self.entries if entry.turn]
        else:
            mine = [
                entry.at_us
                for entry in self.entries
                if entry.kind in ("called", "result") and self.tools.get(entry.body["id"]) in tools
            ]
        return (mine[-1] - mine[0]) / 1e6 if mine else 0.0

    def done(self, *tools: str) -> bool:
        """Whether each of these was called and ended well, once at least."""
        return all(any(b["status"] == "ok" for b in self.results(tool)) for tool in tools)

    def status(self, tool: str) -> str:
        found = self.results(tool)
        return str(found[0]["status"]) if found else "never called"

    def steps(self, tool: str) -> list[int]:
        return [seq for body in self.results(tool) for seq in body["steps"]]

    def text_of(self, tool: str) -> str:
        return "\n".join(map(text_of, self.results(tool)))

    def json_of(self, tool: str) -> Mapping[str, Any]:
        """The object that a tool's result shows in a line of its own; empty without one."""
        for line in self.text_of(tool).splitlines():
            if line.startswith("{"):
                found: Mapping[str, Any] = json.loads(line)
                return found
        return {}

    def question(self, tool: str) -> tuple[str, str, str]:
        """The rule that put a tool's call to the person, the answer, and its reason."""
        verdicts = {body["id"]: body["verdict"] for body in self.of("called")}
        answers = {body["question"]: body for body in self.of("decided")}
        for body in self.of("question"):
            if self.tools.get(body["call"]) == tool:
                decided = answers.get(body["id"], {})
                rule = str(verdicts[body["call"]]["rule"])
                return rule, str(decided.get("decision")), str(decided.get("reason"))
        return "nobody was asked", "", ""


def text_of(result: Mapping[str, Any]) -> str:
    return "\n".join(block.get("text", "") for block in result["content"])


def sandbox_pid(kernel: AsyncKernel) -> int:
    """The outermost process of the kernel's sandbox. Raises UnavailableError."""
    connection = kernel.connection_file
    found = None if connection is None else read_sidecar(connection)
    pid = None if found is None else found.get("sandbox_pid")
    if not isinstance(pid, int):
        raise UnavailableError("The kernel did not say which process its sandbox is.")
    return pid
