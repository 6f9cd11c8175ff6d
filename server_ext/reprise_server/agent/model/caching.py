"""The body of a request, laid out so that the API finds what it has read before (pure).

The prompt cache matches a prefix of tools, then system, then messages, byte by byte, and looks at
most 20 blocks back from a marked block (documentation of prompt caching). So:

- tools and system come as they are given; in messages the keys of objects are sorted, as the log
  has them: a conversation that was read back gives the same bytes as the one that wrote it;
- a text is always a block, whether it is marked or not;
- four blocks are marked: the first of system (with the tools: the same in all conversations), the
  last of system, the last of the request before this one, and the last of all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise.log.model import canonical
from reprise_server.agent.contract import Prompt
from reprise_server.agent.model.strict_tools import declared

#: The API takes no more.
MAX_BREAKPOINTS: Final = 4
_MARK: Final = {"type": "ephemeral"}
#: Blocks that cannot be marked (documentation of prompt caching).
_UNMARKED: Final = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True)
class Traits:
    """What every request of a model says. effort: "" leaves it to the API.  strict: whether the
    endpoint knows strict tools."""

    model: str
    max_tokens: int
    thinking: bool = True
    effort: str = ""
    strict: bool = True


def body(prompt: Prompt, traits: Traits) -> dict[str, Any]:
    """What is sent, apart from `stream` and what a beta adds."""
    tools = _tools(prompt.tools, traits.strict)
    system = [_plain(block) for block in prompt.system]
    messages = [_message(message) for message in prompt.messages]
    if system:
        _mark(system[0])
        _mark(system[-1])
    elif tools:
        _mark(tools[-1])
    for end in _ends(messages):
        _mark_end(end["content"])
    sent: dict[str, Any] = {
        "model": traits.model,
        "max_tokens": traits.max_tokens,
        "messages": messages,
    }
    if tools:
        sent["tools"] = tools
    if system:
        sent["system"] = system
    if traits.thinking:
        sent["thinking"] = {"type": "adaptive"}
    if traits.effort:
        sent["output_config"] = {"effort": traits.effort}
    return sent


def digest(sent: Mapping[str, Any]) -> str:
    """sha256 of a body in its canonical form, as the entry `asked` names it."""
    return hashlib.sha256(canonical(dict(sent))).hexdigest()


def prefix(sent: Mapping[str, Any]) -> list[bytes]:
    """The blocks of a body in the order that the cache matches, without the marks."""
    found = [_bare("tool", tool) for tool in sent.get("tools", ())]
    found += [_bare("system", block) for block in sent.get("system", ())]
    for message in sent["messages"]:
        found += [_bare(message["role"], block) for block in message["content"]]
    return found


def _bare(where: str, block: Mapping[str, Any]) -> bytes:
    return canonical([where, {key: v for key, v in block.items() if key != "cache_control"}])


def _tools(tools: Sequence[Mapping[str, Any]], strict: bool) -> list[dict[str, Any]]:
    # The order of a schema's properties is the order in which a model fills them in.
    given = [_plain(tool) for tool in tools]
    if strict:
        return declared(given)
    return [{key: value for key, value in tool.items() if key != "strict"} for tool in given]


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {"role": message["role"], "content": [_block(block) for block in blocks]}


def _plain(block: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in block.items() if key != "cache_control"}


def _block(block: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = _sorted(block)
    given.pop("cache_control", None)
    # Where a result has blocks of its own, these could be marked too.
    if isinstance(inner := given.get("content"), list):
        for one in inner:
            if isinstance(one, dict):
                one.pop("cache_control", None)
    return given


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def _ends(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The message that the request before this one ended with, and the last one."""
    if not messages:
        return []
    found = [messages[-1]]
    answered = [at for at, message in enumerate(messages[:-1]) if message["role"] == "assistant"]
    if answered and answered[-1] > 0:
        found.append(messages[answered[-1] - 1])
    return found


def _mark_end(content: list[dict[str, Any]]) -> None:
    for block in reversed(content):
        if block.get("type") in _UNMARKED or block.get("text") == "":
            continue
        _mark(block)
        return


def _mark(block: dict[str, Any]) -> None:
    block["cache_control"] = dict(_MARK)
