"""A client of the scripted model as bare as it gets, and requests to begin with."""

from __future__ import annotations

import copy
from typing import Any

import anthropic

from reprise_server.agent.scripted import ScriptedModel

TOOL = {"name": "run", "description": "Runs.", "input_schema": {"type": "object"}}
#: Above the fewest tokens that are cached, by itself.
LONG = "word " * 1200


def client(model: ScriptedModel) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=model.url, api_key=model.key, max_retries=0)


def request(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A request that is taken; without messages one of the user's."""
    return {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1000,
        "messages": list(messages) or [user("hello")],
        **more,
    }


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [block(part) for part in content]}


def assistant(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [block(part) for part in content]}


def block(part: Any) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else dict(part)


def used(call: str = "toolu_1", name: str = "run", given: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": name, "input": given or {}}


def result(call: str = "toolu_1", content: Any = "ok", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def marked(part: Any, ttl: str | None = None) -> dict[str, Any]:
    """A block with a breakpoint of the cache at its end."""
    mark = {"type": "ephemeral"} if ttl is None else {"type": "ephemeral", "ttl": ttl}
    return {**copy.deepcopy(block(part)), "cache_control": mark}
