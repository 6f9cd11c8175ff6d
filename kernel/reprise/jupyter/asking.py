"""Questions of cells (`input()`) and of a replay (passwords), and who is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from reprise.errors import SandboxDied
from reprise.jupyter.clients import Clients
from reprise.jupyter.live import LiveStep
from reprise.jupyter.live_call import LiveCall
from reprise.jupyter.request import Request
from reprise.jupyter.waiting import WaitingCell
from reprise.log.model import Json
from reprise.replay.engine import LiveSession
from reprise.replay.link import Run
from reprise.replay.message import Message, make

log = logging.getLogger("reprise")


@dataclass
class _Password:
    request: Request
    answer: asyncio.Future[str]


@dataclass(frozen=True)
class Question:
    """A question that waits. msg_id: of the request whose cell asks.  seq: of its step; None for
    one that is not accepted yet (a password for a replay)."""

    client: bytes
    msg_id: str
    seq: int | None
    content: Mapping[str, Json]

    def to_json(self) -> dict[str, Json]:
        return {
            "msg_id": self.msg_id,
            "seq": self.seq,
            "prompt": str(self.content.get("prompt", "")),
            "password": self.content.get("password") is True,
        }


class Asking:
    """The questions that wait for an answer, one a client.

    running: the steps that run. waiting: the cell that waits for a resume.
    """

    def __init__(
        self,
        clients: Clients,
        session: Callable[[], LiveSession],
        running: Iterable[LiveStep | LiveCall],
        waiting: WaitingCell,
    ) -> None:
        self._clients = clients
        self._session = session
        self._running = running
        self._waiting = waiting
        self._asked: dict[bytes, Run | _Password] = {}
        self._said: dict[bytes, Message] = {}

    def ask(self, run: Run, message: Message) -> None:
        """Put a cell's question to the client that sent the cell."""
        for step in self._running:
            if step.run is run:
                self._asked[step.request.client] = run
                self._said[step.request.client] = message
                self._clients.ask(step.request, message)
                return

    async def ask_password(self, prompt: str) -> str | None:
        """For a replay: ask the client whose cell waits; None when it takes no questions."""
        request = await self._waiting.request()
        if not request.message.content().get("allow_stdin"):
            return None
        asked = _Password(request, asyncio.get_running_loop().create_future())
        self._asked[request.client] = asked
        text = f"{prompt} (asked again to bring the session back; passwords are never stored) "
        content = {"prompt": text, "password": True}
        message = make("input_request", content, parent=request.message.raw_header)
        self._said[request.client] = message
        self._clients.ask(request, message)
        return await asked.answer

    @property
    def questions(self) -> list[Question]:
        """Those that wait for an answer, as clients were asked them.

        Whoever asked may be gone: a page that was closed, one that lost its connection.
        """
        found = []
        for client, asked in self._asked.items():
            if isinstance(asked, _Password) and asked.answer.done():
                continue  # the replay that asked was stopped
            content = self._clients.as_asked(self._said[client]).content()
            if isinstance(asked, _Password):
                found.append(Question(client, asked.request.message.msg_id, None, content))
                continue
            for step in self._running:
                if step.run is asked and step.step is not None:
                    msg_id = step.request.message.msg_id
                    found.append(Question(client, msg_id, step.step.seq, content))
        return found

    def answer(self, msg_id: str, value: str) -> bool:
        """Answer the question of a request in its client's place; False when none waits."""
        for question in self.questions:
            if question.msg_id == msg_id:
                reply = make("input_reply", {"value": value, "status": "ok"})
                self.answered(question.client, reply)
                return True
        return False

    def answered(self, client: bytes, message: Message) -> None:
        """An answer on stdin; one to no question is dropped."""
        value = str(message.content().get("value", ""))
        asked = self._asked.pop(client, None)
        self._said.pop(client, None)
        if isinstance(asked, _Password):
            if not asked.answer.done():
                asked.answer.set_result(value)
        elif asked is not None:
            try:
                self._session().link.answer_input(asked, value, message)
            except SandboxDied:
                log.warning("An answer to input() came after the sandbox had died.")

    def forget(self, step: LiveStep | LiveCall) -> None:
        """The step has ended; an answer that comes now has no question."""
        if step.run is not None and self._asked.get(step.request.client) is step.run:
            del self._asked[step.request.client]
            del self._said[step.request.client]
