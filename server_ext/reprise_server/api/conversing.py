"""The conversations that a server runs: its agent, who may drive them, what waits for a press."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from reprise.errors import NotAllowed
from reprise.log.conversation import ConversationInfo
from reprise.log.conversations import Conversations
from reprise.log.postgres import Log
from reprise_server.agent.assembled import Assembly
from reprise_server.agent.contract import Entry, Situation
from reprise_server.agent.notebook.pages import Pages
from reprise_server.agent.policy.trial import also_matched, past_calls
from reprise_server.agent.questions import NotWaiting
from reprise_server.agent.running import Running, Told
from reprise_server.api.deciding import Decision, NotNeeded, Pressed
from reprise_server.api.governance import may_personally
from reprise_server.api.isolation import isolated
from reprise_server.api.people import Person
from reprise_server.api.places import Places
from reprise_server.api.questions import (
    Open,
    environment_of,
    matter_of,
    open_questions,
    parts_of_matter,
)
from reprise_server.api.refusals import Refused

if TYPE_CHECKING:
    from reprise_server.api.service import Service

#: Makes the assembly of a server, given the pages that have notebooks open and what opens sessions.
Assemble = Callable[[Pages, Places], Assembly]

#: Entries at the end of a conversation among which what waits is looked for.
_TAIL: Final = 500
#: Entries in which calls are looked for that a rule would have matched.
_ALL: Final = 20_000
#: Characters of such a call, as it is named.
_NAMED: Final = 160


class Conversing:
    """One for each server, used on its loop. The agent itself runs on another one (`Running`)."""

    def __init__(self, service: Service, assemble: Assemble, places: Places) -> None:
        self._service = service
        self._assemble = assemble
        self._places = places
        self._running: Running | None = None
        self._pages: Pages | None = None
        self._followed: dict[uuid.UUID, Callable[[Told], None]] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def running(self) -> Running:
        """Made when it is first needed. Raises Refused (503) when the server stops."""
        if self._closed:
            raise Refused(503, "stopping", "This server is stopping.", retry_after_s=5)
        if self._running is None:
            self._running = Running(Log.connect, self.assembly)
        return self._running

    @cached_property
    def assembly(self) -> Assembly:
        """What conversations here work with."""
        return self._assemble(self.pages, self._places)

    @property
    def programs_approve(self) -> bool:
        """Whether a program may approve; code that no wall holds could be that program."""
        wanted = self._service.settings.programs_approve
        return wanted == "always" or (wanted == "isolated" and isolated())

    @property
    def pages(self) -> Pages:
        if self._pages is None:
            self._pages = Pages(asyncio.get_running_loop())
        return self._pages

    async def runs(self, conversation: uuid.UUID) -> bool:
        """Whether a turn of it runs here."""
        return self._running is not None and await self._running.runs(conversation)

    async def close(self) -> None:
        """Turns that run end as interrupted: they can be continued."""
        self._closed = True
        if self._running is not None:
            await self._running.close()

    # Who may --------------------------------------------------------------------------------------

    async def of(self, conversation: uuid.UUID) -> tuple[ConversationInfo, str | None]:
        """What is known of a conversation, and who began it. Raises ConversationNotFound."""
        known = Conversations(await self._service.log())
        info = await known.info(conversation)
        (begun,) = await known.entries(conversation, most=1)
        by = begun.body.get("by")
        return info, None if by is None else str(by)

    async def may(self, person: Person, by: str | None) -> str | None:
        """Why this person may not drive a conversation that `by` began; None when he may.

        It acts with the rights of the one whose server this is, so it takes both: that the person
        may act for that one, and that the conversation is his.
        """
        login = await self._service.login()
        found = may_personally(person, login, self._service.settings)
        if not found.may:
            return found.why
        # What was begun in a terminal is the log's owner's.
        if by is None or by in (person.name, login, (await self._service.log()).owner):
            return None
        return f"This conversation is {by}'s; only {by} decides what becomes of it."

    async def must(self, person: Person, by: str | None) -> None:
        """Raises NotAllowed."""
        why = await self.may(person, by)
        if why is not None:
            raise NotAllowed(f"{why} Nothing was done.")

    # Turns ----------------------------------------------------------------------------------------

    async def turn(self, info: ConversationInfo, begin: Callable[[Running], Awaitable[int]]) -> int:
        """Begin a turn, or go on with one; its number. What it comes to is told as events."""
        running = self.running
        await self._places.look(await self._service.log(), info.session)
        await self._follow(info.id, info.entries - 1)
        try:
            return await begin(running)
        except BaseException:
            if not await running.runs(info.id):
                self._leave(info.id)
            raise

    async def _follow(self, conversation: uuid.UUID, after: int) -> None:
        if conversation in self._followed:
            return
        loop = asyncio.get_running_loop()

        def tell(told: Told) -> None:
            loop.call_soon_threadsafe(self._told, conversation, told)

        self._followed[conversation] = tell
        try:
            self._followed[conversation] = await self.running.watch(conversation, tell, after)
        except BaseException:
            del self._followed[conversation]
            raise

    def _leave(self, conversation: uuid.UUID) -> None:
        watch = self._followed.pop(conversation, None)
        if watch is not None:
            self.unwatch(conversation, watch)

    def unwatch(self, conversation: uuid.UUID, watch: Callable[[Told], None]) -> None:
        """Without waiting: what `Running.watch` gave is told no more."""
        if self._running is not None and not self._closed:
            task = asyncio.ensure_future(self._running.unwatch(conversation, watch))
            self._leaving.add(task)
            task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._leaving.discard(task)
        if not task.cancelled():
            task.exception()  # the agent was closed meanwhile: it watches nothing any more

    def _told(self, conversation: uuid.UUID, told: Told) -> None:
        if told["type"] == "ended":
            # One that was cut may go on, and waits for the same answers then.
            said = "Its turn ended, so nothing waits any more."
            self._service.decisions.end_under(f"question:{conversation}:", said, again=True)
            self._leave(conversation)
        elif told["type"] == "entry":
            entry = told["entry"]
            if entry["kind"] == "decided":
                key = f"question:{conversation}:{entry['body']['question']}:"
                self._service.decisions.end_under(key, decided_words(entry["body"]))
            event = _event(entry)
            if event is not None:
                self._service.emit("conversation", {"conversation": str(conversation), **event})

    # Questions ------------------------------------------------------------------------------------

    async def questions(self, info: ConversationInfo) -> list[Open]:
        """Those that wait now."""
        known = Conversations(await self._service.log())
        return open_questions(await known.newest(info, _TAIL))

    async def decision(
        self, conversation: uuid.UUID, question: Open, person: Person
    ) -> Decision | None:
        """What this person presses for an approval; None where nothing waits for a press here, such
        as for a question of a turn that another process runs."""
        left_s = question.body["until_us"] / 1e6 - time.time()
        if not question.approves or left_s <= 0 or not await self.runs(conversation):
            return None
        key = f"question:{conversation}:{question.id}:{person.key}"
        known = self._service.decisions.under(key)
        if known is not None:
            return known
        matched = await self._matched(conversation, question)
        running = self.running

        async def on_press(pressed: Pressed) -> None:
            try:
                await running.decide(
                    conversation,
                    question.id,
                    pressed.option,
                    how="frame",
                    by=person.name,
                    reason=pressed.reason,
                    rejected=pressed.rejected,
                )
            except NotWaiting as error:
                raise NotNeeded(str(error)) from error

        matter = matter_of(question, matched)
        parts = parts_of_matter(question, matched)
        decision, _ = self._service.decisions.open(matter, person, key, left_s, on_press, parts)
        return decision

    async def reject(
        self, decision: Decision, rejected: Mapping[str, str | None], person: Person
    ) -> None:
        """Parts of what waits are left out. As of `Decisions.reject`."""
        await self._service.decisions.reject(decision, rejected, person)
        said = {"action": "pressed", "decision": str(decision.id), "option": "reject"}
        self._service.emit("decision", {**said, "by": _who(person.name)})

    async def _matched(
        self, conversation: uuid.UUID, question: Open
    ) -> Mapping[str, Sequence[str]]:
        """Of each rule that is offered, the calls of before that it would have matched too."""
        known = Conversations(await self._service.log())
        entries = await known.entries(conversation, most=_ALL)
        return await asyncio.to_thread(_matched, entries, question)


def _matched(entries: Sequence[Entry], question: Open) -> Mapping[str, Sequence[str]]:
    situation = Situation(entries[0].body.get("by"), environment_of(entries), isolated=True)
    past = [
        each
        for each in past_calls(entries, situation, most=_ALL)
        if each.seq != _seq_of(entries, question)
    ]
    found = {}
    for option, name in (("session", "session_rule"), ("pattern", "pattern")):
        rule = question.body.get(name)
        if rule is not None:
            found[option] = [
                f"{each.act.tool}: {_short(each.act.input)}" for each in also_matched(rule, past)
            ]
    return found


def _seq_of(entries: Sequence[Entry], question: Open) -> int:
    """Of the entry of the call that is asked about."""
    call = question.body["call"]
    return max(
        (each.seq for each in entries if each.kind == "called" and each.body["id"] == call),
        default=-1,
    )


def _short(given: Mapping[str, Any]) -> str:
    text = " ".join(str(value) for value in given.values())
    return text if len(text) <= _NAMED else f"{text[:_NAMED]} … ({len(text):,} characters)"


def decided_words(body: Mapping[str, Any]) -> str:
    """How a question ended, for whoever still looks at it."""
    words = {
        "once": "Allowed once",
        "session": "Allowed for this session",
        "pattern": "Allowed for this pattern",
        "deny": "Denied",
    }
    said = words.get(str(body["decision"]), "Answered")
    match body["how"]:
        case "timeout":
            return "Not answered in time, so not run. The agent was told."
        case "cancelled":
            return "Its turn was stopped, so it was not run."
        case "terminal":
            return f"{said} by a program, or in a terminal."
    return f"{said} in another tab."


def _event(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """What listeners of Jupyter's event system hear of an entry, if anything."""
    body, turn = entry["body"], entry["turn"]
    match entry["kind"]:
        case "said":
            return {"action": "turn-began", "by": _who(body.get("by")), "turn": turn}
        case "continued":
            return {"action": "turn-continued", "by": _who(body.get("by")), "turn": turn}
        case "ended":
            return {
                "action": "turn-ended",
                "by": "agent",
                "turn": turn,
                "status": str(body["status"]),
            }
        case "question":
            found = {"action": "question", "by": "agent", "turn": turn, "question": str(body["id"])}
            return found | {"approval": body.get("act") is not None}
        case "decided":
            return {
                "action": "decided",
                "by": _who(body.get("by")),
                "turn": turn,
                "question": str(body["question"]),
                "how": str(body["how"]),
            }
    return None


def _who(by: Any) -> str:
    return "anonymous" if by is None else str(by)


async def answered(
    conversing: Conversing,
    conversation: uuid.UUID,
    question: str,
    decision: str,
    reason: str | None,
    rejected: Mapping[str, str | None],
    person: Person,
    *,
    from_browser: bool,
    base_url: str,
) -> None:
    """A person's answer that was not pressed in a frame: a denial, words to a question of the
    model's own, or an approval by a program.

    Raises Refused (428) for an approval that a browser, where a script may be what asks, wants to
    give; (404) for a question that does not wait.
    """
    info, by = await conversing.of(conversation)
    await conversing.must(person, by)
    waiting = {each.id: each for each in await conversing.questions(info)}
    found = waiting.get(question)
    if found is None:
        raise Refused(
            404, "question-not-found", "No such question waits here; it may have been answered."
        )
    if found.approves and decision == "deny" and rejected:
        # Of an approval that waits here alone: elsewhere nobody puts its parts together.
        asked = await conversing.decision(conversation, found, person)
        if asked is None:
            raise Refused(404, "question-not-found", "No such question waits here in parts.")
        await conversing.reject(asked, rejected, person)
        return
    if found.approves and decision != "deny" and from_browser:
        needed = await conversing.decision(conversation, found, person)
        details = {} if needed is None else decision_details(needed, base_url)
        raise Refused(
            428,
            "decision-needed",
            "An approval is pressed by a person in a frame of its own. Nothing was decided.",
            details=details,
        )
    if found.approves and decision != "deny" and not conversing.programs_approve:
        raise NotAllowed(
            "Programs approve nothing on this server (c.RepriseApi.programs_approve; where nothing"
            " isolates, the agent's own code could be that program): it is pressed in a page's"
            " decision frame, or at the prompt of `reprise agent`. Nothing was decided."
        )
    how: Literal["frame", "terminal"] = "frame" if from_browser else "terminal"
    await conversing.running.decide(
        conversation,
        question,
        decision,
        how=how,
        by=person.name,
        reason=reason,
        rejected=rejected,
    )


def rejected_of(said: Mapping[str, Any]) -> dict[str, str | None]:
    """The parts that an answer leaves out, and why."""
    return {str(each["part"]): each.get("reason") for each in said.get("rejected") or ()}


def decision_details(decision: Decision, base_url: str) -> dict[str, str]:
    """Where a decision is shown."""
    return {
        "decision": str(decision.id),
        "frame": f"{base_url}reprise/api/decisions/{decision.id}/frame",
    }
