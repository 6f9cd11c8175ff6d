"""Streams of the Messages API as bytes and as events, whole ones, to be broken by tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Event = dict[str, Any]


def start(**usage: Any) -> Event:
    counted = {"input_tokens": 10, "output_tokens": 1} | usage
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [],
        "stop_reason": None,
        "usage": counted,
    }
    return {"type": "message_start", "message": message}


def block(index: int, begun: Mapping[str, Any], *deltas: Mapping[str, Any]) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": dict(begun)},
        *({"type": "content_block_delta", "index": index, "delta": dict(d)} for d in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[Event]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thought(index: int, words: str, signature: str = "c2lnbg==") -> list[Event]:
    return block(
        index,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": words},
        {"type": "signature_delta", "signature": signature},
    )


def call(index: int, *pieces: str, called: str = "toolu_1", name: str = "run_cells") -> list[Event]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *pieces)]
    return block(index, {"type": "tool_use", "id": called, "name": name, "input": {}}, *deltas)


def end(reason: str = "end_turn", **usage: Any) -> list[Event]:
    return [
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 7} | usage,
        },
        {"type": "message_stop"},
    ]


def wire(events: Iterable[Mapping[str, Any]], ends: str = "\n") -> bytes:
    """As the API sends it."""
    lines = []
    for event in events:
        lines += [f"event: {event['type']}", f"data: {json.dumps(event)}", ""]
    return (ends.join(lines) + ends).encode()


WHOLE: list[Event] = [
    start(),
    {"type": "ping"},
    *thought(0, "Let me see."),
    *text(1, "I run ", "it: ü€😀"),
    *call(2, '{"cells": ["a"', ', "b"], ', '"why": "\\u00fc"}'),
    *end("tool_use"),
]
