"""Checks held against what a trial left: each passed or not, and why (pure)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise_server.agent.eval.evidence import Evidence, Made, text_of
from reprise_server.agent.eval.task import (
    AnswerCheck,
    Called,
    CommandCheck,
    Completion,
    FileCheck,
    Loaded,
    Never,
    Order,
    Ran,
    Task,
    Unchanged,
    Value,
    Words,
    Workflow,
)

#: Characters of a text that a regular expression is tried on.
_SEARCHED: Final = 1_000_000
_SHOWN: Final = 120


@dataclass(frozen=True)
class Outcome:
    """One check. why: where it did not pass."""

    name: str
    passed: bool
    why: str = ""


def completion(task: Task, evidence: Evidence) -> tuple[Outcome, ...]:
    """Whether what was asked for is there."""
    return tuple(_outcome(name, _complete(check, evidence)) for name, check in task.completion)


def workflow(task: Task, evidence: Evidence, *, skills: bool) -> tuple[Outcome, ...]:
    """Whether it was done in the way that the skill says. skills: whether there were any; without,
    what takes a skill is not asked."""
    return tuple(
        _outcome(name, _followed(check, evidence.calls))
        for name, check in task.workflow
        if skills or not _takes_a_skill(check)
    )


def _outcome(name: str, why: str | None) -> Outcome:
    return Outcome(name, why is None, why or "")


def _takes_a_skill(check: Workflow) -> bool:
    if isinstance(check, Order):
        return any(isinstance(event, Loaded | Ran) for event in check.events)
    return isinstance(check, Loaded | Ran)


# Completion ---------------------------------------------------------------------------------------


def _complete(check: Completion, evidence: Evidence) -> str | None:
    match check:
        case FileCheck():
            data = evidence.files.get(check.path)
            if data is None:
                return f"there is no file {check.path}"
            text = data.decode("utf-8", "replace")
            return _worded(check.words, text) or _valued(check.values, text)
        case Unchanged():
            before, after = evidence.given.get(check.path), evidence.files.get(check.path)
            if before is None:
                return f"{check.path} is none of the files that were given"
            return None if before == after else f"{check.path} was changed"
        case AnswerCheck():
            return _worded(check.words, evidence.answer)
        case CommandCheck():
            code, wrote = evidence.commands.get(check.command, (None, ""))
            if code != 0:
                return f"it ended with {code}: {_short(wrote)}"
            return _worded(check.words, wrote)


def _worded(words: Words, text: str) -> str | None:
    for each in words.contains:
        if each not in text:
            return f"it does not contain {_short(each)!r}"
    for each in words.lacks:
        if each in text:
            return f"it contains {_short(each)!r}"
    if words.matches is not None and not re.search(words.matches, text[:_SEARCHED]):
        return f"nothing in it matches {_short(words.matches)!r}"
    return None


def _valued(values: Sequence[Value], text: str) -> str | None:
    if not values:
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return "it is no JSON"
    for value in values:
        found, there = _at(whole, value.at)
        where = value.at or "the whole"
        if not there:
            return f"there is no {where}"
        if not _equal(found, value.value, value.within, any_order=value.any_order):
            return f"{where} is {_short(text_of(found))}, not {_short(text_of(value.value))}"
    return None


def _at(value: Any, place: str) -> tuple[Any, bool]:
    for part in place.split(".") if place else []:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None, False
    return value, True


def _equal(found: Any, wanted: Any, within: float, *, any_order: bool) -> bool:
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        return math.isfinite(found) and abs(found - wanted) <= within
    if isinstance(found, list) and isinstance(wanted, list) and any_order:
        left = list(found)
        for each in wanted:
            for number, one in enumerate(left):
                if _equal(one, each, within, any_order=True):
                    del left[number]
                    break
            else:
                return False
        return not left
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(
            _equal(one, other, within, any_order=False)
            for one, other in zip(found, wanted, strict=True)
        )
    return bool(found == wanted)


# Workflow -----------------------------------------------------------------------------------------


def _followed(check: Workflow, calls: Sequence[Made]) -> str | None:
    match check:
        case Never():
            for number, call in enumerate(calls):
                if _fits(check.called, call):
                    return f"call {number + 1} was {call.tool}"
            return None
        case Order():
            before = -1
            for event in check.events:
                at = _first(event, calls)
                if at is None:
                    return f"{_event(event)} did not happen"
                if at <= before:
                    return f"{_event(event)} came before what should be before it"
                before = at
            return None
        case _:
            return None if _first(check, calls) is not None else f"{_event(check)} did not happen"


def _first(event: Loaded | Ran | Called, calls: Sequence[Made]) -> int | None:
    """The first call that ended well and is that."""
    for number, call in enumerate(calls):
        if call.ok and _is(event, call):
            return number
    return None


def _is(event: Loaded | Ran | Called, call: Made) -> bool:
    match event:
        case Loaded():
            return call.tool == "load_skill" and _skill(call) == event.skill
        case Ran():
            if call.tool == "run_skill":
                script = text_of(call.input.get("script", "")).rpartition("/")[2]
                return _skill(call) == event.skill and script == event.script
            # By hand, from where the skill is mounted.
            code = call.code or ""
            return (
                re.search(rf"/skills/{re.escape(event.skill)}/\S*{re.escape(event.script)}\b", code)
                is not None
            )
        case Called():
            return _fits(event, call)


def _fits(called: Called, call: Made) -> bool:
    return call.tool == called.tool and all(
        text in text_of(call.input.get(name, "")) for name, text in called.given.items()
    )


def _skill(call: Made) -> str:
    """The name of the skill that a call names: `scope:name@version` is its longest form."""
    return text_of(call.input.get("skill", "")).rpartition(":")[2].partition("@")[0]


def _event(event: Loaded | Ran | Called) -> str:
    match event:
        case Loaded():
            return f"loading {event.skill}"
        case Ran():
            return f"running {event.script}"
        case Called():
            given = "".join(f" {name}={_short(text)}" for name, text in event.given.items())
            return f"calling {event.tool}{given}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
