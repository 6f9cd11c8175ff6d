"""What every handler of the API has: who may ask, how much, in which form, and how it is answered.

A handler is an `Endpoint` with the path that the OpenAPI document gives it, and its methods are
made by `operation`. Nothing else gets in: Jupyter's login, XSRF and Authorizer, our limits, and
the document's schemas are all asked before a method of ours runs, the first four before the body
is read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado.web import HTTPError, authenticated, stream_request_body

from reprise.errors import RepriseError
from reprise_server.api import document
from reprise_server.api.bodies import parse_json
from reprise_server.api.incoming import Incoming, too_large
from reprise_server.api.people import Person, person_of
from reprise_server.api.refusals import Refused, refusal
from reprise_server.api.sending import Sending

if TYPE_CHECKING:
    from reprise_server.api.service import Service

Action = Literal["read", "write", "execute"]

#: Of a body that is JSON, if an operation says nothing else.
BODY_BYTES: Final = 1 << 20
#: Of any JSON, whatever the operation takes of other types: what it is parsed into is larger.
JSON_BYTES: Final = 8 << 20
#: From here on a body is parsed beside the loop.
_LONG: Final = 64 << 10


@dataclass(frozen=True)
class Asked:
    """A request that was found in order.

    path, query: values as the document types them. body: what the JSON says; the bytes of other
    content types, or the open file that they are in where the operation wants them on a disk; None
    without one. content_type: "" without a body.
    """

    path: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Any = None
    content_type: str = ""


@dataclass(frozen=True)
class Answer:
    """A status other than the operation's own."""

    value: Any
    status: int = 200


@dataclass(frozen=True)
class File:
    """Bytes that a browser saves and never shows. name: as it is offered for saving."""

    name: str
    data: bytes


Method = Callable[[Any, Asked], Awaitable[Any]]


@dataclass(frozen=True)
class Operation:
    """One method of an endpoint. See `operation`."""

    method: Method
    action: Action
    resource: str | None
    status: int
    body_bytes: int
    patience_s: float | None
    widens: bool = False
    on_disk: bool = False


def operation(
    action: Action,
    resource: str | None = None,
    *,
    status: int = 200,
    body_bytes: int = BODY_BYTES,
    patience_s: float | None = None,
    widens: bool = False,
    on_disk: bool = False,
) -> Callable[[Method], Any]:
    """Make a method of an `Endpoint`: `async def post(self, asked: Asked) -> what is answered`.

    action, resource: what Jupyter's Authorizer is asked about (default: the endpoint's resource),
      and by which action the rate is limited.
    status: of its answer, which is JSON, a `File`, a `Sending`, or an `Answer` of another status.
    patience_s: how long it may take (default: the server's setting); then it is cancelled.
    widens: whether it widens somebody's rights; such an operation calls `governance.admit`.
    on_disk: whether its body, which is bytes, goes to a file as it comes.
    """
    return lambda method: Operation(
        method, action, resource, status, body_bytes, patience_s, widens, on_disk
    )


@dataclass
class Admitted:
    """An operation that may be done now; what it holds of the limits is given back once."""

    operation: Operation
    person: Person
    running: bool = False
    left: bool = False


@stream_request_body
class Endpoint(APIHandler):
    """A handler of the API. path: its template in the OpenAPI document."""

    path: ClassVar[str]
    auth_resource: ClassVar[str]
    operations: ClassVar[Mapping[str, Operation]]

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse a method that was not made by `operation`: nothing here is open by mistake."""
        super().__init_subclass__(**options)
        operations = {}
        for name in [*document.METHODS, "head"]:
            made = cls.__dict__.get(name)
            if made is None:
                continue
            if not isinstance(made, Operation) or name == "head":
                raise TypeError(f"{cls.__name__}.{name} is not made by reprise_server's operation")
            operations[name] = made
            setattr(cls, name, _guarded(name))
        cls.operations = operations

    def initialize(self, service: Service) -> None:
        self.service = service
        self._admitted: Admitted | None = None
        self._slow: asyncio.TimerHandle | None = None
        self._incoming = Incoming(self.request.headers, service.hold, service.release)

    # Before the body ------------------------------------------------------------------------------

    async def prepare(self) -> None:  # type: ignore[override]  # as APIHandler's own
        """Jupyter's own checks, its Authorizer, our limits; then the body may come."""
        if self._incoming.comes:
            seconds = self.service.settings.body_patience
            self._slow = asyncio.get_running_loop().call_later(seconds, self._too_slow, seconds)
        try:
            await super().prepare()
            if not self._finished and self.request.method != "OPTIONS":
                await self._admit(str(self.request.method).lower())
        except HTTPError as error:
            self._leave()
            if not self._incoming.drop(error):
                raise
            # Tornado waits for the body, then calls this.
            setattr(self, str(self.request.method).lower(), self._say)

    async def _admit(self, method: str) -> None:
        """Raises HTTPError."""
        offered = self.operations.get(method)
        if offered is None:
            raise HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)
        if not self.current_user:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        await self.authorize(offered.action, offered.resource or self.auth_resource)
        person = person_of(self.identity_provider, self.current_user)
        limits = self.service.limits
        limits.admit(person.key, offered.action)
        limits.enter(person.key)
        self._admitted = Admitted(offered, person)
        self._incoming.expect(offered.body_bytes, on_disk=offered.on_disk)

    async def authorize(self, action: Action, resource: str) -> None:
        """By Jupyter's own decorator: one for each request, since it keeps its first answers.

        Raises Refused (403). An operation calls it for what it reads of another resource.
        """
        try:
            await authorized(action, resource)(_nothing)(self)
        except HTTPError as error:
            if error.status_code != HTTPStatus.FORBIDDEN:
                raise
            raise Refused(
                HTTPStatus.FORBIDDEN,
                "not-authorized",
                f"This server's Authorizer does not allow you to {action} {resource}."
                " Whoever runs the server may.",
            ) from None

    # The body -------------------------------------------------------------------------------------

    def data_received(self, chunk: bytes) -> None:
        """Keep a piece of the body, within this operation's bound and the server's."""
        if not self._finished:
            try:
                self._incoming.take(chunk)
            except Refused as refused:
                self._refuse(refused)

    def _say(self, *_: str) -> None:
        """Answer with what was found before the body came."""
        self._incoming.whole = True
        raise self._incoming.refusal or HTTPError(HTTPStatus.FORBIDDEN)

    def _too_slow(self, seconds: float) -> None:
        if not self._finished:
            self._refuse(
                Refused(408, "too-slow", f"The body did not come within {seconds:g} s. Try again.")
            )

    def on_finish(self) -> None:
        self._leave_unless_running()
        super().on_finish()

    def on_connection_close(self) -> None:
        self._leave_unless_running()
        super().on_connection_close()

    def _leave_unless_running(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
        if self._admitted is None or not self._admitted.running:
            self._leave()

    def _leave(self) -> None:
        """Give back what this request holds of the limits."""
        self._incoming.let_go()
        admitted = self._admitted
        if admitted is not None and not admitted.left:
            admitted.left = True
            self.service.limits.leave(admitted.person.key)

    # The operation --------------------------------------------------------------------------------

    @property
    def person(self) -> Person:
        """Who asks."""
        if self._admitted is None:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        return self._admitted.person

    @property
    def from_browser(self) -> bool:
        """Whether a browser asks, where a script may be what asks: no script can leave out what
        these headers say of it (Fetch, "forbidden request-header"). A program that has the token
        and keeps cookies is none."""
        headers = self.request.headers
        return (
            "Origin" in headers
            or any(name.startswith("Sec-Fetch-") for name in headers)
            or ("Cookie" in headers and "Authorization" not in headers)
        )

    @property
    def body_sent(self) -> bytes:
        """The body as it came, while the operation runs."""
        return bytes(self._incoming.body)

    def emit(self, event: str, said: Mapping[str, Any]) -> None:
        """Tell listeners of Jupyter's event system that this person did something."""
        self.service.emit(event, {"by": str(self.person), **said})

    async def _run(self, name: str, arguments: tuple[str, ...]) -> None:
        admitted = self._admitted
        if self._finished:
            return  # it was refused while its body came
        self._incoming.whole = True
        if admitted is None or admitted.operation is not self.operations[name]:
            raise HTTPError(HTTPStatus.FORBIDDEN)
        if self._slow is not None:
            self._slow.cancel()
        offered = admitted.operation
        admitted.running = True
        try:
            asked = await self._read(name, arguments)
            patience = offered.patience_s or self.service.settings.patience
            answer = await _within(patience, offered.method(self, asked))
            if isinstance(answer, Sending):
                await answer.send(self)
            else:
                self._answer(offered, answer)
        except RepriseError as error:
            if (refused := refusal(error)).status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
                self.log.warning("Reprise: %s %s: %s", name.upper(), self.path, error)
            self._refuse(refused)
        finally:
            self._leave()

    async def _read(self, name: str, arguments: tuple[str, ...]) -> Asked:
        said = self.service.document.operations[self.path, name]
        names = path_names(self.path)
        path = said.path(dict(zip(names, arguments, strict=True)))
        query = said.query(
            {
                key: [_text(key, each) for each in values]
                for key, values in self.request.query_arguments.items()
            }
        )
        on_disk = self.operations[name].on_disk
        body = self._incoming.body
        if on_disk and self._incoming.size == 0:
            return Asked(path, query, self._incoming.file)  # an empty file is one, too
        if not body and not on_disk:
            if said.body_required:
                raise Refused(400, "no-body", f"A body is needed: {' or '.join(said.bodies)}.")
            return Asked(path, query)
        content_type = _content_type(self.request.headers.get("Content-Type", ""))
        if content_type not in said.bodies:
            wanted = " or ".join(said.bodies) or "no body at all"
            raise Refused(415, "content-type", f"This takes {wanted}.")
        validator = said.bodies[content_type]
        if on_disk:
            return Asked(path, query, self._incoming.file, content_type)
        if validator is None:
            return Asked(path, query, body, content_type)
        if len(body) > JSON_BYTES:
            raise too_large(JSON_BYTES)

        def parsed() -> Any:
            value = parse_json(body)
            said.body(content_type, value)
            return value

        value = parsed() if len(body) < _LONG else await asyncio.to_thread(parsed)
        return Asked(path, query, value, content_type)

    # The answer -----------------------------------------------------------------------------------

    def _answer(self, offered: Operation, answer: Any) -> None:
        if isinstance(answer, File):
            self.set_attachment_header(answer.name)
            self.finish(answer.data, set_content_type="application/octet-stream")
            return
        status = answer.status if isinstance(answer, Answer) else offered.status
        value = answer.value if isinstance(answer, Answer) else answer
        self.set_status(status)
        if status == HTTPStatus.NO_CONTENT:
            self.finish()
        else:
            self.finish(json.dumps(value, allow_nan=False))

    def _refuse(self, refused: Refused) -> None:
        self.clear()
        self.set_status(refused.status_code)
        if getattr(self, "_jupyter_current_user", None):
            self.set_cors_headers()  # which `clear` took away: a front end elsewhere reads why
        if not self._incoming.whole:
            # Tornado closes it rather than read on; said, so that no client sends the next request
            # into the void.
            self.set_header("Connection", "close")
        if refused.retry_after_s is not None:
            self.set_header("Retry-After", str(refused.retry_after_s))
        self.finish(json.dumps(refused.to_json()))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Whatever was raised, in the one shape."""
        error = (kwargs.get("exc_info") or (None, HTTPError(status_code), None))[1]
        refused = refusal(error)
        # Not `current_user`: Jupyter's raises where something failed before it was looked up.
        known = getattr(self, "_jupyter_current_user", None)
        if not known and refused.status_code == HTTPStatus.FORBIDDEN:
            refused = Refused(
                HTTPStatus.FORBIDDEN,
                "not-authenticated",
                "Log in to this Jupyter server first, or send its token.",
            )
        self._refuse(refused)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("X-Content-Type-Options", "nosniff")

    def compute_etag(self) -> None:
        """Nothing of this is kept by a browser."""

    @property
    def content_security_policy(self) -> str:
        """Bytes of a skill must not act, even where somebody opens their address."""
        return f"{super().content_security_policy}; sandbox"


def path_names(template: str) -> list[str]:
    """The parameters of a path's template, in order."""
    return [each[1:-1] for each in template.split("/") if each.startswith("{")]


def _guarded(name: str) -> Any:
    """What Tornado calls: Jupyter looks for this very decorator on every method."""

    @authenticated
    async def method(self: Endpoint, *arguments: str) -> None:
        await self._run(name, arguments)

    return method


def _nothing(_: Endpoint) -> None:
    """Jupyter's decorator decides whether this is called."""


async def _within(patience_s: float, doing: Awaitable[Any]) -> Any:
    deadline = asyncio.timeout(patience_s)
    try:
        async with deadline:
            return await doing
    except TimeoutError:
        if not deadline.expired():
            raise
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "took-too-long",
            f"This did not end within {patience_s:g} s and was given up; what it had changed"
            " by then stays changed. Look again, and ask for less.",
            retry_after_s=5,
        ) from None


def _content_type(header: str) -> str:
    kind, _, parameters = header.partition(";")
    charset = parameters.strip().lower()
    if charset and charset not in ("charset=utf-8", 'charset="utf-8"'):
        raise Refused(
            415, "content-type", "Texts are UTF-8 here, and nothing else is said of them."
        )
    return kind.strip().lower()


def _text(name: str, value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise Refused(400, "invalid-request", f"{name[:100]!r} is not UTF-8.") from None
    if "\0" in text:
        raise Refused(400, "invalid-request", f"{name[:100]!r} holds a NUL character.")
    return text
