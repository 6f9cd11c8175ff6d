"""The websockets of one server: how many one person may have, and their end with the server's."""

from __future__ import annotations

from typing import Protocol

from reprise_server.api.refusals import Refused


class Line(Protocol):
    """An open websocket."""

    def close(self, code: int | None = None, reason: str | None = None) -> None: ...


class Sockets:
    """most: of one person at the same time."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[str, int] = {}
        self._open: set[Line] = set()

    def enter(self, who: str) -> None:
        """One more of this person. Raises Refused (429)."""
        many = self._counts.get(who, 0)
        if many >= self._most:
            raise Refused(
                429,
                "too-many-sockets",
                f"{many} websockets of yours are open, and more may not be at once. Close one.",
                retry_after_s=5,
            )
        self._counts[who] = many + 1

    def leave(self, who: str) -> None:
        """One that was entered has ended."""
        left = self._counts.pop(who) - 1
        if left:
            self._counts[who] = left

    def opened(self, line: Line) -> None:
        self._open.add(line)

    def gone(self, line: Line) -> None:
        self._open.discard(line)

    def close(self) -> None:
        """The server stops; readers may come again to the next one."""
        for line in list(self._open):
            line.close(1001, "the server stops")
