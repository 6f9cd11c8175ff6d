"""Tools that only other agents are offered: a cell from its text, a fork, a verification."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from reprise.client.verification import verified
from reprise.log.model import Json
from reprise.replay.report import Report
from reprise_server.agent.contract import Act, BadCall, Call, Result, Situation
from reprise_server.agent.notebook.outputs import painted
from reprise_server.agent.tools.commands import LONGEST_S, USUAL_S, carries_out, checked_timeout
from reprise_server.agent.tools.history import ForkSession, fork_id
from reprise_server.agent.tools.images import chosen
from reprise_server.agent.tools.large import within
from reprise_server.agent.tools.place import Place, Under
from reprise_server.agent.tools.schemas import fields, texts
from reprise_server.agent.tools.shown import blocks, ended, harmless, headline, summary

#: Characters of a cell.
MOST_CODE: Final = 200_000


class BeginSession:
    """The first call in a session that was begun for another agent: what it has there."""

    name = "begin_session"
    description = (
        "Begin a new session: a fresh kernel and workspace. Gives its id, to be used as `session`,"
        " and what code runs in there."
    )
    schema = fields({})

    def __init__(self, place: Place) -> None:
        self._place = place

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:  # noqa: ARG002
        return Act(self.name, "history", dict(given), "begin a session")

    async def run(self, call: Call, act: Act) -> Result:  # noqa: ARG002
        found = await self._place.surroundings()
        wall = "isolated" if found.isolated else "not isolated from this machine"
        return Result(
            blocks(
                f"The new session is {self._place.session}.\n"
                f"environment: {found.environment}, {wall}\n"
                f"network: {', '.join(found.network) or 'none'}\n"
                f"workspace: {found.workspace}\n"
            )
        )


class RunCell:
    """Runs code in the session's language kernel."""

    name = "run_cell"
    description = (
        "Run code in the session's language kernel (Python unless the session has another one) and"
        " see what it shows, images as images. Variables stay from call to call. It is a step of"
        " the session's history: it can be seen, replayed and undone."
    )
    schema = fields(
        {"code": texts("The code of the cell.")},
        {
            "timeout_s": {
                "type": "number",
                "description": f"Seconds after which it is interrupted. Default {USUAL_S}, at most"
                f" {LONGEST_S}.",
            }
        },
    )

    def __init__(self, place: Place) -> None:
        self._place = place

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:
        code = given["code"]
        if not code.strip():
            raise BadCall("`code` is empty.")
        if len(code) > MOST_CODE or "\0" in code:
            raise BadCall(
                f"`code` has at most {MOST_CODE:,} characters, none of them NUL. Nothing ran."
            )
        checked_timeout(given.get("timeout_s"), USUAL_S, LONGEST_S)
        return Act(
            self.name,
            "run",
            dict(given),
            "run a cell",
            code=code,
            hosts=situation.network,
            carries_out=carries_out(situation),
        )

    async def run(self, call: Call, act: Act) -> Result:
        ran = await self._place.run_cell(
            act.input["code"],
            Under.of(call),
            timeout=checked_timeout(act.input.get("timeout_s"), USUAL_S, LONGEST_S),
            show=lambda shown: call.show(harmless(shown)),
        )
        result = ran.result
        found = summary(painted(result.outputs, result.execution_count, result.seq))
        images, left = chosen(found.images)
        body = found.text + (f"\n[{left} more images are not shown here]" if left else "")
        words, steps = await within(
            self._place, call, headline(ran.result), body or "(no output)\n"
        )
        return Result(
            blocks(words, images),
            ended(result),
            steps=(result.seq, *steps),
            taints=ran.taints,
            outside=ran.outside,
        )


class ForkForAnother(ForkSession):
    """As for our own agent; the other one may go on in the fork. began: told of it."""

    description = (
        "Begin a new session that shares this one's history up to a step: files and variables as"
        " they were then. Nothing changes in this session. The answer names the new session, to be"
        " used as `session`."
    )

    def __init__(self, place: Place, began: Callable[[uuid.UUID], None]) -> None:
        super().__init__(place)
        self._began = began

    async def run(self, call: Call, act: Act) -> Result:
        done = await super().run(call, act)
        fork = fork_id(call)
        self._began(fork)
        return replace(done, content=blocks(f"The new session is {fork}.\n"))


class VerifySession:
    """Replays the session in a fresh sandbox and compares."""

    name = "verify_session"
    description = (
        "Replay the session's whole history in a fresh sandbox and compare what comes out with the"
        " record: says for each step that differs what differs. The running kernel is not touched."
        " It takes as long as the steps took."
    )
    schema = fields({})

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._folder = folder

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:
        # All that ever ran in the session runs again, elsewhere.
        return Act(
            self.name,
            "run",
            dict(given),
            "replay the session in a fresh sandbox",
            hosts=situation.network,
            carries_out=carries_out(situation),
        )

    async def run(self, call: Call, act: Act) -> Result:  # noqa: ARG002
        reader = await self._place.reader()
        notebook = (await reader.info()).notebook
        report = await verified(
            self._place.log,
            reader.session,
            folder=self._folder if notebook is None else None,
            on_progress=lambda said: call.show(f"{said}\n"),
        )
        words, steps = await within(self._place, call, f"{report.sentence}\n", _told(report))
        # What a step showed stands in what differs.
        taints = (await self._place.sources()).taints()
        return Result(blocks(words), "ok", steps=steps, taints=taints)


def _told(report: Report) -> str:
    lines = [f"{len(report.steps)} steps in {report.took_s:.1f} s"]
    for step in report.steps:
        if step.verdict == "same":
            continue
        lines.append(f"step {step.seq} ({step.kind}): {step.verdict}")
        if step.reason:
            lines.append(f"  {step.reason}")
        if step.comparison is not None:
            lines += [f"  {each}" for each in step.comparison.differences[:20]]
    return harmless("\n".join(lines)) + "\n"
