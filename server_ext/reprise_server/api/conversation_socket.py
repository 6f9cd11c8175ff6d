"""One page's or program's line to a conversation: a websocket that tells all, and takes messages.

What is told comes from the entries, so a reader that was away comes again with `after` and misses
nothing. Messages both ways are in the OpenAPI document under `x-websockets`.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import ws_authenticated
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.base.websocket import WebSocketMixin
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from reprise.errors import RepriseError
from reprise.log.conversations import Conversations
from reprise_server.agent.contract import Entry
from reprise_server.agent.running import Told, Watch
from reprise_server.api.conversations import RESOURCE, newest_end, pressed_at
from reprise_server.api.outbox import Outbox, TooSlow
from reprise_server.api.people import person_of
from reprise_server.api.questions import Open, open_questions
from reprise_server.api.refusals import Refused, refusal
from reprise_server.api.socket_messages import (
    ANSWER_BYTES,
    MESSAGE_BYTES,
    About,
    Messages,
)

if TYPE_CHECKING:
    from reprise_server.api.service import Service

PATH: Final = "/conversations/{conversation}/socket"

#: Entries that are read at once for a reader that was away; each may hold megabytes.
_PAGE: Final = 20
_TAIL: Final = 500

#: Close codes (RFC 6455, section 7.4.2: 4000 and up are an application's own).
SLOW: Final = 4008
REFUSED: Final = 4029
GOING: Final = 1001

#: A message that is larger by no more is refused in words; the rest by Tornado's close code 1009.
_SLACK: Final = 64 << 10
#: What is told for eyes only.
_PASSING: Final = ("delta", "shown")


class ConversationSocket(WebSocketMixin, WebSocketHandler, JupyterHandler):
    """Asked, message by message, as a request is: login, Authorizer, owner, limits, schema."""

    auth_resource = RESOURCE

    def initialize(self, service: Service) -> None:
        self.service = service
        self._tasks: set[asyncio.Task[None]] = set()
        self._entered = False
        self._ended = False
        self._messages: Messages | None = None
        self._watch: Watch | None = None
        #: Since the hello: an entry was told as it came; the end of a turn was.
        self._came = False
        self._over = False

    # The handshake --------------------------------------------------------------------------------

    @ws_authenticated
    async def get(self, *arguments: str, **_: Any) -> None:
        """Upgrade, for whoever may read conversations here."""
        try:
            await self._admit(arguments[0])
            await super().get()
        except (RepriseError, Refused) as error:
            refused = refusal(error)
            self.set_status(refused.status_code)
            self.set_header("Content-Type", "application/json")
            self.finish(json.dumps(refused.to_json()))

    async def _admit(self, conversation: str) -> None:
        if not self.current_user:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        self.person = person_of(self.identity_provider, self.current_user)
        await self.authorize("read")
        service = self.service
        said = service.document.socket(PATH)
        path = said.path({"conversation": conversation})
        query = said.query(
            {
                name: [value.decode("utf-8", "replace") for value in values]
                for name, values in self.request.query_arguments.items()
            }
        )
        service.limits.admit(self.person.key, "read")
        self.conversation = uuid.UUID(path["conversation"])
        self._after = int(query["after"])
        info, self._by = await service.conversing.of(self.conversation)
        yours = await service.conversing.may(self.person, self._by) is None
        self._notebook_here = yours and info.notebook is not None
        self._about = About(self.conversation, self._by, info.notebook, self.person, said.messages)
        self._after = min(self._after, info.entries - 1)
        service.sockets.enter(self.person.key)
        self._entered = True

    @property
    def max_message_size(self) -> int:
        """As Tornado asks for it; only a page of the notebook's has so much to say."""
        return ANSWER_BYTES if self._notebook_here else MESSAGE_BYTES + _SLACK

    # Telling --------------------------------------------------------------------------------------

    async def open(self, *_: str, **__: Any) -> None:
        opened = super().open()
        if opened is not None:
            await opened
        self._outbox = Outbox(self._write, self.service.settings.socket_patience)
        self._outbox.after = self._after
        self._messages = Messages(self.service, self, self._about)
        self.service.sockets.opened(self)
        self._begin(self._serve())
        self._begin(self._messages.run())

    async def _write(self, text: str) -> None:
        await self.write_message(text)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self) -> None:
        """Tell what there is, then what comes, until the connection ends."""
        try:
            runs = await self._hello()
            await self._catch_up()
            loop = asyncio.get_running_loop()

            def tell(told: Told) -> None:
                loop.call_soon_threadsafe(self._told, told)

            running = self.service.conversing.running
            self._watch = await running.watch(self.conversation, tell, self._outbox.after)
            if runs or self._came:
                await self._end_missed()
            await self._outbox.run()
        except TooSlow:
            self._drop()
        except (WebSocketClosedError, StreamClosedError):
            pass
        except RepriseError as error:
            self._last_words(refusal(error))
        except Refused as refused:
            self._last_words(refused)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.log.exception("Reprise: the websocket of %s failed", self.conversation)
            self._last_words(refusal(error))

    async def _hello(self) -> bool:
        """Whether a turn runs here, as it was told."""
        conversing = self.service.conversing
        info, _ = await conversing.of(self.conversation)
        runs = await conversing.runs(self.conversation)
        hello = {
            "type": "hello",
            "conversation": str(self.conversation),
            "owner": self._by,
            "yours": await conversing.may(self.person, self._by) is None,
            "running": runs,
            "after": self._after,
            "last": info.entries - 1,
        }
        await self._outbox.send_now(json.dumps(hello))
        return runs

    async def _end_missed(self) -> None:
        """That a turn has ended is told once; it may have been while nobody listened for this line.

        Its entries are stored and read, so without this a reader would know how it ended, and
        wait for ever to be told that the next one may begin.
        """
        ended = newest_end(await self._tail())
        runs = await self.service.conversing.runs(self.conversation)
        if ended is not None and not runs and not self._over:
            self.put({"type": "ended", "status": ended})

    async def _tail(self) -> Sequence[Entry]:
        """The newest entries."""
        info, _ = await self.service.conversing.of(self.conversation)
        return await Conversations(await self.service.log()).newest(info, _TAIL)

    async def _catch_up(self) -> None:
        """All that was stored, as fast as it is taken; nothing of it waits in memory."""
        known = Conversations(await self.service.log())
        while True:
            some = await known.entries(self.conversation, after=self._outbox.after, most=_PAGE)
            for entry in some:
                told = {"type": "entry", "entry": entry.to_json()}
                await self._outbox.send_now(json.dumps(told))
                self._outbox.after = entry.seq
            if len(some) < _PAGE:
                break
        tail = await self._tail()
        ended = newest_end(tail)
        await self._outbox.send_now(
            json.dumps({"type": "told", "after": self._outbox.after, "ended": ended})
        )
        for question in open_questions(tail):
            await self._question(question)

    def _told(self, told: Told) -> None:
        """Called on the loop here, in the order in which it was told there."""
        if self._ended:
            return
        self._came = self._came or told["type"] == "entry"
        self._over = self._over or told["type"] == "ended"
        self.put(told, passing=told["type"] in _PASSING)
        if told["type"] == "entry" and told["entry"]["kind"] in ("question", "continued"):
            self._begin(self._asked(told["entry"]))

    async def _asked(self, said: Mapping[str, Any]) -> None:
        """What a person is asked by this entry; a turn that goes on asks what it was cut at."""
        with suppress(RepriseError, Refused, WebSocketClosedError):
            known = Conversations(await self.service.log())
            tail = await known.entries(
                self.conversation, after=max(-1, said["seq"] - _TAIL), most=2 * _TAIL
            )
            for question in open_questions(tail):
                if said["body"].get("id") in (None, question.id):
                    await self._question(question)

    async def _question(self, question: Open) -> None:
        """Where it is pressed, for whoever may."""
        conversing = self.service.conversing
        yours = await conversing.may(self.person, self._by) is None
        pressed = await pressed_at(
            conversing, self.conversation, question, self.person if yours else None, self.base_url
        )
        self.put({"type": "question", "question": question.id, "yours": yours, **pressed})

    def put(self, message: Mapping[str, Any], *, passing: bool = False) -> None:
        try:
            if not self._ended:
                self._outbox.put(message, passing=passing)
        except TooSlow:
            self._drop()

    def refuse_all(self) -> None:
        self.close(REFUSED, "nothing of what was sent could be done")

    def _drop(self) -> None:
        """A reader that cannot keep up begins anew where it was; nothing waits for it here."""
        if not self._ended:
            self._end()
            self.log.info(
                "Reprise: a reader of %s was too slow; it may come again", self.conversation
            )
            self.close(SLOW, f"too slow; come again with after={self._outbox.after}")

    def _last_words(self, refused: Refused) -> None:
        with suppress(WebSocketClosedError):
            self.write_message(json.dumps({"type": "refused", "id": None, **refused.to_json()}))
        self.close(GOING, refused.code)

    # Listening ------------------------------------------------------------------------------------

    async def on_message(self, message: str | bytes) -> None:
        if self._messages is not None:
            await self._messages.take(message.encode() if isinstance(message, str) else message)

    async def authorize(self, action: str) -> None:
        """Raises Refused (403)."""
        user = self.current_user
        allowed = await ensure_async(
            self.authorizer.is_authorized(self, user, action, self.auth_resource)
        )
        if not allowed:
            raise Refused(
                403,
                "not-authorized",
                f"This server's Authorizer does not allow you to {action} {self.auth_resource}."
                " Whoever runs the server may.",
            )

    @property
    def from_browser(self) -> bool:
        """A browser says where a websocket comes from, and no script can leave that out."""
        headers = self.request.headers
        return "Origin" in headers or "Authorization" not in headers

    # The end --------------------------------------------------------------------------------------

    def on_close(self) -> None:
        super().on_close()
        self._leave()
        self._end()

    def _end(self) -> None:
        """Let go of all; idempotent, also before it was opened."""
        self._ended = True
        self.service.sockets.gone(self)
        for task in self._tasks:
            task.cancel()
        if self._messages is not None:
            self._messages.link.close()
        watch, self._watch = self._watch, None
        if watch is not None:
            self.service.conversing.unwatch(self.conversation, watch)

    def on_finish(self) -> None:
        """Of the handshake; Tornado calls `on_close` where a connection came of it."""
        if self.get_status() != HTTPStatus.SWITCHING_PROTOCOLS:
            self._leave()
        super().on_finish()

    def _leave(self) -> None:
        if self._entered:
            self._entered = False
            self.service.sockets.leave(self.person.key)
