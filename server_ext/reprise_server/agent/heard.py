"""What has come of an answer so far: for eyes, and for the record when its end does not come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reprise_server.agent.contract import Listener, ModelFailed, Waiting


class Heard:
    """Listens to one request, and passes on what is for eyes.

    waiting: called with each wait before another attempt.
    """

    def __init__(
        self,
        tell: Callable[[Mapping[str, Any]], None],
        waiting: Callable[[Waiting], None],
    ) -> None:
        self._tell = tell
        self._content: Sequence[Mapping[str, Any]] = ()
        self._usage: Mapping[str, Any] | None = None
        self.listener = Listener(
            delta=lambda delta: tell({"type": "delta", "delta": dict(delta)}),
            waiting=waiting,
            asked=self._asked,
            cut=self._cut,
        )

    def _asked(self, attempt: int) -> None:
        if attempt > 1:
            self._tell({"type": "again"})

    def _cut(self, content: Sequence[Mapping[str, Any]], usage: Mapping[str, Any] | None) -> None:
        self._content, self._usage = content, usage

    def cancelled(self) -> dict[str, Any]:
        """The body of `answered` for what had come when it was cancelled."""
        return _partial("cancelled", self._content, self._usage or {})

    def failed(self, error: ModelFailed) -> dict[str, Any]:
        """The body of `answered` for what had come when it failed."""
        return _partial("failed", error.partial, error.usage or {})


def _partial(
    reason: str, content: Sequence[Mapping[str, Any]], usage: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "content": [dict(block) for block in content],
        "stop_reason": reason,
        "usage": dict(usage),
        "cost": None,
        "partial": True,
    }
