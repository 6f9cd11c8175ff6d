"""`/conversations…`: which there are, what was said and done, and what a person does with them."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from reprise.log.as_json import iso
from reprise.log.as_markdown import conversation_markdown
from reprise.log.conversation import ConversationInfo, Entry
from reprise.log.conversations import Conversations
from reprise.log.transcript import transcript
from reprise_server.agent.notebook.cells import normal
from reprise_server.agent.notebook.standing import standing, turns_of
from reprise_server.api.base import Answer, Asked, Endpoint, operation
from reprise_server.api.conversing import Conversing, answered, decision_details, rejected_of
from reprise_server.api.people import Person
from reprise_server.api.questions import Open, open_questions
from reprise_server.api.sending import Sending

RESOURCE: Final = "reprise-conversations"

#: Entries at the end of which the newest turn's standing is read.
_TAIL: Final = 500
#: Entries that a transcript is made of, at most.
_ALL: Final = 50_000
#: Entries at the end, and turns, in which edits are looked for that still stand.
_EDITS_TAIL: Final = 2_000
_EDITS_TURNS: Final = 5
#: Entries that are read at once for an export; characters of its file's name.
_EXPORTED: Final = 50
_FILE_NAME: Final = 80
#: Bytes of the entries of one page, about; one entry is there whatever its size.
_PAGE_BYTES: Final = 8 << 20


class ConversationEndpoint(Endpoint):
    """What works on one conversation. One of another owner is not there."""

    auth_resource = RESOURCE

    def identity(self, asked: Asked) -> uuid.UUID:
        return uuid.UUID(asked.path["conversation"])

    async def known(self) -> Conversations:
        return Conversations(await self.service.log())

    async def own(self, asked: Asked) -> ConversationInfo:
        """When whoever asks may drive it. Raises ConversationNotFound, NotAllowed."""
        conversing = self.service.conversing
        info, by = await conversing.of(self.identity(asked))
        await conversing.must(self.person, by)
        return info


class ConversationsEndpoint(Endpoint):
    path = "/conversations"
    auth_resource = RESOURCE

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        session = asked.query["session"]
        known = Conversations(await self.service.log())
        found = await known.list(
            session=None if session is None else uuid.UUID(session),
            notebook=asked.query["notebook"],
            text=asked.query["q"] or "",
            most=asked.query["limit"],
        )
        return {"conversations": [info_json(each) for each in found]}

    @operation("write", status=201)
    async def post(self, asked: Asked) -> Any:
        body, conversing = asked.body, self.service.conversing
        await conversing.must(self.person, None)
        made = await conversing.running.begin(
            uuid.UUID(body["session"]),
            notebook=body.get("notebook"),
            title=body.get("title", ""),
            model=body.get("model"),
            by=self.person.name,
        )
        self.emit("conversation", {"action": "begun", "conversation": str(made)})
        info, _ = await conversing.of(made)
        return info_json(info)


class OneConversationEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """How it stands, with what waits for a person."""
        conversing, known = self.service.conversing, await self.known()
        info, by = await conversing.of(self.identity(asked))
        tail = await known.newest(info, _TAIL)
        yours = await conversing.may(self.person, by) is None
        return {
            **info_json(info),
            "owner": by,
            "yours": yours,
            "running": await conversing.runs(info.id),
            "ended": newest_end(tail),
            "questions": [
                await question_json(self, info.id, each, yours=yours)
                for each in open_questions(tail)
            ],
        }

    @operation("write")
    async def patch(self, asked: Asked) -> Any:
        """Another title; also while a turn runs."""
        info = await self.own(asked)
        await (await self.known()).rename(info.id, asked.body["title"], by=self.person.name)
        self.emit("conversation", {"action": "renamed", "conversation": str(info.id)})
        return info_json((await self.service.conversing.of(info.id))[0])

    @operation("write", status=204)
    async def delete(self, asked: Asked) -> Any:
        info = await self.own(asked)
        await (await self.known()).delete(info.id)
        self.emit("conversation", {"action": "deleted", "conversation": str(info.id)})
        return Answer(None, 204)


class EntriesEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/entries"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        most, known = asked.query["limit"], await self.known()
        found: list[Entry] = []
        size, after = 0, asked.query["after"]
        # A few at a time: each may hold megabytes.
        while len(found) < most and size < _PAGE_BYTES:
            some = await known.entries(
                self.identity(asked), after=after, most=min(20, most - len(found))
            )
            if not some:
                break
            found += some
            after = some[-1].seq
            size += sum(len(str(each.body)) for each in some)
        last = found[-1].seq if found else asked.query["after"]
        more = await known.entries(self.identity(asked), after=last, most=1)
        return {"entries": [each.to_json() for each in found], "next": last if more else None}


class TranscriptEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/transcript"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        entries = await (await self.known()).entries(self.identity(asked), most=_ALL)
        return {"lines": [each.to_json() for each in transcript(entries)]}


class EditsEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/edits"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """What stands of the agent's edits. With it come cells as the notebook held them."""
        info = await self.own(asked)
        log = await self.service.log()
        entries = await Conversations(log).newest(info, _EDITS_TAIL)
        turns = turns_of(entries, asked.query["since"])[-_EDITS_TURNS:]
        blobs = (await log.reader(info.session)).blobs
        notebooks: dict[str, dict[str, Any]] = {}
        for each in turns:
            if each.sha256 is not None and each.sha256 not in notebooks:
                stored = await blobs.get(each.sha256)
                notebooks[each.sha256] = await asyncio.to_thread(_notebook, stored)
        found = await asyncio.to_thread(standing, turns, notebooks)
        return {"edits": _bounded([each.to_json() for each in found])}


def _notebook(stored: bytes) -> dict[str, Any]:
    return normal(json.loads(stored))


def _bounded(edits: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs of cells are given as long as there is room; a cell without them has none to put
    back, and runs again."""
    room = _PAGE_BYTES
    for each in edits:
        room -= len(json.dumps(each))
        if room < 0 and each["before"] is not None and each["before"].get("outputs"):
            each["before"] = {**each["before"], "outputs": [], "execution_count": None}
    return edits


class ExportEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/export"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """As a file to be kept."""
        known = await self.known()
        info = await known.info(self.identity(asked))
        form = asked.query["form"]
        pieces = _as_json(known, info) if form == "json" else _as_markdown(known, info)
        ending = "json" if form == "json" else "md"
        return Sending(pieces, None, f"{file_name(info)}.{ending}")


def file_name(info: ConversationInfo) -> str:
    """A file's name that its title gives, on any system."""
    name = re.sub(r"[^\w -]+", " ", info.title)
    return " ".join(name.split())[:_FILE_NAME].strip() or f"conversation {str(info.id)[:8]}"


async def _as_json(known: Conversations, info: ConversationInfo) -> AsyncGenerator[bytes, None]:
    """What was said and done, entry by entry as it is stored."""
    yield f'{{"conversation":{json.dumps(info_json(info))},"entries":['.encode()
    between, after = "", -1
    while some := await known.entries(info.id, after=after, most=_EXPORTED):
        told = ",".join(json.dumps(each.to_json(), allow_nan=False) for each in some)
        yield f"{between}{told}".encode()
        between, after = ",", some[-1].seq
    yield b"]}"


async def _as_markdown(known: Conversations, info: ConversationInfo) -> AsyncGenerator[bytes, None]:
    entries = await known.entries(info.id, most=_ALL)
    pieces = await asyncio.to_thread(lambda: list(conversation_markdown(info, entries)))
    for piece in pieces:
        yield piece.encode("utf-8", "replace")


class SayEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/say"

    # What it works with is opened first: MCP servers start, the notebook is read.
    @operation("execute", status=202, patience_s=300)
    async def post(self, asked: Asked) -> Any:
        info, by = await self.own(asked), self.person.name
        text, brought = asked.body["text"], asked.body.get("brought", ())
        turn = await self.service.conversing.turn(
            info, lambda running: running.say(info.id, text, by=by, brought=brought)
        )
        return {"turn": turn}


class ContinueEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/continue"

    @operation("execute", status=202, patience_s=300)
    async def post(self, asked: Asked) -> Any:
        info, by = await self.own(asked), self.person.name
        turn = await self.service.conversing.turn(
            info, lambda running: running.go_on(info.id, by=by)
        )
        return {"turn": turn}


class CancelTurnEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/cancel"

    @operation("execute", status=202)
    async def post(self, asked: Asked) -> Any:
        info = await self.own(asked)
        return {"stopping": await self.service.conversing.running.cancel(info.id)}


class UndoEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/undo"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """What undoing would do now, doing none of it."""
        info = await self.own(asked)
        return (await self.service.conversing.running.foresee(info.id)).to_json()

    # A kernel goes over to the session before the turn, which may be played again for it.
    @operation("execute", patience_s=900)
    async def post(self, asked: Asked) -> Any:
        info = await self.own(asked)
        done = await self.service.conversing.running.undo(
            info.id, fork=asked.body.get("fork", False), by=self.person.name
        )
        told = {"action": "undone", "conversation": str(info.id), "turn": done.turn}
        self.emit("conversation", told)
        return done.to_json()


class QuestionEndpoint(ConversationEndpoint):
    path = "/conversations/{conversation}/questions/{question}"

    @operation("execute", status=204)
    async def post(self, asked: Asked) -> Any:
        await answered(
            self.service.conversing,
            self.identity(asked),
            asked.path["question"],
            asked.body["decision"],
            asked.body.get("reason"),
            rejected_of(asked.body),
            self.person,
            from_browser=self.from_browser,
            base_url=self.base_url,
        )
        return Answer(None, 204)


def info_json(info: ConversationInfo) -> dict[str, Any]:
    """A conversation as a list shows it."""
    return {
        "id": str(info.id),
        "session": str(info.session),
        "notebook": info.notebook,
        "title": info.title,
        "began_at": iso(info.began_us),
        "last_at": iso(info.last_us),
        "entries": info.entries,
        "turns": info.turns,
    }


async def question_json(
    endpoint: Endpoint, conversation: uuid.UUID, question: Open, *, yours: bool
) -> dict[str, Any]:
    """A question that waits, with where this person presses, if he may."""
    return {
        "id": question.id,
        "seq": question.seq,
        "call": question.body["call"],
        "text": question.body["text"],
        "options": list(question.body["options"]),
        "approval": question.approves,
        "until": iso(question.body["until_us"]),
        **await pressed_at(
            endpoint.service.conversing,
            conversation,
            question,
            endpoint.person if yours else None,
            endpoint.base_url,
        ),
    }


async def pressed_at(
    conversing: Conversing,
    conversation: uuid.UUID,
    question: Open,
    person: Person | None,
    base_url: str,
) -> dict[str, str | None]:
    """The decision and frame of an approval; None for whoever may not press."""
    decision = None
    if person is not None:
        decision = await conversing.decision(conversation, question, person)
    if decision is None:
        return {"decision": None, "frame": None}
    return {**decision_details(decision, base_url)}


def newest_end(tail: Sequence[Entry]) -> str | None:
    """How the newest turn ended; None while it is open."""
    for entry in reversed(tail):
        if entry.kind == "ended":
            return str(entry.body["status"])
        if entry.kind in ("said", "continued"):
            return None
    return None


ENDPOINTS: Final = (
    ConversationsEndpoint,
    OneConversationEndpoint,
    EntriesEndpoint,
    TranscriptEndpoint,
    ExportEndpoint,
    EditsEndpoint,
    SayEndpoint,
    ContinueEndpoint,
    CancelTurnEndpoint,
    UndoEndpoint,
    QuestionEndpoint,
)
