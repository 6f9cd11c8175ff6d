"""When a conversation is too large for the model's context, and what stands for it then (pure).

Two things happen near the limit. From _CLEAR of the context on, the API leaves out old results of
tools by itself (context editing); the conversation keeps them. From _COMPACT on, the conversation
is compacted: a request of its own whose answer stands for all that came before it.
https://platform.claude.com/docs/en/build-with-claude/context-editing and …/compaction

The bodies of skills that were loaded survive both: their results are never cleared, and are sent
again after a compaction, in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from reprise_server.agent.contract import Block
from reprise_server.agent.model import sizes

#: Names of betas: `anthropic.types.AnthropicBetaParam` (SDK 2.14).
EDITING: Final = "context-management-2025-06-27"
COMPACTION: Final = "compact-2026-09-04"

_CLEAR: Final = 0.6
_COMPACT: Final = 0.8
#: Results that are never cleared: the newest ones, …
_KEEP: Final = 8
#: … and those of tools that bring what the work stands on.
KEPT_TOOLS: Final = ("load_skill", "ask_user")
#: Clearing changes the prefix, so the cache is lost from there on: it must pay.
_AT_LEAST: Final = 0.1
#: Of the context, for the bodies of skills after a compaction.
_CARRIED: Final = 0.25

CARRIED: Final = "A skill that you loaded before, in full:\n\n"
#: What the person asked for last is what the work is for: it stands in their words.
SAID: Final = "What the person said last:\n\n"
#: Characters of it; what is longer is in the summary.
_MOST_SAID: Final = 20_000

#: Asked of the model itself where the endpoint has no compaction of its own.
INSTRUCTIONS: Final = """\
The conversation is near the limit of your context. Write a summary that will stand in its place. \
Call no tool. You will go on from the summary alone, so it must say: what the person asked for, in \
their words where these matter, and what they decided or forbade; what was done, with the ids of \
cells, paths of files and names of skills; what came out, with the figures; what failed or was \
lost, and why; what is still to do, and the next step. Write down nothing that did not happen."""
SUMMARY: Final = "A summary stands for the conversation up to here:\n\n"
GO_ON: Final = "Go on from here."


def edits(context_tokens: int) -> dict[str, Any]:
    """`context_management` of every request: the same bytes each time."""
    return {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": int(context_tokens * _CLEAR)},
                "keep": {"type": "tool_uses", "value": _KEEP},
                "clear_at_least": {
                    "type": "input_tokens",
                    "value": int(context_tokens * _AT_LEAST),
                },
                "exclude_tools": list(KEPT_TOOLS),
            }
        ]
    }


def due(size: int, *, context_tokens: int, max_tokens: int) -> bool:
    """Whether a conversation of this size (`sizes.after`) is to be compacted before it is sent. An
    answer must fit beside it as well; half of the context is left to it in any case."""
    room = max(context_tokens - max_tokens, context_tokens // 2)
    return size >= min(int(context_tokens * _COMPACT), room)


def carried(messages: Sequence[Mapping[str, Any]], context_tokens: int) -> list[Block]:
    """Blocks that bring the bodies of loaded skills again: each once, in the order of loading.

    Where they take more than a quarter of the context, the ones that were loaded first are named
    only, so that they can be loaded again.
    """
    found: dict[str, str] = {}
    calls: dict[str, str] = {}
    for message in messages:
        content = message["content"]
        for block in content if not isinstance(content, str) else ():
            kind = block.get("type")
            if kind == "tool_use" and block.get("name") == "load_skill":
                calls[block["id"]] = _named(block.get("input"))
            elif kind == "tool_result" and block.get("tool_use_id") in calls:
                if body := "" if block.get("is_error") else _words(block.get("content")):
                    found.pop(body, None)
                    found[body] = calls[block["tool_use_id"]]
            elif kind == "text" and str(block.get("text", "")).startswith(CARRIED):
                found.setdefault(block["text"].removeprefix(CARRIED), "")
    room = int(context_tokens * _CARRIED)
    blocks: list[Block] = []
    left_out: list[str] = []
    for body, name in reversed(found.items()):
        room -= sizes.of_text(body)
        if room >= 0:
            blocks.append({"type": "text", "text": CARRIED + body})
        else:
            left_out.append(name or body[:60])
    if left_out:
        names = ", ".join(reversed(left_out))
        words = f"Loaded before and left out for want of room (load again if needed): {names}"
        blocks.append({"type": "text", "text": words})
    return blocks[::-1]


def said(messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    """A block with the person's latest words."""
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        for words in reversed(_own_words(message["content"])):
            if words.startswith(SAID):
                return [{"type": "text", "text": words}]
            if words != GO_ON and not words.startswith((CARRIED, SUMMARY, "[Reprise]")):
                return [{"type": "text", "text": SAID + words[:_MOST_SAID]}]
    return []


def opening(content: Sequence[Block]) -> list[dict[str, Any]]:
    """The messages that a conversation begins with after a `compacted` entry with this content: the
    API's own block is the assistant's, first of all; words are the user's."""
    signed = [dict(block) for block in content if block.get("type") == "compaction"]
    words = [dict(block) for block in content if block.get("type") != "compaction"]
    messages: list[dict[str, Any]] = []
    if signed:
        messages.append({"role": "assistant", "content": signed})
    messages.append({"role": "user", "content": [*words, {"type": "text", "text": GO_ON}]})
    return messages


def _named(given: Any) -> str:
    if isinstance(given, Mapping):
        for name in ("skill", "name", "reference"):
            if isinstance(value := given.get(name), str):
                return value[:200]
    return ""


def _own_words(content: Any) -> list[str]:
    """The texts of a message, those of results not."""
    if isinstance(content, str):
        return [content]
    return [str(block["text"]) for block in content if block.get("type") == "text"]


def _words(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    return "\n\n".join(
        str(block["text"])
        for block in content
        if isinstance(block, Mapping) and block.get("type") == "text"
    )
