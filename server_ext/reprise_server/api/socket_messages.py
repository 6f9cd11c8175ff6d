"""What a conversation's websocket is sent: each message found in order, then done, one by one."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from jsonschema import Draft202012Validator
from tornado.web import HTTPError

from reprise.errors import RepriseError
from reprise_server.agent.running import Running
from reprise_server.api.bodies import check_json, parse_any_json
from reprise_server.api.conversing import answered, rejected_of
from reprise_server.api.document import check
from reprise_server.api.page_link import PageLink
from reprise_server.api.people import Person
from reprise_server.api.refusals import Refused, refusal

if TYPE_CHECKING:
    import logging

    from reprise_server.api.service import Service

#: Bytes of a message; of a page's answer that holds a whole notebook.
MESSAGE_BYTES: Final = 2 << 20
ANSWER_BYTES: Final = 64 << 20
#: From here on a message is parsed beside the loop.
_LONG: Final = 64 << 10
#: Messages that wait to be done.
_WAITING: Final = 32
#: Messages in a row that are refused before the connection is.
_REFUSALS: Final = 50

#: Of each message the action that an Authorizer is asked about.
ACTIONS: Final[Mapping[str, str]] = {
    "say": "execute",
    "continue": "execute",
    "cancel": "execute",
    "answer": "execute",
    "notebook-open": "write",
    "notebook-closed": "write",
    "notebook-take": "write",
    "notebook-answer": "write",
}


class Line(Protocol):
    """The websocket that messages come from."""

    @property
    def log(self) -> logging.Logger: ...

    @property
    def base_url(self) -> str: ...

    @property
    def from_browser(self) -> bool: ...

    async def authorize(self, action: str) -> None:
        """Raises Refused (403)."""

    def put(self, message: Mapping[str, Any]) -> None:
        """Have it sent, without waiting."""

    def refuse_all(self) -> None:
        """End the connection: nothing that it sends can be done."""


@dataclass(frozen=True)
class About:
    """Which conversation a line is to. by: who began it.  notebook: its path.
    known: the messages that the document knows, by type."""

    conversation: uuid.UUID
    by: str | None
    notebook: str | None
    person: Person
    known: Mapping[str, Draft202012Validator]


class Messages:
    """Those of one line."""

    def __init__(self, service: Service, line: Line, about: About) -> None:
        self._service = service
        self._line = line
        self._about = about
        self.link = PageLink(line.put)
        self._waiting: deque[dict[str, Any]] = deque()
        self._came = asyncio.Event()
        self._refusals = 0

    async def take(self, data: bytes) -> None:
        """A message came. What it asks for is done in order, but a page's answer at once: a turn
        that begins reads the notebook in the very page that began it."""
        identity: Any = None
        try:
            self._service.hold(len(data))
            try:
                said = await self._parsed(data)
                identity = said.get("id")
                self._service.limits.admit(self._about.person.key, ACTIONS[said["type"]])
                if said["type"] == "notebook-answer":
                    await self._do(said)
                elif len(self._waiting) >= _WAITING:
                    raise Refused(
                        429,
                        "too-many-messages",
                        f"{_WAITING} messages wait to be done already. Wait for their answers.",
                        retry_after_s=1,
                    )
                else:
                    self._waiting.append(said)
                    self._came.set()
            finally:
                self._service.release(len(data))
        except Exception as error:  # noqa: BLE001  told to whoever sent it, whatever it is
            self._refuse(identity, error)
        else:
            self._refusals = 0

    async def run(self) -> None:
        """Do what they ask for, until cancelled."""
        while True:
            while not self._waiting:
                self._came.clear()
                await self._came.wait()
            said = self._waiting.popleft()
            identity = said.get("id")
            try:
                await self._do(said)
            except Exception as error:  # noqa: BLE001  told to whoever sent it, whatever it is
                self._refuse(identity, error)
            else:
                if identity is not None:
                    self._line.put({"type": "done", "id": identity})

    async def _parsed(self, data: bytes) -> dict[str, Any]:
        """A message that the document knows. Raises Refused (400, 413)."""
        if len(data) > (ANSWER_BYTES if self.link.waits else MESSAGE_BYTES):
            raise Refused(413, "too-large", f"A message has at most {MESSAGE_BYTES:,} bytes.")

        def parsed() -> dict[str, Any]:
            value = parse_any_json(data)
            kind = value.get("type") if isinstance(value, dict) else None
            if not isinstance(kind, str) or kind not in ACTIONS:
                known = ", ".join(ACTIONS)
                raise Refused(400, "invalid-message", f"`type` is one of {known}.")
            if kind != "notebook-answer":
                # What a page says of its notebook is bounded and looked at where it is read.
                check_json(value)
            check(self._about.known[kind], value)
            found: dict[str, Any] = value
            return found

        return parsed() if len(data) < _LONG else await asyncio.to_thread(parsed)

    async def _do(self, said: Mapping[str, Any]) -> None:
        conversing, about = self._service.conversing, self._about
        conversation, by = about.conversation, about.person.name
        await self._line.authorize(ACTIONS[said["type"]])
        await conversing.must(about.person, about.by)
        match said["type"]:
            case "say":
                text, brought = said["text"], said.get("brought", ())
                await self._turn(
                    lambda running: running.say(conversation, text, by=by, brought=brought)
                )
            case "continue":
                await self._turn(lambda running: running.go_on(conversation, by=by))
            case "cancel":
                await conversing.running.cancel(conversation)
            case "answer":
                await answered(
                    conversing,
                    conversation,
                    said["question"],
                    said["decision"],
                    said.get("reason"),
                    rejected_of(said),
                    about.person,
                    from_browser=self._line.from_browser,
                    base_url=self._line.base_url,
                )
            case "notebook-open":
                self.link.open(conversing.pages, self._notebook())
            case "notebook-closed":
                self.link.close()
            case "notebook-take":
                self.link.take()
            case "notebook-answer":
                self.link.answer(said["request"], said["answer"])

    async def _turn(self, begin: Callable[[Running], Awaitable[int]]) -> None:
        conversing = self._service.conversing
        info, _ = await conversing.of(self._about.conversation)
        await conversing.turn(info, begin)

    def _notebook(self) -> str:
        """The path of the conversation's notebook. Raises Refused (409)."""
        if self._about.notebook is None:
            raise Refused(409, "no-notebook", "This conversation was begun without a notebook.")
        return self._about.notebook

    def _refuse(self, identity: Any, error: Exception) -> None:
        if not isinstance(error, RepriseError | HTTPError):
            self._line.log.error(
                "Reprise: a message to %s failed", self._about.conversation, exc_info=error
            )
        self._refusals += 1
        if self._refusals > _REFUSALS:
            self._line.refuse_all()
            return
        said = identity if isinstance(identity, str | int) else None
        self._line.put({"type": "refused", "id": said, **refusal(error).to_json()})
