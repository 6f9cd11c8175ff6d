"""One turn of a conversation: does what `course.next_move` says, and commits it before it happens.

The order of a turn is decided there, from entries alone; here the notebook is stored, the model
asked and the turn ended. Whatever is cut, the entries say how far it had come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from reprise.errors import DatabaseUnavailable, LeaseLost, RepriseError
from reprise.log.conversation import Kind
from reprise.log.conversation_writer import ConversationWriter
from reprise.log.model import Json
from reprise_server.agent import course
from reprise_server.agent.calls import Calls
from reprise_server.agent.contract import (
    Answered,
    Document,
    Entry,
    Listener,
    ModelFailed,
    Prompt,
    TurnEnd,
    Waiting,
)
from reprise_server.agent.heard import Heard
from reprise_server.agent.messages import prompt_of
from reprise_server.agent.model import ApiModel, caching, sizes
from reprise_server.agent.model.failures import ContextFull
from reprise_server.agent.notebook.cells import snapshot
from reprise_server.agent.parts import Around, Parts
from reprise_server.agent.prompt import system_of
from reprise_server.agent.stop import Stop, Stopped

#: Why a turn ends that is stopped.
STOPPED = {"cancelled": None, "interrupted": "The server that ran it was shut down."}


class Turn:
    """The newest turn of a conversation, run to its end or to where it is stopped."""

    def __init__(
        self, writer: ConversationWriter, parts: Parts, around: Around, stop: Stop
    ) -> None:
        self._writer = writer
        self._parts = parts
        self._around = around
        self._stop = stop
        self._calls = Calls(str(writer.id), parts, around, stop, self._append, writer.entries)

    @property
    def entries(self) -> Sequence[Entry]:
        return self._writer.entries

    async def run(self) -> TurnEnd:
        """Go on until the turn ends. Raises LeaseLost, DatabaseUnavailable: it is open still then,
        and whoever opens the conversation next finds it interrupted."""
        try:
            await self._snapshot()
            while not isinstance(move := course.next_move(self.entries), course.Rest):
                # What ran when everything stopped gets its end all the same.
                if self._stop.asked and not isinstance(move, course.Recover):
                    raise Stopped
                await self._do(move)
        except Stopped:
            status = self._stop.status or "cancelled"
            await self._end(status, self._stop.why or STOPPED.get(status))
        except (LeaseLost, DatabaseUnavailable):
            raise
        except RepriseError as error:
            await self._end("failed", str(error))
        return course.course(self.entries).ended or "interrupted"

    async def leave(self) -> None:
        """Give the calls of a turn that nobody goes on with their ends: what may have run is told
        by the log, what never ran by itself."""
        at = course.course(self.entries)
        for call in at.calls:
            if call.running and call.result is None:
                await self._calls.recover(call)
        for kind, body in course.settled(at):
            await self._append(kind, body)

    async def _append(self, kind: Kind, body: Mapping[str, Any]) -> Entry:
        entry = await self._writer.append(self._writer.turn, kind, body)
        self._around.entry(entry)
        return entry

    async def _end(self, status: TurnEnd, why: str | None = None) -> None:
        for kind, body in course.closing(self.entries, status, why):
            await self._append(kind, body)

    async def _do(self, move: course.Move) -> None:
        match move:
            case course.Ask(compact):
                await self._ask(compact=compact)
            case course.Judge(call):
                await self._calls.judge(call)
            case course.Put(call):
                await self._calls.put(call)
            case course.Wait(call):
                await self._calls.wait(call)
            case course.Run(call):
                await self._calls.run(call)
            case course.Recover(call):
                await self._calls.recover(call)
            case course.Close(call, status, words):
                taints = list((call.called or {}).get("taints", ()))
                body = course.result_body(call.id, status, words, taints=taints)
                await self._append("result", body)
            case course.End(end, why):
                await self._end(end, why)
            case course.Rest():
                pass

    # the notebook -------------------------------------------------------------------------------

    async def _snapshot(self) -> None:
        """Store the notebook as it was before the turn, once."""
        document = self._parts.document
        turn = course.turn_entries(self.entries)
        if document is None or any(entry.kind in ("notebook", "asked") for entry in turn):
            return
        try:
            whole = snapshot(await self._stop.during(_read(document)))
            sha256 = await self._writer.blobs.put(whole)
        except RepriseError as error:
            self._around.tell({"type": "note", "text": f"The notebook was not stored: {error}"})
            return
        body = {"path": document.path, "sha256": sha256, "where": document.where}
        await self._append("notebook", body)

    # the model ----------------------------------------------------------------------------------

    async def _ask(self, *, compact: bool) -> None:
        model = self._parts.model
        prompt = self._prompt()
        size = size_of(prompt, self.entries, model)
        if compact or model.full(size):
            if not await self._compact(prompt, size):
                return
            prompt = self._prompt()
            size = size_of(prompt, self.entries, model)
        if not await self._asked(prompt, size):
            return
        try:
            await self._answered(await self._respond(model.respond, prompt))
        except ContextFull as error:
            if self._compacted_just_now():
                await self._end("failed", str(error))
            else:
                await self._compact(prompt, model.size(prompt))
        except ModelFailed as error:
            await self._end("failed", str(error))

    def _prompt(self) -> Prompt:
        return prompt_of(self.entries, self._parts.tools.values(), system_of(self.entries))

    async def _asked(self, prompt: Prompt, size: int) -> bool:
        """Record that the model is asked, if the budget lets it be; else the turn has ended."""
        model = self._parts.model
        over = model.budget.refuses(model.budget.spent(self.entries, self._writer.turn))
        if over is not None:
            await self._end("budget", over)
            return False
        digest = caching.digest(model.body(prompt))
        body = {"model": model.name, "attempt": 1, "input_estimate": size, "digest": digest}
        await self._append("asked", body)
        return True

    async def _compact(self, prompt: Prompt, size: int) -> bool:
        """Let a summary stand for the entries so far; False when the turn has ended instead."""
        if not await self._asked(prompt, size):
            return False
        try:
            answered = await self._respond(self._parts.model.compact, prompt)
        except ModelFailed as error:
            await self._end("failed", str(error))
            return False
        body = {
            "content": list(answered.content),
            "before": len(self.entries),
            "usage": dict(answered.usage),
            "cost": _cost(answered.cost),
        }
        await self._append("compacted", body)
        return True

    async def _respond(
        self, ask: Callable[[Prompt, Listener], Coroutine[Any, Any, Answered]], prompt: Prompt
    ) -> Answered:
        """The answer. Raises ModelFailed, Stopped; what came until then is recorded."""
        queue: asyncio.Queue[Waiting | None] = asyncio.Queue()
        heard = Heard(self._around.tell, queue.put_nowait)
        storing = asyncio.get_running_loop().create_task(self._store_waits(queue))
        try:
            try:
                return await self._stop.during(ask(prompt, heard.listener))
            finally:
                queue.put_nowait(None)
                await storing
        except Stopped:
            await self._append("answered", heard.cancelled())
            raise
        except ModelFailed as error:
            await self._append("answered", heard.failed(error))
            raise

    def _compacted_just_now(self) -> bool:
        """Whether nothing was won since the last compaction: then another one wins nothing."""
        for entry in reversed(course.turn_entries(self.entries)):
            if entry.kind == "answered" and not entry.body.get("partial"):
                return False
            if entry.kind == "compacted":
                return True
        return False

    async def _store_waits(self, queue: asyncio.Queue[Waiting | None]) -> None:
        """Each wait of the model's is an entry, so that people see it."""
        while (wait := await queue.get()) is not None:
            body: dict[str, Any] = {"why": wait.why, "seconds": wait.seconds}
            body["attempt"] = wait.attempt
            if wait.status is not None:
                body["status"] = wait.status
            await self._append("waiting", body)

    async def _answered(self, answered: Answered) -> None:
        body: dict[str, Any] = {
            "content": list(answered.content),
            "stop_reason": answered.stop_reason,
            "usage": dict(answered.usage),
            "cost": _cost(answered.cost),
        }
        if answered.request_id is not None:
            body["request_id"] = answered.request_id
        if answered.why is not None:
            body["why"] = answered.why
        wrong = course.wrong_calls(answered.content, self.entries)
        if wrong is not None:
            body["partial"] = True
        await self._append("answered", body)
        if wrong is not None:
            await self._end("failed", wrong)


def size_of(prompt: Prompt, entries: Sequence[Entry], model: ApiModel) -> int:
    """Tokens of a request: what the API counted of the one before and its answer, and an estimate
    of what was added since."""
    for entry in reversed(entries):
        if entry.kind == "compacted":
            break
        usage = entry.body.get("usage") if entry.kind == "answered" else None
        if usage and not entry.body.get("partial") and "input_tokens" in usage:
            answers = [at for at, one in enumerate(prompt.messages) if one["role"] == "assistant"]
            if answers:
                return sizes.after(usage, prompt.messages[answers[-1] + 1 :])
            break
    return model.size(prompt)


async def _read(document: Document) -> Mapping[str, Any]:
    return await document.read()


def _cost(cost: str | None) -> Json:
    """An amount as entries have it. cost: such as "0.0123 USD"."""
    if cost is None:
        return None
    amount, _, currency = cost.partition(" ")
    return {"amount": amount, "currency": currency}
