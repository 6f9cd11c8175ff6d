"""What a live session is started with, and what it needs of whoever speaks with the clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from reprise.log.store import Notice
from reprise.replay.message import Message
from reprise.sandbox.contract import Backend, SandboxSpec
from reprise.sandbox.environment import EnvironmentSpec
from reprise.sandbox.frames import Channel
from reprise.workspace.folder import HostFolder

if TYPE_CHECKING:
    # Where nothing may go out, a kernel's start does not pay for it.
    from reprise.replay.network import Network


@dataclass(frozen=True)
class Progress:
    """How far a resume has come. Times in seconds.

    estimate_s: what the planner expected it to take in all.  elapsed_s: since the first step was
    played.  remaining_s: to go, judged by what was played so far.
    start_seq: the step after which the state lay that it began from; None for an empty sandbox.
    """

    done: int
    total: int
    estimate_s: float
    elapsed_s: float = 0.0
    remaining_s: float = 0.0
    start_seq: int | None = None


class Router(Protocol):
    """What the engine needs of whoever speaks with the clients."""

    def stray(self, message: Message, parent: str | None, topic: bytes) -> None: ...
    def passed(self, _channel: Channel, message: Message, parent: str) -> None: ...
    def notice(self, notice: Notice) -> None: ...
    def progress(self, progress: Progress | None) -> None: ...
    def starting(self, text: str | None) -> None: ...
    def sandbox_gone(self) -> None: ...
    def stands(self) -> None:
        """How the session stands may be another now."""

    async def ask_password(self, prompt: str) -> str | None: ...


@dataclass(frozen=True)
class SessionPlan:
    """What a session is started with. network: None where nothing may go out."""

    backend: Backend
    spec: SandboxSpec
    environment: Callable[[], EnvironmentSpec]
    folder: Callable[[], HostFolder] | None
    kernel: str
    network: Network | None = None
