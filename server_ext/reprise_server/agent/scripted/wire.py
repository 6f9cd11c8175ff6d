"""A reply as the Messages API writes it: the message, its stream of events, their bytes (pure)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise_server.agent.scripted.prompt_cache import Counted
from reprise_server.agent.scripted.replies import Call, Reply, Send, Text, Thought
from reprise_server.agent.scripted.tokens import block_tokens

Event = dict[str, Any]

#: Signatures are of this server: they hold when another process of it checks them.
_SECRET: Final = b"reprise scripted model"
#: Characters of one piece of text or of a tool's input.
PIECE: Final = 24


@dataclass(frozen=True)
class Message:
    """A reply with all that is drawn for it: ids, signatures, counts."""

    id: str
    model: str
    content: tuple[Mapping[str, Any], ...]
    #: By index: what is streamed for a tool's input, where it is not the input's own JSON.
    odd: Mapping[int, str]
    stop_reason: str
    stop_sequence: str | None
    stop_details: Mapping[str, Any] | None
    counted: Counted
    output_tokens: int
    context_management: Mapping[str, Any] | None = None

    def usage(self, output: int) -> dict[str, Any]:
        return {
            "input_tokens": self.counted.plain,
            "cache_creation_input_tokens": self.counted.created,
            "cache_read_input_tokens": self.counted.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.counted.created_5m,
                "ephemeral_1h_input_tokens": self.counted.created_1h,
            },
            "output_tokens": output,
            "service_tier": "standard",
            "inference_geo": "not_available",
        }


def composed(
    reply: Reply,
    model: str,
    counted: Counted,
    *,
    omit_thinking: bool = False,
    context_management: Mapping[str, Any] | None = None,
) -> Message:
    """A reply as a message of its own: ids drawn, thinking signed, tokens counted."""
    content: list[Mapping[str, Any]] = []
    odd: dict[int, str] = {}
    for part in reply.parts:
        match part:
            case Text(text):
                content.append({"type": "text", "text": text})
            case Thought(text):
                shown = "" if omit_thinking else text
                content.append({"type": "thinking", "thinking": shown, "signature": signed(shown)})
            case Call(tool, given, name, raw):
                if raw is not None:
                    odd[len(content)] = raw
                content.append(
                    {
                        "type": "tool_use",
                        "id": name or drawn("toolu"),
                        "name": tool,
                        "input": dict(given),
                    }
                )
            case Send(block):
                content.append(block)
    spent = sum(map(block_tokens, content)) if reply.output_tokens is None else reply.output_tokens
    details = None
    if reply.stop_reason == "refusal":
        details = {"type": "refusal", "category": reply.refusal, "explanation": None}
    return Message(
        id=drawn("msg"),
        model=model,
        content=tuple(content),
        odd=odd,
        stop_reason=reply.stop_reason,
        stop_sequence=reply.stop_sequence,
        stop_details=details,
        counted=counted,
        output_tokens=max(spent, 1),
        context_management=context_management,
    )


def whole(message: Message) -> dict[str, Any]:
    """The message as a request without a stream gets it."""
    body: dict[str, Any] = {
        "id": message.id,
        "type": "message",
        "role": "assistant",
        "model": message.model,
        "content": [dict(block) for block in message.content],
        "stop_reason": message.stop_reason,
        "stop_sequence": message.stop_sequence,
        "stop_details": message.stop_details,
        "usage": message.usage(message.output_tokens),
    }
    if message.context_management is not None:
        body["context_management"] = message.context_management
    return body


def events(message: Message) -> Iterator[Event]:
    """The stream of a message, pings apart."""
    begun = whole(message)
    begun.pop("context_management", None)
    begun.update(content=[], stop_reason=None, stop_sequence=None, stop_details=None)
    begun["usage"] = message.usage(1)
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(message.content):
        yield from _block_events(index, block, message.odd.get(index))
    usage = message.usage(message.output_tokens)
    for name in ("service_tier", "inference_geo", "cache_creation"):
        del usage[name]
    end: Event = {
        "type": "message_delta",
        "delta": {
            "stop_reason": message.stop_reason,
            "stop_sequence": message.stop_sequence,
            "stop_details": message.stop_details,
        },
        "usage": usage,
    }
    if message.context_management is not None:
        end["context_management"] = message.context_management
    yield end
    yield {"type": "message_stop"}


def _block_events(index: int, block: Mapping[str, Any], odd: str | None) -> Iterator[Event]:
    kind = block["type"]
    begun = dict(block)
    deltas: list[dict[str, Any]] = []
    if kind == "text":
        begun["text"] = ""
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    elif kind == "thinking":
        begun.update(thinking="", signature="")
        pieces = _pieces(block["thinking"])
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind in ("tool_use", "server_tool_use"):
        begun["input"] = {}
        # Without any input the API sends the one empty piece, and nothing after it.
        given = block["input"]
        text = (json.dumps(given, ensure_ascii=False) if given else "") if odd is None else odd
        deltas = [
            {"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(text)]
        ]
    elif kind == "compaction":
        begun["content"] = None
        # Whole, in one piece (docs of compaction).
        deltas = [{"type": "compaction_delta", "content": block["content"]}]
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def sse(event: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    text = f"event: {event['type']}\ndata: {data}\n\n"
    return text.encode("utf-8", "surrogatepass")


def error_event(kind: str, message: str) -> Event:
    return {"type": "error", "error": {"type": kind, "message": message}}


def signed(text: str) -> str:
    """The signature of a block of thinking."""
    mac = hmac.digest(_SECRET, text.encode("utf-8", "surrogatepass"), hashlib.sha512)
    return base64.b64encode(mac).decode()


def drawn(kind: str) -> str:
    """An id as the API's: `toolu_01…`, never the same twice, in whatever process."""
    return f"{kind}_01{base64.b32encode(uuid.uuid4().bytes).decode().rstrip('=')[:22]}"


def _pieces(text: str) -> Iterator[str]:
    for start in range(0, len(text), PIECE):
        yield text[start : start + PIECE]
