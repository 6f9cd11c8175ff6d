"""What context editing leaves of a request: old results and thinking cleared (pure).

The three edits of the beta `context-management-2025-06-27`, as documented. A compaction by an edit
is the script's to answer (`Send({"type": "compaction", …})`): only what follows the newest
compaction block is in the context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reprise_server.agent.scripted.prompt_cache import places
from reprise_server.agent.scripted.tokens import block_tokens

_KEPT: Final = 3
_TRIGGER: Final = 100_000
CLEARED: Final = "[Old tool result content cleared]"


def edited(body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The request as the model sees it, and what is told of the edits (None: none were asked)."""
    seen = dict(body)
    seen["messages"] = _since_compaction(body["messages"])
    managed = body.get("context_management")
    if managed is None:
        return seen, None
    applied = []
    for edit in managed.get("edits") or []:
        if edit["type"] == "clear_thinking_20251015":
            told = _clear_thinking(seen, edit)
        elif edit["type"] == "clear_tool_uses_20250919":
            told = _clear_results(seen, edit)
        else:
            continue
        if told is not None:
            applied.append(told)
    return seen, {"applied_edits": applied}


def size(body: Mapping[str, Any]) -> int:
    """Tokens of a request's whole input."""
    return max((place.tokens for place in places(body)), default=0)


def _since_compaction(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    for at in range(len(messages) - 1, -1, -1):
        content = messages[at]["content"]
        if isinstance(content, str):
            continue
        for place in range(len(content) - 1, -1, -1):
            if content[place]["type"] == "compaction" and content[place].get("content"):
                first = {**messages[at], "content": content[place:]}
                return [first, *messages[at + 1 :]]
    return list(messages)


def _clear_thinking(seen: dict[str, Any], edit: Mapping[str, Any]) -> dict[str, Any] | None:
    keep = edit.get("keep", {"type": "thinking_turns", "value": 1})
    if keep == "all" or keep.get("type") == "all":
        return None
    with_thinking = [
        at
        for at, message in enumerate(seen["messages"])
        if message["role"] == "assistant"
        and not isinstance(message["content"], str)
        and any(block["type"] == "thinking" for block in message["content"])
    ]
    cleared = with_thinking[: -keep["value"]] if keep["value"] else with_thinking
    if not cleared:
        return None
    freed = 0
    messages = list(seen["messages"])
    for at in cleared:
        kept = [block for block in messages[at]["content"] if block["type"] != "thinking"]
        gone = [block for block in messages[at]["content"] if block["type"] == "thinking"]
        freed += sum(map(block_tokens, gone))
        messages[at] = {**messages[at], "content": kept}
    seen["messages"] = [message for message in messages if message["content"]]
    return {
        "type": edit["type"],
        "cleared_thinking_turns": len(cleared),
        "cleared_input_tokens": freed,
    }


def _clear_results(seen: dict[str, Any], edit: Mapping[str, Any]) -> dict[str, Any] | None:
    names = _calls(seen["messages"])
    trigger = edit.get("trigger") or {"type": "input_tokens", "value": _TRIGGER}
    reached = len(names) if trigger["type"] == "tool_uses" else size(seen)
    if reached <= trigger["value"]:
        return None
    excluded = set(edit.get("exclude_tools") or [])
    open_to_it = [call for call, name in names.items() if name not in excluded]
    keep = (edit.get("keep") or {"value": _KEPT})["value"]
    chosen = set(open_to_it[:-keep] if keep else open_to_it)
    freed = 0
    messages: list[Mapping[str, Any]] = []
    cleared = 0
    for message in seen["messages"]:
        if isinstance(message["content"], str):
            messages.append(message)
            continue
        blocks = []
        for block in message["content"]:
            left = block
            if block["type"] == "tool_result" and block["tool_use_id"] in chosen:
                left = {**block, "content": CLEARED}
                cleared += 1
            elif (
                block["type"] == "tool_use"
                and block["id"] in chosen
                and _inputs_too(edit.get("clear_tool_inputs"), block["name"])
            ):
                left = {**block, "input": {}}
            freed += block_tokens(block) - block_tokens(left)
            blocks.append(left)
        messages.append({**message, "content": blocks})
    least = (edit.get("clear_at_least") or {"value": 0})["value"]
    if not cleared or freed < least:
        return None
    seen["messages"] = messages
    return {"type": edit["type"], "cleared_tool_uses": cleared, "cleared_input_tokens": freed}


def _calls(messages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Ids of the calls in their order, with the tool of each."""
    return {
        block["id"]: block["name"]
        for message in messages
        if not isinstance(message["content"], str)
        for block in message["content"]
        if block["type"] == "tool_use"
    }


def _inputs_too(asked: bool | Sequence[str] | None, name: str) -> bool:
    return asked if isinstance(asked, bool) else name in (asked or ())
