"""A client's request, with what is needed to answer it."""

from __future__ import annotations

from dataclasses import dataclass

from reprise.replay.message import Message


@dataclass(frozen=True)
class Request:
    """`channel` it came on ("shell" or "control"), its routing identities, and the message."""

    channel: str
    idents: list[bytes]
    message: Message

    @property
    def client(self) -> bytes:
        return self.idents[0] if self.idents else b""
