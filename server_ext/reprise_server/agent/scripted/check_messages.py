"""What the Messages API refuses of messages: roles, blocks, calls and their results (pure)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from reprise_server.agent.scripted.models import traits
from reprise_server.agent.scripted.refusal import Invalid, known, object_of, text_of

_ID: Final = re.compile(r"[a-zA-Z0-9_-]+")
_MEDIA: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
#: Of one image, in base64 (docs of vision).
_IMAGE_BYTES: Final = 10 << 20
MAX_MESSAGES: Final = 100_000

_FIELDS: Final[dict[str, set[str]]] = {
    "text": {"type", "text", "cache_control", "citations"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "cache_control", "title", "context", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
    "server_tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "web_search_tool_result": {"type", "tool_use_id", "content", "cache_control", "caller"},
    "compaction": {
        "type",
        "content",
        "encrypted_content",
        "signature",
        "tool_changes",
        "cache_control",
    },
}
_USER: Final = {"text", "image", "document", "tool_result"}
_ASSISTANT: Final = _FIELDS.keys() - {"image", "document", "tool_result"}
_RESULT: Final = {"text", "image", "document"}


def check_messages(given: Mapping[str, Any], tools: Collection[str], marks: list[Any]) -> None:
    """Raises Invalid. marks: those of the cache are added, in their order."""
    messages = given["messages"]
    if not isinstance(messages, list) or not messages:
        raise Invalid("messages: at least one message is required")
    if len(messages) > MAX_MESSAGES:
        raise Invalid(f"messages: at most {MAX_MESSAGES} messages are taken")
    roles = {"user": _USER, "assistant": _ASSISTANT}
    if traits(given["model"]).system_inside:
        roles["system"] = {"text"}
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        known(object_of(message, where), {"role", "content"}, where)
        role = message.get("role")
        if not isinstance(role, str) or role not in roles:
            listed = " or ".join(f"'{name}'" for name in roles)
            raise Invalid(f"{where}.role: Input should be {listed}")
        if "content" not in message:
            raise Invalid(f"{where}.content: Field required")
        content = message["content"]
        if isinstance(content, str):
            if not content.strip():
                raise Invalid("messages: text content blocks must be non-empty")
            continue
        if not isinstance(content, list):
            raise Invalid(f"{where}.content: Input should be a valid list")
        if not content:
            raise Invalid(f"{where}: all messages must have non-empty content")
        check_content(content, f"{where}.content", roles[role], marks)
    if messages[0]["role"] != "user" and not _compacted(messages[0]):
        raise Invalid('messages: first message must use the "user" role')
    if messages[-1]["role"] == "assistant" and not _may_end(messages[-1], given):
        raise Invalid(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )
    _check_pairs(_turns(messages), tools)


def check_content(
    content: Sequence[Any], where: str, allowed: Collection[str], marks: list[Any]
) -> None:
    """Blocks of one place. Raises Invalid."""
    for number, block in enumerate(content):
        place = f"{where}.{number}"
        kind = object_of(block, place).get("type")
        if not isinstance(kind, str) or kind not in allowed or kind not in _FIELDS:
            listed = ", ".join(f"'{name}'" for name in sorted(allowed))
            raise Invalid(
                f"{place}: Input tag '{kind}' found using 'type' does not match any of the "
                f"expected tags: {listed}"
            )
        known(block, _FIELDS[kind], f"{place}.{kind}")
        _CHECKS.get(kind, _no_check)(block, f"{place}.{kind}", marks)
        if (mark := block.get("cache_control")) is not None:
            marks.append(mark)


def _text(block: Mapping[str, Any], where: str, _: list[Any]) -> None:
    text = text_of(block, "text", where)
    if not text:
        if block.get("cache_control") is not None:
            raise Invalid(f"{where}: cache_control cannot be set for empty text blocks")
        raise Invalid("messages: text content blocks must be non-empty")
    if not text.strip():
        raise Invalid("messages: text content blocks must contain non-whitespace text")


def _image(block: Mapping[str, Any], where: str, _: list[Any]) -> None:
    source = object_of(block.get("source"), f"{where}.source")
    if source.get("type") == "url":
        text_of(source, "url", f"{where}.source")
        return
    if source.get("type") != "base64":
        raise Invalid(f"{where}.source.type: Input should be 'base64' or 'url'")
    known(source, {"type", "media_type", "data"}, f"{where}.source")
    if source.get("media_type") not in _MEDIA:
        raise Invalid(f"{where}.source.base64.media_type: Input should be one of {_MEDIA}")
    data = text_of(source, "data", f"{where}.source.base64")
    if len(data) > _IMAGE_BYTES:
        raise Invalid(f"{where}.source.base64: image exceeds 10 MB maximum")
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(f"{where}.source.base64: invalid base64 data") from None


def _thinking(block: Mapping[str, Any], where: str, _: list[Any]) -> None:
    text_of(block, "thinking", where)
    text_of(block, "signature", where)


def _tool_use(block: Mapping[str, Any], where: str, _: list[Any]) -> None:
    if not _ID.fullmatch(text_of(block, "id", where)):
        raise Invalid(f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    text_of(block, "name", where)
    object_of(block.get("input"), f"{where}.input")


def _tool_result(block: Mapping[str, Any], where: str, marks: list[Any]) -> None:
    text_of(block, "tool_use_id", where)
    if not isinstance(block.get("is_error", False), bool):
        raise Invalid(f"{where}.is_error: Input should be a valid boolean")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise Invalid(f"{where}.content: Input should be a valid list")
    check_content(content, f"{where}.content", _RESULT, marks)
    if block.get("is_error") and any(inner["type"] != "text" for inner in content):
        raise Invalid(f'{where}: all content must be type "text" if `is_error` is true')


def _compaction(block: Mapping[str, Any], where: str, _: list[Any]) -> None:
    if block.get("content") == "":
        raise Invalid(f"{where}.content: String should have at least 1 character")


def _no_check(block: Mapping[str, Any], where: str, _: list[Any]) -> None:
    """Nothing more is known of such a block."""


_CHECKS: Final = {
    "text": _text,
    "image": _image,
    "thinking": _thinking,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "compaction": _compaction,
}


def _compacted(message: Mapping[str, Any]) -> bool:
    content = message["content"]
    return isinstance(content, list) and content[0]["type"] == "compaction"


def _may_end(message: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """An answer may end the messages where a paused turn goes on, or where all is compacted."""
    if "compaction" in given:
        return True
    content = message["content"]
    return isinstance(content, list) and any(
        block["type"] in ("server_tool_use", "web_search_tool_result", "compaction")
        for block in content
    )


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, str, list[Mapping[str, Any]]]]:
    """Number of the first message, role, blocks: messages of one role in a row are one turn."""
    turns: list[tuple[int, str, list[Mapping[str, Any]]]] = []
    for number, message in enumerate(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if turns and turns[-1][1] == message["role"]:
            turns[-1][2].extend(blocks)
        else:
            turns.append((number, message["role"], list(blocks)))
    return turns


def _check_pairs(
    turns: Sequence[tuple[int, str, list[Mapping[str, Any]]]], tools: Collection[str]
) -> None:
    """Every call has its one result at the beginning of the turn after it; no other is there."""
    seen: set[str] = set()
    waiting: list[str] = []
    for number, _, blocks in turns:
        where = f"messages.{number}"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        leading = []
        for block in blocks:
            if block["type"] != "tool_result":
                break
            leading.append(block["tool_use_id"])
        if missing := [call for call in waiting if call not in leading]:
            raise Invalid(
                f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        for place, result in enumerate(results):
            if result not in waiting:
                raise Invalid(
                    f"{where}.content.{place}: unexpected `tool_use_id` found in `tool_result` "
                    f"blocks: {result}. Each `tool_result` block must have a corresponding "
                    "`tool_use` block in the previous message."
                )
            if result in results[:place]:
                raise Invalid(
                    f"{where}.content.{place}: each tool_use must have a single result. Found "
                    f"multiple `tool_result` blocks with id: {result}"
                )
        if (results or any(b["type"] == "tool_use" for b in blocks)) and not tools:
            raise Invalid(
                "Requests which include `tool_use` or `tool_result` blocks must define tools."
            )
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in waiting:
            if call in seen:
                raise Invalid(f"{where}: `tool_use` ids must be unique")
            seen.add(call)
    if waiting:
        raise Invalid(
            f"messages.{turns[-1][0]}: `tool_use` ids were found without `tool_result` blocks "
            f"immediately after: {', '.join(waiting)}."
        )
