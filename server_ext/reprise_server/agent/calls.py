"""One call of the model: judged, put to the person, run, and told what became of it.

What is shown to a person is what runs: what a call would do is found out again before it runs, and
a call that would do something else by then is not run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final

from reprise.errors import RepriseError, TooLarge, UnavailableError
from reprise.log.conversation import Kind
from reprise.log.model import Json, canonical
from reprise.log.store import StepRecord
from reprise_server.agent import course
from reprise_server.agent.contract import (
    Act,
    BadCall,
    Call,
    Decided,
    Entry,
    Parted,
    Question,
    Result,
    Situation,
    TaintKind,
    Verdict,
    text,
)
from reprise_server.agent.course import CallState
from reprise_server.agent.lost import lost_result
from reprise_server.agent.parts import Around, CallParts
from reprise_server.agent.policy.taint import ANYWHERE, of_path
from reprise_server.agent.recorded import act_of, verdict_of
from reprise_server.agent.stop import Stop, Stopped
from reprise_server.agent.tools.history import RewindSession
from reprise_server.agent.tools.schemas import check_input

log = logging.getLogger("reprise.agent")

#: Bytes of a call's input. What is larger is better written in several calls.
MAX_INPUT: Final = 512 << 10

CHANGED: Final = (
    "What this call would do is not what it was when it was looked at: the notebook, a file or a"
    " skill has changed meanwhile. Nothing was done. Look again, and call it anew if it still fits."
)
ASKED_NOW: Final = (
    "The policies want a person to be asked about this by now, which they did not when it was"
    " looked at. Nothing was done. Call it again if it is still needed."
)
TOO_LARGE: Final = (
    "The call ended, but its result is larger than what a conversation can keep. Look at the state"
    " it left with calls that give less."
)

Append = Callable[[Kind, Mapping[str, Any]], Awaitable[Entry]]

Taints = Sequence[tuple[TaintKind, str]]


class _Told(RepriseError):
    """Why a call cannot be made, in words that may hold what its tool saw: a file's name, a cell's
    source."""

    def __init__(self, error: RepriseError, taints: Taints) -> None:
        super().__init__(_words(error))
        self.taints = taints


class Calls:
    """The calls of one turn. append: commits an entry of it."""

    def __init__(
        self,
        conversation: str,
        parts: CallParts,
        around: Around,
        stop: Stop,
        append: Append,
        entries: Sequence[Entry],
    ) -> None:
        """entries: of the conversation; it grows with each that is appended."""
        self._conversation = conversation
        self._parts = parts
        self._around = around
        self._stop = stop
        self._append = append
        self._entries = entries
        #: What was found out here of calls, since when nothing was waited for.
        self._fresh: dict[str, Act] = {}
        #: Questions whose time runs here.
        self._put: set[str] = set()

    # judged -------------------------------------------------------------------------------------

    async def judge(self, call: CallState) -> None:
        body: dict[str, Any] = {"id": call.id, "tool": call.tool, "input": dict(call.input)}
        body |= {"act": None, "verdict": None}
        if len(canonical(body["input"])) > MAX_INPUT:
            body["input"] = {}
            body["problem"] = (
                f"The input of this call is larger than {MAX_INPUT:,} bytes. Nothing was done."
                " Write large content in several calls."
            )
        else:
            try:
                act, verdict = await self._stop.during(self._verdict(call))
            except _Told as error:
                body |= {"problem": str(error), "taints": _taints(error.taints)}
            except RepriseError as error:
                body["problem"] = _words(error)
            else:
                body |= {"act": act.to_json(), "verdict": verdict.to_json()}
                self._fresh[call.id] = act
        try:
            await self._append("called", body)
        except TooLarge:
            body |= {
                "act": None,
                "verdict": None,
                "problem": "This call would do too much at once.",
            }
            body.pop("taints", None)
            await self._append("called", body)

    async def _verdict(self, call: CallState) -> tuple[Act, Verdict]:
        """Raises BadCall, and RepriseError where the policies or the session cannot be asked."""
        act, situation = await self._found(call)
        grants = course.grants_of(self._entries)
        return act, await self._parts.guard.judge(act, situation, grants)

    async def _found(self, call: CallState) -> tuple[Act, Situation]:
        """What a call would do, and where."""
        tool = self._parts.tools.get(call.tool)
        if tool is None:
            near = get_close_matches(call.tool, self._parts.tools, n=3) or list(self._parts.tools)
            raise BadCall(f"There is no tool {call.tool[:100]!r}. There is {', '.join(near)}.")
        given = check_input(call.tool, tool.schema, call.input)
        situation = await self._parts.situation(course.taints_of(self._entries))
        try:
            return await tool.act(given, situation), situation
        except RepriseError as error:
            raise _Told(error, await self._in_words(error, situation)) from error

    async def _in_words(self, error: RepriseError, situation: Situation) -> Taints:
        """What untrusted content may be in the words of a tool that failed."""
        if isinstance(error, UnavailableError):
            return ()  # that something cannot be reached is said in words of our own
        notebook = of_path(situation.notebook or "", situation.untrusted_paths)
        try:
            return (*await self._parts.session.tainted(), *notebook)
        except RepriseError:
            return (("network", ANYWHERE), *notebook)

    async def _same(self, call: CallState) -> tuple[Act, Situation] | Mapping[str, Any]:
        """What the call does now; its result, if that is not what its entry says."""
        try:
            act, situation = await self._found(call)
        except _Told as error:
            taints = _taints(error.taints)
            return course.result_body(call.id, "error", str(error), taints=taints)
        except RepriseError as error:
            return course.result_body(call.id, "error", _words(error))
        assert call.called is not None  # noqa: S101  it was judged
        same = canonical(act.to_json()) == canonical(call.called["act"])
        return (act, situation) if same else course.result_body(call.id, "error", CHANGED)

    # put to the person --------------------------------------------------------------------------

    async def put(self, call: CallState) -> None:
        """Put a call to the person: an entry first, so that it is asked whatever dies."""
        found = await self._stop.during(self._same(call))
        if isinstance(found, Mapping):
            await self._append("result", found)
            return
        act, situation = found
        assert call.called is not None  # noqa: S101  it was judged
        session_rule, pattern = self._parts.guard.offers(act, situation)
        options = ["once"]
        options += ["session"] if session_rule is not None else []
        options += ["pattern"] if pattern is not None else []
        body: dict[str, Any] = {
            "id": self._question_id(),
            "call": call.id,
            "text": f"{act.title}: {call.called['verdict']['why']}",
            "until_us": self._until_us(),
            "options": [*options, "deny"],
            "act": act.to_json(),
        }
        tool = self._parts.tools[call.tool]
        if isinstance(tool, Parted):
            body["parts"] = list(tool.parts(act))
        if session_rule is not None:
            body["session_rule"] = dict(session_rule)
        if pattern is not None:
            body["pattern"] = dict(pattern)
        await self._append("question", body)
        self._put.add(body["id"])

    async def wait(self, call: CallState) -> None:
        """Wait for the person's answer. The clock is the question's own, whoever waits."""
        question = call.question
        assert question is not None and call.called is not None  # noqa: S101, PT018  it was put
        if question["id"] not in self._put and question["until_us"] <= self._around.now_us():
            # Its time ran out while nobody was there who could have asked.
            await self.put(call)
            return
        self._put.add(question["id"])
        asked = Question(
            question["id"],
            call.id,
            question["text"],
            act_of(question["act"]),
            verdict_of(call.called["verdict"]),
            tuple(question["options"]),
            question["until_us"],
            question.get("pattern"),
            question.get("session_rule"),
            tuple(question.get("parts", ())),
        )
        try:
            decided = await self._stop.during(self._around.asker.ask(asked))
        except Stopped:
            if self._stop.status != "interrupted":
                await self._append("decided", course.cancelled(question))
            raise
        self._fresh.pop(call.id, None)
        await self._append("decided", self._decided(question, decided))

    async def _own_question(self, call: str, words: str, options: tuple[str, ...]) -> Decided:
        """A question of the model's own, put by a call that runs."""
        body: dict[str, Any] = {
            "id": self._question_id(),
            "call": call,
            "text": words,
            "until_us": self._until_us(),
            "options": list(options),
        }
        await self._append("question", body)
        question = Question(body["id"], call, words, None, None, options, body["until_us"])
        try:
            decided = await self._around.asker.ask(question)
        except asyncio.CancelledError:
            await self._append("decided", course.cancelled(body))
            raise
        await self._append("decided", self._decided(body, decided))
        return decided

    def _decided(self, question: Mapping[str, Any], decided: Decided) -> dict[str, Any]:
        body: dict[str, Any] = {
            "question": question["id"],
            "decision": decided.decision,
            "by": decided.by,
            "how": decided.how,
        }
        if decided.reason:
            body["reason"] = decided.reason
        if decided.rejected:
            body["rejected"] = [
                {"part": part, "reason": reason} for part, reason in decided.rejected.items()
            ]
        rules = {"session": question.get("session_rule"), "pattern": question.get("pattern")}
        rule = rules.get(decided.decision)
        if question.get("act") is not None and rule is not None:
            taints = [f"{taint.kind} {taint.source}" for taint in course.taints_of(self._entries)]
            body["grant"] = {"scope": decided.decision, "rule": dict(rule), "taints": taints}
        return body

    def _question_id(self) -> str:
        return f"q{len(self._entries)}"

    def _until_us(self) -> int:
        return self._around.now_us() + round(self._parts.patience_s * 1e6)

    # run ----------------------------------------------------------------------------------------

    async def run(self, call: CallState) -> None:
        allowed = await self._stop.during(self._allowed(call))
        if isinstance(allowed, Mapping):
            await self._append("result", allowed)
            return
        act, situation = self._but(call, allowed[0]), allowed[1]
        running = await self._append("running", {"id": call.id})
        made = Call(
            call.id,
            self._conversation,
            running.turn,
            act.input,
            situation,
            lambda shown: self._around.tell({"type": "shown", "call": call.id, "text": shown}),
            lambda words, options: self._own_question(call.id, words, options),
        )
        try:
            result = await self._stop.during(self._parts.tools[call.tool].run(made, act))
        except Stopped:
            await self._cut(call)
            raise
        except RepriseError as error:
            steps = () if isinstance(error, BadCall) else await self._steps(call)
            taints = tuple(await self._in_words(error, situation))
            result = Result([text(_words(error))], "error", steps, taints)
        except Exception as error:  # a tool's own fault ends its call, and no more
            log.exception("the tool %s failed in conversation %s", call.tool, self._conversation)
            words = f"The tool failed by a fault of its own ({type(error).__name__}); it is logged."
            result = Result([text(words)], "error", await self._steps(call))
        await self._ended(call, result)

    def _but(self, call: CallState, act: Act) -> Act:
        """The act without the parts that the person rejected."""
        tool = self._parts.tools[call.tool]
        rejected = {
            each["part"]: each["reason"] for each in (call.decided or {}).get("rejected", ())
        }
        return tool.without(act, rejected) if rejected and isinstance(tool, Parted) else act

    async def _allowed(self, call: CallState) -> tuple[Act, Situation] | Mapping[str, Any]:
        """The act of a call that may run now, or the result of one that may not any more.

        What was judged a while ago, by another process perhaps, is judged again: a policy may deny
        by now what it asked for or allowed then.
        """
        fresh = self._fresh.pop(call.id, None)
        if fresh is not None:
            return fresh, await self._parts.situation(course.taints_of(self._entries))
        found = await self._same(call)
        if isinstance(found, Mapping):
            return found
        try:
            verdict = await self._parts.guard.judge(*found, course.grants_of(self._entries))
        except RepriseError as error:
            return course.result_body(call.id, "error", str(error))
        if verdict.decision == "deny":
            words = course.denied_by_policy(verdict.to_json())
            return course.result_body(call.id, "denied", words)
        if verdict.decision == "ask" and call.decided is None:
            return course.result_body(call.id, "error", ASKED_NOW)
        return found

    async def _ended(self, call: CallState, result: Result) -> None:
        body: dict[str, Any] = {
            "id": call.id,
            "status": result.status,
            "content": [dict(block) for block in result.content],
            "steps": list(result.steps),
            "taints": _taints(result.taints),
            "edits": [edit.to_json() for edit in result.edits],
            "outside": list(result.outside),
        }
        if result.session is not None:
            body["session"] = result.session
        await self._store_view()
        # Before the result: whoever goes on from here has to find where the kernel is.
        await self._goes_on(result.session)
        try:
            await self._append("result", body)
        except TooLarge:
            await self._append("result", {**body, "content": [text(TOO_LARGE)]})

    async def _goes_on(self, session: str | None) -> None:
        if session is not None and session != course.session_of(self._entries):
            await self._append("session", {"session": session, "why": "rewind"})

    async def _store_view(self) -> None:
        """Store the view of the catalog when a call has changed it, before its result is told."""
        view = self._parts.disclosure()
        if view is not None and canonical(view) != canonical(course.disclosure_of(self._entries)):
            taints = [taint.to_json() for taint in course.taints_of(self._entries)]
            await self._append("state", {"disclosure": view, "taints": taints})

    # what is not known --------------------------------------------------------------------------

    async def _steps(self, call: CallState) -> tuple[int, ...]:
        """The steps of a call that failed, as far as the log can be asked."""
        try:
            found = await self._parts.session.of_call(self._key(call))
        except RepriseError:
            return ()
        return tuple(record.step.seq for record in found)

    async def recover(self, call: CallState) -> None:
        """Tell the model what the log says of a call that ran when everything stopped."""
        records = await self._parts.session.of_call(self._key(call))
        await self._follow(call)
        await self._append("result", await self._told(call, records, cut=False))

    async def _cut(self, call: CallState) -> None:
        """The same of a call that was stopped while it ran."""
        records: Sequence[StepRecord] = ()
        with contextlib.suppress(RepriseError):  # the result then says that no step is known
            records = await self._parts.session.of_call(self._key(call))
        await self._follow(call)
        await self._append("result", await self._told(call, records, cut=True))

    async def _follow(self, call: CallState) -> None:
        """Go where a rewind led that was not seen to end: the notebook may be there already."""
        if ((call.called or {}).get("act") or {}).get("tool") != RewindSession.name:
            return
        await self._goes_on(await self._parts.session.went_over(self._key(call)))

    def _key(self, call: CallState) -> str:
        return f"{self._conversation}:{call.id}"

    async def _told(
        self, call: CallState, records: Sequence[StepRecord], *, cut: bool
    ) -> Mapping[str, Any]:
        """A result from the log. What it shows may hold untrusted content of whatever kind the
        session has; where that cannot be found out, it counts as from anywhere."""
        found: list[tuple[TaintKind, str]] = []
        if records:
            try:
                found += await self._parts.session.tainted()
            except RepriseError:
                found.append(("network", ANYWHERE))
        abandoned = self._stop.abandoned
        return lost_result(call, records, cut=cut, abandoned=abandoned, taints=found)


def _words(error: RepriseError) -> str:
    return str(error) or type(error).__name__


def _taints(found: Taints) -> list[Json]:
    """As entries have them, each once."""
    return [{"kind": kind, "source": source} for kind, source in dict.fromkeys(found)]
