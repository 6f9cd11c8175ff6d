"""Which questions wait: those that an answer would still reach, and no other."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from reprise.jupyter.asking import Asking
from reprise.jupyter.clients import Clients
from reprise.jupyter.request import Request
from reprise.jupyter.waiting import WaitingCell
from reprise.replay.message import Message, make


class Heard:
    """A client that is asked, and says nothing."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    def ask(self, request: Request, message: Message) -> None:
        self.asked.set()

    def as_asked(self, message: Message) -> Message:
        return message


class Waits:
    """A cell that waits for a resume."""

    def __init__(self, request: Request) -> None:
        self._request = request

    async def request(self) -> Request:
        return self._request


async def test_a_question_of_a_resume_that_was_stopped_waits_no_more() -> None:
    heard = Heard()
    request = Request("shell", [b"page"], make("execute_request", {"allow_stdin": True}))
    waits: Any = Waits(request)
    asking = Asking(cast(Clients, heard), lambda: cast(Any, None), (), cast(WaitingCell, waits))

    replay = asyncio.create_task(asking.ask_password("Password: "))
    await heard.asked.wait()
    (question,) = asking.questions
    assert (question.msg_id, question.content["password"]) == (request.message.msg_id, True)
    replay.cancel()
    await asyncio.wait([replay])
    assert asking.questions == []
    assert not asking.answer(request.message.msg_id, "secret"), "nobody would hear it"

    heard.asked.clear()
    replay = asyncio.create_task(asking.ask_password("Password: "))
    await heard.asked.wait()
    assert asking.answer(request.message.msg_id, "secret")
    assert await replay == "secret"
