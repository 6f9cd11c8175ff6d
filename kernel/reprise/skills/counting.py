"""Tokens counted by the model's own API, where a key is there; estimated, and said so, where not.

Counting sends the text to the API and costs nothing there (POST /v1/messages/count_tokens). The key
is read by the SDK from the environment, and stands in no error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from reprise.errors import UnavailableError
from reprise.skills.tokens import MAX_LOOKED_AT, Tokens, estimate

if TYPE_CHECKING:
    import anthropic

#: Counted for this model when none is named. Tokenizers differ between generations of models.
MODEL = "claude-sonnet-5-5"

#: The SDK's own words for where a key comes from.
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")

#: At once; the API's rate limit for counting begins at 100 requests a minute.
_AT_ONCE = 4
_SECONDS = 30.0
#: The SDK waits as the server asks, at most 60 s each time.
_RETRIES = 2

#: What a message costs around its text is measured with a text of one token.
_SHORTEST = "."


def has_key(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the API can be asked."""
    return any(environ.get(name) for name in KEYS)


class Counter:
    """Counts texts for one model: `async with Counter(model) as counter: await counter.count(…)`.

    Raises UnavailableError when the SDK is not installed.
    """

    def __init__(self, model: str = MODEL) -> None:
        try:
            # An extra: who only estimates needs none of it, and it takes 0.4 s to import.
            import anthropic  # noqa: PLC0415
        except ImportError as error:
            raise UnavailableError(
                "The Anthropic SDK is not installed, so tokens can only be estimated. "
                "Run: pip install 'jupyter-reprise[agent]'"
            ) from error
        self.model = model
        self._sdk = anthropic
        self._client: anthropic.AsyncAnthropic = anthropic.AsyncAnthropic(
            max_retries=_RETRIES, timeout=_SECONDS
        )
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._around: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.close()

    async def count(self, texts: Sequence[str]) -> list[Tokens]:
        """Tokens of each, without what the message around it takes.

        A text that is blank (the API refuses those) or that no request holds is estimated. Raises
        UnavailableError when the API does not answer or refuses; nothing was counted then.
        """
        if self._around is None:
            self._around = await self._ask(_SHORTEST) - 1
        around = self._around

        async def one(text: str) -> Tokens:
            if not text.strip() or len(text) > MAX_LOOKED_AT:
                return Tokens(estimate(text))
            return Tokens(max(await self._ask(text) - around, 1), counted=True)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(text)) for text in texts]
        except* UnavailableError as failed:
            raise _first(failed) from None
        return [task.result() for task in tasks]

    async def _ask(self, text: str) -> int:
        async with self._free:
            try:
                answer = await self._client.messages.count_tokens(
                    model=self.model, messages=[{"role": "user", "content": text}]
                )
            except self._sdk.AnthropicError as error:
                raise UnavailableError(
                    f"The API at {self._host()} did not count tokens for {self.model}: "
                    f"{_reason(error)}."
                ) from None
        return answer.input_tokens

    def _host(self) -> str:
        return self._client.base_url.host


def _first(group: BaseExceptionGroup[UnavailableError]) -> UnavailableError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


def _reason(error: Exception) -> str:
    """Why, in words of ours: what an API writes in an error may repeat what was sent to it."""
    status = getattr(error, "status_code", None)
    if status is None:
        return "it cannot be reached" if "Connection" in type(error).__name__ else "no key fits"
    words = {
        400: "it does not take this request (is the model's name right?)",
        401: "it does not take this key",
        403: "this key may not do that",
        404: "it knows no such model, or cannot count",
        413: "the text is too long for it",
        429: "too many requests; try again in a minute",
        529: "it is overloaded; try again later",
    }
    return f"{words.get(status, 'it failed')} (status {status})"
