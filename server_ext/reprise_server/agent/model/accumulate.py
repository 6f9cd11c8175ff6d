"""The events of one answer, put together strictly: whole, or refused (pure).

The order on the wire: message_start, then for each block content_block_start, its deltas and
content_block_stop, then message_delta with the reason why it stopped, then message_stop; ping may
stand anywhere. Only an answer whose message_stop came is whole. A stream that merely ends has none.
https://platform.claude.com/docs/en/build-with-claude/streaming
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from reprise_server.agent.contract import Delta
from reprise_server.agent.model.parsing import NotJson, strict, whole_text

#: Of all that one answer brings, in characters. An entry holds 4 MiB (log/conversation.py), in
#: which a character may take six bytes; the longest answers bring some 600,000.
MAX_CONTENT: Final = 600_000
#: Of one answer. Each call of a tool is a block.
MAX_BLOCKS: Final = 500
#: A count that is over this is none.
_MAX_COUNT: Final = 1 << 40

#: What the API takes back as the id of a call, and as the name of a tool.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
#: Types of blocks and reasons, as the API writes them.
_WORD: Final = re.compile(r"[a-z0-9_]{1,100}")
#: Blocks that requests have and no answer does: what reads a conversation takes them for ours.
_ASKED: Final = frozenset({"document", "image", "search_result", "tool_result"})

#: Blocks whose input comes as pieces of JSON.
_WITH_INPUT: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
#: What a delta adds to, by its type: (types of blocks, its own field, the block's field).
_ADDED: Final[Mapping[str, tuple[frozenset[str], str, str]]] = {
    "text_delta": (frozenset({"text"}), "text", "text"),
    "thinking_delta": (frozenset({"thinking"}), "thinking", "thinking"),
}
_COUNTS: Final = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


class Malformed(ValueError):
    """The answer is not one that the API would give. Its text says what is wrong, for a person."""


class StreamError(Exception):
    """The API said in mid-stream that it failed. kind: such as "overloaded_error"."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(kind)
        self.kind = kind
        self.message = message


@dataclass
class _Open:
    """The block that is coming."""

    index: int
    block: dict[str, Any]
    pieces: list[str] = field(default_factory=list)
    input: list[str] = field(default_factory=list)


@dataclass
class Accumulator:
    """One answer as it comes: `take(event)` for each event, until `whole`.

    content: the blocks that are whole.  usage: the newest counts.  After `whole` the inputs of all
    calls have been parsed; before it none may run.
    """

    content: list[dict[str, Any]] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    id: str | None = None
    stop_reason: str | None = None
    stop_details: Mapping[str, Any] | None = None
    whole: bool = False
    started: bool = False
    _open: _Open | None = None
    _size: int = 0
    _calls: set[str] = field(default_factory=set)
    _bad_input: str | None = None

    def take(self, event: Mapping[str, Any]) -> list[Delta]:
        """What of this event is to be shown. Raises Malformed, StreamError."""
        kind = event.get("type")
        if not isinstance(kind, str):
            raise Malformed("an event has no type")
        if kind == "error":
            raise _stream_error(event.get("error"))
        known = _TAKES.get(kind)
        if known is None:
            # New kinds of events may come (versioning policy of the API); ping is one of them.
            return []
        if self.whole:
            raise Malformed(f"{kind} came after the end")
        if self.started == (kind == "message_start"):
            raise Malformed(f"{kind} came {'twice' if self.started else 'before the start'}")
        return known(self, event) or []

    def partial(self) -> list[dict[str, Any]]:
        """What came so far, fit to be shown and kept: no call, since none of it may run."""
        blocks = list(self.content)
        if self._open is not None:
            blocks.append(_finished_text(self._open))
        return [b for b in blocks if b.get("type") not in _WITH_INPUT and not _blank(b)]

    def shown_characters(self) -> int:
        """Of all that came: what an estimate of the output stands on."""
        return self._size

    def _start(self, event: Mapping[str, Any]) -> None:
        message = _object(event, "message", "message_start")
        if message.get("role", "assistant") != "assistant" or message.get("content"):
            raise Malformed("message_start does not begin an answer")
        if isinstance(found := message.get("model"), str):
            self.model = found[:200]
        if isinstance(found := message.get("id"), str):
            self.id = found[:200]
        self._count(message.get("usage"))
        self.started = True

    def _block_start(self, event: Mapping[str, Any]) -> list[Delta]:
        block = dict(_object(event, "content_block", "content_block_start"))
        index = event.get("index")
        if self._open is not None:
            raise Malformed("a block starts inside another")
        if type(index) is not int or index != len(self.content):
            raise Malformed("a block has not the number that follows")
        if index >= MAX_BLOCKS:
            raise Malformed(f"it has more than {MAX_BLOCKS} blocks")
        kind = block.get("type")
        if not isinstance(kind, str) or not _WORD.fullmatch(kind) or kind in _ASKED:
            raise Malformed("a block has no type that an answer's could have")
        if kind == "tool_use":
            self._check_call(block)
        opened = _Open(index, block)
        for _, _, name in _ADDED.values():
            if name == kind:
                begun = block.get(name, "")
                if not isinstance(begun, str):
                    raise Malformed(f"the {name} of a block is no text")
                opened.pieces.append(begun)
        self._grow(_size_of(block))
        self._open = opened
        if kind == "tool_use":
            return [{"type": "tool", "index": index, "name": block["name"], "text": ""}]
        if kind in ("text", "thinking") and opened.pieces[0]:
            return [{"type": kind, "index": index, "text": whole_text(opened.pieces[0])}]
        return []

    def _check_call(self, block: dict[str, Any]) -> None:
        call, name = block.get("id"), block.get("name")
        if not isinstance(call, str) or not _ID.fullmatch(call):
            raise Malformed("a call has no id that can be sent back")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise Malformed("a call names no tool")
        if call in self._calls:
            raise Malformed("two calls have the same id")
        if not isinstance(block.setdefault("input", {}), dict):
            raise Malformed("the input of a call is no object")
        self._calls.add(call)

    def _delta(self, event: Mapping[str, Any]) -> list[Delta]:
        opened = self._at(event)
        delta = _object(event, "delta", "content_block_delta")
        kind, block = delta.get("type"), opened.block
        if isinstance(kind, str) and kind in _ADDED:
            of, name, _ = _ADDED[kind]
            piece = _piece(delta, name)
            if block["type"] not in of:
                raise Malformed(f"{kind} came for a block of another type")
            self._grow(len(piece))
            opened.pieces.append(piece)
            return [{"type": block["type"], "index": opened.index, "text": whole_text(piece)}]
        if kind == "input_json_delta":
            piece = _piece(delta, "partial_json")
            if block["type"] not in _WITH_INPUT:
                raise Malformed("the input of a call came for a block of another type")
            self._grow(len(piece))
            opened.input.append(piece)
            if block["type"] != "tool_use":
                return []
            return [{"type": "tool", "index": opened.index, "text": whole_text(piece)}]
        if kind == "signature_delta" and block["type"] == "thinking":
            self._grow(len(_piece(delta, "signature")))
            block["signature"] = delta["signature"]
        elif kind == "citations_delta" and block["type"] == "text":
            if not isinstance(cited := block.get("citations"), list):
                block["citations"] = cited = []
            self._grow(_size_of(delta))
            cited.append(delta.get("citation"))
        elif kind == "compaction_delta" and block["type"] == "compaction":
            self._grow(_size_of(delta))
            block.update((key, value) for key, value in delta.items() if key != "type")
        else:
            # A block with parts left out could not be sent back as it was.
            raise Malformed("a part of a kind that this version does not know came")
        return []

    def _block_stop(self, event: Mapping[str, Any]) -> None:
        opened = self._at(event)
        block = _finished_text(opened)
        if opened.input and (given := "".join(opened.input)):
            if block.get("input"):
                raise Malformed("the input of a call came twice")
            try:
                parsed = strict(given)
            except NotJson as error:
                # Where the answer was cut off in the middle of it, it is no fault: see _stop.
                self._bad_input = f"the input of {block.get('name')!r} cannot be read: {error}"
                parsed = {}
            if not isinstance(parsed, dict):
                self._bad_input = f"the input of {block.get('name')!r} is no object"
                parsed = {}
            block["input"] = parsed
        self.content.append(block)
        self._open = None

    def _message_delta(self, event: Mapping[str, Any]) -> None:
        delta = event.get("delta")
        if isinstance(delta, dict):
            reason = delta.get("stop_reason")
            if isinstance(reason, str):
                if self._open is not None:
                    raise Malformed("it stopped inside a block")
                if not _WORD.fullmatch(reason):
                    raise Malformed("the reason why it stopped is none")
                self.stop_reason = reason
            if isinstance(details := delta.get("stop_details"), dict):
                self.stop_details = details
        self._count(event.get("usage"))
        if isinstance(managed := event.get("context_management"), dict):
            self._grow(_size_of(managed))
            self.usage["context_management"] = managed

    def _stop(self, _event: Mapping[str, Any]) -> None:
        if self.stop_reason is None or self._open is not None:
            raise Malformed("it ended before it stopped")
        if self.stop_reason == "tool_use":
            if self._bad_input is not None:
                raise Malformed(self._bad_input)
            if not self._calls:
                raise Malformed("it stopped for a call, and has none")
        else:
            # None of them may run, so none gets a result, without which the API takes no call back.
            self.content = [block for block in self.content if block["type"] != "tool_use"]
            if self._bad_input is not None:
                self.content = [b for b in self.content if b["type"] not in _WITH_INPUT]
        self.content = [block for block in self.content if not _blank(block)]
        self.whole = True

    def _at(self, event: Mapping[str, Any]) -> _Open:
        index = event.get("index")
        if self._open is None or type(index) is not int or index != self._open.index:
            raise Malformed("a part came for a block that is not open")
        return self._open

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > MAX_CONTENT:
            raise Malformed(f"it is over {MAX_CONTENT:,} characters")

    def _count(self, usage: Any) -> None:
        """Counts are cumulative: the newest one stands (documentation of streaming)."""
        if usage is None:
            return
        if not isinstance(usage, dict):
            raise Malformed("its usage is no object")
        for name in _COUNTS:
            value = usage.get(name)
            if value is None:
                continue
            if type(value) is not int or not 0 <= value <= _MAX_COUNT:
                raise Malformed(f"its {name} is no count")
            self.usage[name] = value
        if isinstance(found := usage.get("iterations"), list) and len(found) <= MAX_BLOCKS:
            # A compaction's tokens are counted here only, not in the fields above.
            kept = [_iteration(one) for one in found if isinstance(one, dict)]
            self.usage["iterations"] = kept


_TAKES: Final = {
    "message_start": Accumulator._start,
    "content_block_start": Accumulator._block_start,
    "content_block_delta": Accumulator._delta,
    "content_block_stop": Accumulator._block_stop,
    "message_delta": Accumulator._message_delta,
    "message_stop": Accumulator._stop,
}


def _iteration(one: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {"type": str(one.get("type"))[:40]}
    for name in _COUNTS:
        value = one.get(name)
        if type(value) is int and 0 <= value <= _MAX_COUNT:
            kept[name] = value
    return kept


def _blank(block: Mapping[str, Any]) -> bool:
    """Whether it is a text of nothing, which the API gives and does not take back."""
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _finished_text(opened: _Open) -> dict[str, Any]:
    block = dict(opened.block)
    if block["type"] in ("text", "thinking"):
        block[block["type"]] = whole_text("".join(opened.pieces))
    return block


def _object(event: Mapping[str, Any], name: str, kind: str) -> Mapping[str, Any]:
    found = event.get(name)
    if not isinstance(found, dict):
        raise Malformed(f"{kind} has no {name}")
    return found


def _piece(delta: Mapping[str, Any], name: str) -> str:
    piece = delta.get(name)
    if not isinstance(piece, str):
        raise Malformed(f"a {name} is no text")
    return piece


def _size_of(value: Any) -> int:
    """Characters in it, keys and texts, with a few for all else."""
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, dict):
            size += 4 * len(one) + sum(map(len, one))
            waiting.extend(one.values())
        elif isinstance(one, list | tuple):
            size += 2 * len(one)
            waiting.extend(one)
        else:
            size += 8
    return size


def _stream_error(error: Any) -> StreamError:
    given = error if isinstance(error, dict) else {}
    kind, message = given.get("type"), given.get("message")
    return StreamError(
        kind[:100] if isinstance(kind, str) else "api_error",
        message[:2000] if isinstance(message, str) else "",
    )


def texts(content: Sequence[Mapping[str, Any]]) -> str:
    """The words of an answer, without its thoughts and calls."""
    return "\n".join(str(block["text"]) for block in content if block.get("type") == "text")
