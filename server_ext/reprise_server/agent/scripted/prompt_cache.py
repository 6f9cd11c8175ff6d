"""The API's prompt cache: byte-equal prefixes up to breakpoints, kept for a while (pure).

As documented (prompt caching, November 2026): the order is tools, system, messages; an entry is
written only at a breakpoint, when the prefix has the model's fewest tokens; a request finds one
when it lies at one of its breakpoints or at one of the 19 blocks before it; what is found is kept
anew for its time; an entry is there once the answer begins, not before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise_server.agent.scripted.models import traits
from reprise_server.agent.scripted.tokens import AROUND, block_tokens, tokens

#: Places that are looked at from one breakpoint, itself the first.
LOOK_BACK: Final = 20
TTL: Final = {"5m": 300.0, "1h": 3600.0}


@dataclass(frozen=True)
class Place:
    """The end of one block. tokens: of all up to it.  ttl: where it is a breakpoint."""

    digest: bytes
    tokens: int
    ttl: str | None


@dataclass(frozen=True)
class Counted:
    """What a request's input comes to; the four together are all of it.

    written: the entries that its answer's beginning puts into the cache, with their time to live.
    """

    read: int
    created_5m: int
    created_1h: int
    plain: int
    written: tuple[tuple[bytes, str], ...] = ()

    @property
    def created(self) -> int:
        return self.created_5m + self.created_1h

    @property
    def total(self) -> int:
        return self.read + self.created + self.plain


class PromptCache:
    """What one account has in its cache. Times are seconds of the caller's clock."""

    def __init__(self) -> None:
        self._entries: dict[bytes, tuple[float, str]] = {}

    def count(self, body: Mapping[str, Any], now: float, account: str = "") -> Counted:
        """Look a checked request up, and keep what it finds anew."""
        walked = list(places(body, account))
        total = walked[-1].tokens if walked else 0
        marked = [at for at, place in enumerate(walked) if place.ttl]
        hit = -1
        for at in marked:
            for near in range(at, max(at - LOOK_BACK, -1), -1):
                if near <= hit:
                    break
                if self._alive(walked[near].digest, now):
                    hit = near
                    break
        for at in {hit, *(at for at in marked if at < hit)} - {-1}:
            if (entry := self._entries.get(walked[at].digest)) and entry[0] > now:
                self._entries[walked[at].digest] = (now + TTL[entry[1]], entry[1])
        read = walked[hit].tokens if hit >= 0 else 0
        fewest = traits(body["model"]).cached
        written = [
            (walked[at], walked[at].ttl or "5m")
            for at in marked
            if at > hit and walked[at].tokens >= fewest
        ]
        hours = max((place.tokens for place, ttl in written if ttl == "1h"), default=read)
        last = max((place.tokens for place, _ in written), default=read)
        return Counted(
            read=read,
            created_5m=last - hours,
            created_1h=hours - read,
            plain=total - last,
            written=tuple((place.digest, ttl) for place, ttl in written),
        )

    def write(self, counted: Counted, now: float) -> None:
        """The answer begins: from now on its prefixes are there."""
        for digest, ttl in counted.written:
            self._entries[digest] = (now + TTL[ttl], ttl)

    def _alive(self, digest: bytes, now: float) -> bool:
        entry = self._entries.get(digest)
        return entry is not None and entry[0] > now


def places(body: Mapping[str, Any], account: str = "") -> Iterator[Place]:
    """Every block of a request in the cache's order, digests chained over all before it.

    A key's order within a block counts, as it does for the API; where its breakpoints stand, and
    whether a text stands alone or as a block, does not.
    """
    marks = _Marks(body)
    chain = hashlib.sha256(f"{account}\0{body['model']}\0{body.get('speed')}".encode()).digest()
    total = 0
    for section, role, block, mark in marks:
        # What invalidates the messages alone, when it changes.
        settings = _settings(body) if section == "messages" else ""
        bare = {name: value for name, value in block.items() if name != "cache_control"}
        text = json.dumps(bare, ensure_ascii=False, separators=(",", ":"))
        chain = hashlib.sha256(
            chain + f"{section}\0{role}{settings}\0{text}".encode("utf-8", "surrogatepass")
        ).digest()
        total += AROUND + tokens(text) if section == "tools" else block_tokens(block)
        yield Place(chain, total, mark)


def _settings(body: Mapping[str, Any]) -> str:
    parts = [body.get("tool_choice"), body.get("thinking"), body.get("output_config")]
    return json.dumps(parts, sort_keys=True)


class _Marks:
    """Walks a request's blocks with the breakpoint of each, the automatic one put in."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._blocks = list(_blocks(body))
        top = body.get("cache_control")
        self._automatic = -1
        if top is not None:
            self._top = str(top.get("ttl", "5m"))
            for at in range(len(self._blocks) - 1, -1, -1):
                if self._blocks[at][2].get("type") not in ("thinking", "redacted_thinking"):
                    self._automatic = at
                    break

    def __iter__(self) -> Iterator[tuple[str, str, Mapping[str, Any], str | None]]:
        for at, (section, role, block) in enumerate(self._blocks):
            mark = _mark(block)
            if at == self._automatic and mark is None:
                mark = self._top
            yield section, role, block, mark


def _blocks(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for tool in body.get("tools") or []:
        yield "tools", "", tool
    system = body.get("system") or []
    for block in [{"type": "text", "text": system}] if isinstance(system, str) else system:
        yield "system", "", block
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield "messages", message["role"], block


def _mark(block: Mapping[str, Any]) -> str | None:
    """Of a block, or of the last in a tool's result (a breakpoint there cuts after the result)."""
    mark = block.get("cache_control")
    if mark is None and block.get("type") == "tool_result":
        content = block.get("content")
        for inner in content if isinstance(content, list) else []:
            mark = inner.get("cache_control") or mark
    return None if mark is None else str(mark.get("ttl", "5m"))
