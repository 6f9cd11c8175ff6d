"""What a script is made of: replies, failures, and what is wrong with a stream (pure)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

StopReason = Literal[
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
]


# Parts of a reply ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Thought:
    """A block of thinking; its signature is made, and checked when it comes back."""

    text: str


@dataclass(frozen=True)
class Call:
    """The model calls a tool. id: drawn anew when empty.  json: what is streamed for the input,
    where it is not the input's own JSON (cut off, malformed, keys twice)."""

    tool: str
    input: Mapping[str, Any]
    id: str = ""
    json: str | None = None


@dataclass(frozen=True)
class Send:
    """Any other block, as it stands."""

    block: Mapping[str, Any]


Part = Text | Thought | Call | Send


# What goes wrong ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hold:
    """A stream stands still until a test lets it go on, or the client goes."""

    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Break:
    """What happens after `after` events of the stream (pings do not count).

    end: the body ends as if all were well, without `message_stop`.  reset: the connection is torn.
    error: an `error` event of this kind, then the end.  hold: it stands still, then goes on.
    """

    after: int
    how: Literal["end", "reset", "error", "hold"]
    kind: str = "overloaded_error"
    message: str = "Overloaded"
    hold: Hold | None = None


@dataclass(frozen=True)
class Reply:
    """What the model answers.

    stop: by default "tool_use" where a call is among the parts, else "end_turn".
    stop_sequence, refusal: the category, said with the stop reasons of the same name.
    output_tokens: counted from the parts where None.  pings: one in so many events, the
    first within the first block (0: none).
    pause: seconds before each piece.  ragged: the bytes come in pieces of this size (0: an event a
    piece).  broken: what goes wrong.
    """

    parts: tuple[Part, ...]
    stop: StopReason | Literal[""] = ""
    stop_sequence: str | None = None
    refusal: str | None = None
    output_tokens: int | None = None
    pings: int = 8
    pause: float = 0.0
    ragged: int = 0
    broken: Break | None = None

    @property
    def stop_reason(self) -> str:
        if self.stop:
            return self.stop
        return "tool_use" if any(isinstance(part, Call) for part in self.parts) else "end_turn"


@dataclass(frozen=True)
class Failure:
    """An HTTP error in the API's form. hang_up: the connection ends before a byte of it."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False


@dataclass(frozen=True)
class Raw:
    """These bytes are the body of the stream, with status 200. For what no server should send."""

    body: bytes
    content_type: str = "text/event-stream; charset=utf-8"


Step = Reply | Failure | Raw


def error(status: int, kind: str, message: str, **headers: str) -> Failure:
    """An error in the API's form; a header's name is written with underscores."""
    body = {"type": "error", "error": {"type": kind, "message": message}}
    return Failure(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def overloaded(retry_after: str = "0") -> Failure:
    return error(529, "overloaded_error", "Overloaded", retry_after=retry_after)


def rate_limited(retry_after: str = "0") -> Failure:
    return error(429, "rate_limit_error", "Too many requests", retry_after=retry_after)


HANG_UP: Final = Failure(0, {}, hang_up=True)


def reply(*parts: Part | str, **options: Any) -> Reply:
    """A reply of several parts; a text may be given as it is. options: those of `Reply`."""
    return Reply(tuple(Text(p) if isinstance(p, str) else p for p in parts), **options)


def says(text: str, **options: Any) -> Reply:
    return reply(Text(text), **options)


def calls(tool: str, given: Mapping[str, Any], *, first: str = "", **options: Any) -> Reply:
    """One call, after some words where `first` has any."""
    parts: list[Part] = [Text(first)] if first else []
    return reply(*parts, Call(tool, given), **options)


# What was asked -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """One request of /v1/messages as a script sees it, already checked.

    number: from 0, counting those that got so far.  body: as it came, the model put in where the
    path names it.
    """

    number: int
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def messages(self) -> Sequence[Mapping[str, Any]]:
        found: Sequence[Mapping[str, Any]] = self.body["messages"]
        return found

    @property
    def answers(self) -> int:
        """How many answers of the model are in the context."""
        return sum(message["role"] == "assistant" for message in self.messages)

    @property
    def tools(self) -> list[str]:
        return [tool["name"] for tool in self.body.get("tools") or []]

    @property
    def said(self) -> str:
        """The words of the newest message that has any of the user's."""
        for message in reversed(self.messages):
            if message["role"] == "user" and (words := _texts(message["content"])):
                return words
        return ""

    @property
    def results(self) -> list[Result]:
        """What the newest message answers to the calls before it."""
        content = self.messages[-1]["content"]
        if isinstance(content, str):
            return []
        return [
            Result(
                block["tool_use_id"],
                _texts(block.get("content", "")),
                bool(block.get("is_error")),
            )
            for block in content
            if block["type"] == "tool_result"
        ]

    @property
    def text(self) -> str:
        """All that the newest message has to read, the results' texts too."""
        return "\n".join([*(result.text for result in self.results), self.said])


@dataclass(frozen=True)
class Result:
    """A tool's result as the model gets it."""

    call: str
    text: str
    is_error: bool

    def json(self) -> Any:
        return json.loads(self.text)


def _texts(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


#: A list is given out in order, whoever asks. A function answers each request from what is in it.
Script = Sequence[Step] | Callable[[Asked], Step]


def by_answers(steps: Sequence[Step]) -> Callable[[Asked], Step]:
    """The n-th step for a context with n answers: many conversations at once, each by itself.

    A request that is asked again gets the same step again.
    """

    def chosen(asked: Asked) -> Step:
        if asked.answers < len(steps):
            return steps[asked.answers]
        return error(400, "invalid_request_error", f"The script has only {len(steps)} replies.")

    return chosen
