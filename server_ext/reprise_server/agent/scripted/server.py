"""The scripted model: an HTTP server on a loopback port that speaks the Messages API's wire.

Spoken: POST /v1/messages (with and without a stream), POST /v1/messages/count_tokens; the same
answers under Amazon Bedrock's paths in its event stream, and under Google Vertex AI's paths.
"""

from __future__ import annotations

import re
import sys
import threading
import time
import urllib.parse
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Literal, Self

from reprise_server.agent.scripted.checks import check_betas, check_count, check_create
from reprise_server.agent.scripted.editing import edited, size
from reprise_server.agent.scripted.exchange import Ended, Exchange, Request
from reprise_server.agent.scripted.models import OFFERED, traits
from reprise_server.agent.scripted.prompt_cache import PromptCache
from reprise_server.agent.scripted.refusal import Invalid
from reprise_server.agent.scripted.replies import (
    Asked,
    Failure,
    Raw,
    Reply,
    Script,
    Send,
    Step,
    error,
)
from reprise_server.agent.scripted.serving import Answer, Json, Raws, Replied, handler
from reprise_server.agent.scripted.wire import Message, composed, signed

#: It opens nothing but this server.
KEY: Final = "sk-ant-scripted-0123456789abcdef"
_BEDROCK: Final = re.compile(r"/model/(?P<model>[^/]+)/invoke(?P<stream>-with-response-stream)?")
_VERTEX: Final = re.compile(
    r"(?:/v1)?/projects/[^/]+/locations/[^/]+/publishers/anthropic/models/"
    r"(?P<model>[^/:]+):(?P<how>rawPredict|streamRawPredict)"
)
#: Compaction blocks carry a signature over their summary, which is checked when they come back.
_COMPACT: Final = "compaction"


class _Server(ThreadingHTTPServer):
    """Quiet about clients that go, which tests do on purpose."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class ScriptedModel:
    """The API on http://127.0.0.1:PORT from `with` (or `async with`, or `start`) until its end.

    script: what is answered, in order or by a function of the request; more may be given by
    `then`, and `next` puts steps (failures, mostly) before all of them, whatever is asked.
    compact: what a request for compaction is answered, where the script is not to be asked.
    clock: seconds, by which the prompt cache forgets.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = KEY,
        models: frozenset[str] = OFFERED,
        port: int = 0,
        clock: Callable[[], float] = time.monotonic,
        compact: Callable[[Asked], str] | None = None,
    ) -> None:
        self.key = key
        self.models = set(models)
        #: All that came, whatever was answered.
        self.requests: list[Request] = []
        #: What the script was asked, in order.
        self.exchanges: list[Exchange] = []
        self._function = script if callable(script) else None
        self._steps: deque[Step] = deque(() if callable(script) else script)
        self._next: deque[Step] = deque()
        self._clock = clock
        self._compact = compact
        self._cache = PromptCache()
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    # Its lifetime ---------------------------------------------------------------------------------

    def start(self) -> Self:
        self._server = _Server(("127.0.0.1", self._port), handler(self))
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), name="scripted-model", daemon=True
        )
        self._thread.start()
        return self

    def close(self) -> None:
        """Answer no more, and let go of the streams that stand still."""
        self._closing.set()
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failed: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        failed: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """What a client takes as its base URL. Raises RuntimeError when it is not started."""
        if self._server is None:
            raise RuntimeError("The scripted model is not running: use it in a `with`.")
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    # The script -----------------------------------------------------------------------------------

    def next(self, *steps: Step) -> None:
        """Answer the next requests with these instead, one each."""
        with self._lock:
            self._next.extend(steps)

    def then(self, *steps: Step) -> None:
        """Put more at the end of a script that is a list."""
        with self._lock:
            self._steps.extend(steps)

    @property
    def left(self) -> int:
        """Steps of a list that nobody asked for yet."""
        with self._lock:
            return len(self._next) + len(self._steps)

    def wait(self, exchanges: int, seconds: float = 60.0) -> None:
        """Until the script was asked so many times. Raises TimeoutError. (From a thread.)"""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.exchanges) >= exchanges, seconds):
                raise TimeoutError(f"{len(self.exchanges)} of {exchanges} requests came.")

    def settle(self, seconds: float = 60.0) -> None:
        """Until nothing is under way. Raises TimeoutError. (From a thread.)"""
        with self._changed:
            if not self._changed.wait_for(
                lambda: all(exchange.ended is not None for exchange in self.exchanges), seconds
            ):
                raise TimeoutError("An answer is still under way.")

    # What is answered (called by the connections' threads) ----------------------------------------

    @property
    def closing(self) -> threading.Event:
        return self._closing

    def answer(self, request: Request, keys: set[str]) -> Answer:
        """What a request leads to. keys: the credentials that came with it."""
        with self._lock:
            self.requests.append(request)
        target = _target(request)
        if target is None:
            return Json.of(error(404, "not_found_error", "Not found"))
        with self._lock:
            early = self._next.popleft() if self._next and _early(self._next[0]) else None
        if isinstance(early, Failure):
            return Json.of(early)
        if target.provider == "anthropic" and keys != {self.key}:
            return Json.of(error(401, "authentication_error", "invalid x-api-key"))
        try:
            return self._checked(request, target)
        except Invalid as refused:
            return Json.of(error(400, "invalid_request_error", str(refused)))
        except _Unknown as unknown:
            return Json.of(error(404, "not_found_error", f"model: {unknown}"))

    def ended(self, exchange: Exchange, how: Ended) -> None:
        with self._changed:
            exchange.ended = how
            self._changed.notify_all()

    def begin(self, exchange: Exchange) -> None:
        """The answer begins: its prefixes are in the cache from now on."""
        with self._lock:
            self._cache.write(exchange.counted, self._clock())

    def _checked(self, request: Request, target: _Target) -> Answer:
        if target.provider == "anthropic" and "anthropic-version" not in request.headers:
            raise Invalid("anthropic-version: header is required")
        betas = check_betas(request.headers.get("anthropic-beta", ""))
        body = target.body(request.body)
        if isinstance(body, dict) and "anthropic_beta" in body:
            betas |= check_betas(",".join(body.pop("anthropic_beta")))
        if target.counting:
            given = check_count(body, betas)
            self._known(given["model"], target)
            return Json(200, {"input_tokens": size(edited(given)[0])})
        given = check_create(body, betas)
        self._known(given["model"], target)
        _check_signatures(given)
        seen, managed = edited(given)
        most = traits(given["model"]).context
        if (total := size(seen)) > most:
            raise Invalid(f"prompt is too long: {total} tokens > {most} maximum")
        return self._scripted(request, target, given, seen, managed)

    def _known(self, model: str, target: _Target) -> None:
        if target.provider == "anthropic" and model not in self.models:
            raise _Unknown(model)

    def _scripted(
        self,
        request: Request,
        target: _Target,
        given: dict[str, Any],
        seen: dict[str, Any],
        managed: dict[str, Any] | None,
    ) -> Answer:
        with self._changed:
            asked = Asked(len(self.exchanges), request.path, request.headers, given)
            counted = self._cache.count(seen, self._clock(), self.key)
            step = self._step(asked)
            exchange = Exchange(asked, step, counted)
            self.exchanges.append(exchange)
            self._changed.notify_all()
        if isinstance(step, Failure):
            self.ended(exchange, "broken")
            return Json.of(step)
        if isinstance(step, Raw):
            return Raws(exchange, step)
        omit = (given.get("thinking") or {}).get("display") == "omitted"
        message = composed(
            step, given["model"], counted, omit_thinking=omit, context_management=managed
        )
        return self._sent(exchange, step, message, target)

    def _sent(self, exchange: Exchange, step: Reply, message: Message, target: _Target) -> Answer:
        streamed = target.stream or bool(exchange.asked.body.get("stream"))
        return Replied(exchange, step, message, whole=not streamed, aws=target.aws)

    def _step(self, asked: Asked) -> Step:
        if asked.body["max_tokens"] == 0:
            # Nothing is wanted but the prompt in the cache.
            return Reply((), stop="max_tokens")
        if self._next:
            return self._next.popleft()
        if _COMPACT in asked.body and self._compact is not None:
            summary = self._compact(asked)
            block = {"type": "compaction", "content": summary, "signature": signed(summary)}
            return Reply((Send(block),), stop="compaction")
        if self._function is not None:
            return _answered(self._function, asked)
        if self._steps:
            return self._steps.popleft()
        return error(
            400,
            "invalid_request_error",
            f"The script is at its end: request {asked.number + 1} has no reply in it.",
        )


class _Unknown(Exception):
    """The API has no model of this name."""


@dataclass(frozen=True)
class _Target:
    """What a path asks for. model: where the path names it."""

    provider: Literal["anthropic", "bedrock", "vertex"]
    counting: bool = False
    model: str = ""
    stream: bool = False

    @property
    def aws(self) -> bool:
        return self.provider == "bedrock"

    def body(self, given: Any) -> Any:
        """The body as /v1/messages has it: the clouds take the version in it, and no model."""
        if self.provider == "anthropic" or not isinstance(given, dict):
            return given
        rest = dict(given)
        if "anthropic_version" not in rest:
            raise Invalid("anthropic_version: Field required")
        del rest["anthropic_version"]
        if "model" in rest and not self.counting:
            raise Invalid("model: Extra inputs are not permitted")
        if self.model:
            rest["model"] = self.model
        return rest


def _target(request: Request) -> _Target | None:
    if request.method != "POST":
        return None
    if request.path == "/v1/messages":
        return _Target("anthropic")
    if request.path == "/v1/messages/count_tokens":
        return _Target("anthropic", counting=True)
    if found := _BEDROCK.fullmatch(request.path):
        model = urllib.parse.unquote(found["model"])
        return _Target("bedrock", model=model, stream=found["stream"] is not None)
    if found := _VERTEX.fullmatch(request.path):
        if found["model"] == "count-tokens":
            return _Target("vertex", counting=True)
        return _Target("vertex", model=found["model"], stream=found["how"] == "streamRawPredict")
    return None


def _answered(script: Callable[[Asked], Step], asked: Asked) -> Step:
    """What a function says to a request. One that fails is told to the client, and not retried."""
    try:
        return script(asked)
    except Exception as problem:  # noqa: BLE001  whatever a test's or a user's function raises
        what = f"{type(problem).__name__}: {problem}"
        return error(400, "invalid_request_error", f"The script failed: {what}")


def _early(step: Step) -> bool:
    """Failures need no request that is whole: overload and hang-ups come before it is read."""
    return isinstance(step, Failure)


def _check_signatures(given: Mapping[str, Any]) -> None:
    """Thinking and summaries come back as they were given out. Raises Invalid."""
    for number, message in enumerate(given["messages"]):
        if isinstance(message["content"], str):
            continue
        for place, block in enumerate(message["content"]):
            where = f"messages.{number}.content.{place}"
            if block["type"] == "thinking" and block["signature"] != signed(block["thinking"]):
                raise Invalid(f"{where}: Invalid `signature` in `thinking` block")
            if (
                block["type"] == "compaction"
                and block.get("signature") is not None
                and block["signature"] != signed(block["content"] or "")
            ):
                raise Invalid(f"{where}: Invalid `signature` in `compaction` block")
