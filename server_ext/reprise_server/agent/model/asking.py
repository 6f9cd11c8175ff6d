"""A model behind the Messages API: asked, waited for where people see it, and read to its end."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from reprise.errors import UsageError
from reprise_server.agent.contract import Answered, Listener, ModelFailed, Prompt, Waiting
from reprise_server.agent.model import caching, compaction, failures, pictures, sizes, waits
from reprise_server.agent.model.accumulate import Accumulator, Malformed, StreamError, texts
from reprise_server.agent.model.budget import Budget
from reprise_server.agent.model.clients import Client, headers_of, open_client
from reprise_server.agent.model.events import BadStream, Events
from reprise_server.agent.model.failures import ContextFull, Failure
from reprise_server.agent.model.parsing import NotJson, strict
from reprise_server.agent.model.prices import price_of

if TYPE_CHECKING:
    from reprise_server.agent.settings import RepriseAgent

#: Of one attempt, whatever trickles in. The longest answers take some ten minutes.
_LONGEST_ANSWER: Final = 3_600.0
#: For the end of the connection's stream once the answer is whole, so that it can be used again.
_DRAIN: Final = 0.25
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


def open_model(settings: RepriseAgent, *, name: str | None = None) -> ApiModel:
    """The model of these settings; `name`: another one than `settings.model`.

    Nothing is sent yet. Raises UnavailableError (no SDK, no key), UsageError (no such settings; a
    bound in money, and no price).
    """
    model = (name or settings.model).strip()
    if not model or len(model) > 200 or not model.isprintable():
        raise UsageError("The model has no name: set c.RepriseAgent.model.")
    budget = Budget.of(
        model=model,
        requests=settings.turn_requests,
        tokens=settings.turn_tokens,
        money=settings.money,
        prices=settings.prices,
    )
    return ApiModel(open_client(settings), settings, model, budget)


@dataclass
class _Asking:
    """One request while it is tried: what attempts that were cut off took, and what came of the
    one that runs."""

    sent: Mapping[str, Any]
    betas: Sequence[str]
    listener: Listener
    answer: Accumulator = field(default_factory=Accumulator)
    request_id: str | None = None
    underway: bool = False
    reading: bool = False
    lost: list[dict[str, Any]] = field(default_factory=list)


class ApiModel:
    """`contract.Model` over the SDK's clients.

    budget: the bounds of these settings.  sleep, chance: replaced by tests.
    """

    def __init__(
        self,
        client: Client,
        settings: RepriseAgent,
        name: str,
        budget: Budget,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.name = name
        self.budget = budget
        self.context_tokens = settings.context_tokens
        self.max_tokens = settings.max_tokens
        self._client = client
        self._attempts = settings.attempts
        self._longest = settings.longest_wait
        self._price = price_of(settings.prices, name)
        self._managed = settings.context_management == "api"
        self._sleep = sleep
        self._chance = chance
        self._traits = caching.Traits(
            name,
            settings.max_tokens,
            thinking=settings.thinking,
            effort=settings.effort,
            strict=settings.strict_tools,
        )
        # What was laid out last: a request is, for its digest, just before it is sent.
        self._laid: tuple[Prompt, dict[str, Any]] | None = None
        #: Images that the endpoint did not take, by name.
        self._left_out: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        return f"<model {self.name} at {self._client.host}>"

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """What `respond` sends, apart from `stream`: its digest is `caching.digest(body)`."""
        if self._laid is None or self._laid[0] is not prompt:
            sent = caching.body(prompt, self._traits)
            if self._managed:
                sent["context_management"] = compaction.edits(self.context_tokens)
            if self._left_out:
                sent["messages"] = pictures.without(sent["messages"], self._left_out)
            self._laid = (prompt, sent)
        return dict(self._laid[1])

    def size(self, prompt: Prompt) -> int:
        """Tokens of a request, estimated, rather too many."""
        return sizes.of_request(prompt.tools, prompt.system, prompt.messages)

    def full(self, size: int) -> bool:
        """Whether a request of so many tokens is to be compacted first."""
        return compaction.due(size, context_tokens=self.context_tokens, max_tokens=self.max_tokens)

    async def count(self, prompt: Prompt) -> int:
        """Tokens of a request as the API counts them, or estimated where it does not count."""
        if not self._client.counts:
            return self.size(prompt)
        sent = self.body(prompt)
        del sent["max_tokens"]
        api = self._client.sdk.beta.messages if self._managed else self._client.sdk.messages
        betas = {"betas": self._betas()} if self._managed else {}
        try:
            counted = (await api.count_tokens(**sent, **betas)).input_tokens
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001 - whatever fails here, the estimate serves
            return self.size(prompt)
        return counted if type(counted) is int and counted >= 0 else self.size(prompt)

    async def respond(self, prompt: Prompt, listener: Listener) -> Answered:
        """As `contract.Model`: after a wait what was shown of the attempt before is void.

        An attempt that is cut off is tried again whole: no tool runs before an answer's end, so
        nothing is done twice. Raises ContextFull where compacting helps, else ModelFailed.
        """
        return await self._ask(self.body(prompt), self._betas(), listener)

    async def compact(self, prompt: Prompt, listener: Listener) -> Answered:
        """What stands for these messages from now on: content of an entry `compacted`, from which
        `compaction.opening` makes the messages that come first. Loaded skills are in it, in full.

        The last message must be the person's or hold results. Raises ModelFailed.
        """
        sent = caching.body(prompt, self._traits)
        if self._managed:
            sent["compaction"] = {"type": "summarize"}
        else:
            asked = {"type": "text", "text": compaction.INSTRUCTIONS}
            sent["messages"] = [*sent["messages"], {"role": "user", "content": [asked]}]
        answered = await self._ask(sent, self._betas(), listener)
        if self._managed:
            content = [
                block
                for block in answered.content
                if block.get("type") == "compaction" and block.get("content")
            ]
        else:
            words = texts(answered.content)
            content = [{"type": "text", "text": compaction.SUMMARY + words}] if words else []
        if not content or answered.stop_reason in ("refusal", "max_tokens"):
            raise ModelFailed(
                f"{self.name} gave no summary of the conversation, which is near the limit of its "
                "context. The conversation is as it was. Try again, or begin a new one.",
                usage=answered.usage,
                again=True,
            )
        kept = compaction.carried(prompt.messages, self.context_tokens)
        content += [dict(block) for block in (*kept, *compaction.said(prompt.messages))]
        return Answered(
            content,
            answered.stop_reason,
            answered.usage,
            answered.model,
            answered.request_id,
            answered.cost,
        )

    async def close(self) -> None:
        await self._client.sdk.close()

    def _betas(self) -> list[str]:
        # Both always: a block of an earlier compaction needs its beta too, and so nothing changes.
        return [compaction.EDITING, compaction.COMPACTION] if self._managed else []

    async def _ask(
        self, sent: Mapping[str, Any], betas: Sequence[str], listener: Listener
    ) -> Answered:
        asking = _Asking(sent, betas, listener)
        unreadable, attempt = 0, 1
        while True:
            listener.asked(attempt)
            try:
                failure = await self._attempt(asking)
                if failure is None:
                    return self._answered(asking)
                unreadable += failure.malformed
                if self._without_images(failure, asking):
                    continue
                tried = attempt >= self._attempts or unreadable > waits.MAX_MALFORMED
                if tried or not failure.again:
                    break
                attempt += 1
                await self._wait(failure, attempt, asking)
            except asyncio.CancelledError:
                # The connection is closed by now. What it took is not known: an estimate stands.
                self._lose(asking, cancelled=True)
                listener.cut(asking.answer.partial(), self._cut_usage(asking))
                raise
        partial = asking.answer.partial()
        self._lose(asking)
        raise self._told(failure, attempt, partial, self._cut_usage(asking))

    def _without_images(self, failure: Failure, asking: _Asking) -> bool:
        """Leave out the images of a request that was refused for one; whether there were any."""
        if not pictures.blamed(failure.status, failure.said):
            return False
        found = pictures.names(asking.sent["messages"])
        if not found:
            return False
        self._left_out |= found
        self._laid = None
        asking.sent = {
            **asking.sent,
            "messages": pictures.without(asking.sent["messages"], self._left_out),
        }
        return True

    async def _wait(self, failure: Failure, attempt: int, asking: _Asking) -> None:
        """Before the attempt of this number, where people see it."""
        self._lose(asking)
        pause = waits.seconds(failure, attempt - 1, longest=self._longest, chance=self._chance())
        asking.listener.waiting(Waiting(failure.why, pause, attempt, failure.status))
        await self._sleep(pause)

    async def _attempt(self, asking: _Asking) -> Failure | None:
        """One try: None when the answer is whole. What the SDK raises ends here, since it holds the
        request and with it the key; so nothing is raised from it."""
        asking.answer = Accumulator()
        asking.request_id = None
        asking.underway, asking.reading = True, False
        try:
            async with asyncio.timeout(_LONGEST_ANSWER):
                stream = await self._create(asking)
                asking.reading = True
                try:
                    asking.request_id = self._request_id(headers_of(stream.response))
                    await self._read(stream, asking)
                finally:
                    await stream.close()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - none may pass: each could carry the key
            return self._failure(error, asking)
        if not asking.answer.whole:
            return failures.cut_off(self._client.host)
        return None

    async def _create(self, asking: _Asking) -> Any:
        sdk = self._client.sdk
        if asking.betas:
            return await sdk.beta.messages.create(
                **asking.sent, betas=list(asking.betas), stream=True
            )
        return await sdk.messages.create(**asking.sent, stream=True)

    async def _read(self, stream: Any, asking: _Asking) -> None:
        answer, shown = asking.answer, asking.listener.delta
        if not self._client.sse:
            async for typed in stream:
                for delta in answer.take(typed.to_dict(mode="json", warnings=False)):
                    shown(delta)
                if answer.whole:
                    return
            return
        events = Events()
        chunks = aiter(stream.response.aiter_bytes())
        async for chunk in chunks:
            for event in events.feed(chunk):
                given = strict(event.data, halves=True)
                if not isinstance(given, dict):
                    raise Malformed("an event is no object")
                if event.name and given.get("type") != event.name:
                    raise Malformed("an event is not what its name says")
                for delta in answer.take(given):
                    shown(delta)
                if answer.whole:
                    await _drain(chunks)
                    return

    def _failure(self, error: Exception, asking: _Asking) -> Failure:
        import anthropic  # noqa: PLC0415 - it is imported by now
        import httpx2  # noqa: PLC0415

        host, secrets = self._client.host, self._client.secrets()
        cause: BaseException = error
        while cause.__cause__ is not None and not isinstance(cause, BadStream):
            cause = cause.__cause__
        if isinstance(cause, BadStream | Malformed | NotJson):
            return failures.malformed(host, secrets.quoted(str(cause)) or type(cause).__name__)
        if isinstance(error, StreamError):
            return failures.refused(
                failures.STATUS_OF.get(error.kind, 500),
                said=error.message,
                model=self.name,
                host=host,
                secrets=secrets,
                retry_after=None,
            )
        if isinstance(error, anthropic.APIStatusError):
            return self._refused(error, asking)
        if isinstance(error, TimeoutError | anthropic.APITimeoutError | httpx2.TimeoutException):
            return failures.unreachable(host, why="said nothing for too long")
        if isinstance(error, anthropic.APIConnectionError | httpx2.HTTPError | OSError):
            if asking.answer.started:
                return failures.cut_off(host)
            return failures.unreachable(host)
        if asking.reading:
            # What the decoder of a cloud's frames says of bytes that are none.
            return failures.malformed(host, type(error).__name__)
        if self._client.cloud:
            return failures.not_signed_in(self._client.cloud, error)
        return failures.unexpected(host, error)

    def _request_id(self, headers: Mapping[str, str]) -> str | None:
        """As the endpoint named the request; None where it is no id that may be kept."""
        given = headers.get("request-id", "")
        usual = _REQUEST_ID.fullmatch(given) and not self._client.secrets().stand_in(given)
        return given if usual else None

    def _refused(self, error: Any, asking: _Asking) -> Failure:
        headers = headers_of(error.response)
        asking.request_id = self._request_id(headers)
        status = error.status_code
        if status < 400 and not 300 <= status < 400:
            # An `error` event in mid-stream, as the SDK gives it: the response itself was fine.
            status = failures.STATUS_OF.get(str(error.type), 500)
        failure = failures.refused(
            status,
            said=error.api_message if isinstance(error.api_message, str) else "",
            model=self.name,
            host=self._client.host,
            secrets=self._client.secrets(),
            retry_after=waits.asked_for(headers, time.time()),
        )
        told = waits.may_retry(headers)
        if told is None or error.status_code < 400:
            return failure
        return replace(failure, again=told)

    def _told(
        self,
        failure: Failure,
        attempt: int,
        partial: Sequence[Mapping[str, Any]],
        usage: Mapping[str, Any] | None,
    ) -> ModelFailed:
        words = f"{failure.why}."
        if attempt > 1:
            words += f" It was tried {attempt} times."
        words += " Nothing of its answer was done."
        if failure.todo:
            words += f" {failure.todo}"
        if failure.full:
            words += " The conversation is too large for the model's context: compact it."
            return ContextFull(words, partial=partial, usage=usage, again=False)
        return ModelFailed(words, partial=partial, usage=usage, again=failure.again)

    def _answered(self, asking: _Asking) -> Answered:
        answer = asking.answer
        usage = dict(answer.usage)
        if "input_tokens" not in usage or "output_tokens" not in usage:
            usage = self._estimated(asking)
        if asking.lost:
            usage["lost"] = asking.lost
        details = answer.stop_details or {}
        why = details.get("explanation") or details.get("category")
        return Answered(
            content=answer.content,
            stop_reason=answer.stop_reason or "",
            usage=usage,
            model=answer.model or self.name,
            request_id=asking.request_id,
            cost=None if self._price is None else str(self._price.of(usage)),
            why=why[:1000] if isinstance(why, str) else None,
        )

    def _lose(self, asking: _Asking, *, cancelled: bool = False) -> None:
        """Keep what the attempt took that gave no answer. One that was refused took nothing; of one
        that was cancelled before its first word nobody knows, so its input counts."""
        if asking.underway and (asking.answer.started or cancelled):
            asking.lost.append(self._estimated(asking))
        asking.underway = False

    def _estimated(self, asking: _Asking) -> dict[str, Any]:
        answer, sent = asking.answer, asking.sent
        usage = dict(answer.usage)
        usage.pop("context_management", None)
        if "input_tokens" not in usage:
            usage["input_tokens"] = sizes.of_request(
                sent.get("tools", ()), sent.get("system", ()), sent["messages"]
            )
        # The API counts output at the end only; a token is some three characters.
        came = -(-answer.shown_characters() // 3)
        usage["output_tokens"] = max(int(usage.get("output_tokens") or 0), came)
        usage["estimated"] = True
        return usage

    def _cut_usage(self, asking: _Asking) -> dict[str, Any] | None:
        """Of all that was tried in vain, as one usage: the latest, and those before it."""
        if not asking.lost:
            return None
        *before, latest = asking.lost
        return {**latest, "lost": before} if before else dict(latest)


async def _drain(chunks: Any) -> None:
    """Let the connection's stream end. What still comes says nothing."""
    try:
        async with asyncio.timeout(_DRAIN):
            async for _ in chunks:
                pass
    except Exception:  # noqa: BLE001 - the answer is whole; the connection is closed instead
        return
