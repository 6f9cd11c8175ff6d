"""What a turn works with: the model, tools, policies, session and notebook of one conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from reprise.log.model import Json
from reprise.log.store import StepRecord
from reprise_server.agent.contract import (
    Act,
    Asker,
    Document,
    Entry,
    Grant,
    Situation,
    Taint,
    TaintKind,
    Tool,
    Verdict,
)
from reprise_server.agent.model import ApiModel

Rule = Mapping[str, Json]


class Guard(Protocol):
    """The policies that bind the conversation."""

    async def judge(self, act: Act, situation: Situation, grants: Sequence[Grant]) -> Verdict:
        """What they say to an act now. Raises RepriseError when they cannot be read."""

    def offers(self, act: Act, situation: Situation) -> tuple[Rule | None, Rule | None]:
        """What a person may allow for longer: the rules for "session" and for "pattern"."""


class Session(Protocol):
    """The session's log, as far as a turn asks it (`agent.tools.place.Place` has more)."""

    async def of_call(self, key: str) -> Sequence[StepRecord]:
        """The steps under a call's key, outputs included. Raises DatabaseUnavailable."""

    async def tainted(self) -> Sequence[tuple[TaintKind, str]]:
        """What untrusted content may be in what its steps show. Raises RepriseError."""

    async def went_over(self, key: str) -> str | None:
        """The session that a call by this key has let the notebook and its kernel go over to, where
        the conversation's steps go from now on; None when it has not."""


class CallParts(Protocol):
    """Of what a conversation works with, all that its calls need (`Parts` has it)."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def guard(self) -> Guard: ...
    @property
    def session(self) -> Session: ...
    @property
    def situation(self) -> Callable[[tuple[Taint, ...]], Awaitable[Situation]]: ...
    @property
    def disclosure(self) -> Callable[[], Json]: ...
    @property
    def patience_s(self) -> float: ...


@dataclass(frozen=True)
class Parts:
    """What one conversation works with, opened for it and closed with it.

    tools: by name, in the order in which requests have them.  situation: of an act now, given what
    untrusted content is in the context.  disclosure: the view of the catalog as it stands, to be
    stored.  taints: untrusted content that is in every request (words of MCP servers on their
    tools).  problems: what could not be opened, a line each.
    patience_s: for an answer of the person, in seconds.
    """

    model: ApiModel
    tools: Mapping[str, Tool]
    guard: Guard
    session: Session
    situation: Callable[[tuple[Taint, ...]], Awaitable[Situation]]
    document: Document | None
    disclosure: Callable[[], Json]
    taints: Sequence[tuple[TaintKind, str]]
    problems: Sequence[str]
    patience_s: float
    close: Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Around:
    """Where a turn runs: who answers questions, who is told of each entry and of what is for eyes
    only, and what time it is (microseconds since the epoch)."""

    asker: Asker
    entry: Callable[[Entry], None]
    tell: Callable[[Mapping[str, Any]], None]
    now_us: Callable[[], int]
