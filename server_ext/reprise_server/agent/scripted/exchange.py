"""What passed between a client and the scripted model: requests, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reprise_server.agent.scripted.prompt_cache import Counted
from reprise_server.agent.scripted.replies import Asked, Step

#: whole; broken: as the script wanted; gone: the client closed before the end.
Ended = Literal["whole", "broken", "gone"]


@dataclass(frozen=True)
class Request:
    """One request as it came. headers: names in lower case, credentials taken out."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Exchange:
    """One request of /v1/messages that a step of the script was for.

    counted: its input, as the prompt cache had it.  answer: the message, once it is sent.  ended:
    None while it is under way.
    """

    asked: Asked
    step: Step
    counted: Counted
    ended: Ended | None = None
    answer: Mapping[str, Any] | None = None
