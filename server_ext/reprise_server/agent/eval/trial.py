"""One trial: a fresh session, the task said once, and what it left judged."""

from __future__ import annotations

import os
import platform
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reprise.errors import RepriseError, UnavailableError
from reprise.log.conversations import Conversations
from reprise.log.model import Json
from reprise.log.postgres import Log, now_us
from reprise.skills.catalog import Catalog
from reprise.skills.meant import meant
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.contract import Decided, Entry, Question
from reprise_server.agent.conversation import Conversation
from reprise_server.agent.course import course
from reprise_server.agent.eval.evidence import (
    Evidence,
    answer_of,
    calls_of,
    spent_of,
)
from reprise_server.agent.eval.folder import GivenTask
from reprise_server.agent.eval.judging import completion, workflow
from reprise_server.agent.eval.task import CommandCheck, FileCheck, Task, Unchanged
from reprise_server.agent.eval.tried import Arm, Trial
from reprise_server.agent.model.prices import price_of
from reprise_server.agent.parts import Around
from reprise_server.agent.settings import RepriseAgent
from reprise_server.agent.tools.place import Place

#: Bytes of a file, and characters of what a command wrote, that checks look into.
_MOST_READ: Final = 8 << 20
_MOST_WROTE: Final = 200_000
_COMMAND_S: Final = 300.0


@dataclass(frozen=True)
class Bench:
    """What trials are made with. environ: of their kernels, on top of this process'."""

    log: Log
    settings: RepriseAgent
    environ: Mapping[str, str]
    scripted: bool = False

    async def digest(self, skill: str) -> str:
        """Of the version that a skill's name means now. Raises SkillNotFound."""
        return (await meant(Catalog(self.log), skill)).digest

    async def trial(self, given: GivenTask, arm: Arm, number: int) -> Trial:
        """Raises UnavailableError where no kernel starts or the model may not be asked at all."""
        with tempfile.TemporaryDirectory(prefix="reprise-eval-") as folder:
            given.lay_out(Path(folder))
            place = Place(self.log, uuid.uuid4(), folder=Path(folder), environ=self.environ)
            try:
                return await self._tried(given, arm, number, place)
            finally:
                await place.close()

    async def _tried(self, given: GivenTask, arm: Arm, number: int, place: Place) -> Trial:
        kernel = await place.kernel()
        # The files come in with the first step, and the sandbox is there: none of it is the
        # agent's time, and a check finds them whatever the agent does.
        await kernel.command(["true"])
        assembly = Assembly(
            self.settings, place=_given_out(place), scripted=self.scripted, skills=arm == "with"
        )
        known = Conversations(self.log)
        body = await assembly.beginning(self.log, None)
        body["by"] = self.log.owner
        made = await known.begin(
            place.session, title=f"eval: {given.task.name}, {arm} skills", body=body
        )
        around = Around(_Nobody(), _unheard, _unheard, now_us)
        holder: dict[str, Json] = {"pid": os.getpid(), "host": platform.node()}
        conversation = Conversation(made, known, assembly.of(self.log), around, holder)
        begun = time.monotonic()
        try:
            await conversation.say(given.task.text, self.log.owner)
            await conversation.done()
            seconds = time.monotonic() - begun
            entries = await known.entries(made, most=100_000)
            evidence = await _evidence(given, entries, place)
        finally:
            await conversation.close()
        ended = next((e.body for e in reversed(entries) if e.kind == "ended"), {})
        return Trial(
            given.task.name,
            given.task.skill,
            arm,
            number,
            place.session,
            made,
            course(entries).ended or "interrupted",
            str(ended.get("why") or ""),
            completion(given.task, evidence),
            workflow(given.task, evidence, skills=arm == "with"),
            spent_of(entries, price_of(self.settings.prices, self.settings.model)),
            seconds,
            sum(entry.kind == "question" for entry in entries),
        )


def _given_out(place: Place) -> Callable[[Log, uuid.UUID, str | None], Place]:
    """The place that is there already, for the one conversation in it."""

    def give(_log: Log, session: uuid.UUID, _path: str | None) -> Place:
        if session != place.session:
            raise UnavailableError(f"Session {session} is none of this trial.")
        return place

    return give


class _Nobody:
    """Nobody sits before an evaluation: what the policies want a person for is not done."""

    async def ask(self, question: Question) -> Decided:
        return Decided("deny" if question.act is not None else "", "timeout")


def _unheard(_: Any) -> None:
    """Nobody watches; the log has it all."""


async def _evidence(given: GivenTask, entries: Sequence[Entry], place: Place) -> Evidence:
    """What is there once the agent has ended. Files first: a command may change them."""
    kernel = await place.kernel()
    files: dict[str, bytes] = {}
    for path in _looked_into(given.task):
        try:
            files[path] = await kernel.read(path, limit=_MOST_READ)
        except RepriseError:
            continue  # not there, or larger than any check can look into
    commands: dict[str, tuple[int | None, str]] = {}
    for _, check in given.task.completion:
        if isinstance(check, CommandCheck):
            done = await kernel.command(check.command, timeout=_COMMAND_S)
            commands[check.command] = done.exit_code, (done.stdout + done.stderr)[:_MOST_WROTE]
    return Evidence(calls_of(entries), answer_of(entries), files, given.files, commands)


def _looked_into(task: Task) -> list[str]:
    checks = [check for _, check in task.completion]
    return list(
        dict.fromkeys(check.path for check in checks if isinstance(check, FileCheck | Unchanged))
    )
