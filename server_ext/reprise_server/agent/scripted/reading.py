"""A script written as JSON, read strictly (pure).

A list with one object for each answer of the model, in order:

    {"say": "I look at the notebook.", "call": "read_notebook", "input": {}}
    {"think": "…", "calls": [{"tool": "run_cells", "input": {"cells": ["a"]}}, …]}
    {"say": "Done."}
    {"status": 529, "retry_after": "2"}          an HTTP error instead of an answer

`stop` sets the stop reason, `pause` the seconds before each piece of the stream.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final, get_args

from reprise.errors import UsageError
from reprise_server.agent.scripted.replies import (
    Call,
    Failure,
    Part,
    Reply,
    Step,
    StopReason,
    Text,
    Thought,
    error,
)

#: The kind that the API names with each status.
_KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
_REPLY: Final = frozenset({"say", "think", "call", "input", "calls", "stop", "pause"})
_FAILURE: Final = frozenset({"status", "message", "retry_after"})


def read_script(text: str) -> list[Step]:
    """The steps of a script. Raises UsageError naming the answer that is wrong."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"The script is not JSON: {problem}.") from problem
    if not isinstance(given, list) or not given:
        raise UsageError("A script is a list of answers, with one at least.")
    return [_step(step, f"answer {number}") for number, step in enumerate(given, 1)]


def _step(given: Any, where: str) -> Step:
    if not isinstance(given, dict):
        raise UsageError(f"The script's {where} is no object.")
    return _failure(given, where) if "status" in given else _reply(given, where)


def _failure(given: Mapping[str, Any], where: str) -> Failure:
    _known(given, _FAILURE, where)
    status = given["status"]
    if not isinstance(status, int) or status not in _KINDS:
        listed = ", ".join(map(str, _KINDS))
        raise UsageError(f"The script's {where}: `status` is one of {listed}.")
    message = _text(given, "message", where, _KINDS[status])
    headers = {}
    if "retry_after" in given:
        headers["retry_after"] = _text(given, "retry_after", where)
    return error(status, _KINDS[status], message, **headers)


def _reply(given: Mapping[str, Any], where: str) -> Reply:
    _known(given, _REPLY, where)
    parts: list[Part] = []
    if "think" in given:
        parts.append(Thought(_text(given, "think", where)))
    if "say" in given:
        parts.append(Text(_text(given, "say", where)))
    wanted = given.get("calls", [])
    if "call" in given:
        wanted = [{"tool": given["call"], "input": given.get("input", {})}]
    if not isinstance(wanted, list) or ("call" in given and "calls" in given):
        raise UsageError(
            f"The script's {where} has one `call` with its `input`, or a list `calls`."
        )
    for each in wanted:
        if not isinstance(each, dict):
            raise UsageError(f"The script's {where}: each of `calls` is an object.")
        _known(each, {"tool", "input"}, where)
        if not isinstance(each.get("input", {}), dict):
            raise UsageError(f"The script's {where}: `input` is an object.")
        parts.append(Call(_text(each, "tool", where), each.get("input", {})))
    if not parts:
        raise UsageError(f"The script's {where} neither says nor calls anything.")
    stop = given.get("stop", "")
    if stop not in ("", *get_args(StopReason)):
        raise UsageError(f"The script's {where}: `stop` is one of {get_args(StopReason)}.")
    pause = given.get("pause", 0)
    if isinstance(pause, bool) or not isinstance(pause, int | float) or not 0 <= pause <= 60:
        raise UsageError(f"The script's {where}: `pause` is a number of seconds up to 60.")
    return Reply(tuple(parts), stop=stop, pause=pause)


def _known(given: Mapping[str, Any], names: Collection[str], where: str) -> None:
    for name in given:
        if name not in names:
            raise UsageError(f"The script's {where} has no field {name!r}; {sorted(names)} are.")


def _text(given: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str):
        raise UsageError(f"The script's {where}: `{name}` is a text.")
    return value
