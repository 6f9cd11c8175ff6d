"""Questions that wait for a person, and the one way to answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Literal

from reprise.errors import UsageError
from reprise_server.agent.contract import Decided, Question

#: Characters of a reason, and of an answer to the model's own question.
MAX_WORDS: Final = 4_000


class NotWaiting(UsageError):
    """The question was answered already, or its time has run out."""


class Questions:
    """Those of one conversation, on its loop. An `Asker`."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self._waiting: dict[str, tuple[Question, asyncio.Future[Decided]]] = {}

    async def ask(self, question: Question) -> Decided:
        answer: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = (question, answer)
        try:
            async with asyncio.timeout(max(0.0, (question.until_us - self._now_us()) / 1e6)):
                return await answer
        except TimeoutError:
            return Decided("deny" if question.act is not None else "", "timeout")
        finally:
            del self._waiting[question.id]

    def __contains__(self, question: str) -> bool:
        """Whether it waits."""
        return question in self._waiting

    def decide(
        self,
        question: str,
        decision: str,
        *,
        how: Literal["frame", "terminal"],
        by: str | None = None,
        reason: str | None = None,
        rejected: Mapping[str, str | None] | None = None,
    ) -> None:
        """A person's answer. rejected: parts of the act that are left out, and why.

        Raises NotWaiting, UsageError; nothing was decided then.
        """
        found, answer = self._found(question)
        if found.act is not None and decision not in found.options:
            raise UsageError(
                f"{decision[:40]!r} is no answer to this question. It takes one of"
                f" {', '.join(found.options)}."
            )
        if len(decision) > MAX_WORDS or len(reason or "") > MAX_WORDS:
            raise UsageError(f"An answer has at most {MAX_WORDS:,} characters.")
        left_out = dict(rejected or {})
        if left_out:
            _check(found, decision, left_out)
        answer.set_result(Decided(decision, how, by, reason, left_out))

    def refuse(self, question: str, reason: str) -> None:
        """Nobody is there who could answer. Raises NotWaiting."""
        found, answer = self._found(question)
        if found.act is not None:
            answer.set_result(Decided("deny", "terminal", None, reason))
        else:
            answer.set_result(Decided("", "cancelled", None, reason))

    def _found(self, question: str) -> tuple[Question, asyncio.Future[Decided]]:
        found, answer = self._waiting.get(question, (None, None))
        if found is None or answer is None or answer.done():
            raise NotWaiting(
                "This question does not wait for an answer any more: it was answered, its time ran"
                " out, or its turn ended."
            )
        return found, answer


def _check(question: Question, decision: str, rejected: Mapping[str, str | None]) -> None:
    """Raises UsageError for parts that cannot be left out."""
    if decision == "deny":
        raise UsageError("A denial leaves nothing to be approved: give it without parts.")
    unknown = [part for part in rejected if part not in question.parts]
    if unknown:
        raise UsageError(
            f"This question has no part {unknown[0][:80]!r}. It has"
            f" {', '.join(question.parts) or 'none'}."
        )
    if set(rejected) == set(question.parts):
        raise UsageError("All parts are rejected, so there is nothing to approve: deny it.")
    if any(len(reason or "") > MAX_WORDS for reason in rejected.values()):
        raise UsageError(f"A reason has at most {MAX_WORDS:,} characters.")
