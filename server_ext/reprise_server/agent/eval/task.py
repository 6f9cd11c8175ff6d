"""A task of `reprise eval` as its file says it, read strictly (pure).

name: profile-rentals
skill: profile-dataset
task: |
  rentals.csv came from a partner. Write findings.json …
completion:
  - file: findings.json
    json: {at: rows, is: 240}
workflow:
  - loaded: profile-dataset
  - order: [{loaded: profile-dataset}, {called: write_file}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from reprise.errors import UsageError

MAX_BYTES: Final = 64 << 10
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
_MOST_CHECKS: Final = 50
_LONGEST: Final = 8_000


class BadTask(UsageError):
    """A task that is none; says where and what to mend."""


@dataclass(frozen=True)
class Words:
    """What a text must hold. contains, lacks: each as it stands, upper and lower case apart.
    matches: a regular expression that is found somewhere in it."""

    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    matches: str | None = None


@dataclass(frozen=True)
class Value:
    """What stands at a place in a JSON file.

    at: keys and positions, such as `columns.0.name`; "" is the whole.  value: what it is.
    within: how far a number may be off.  any_order: whether a list's order counts.
    """

    at: str
    value: Any
    within: float = 0.0
    any_order: bool = False


@dataclass(frozen=True)
class FileCheck:
    """A file of the workspace is there, and is like that."""

    path: str
    words: Words = Words()
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Unchanged:
    """A file that was given is as it was given."""

    path: str


@dataclass(frozen=True)
class AnswerCheck:
    """The last answer of the model is like that."""

    words: Words


@dataclass(frozen=True)
class CommandCheck:
    """A command, run in the session after the agent has ended, exits with 0."""

    command: str
    words: Words = Words()


@dataclass(frozen=True)
class Loaded:
    """A skill was loaded."""

    skill: str


@dataclass(frozen=True)
class Ran:
    """A script of a skill ran and ended well. script: its file's name."""

    script: str
    skill: str


@dataclass(frozen=True)
class Called:
    """A tool was called, and the call ended well. given: of inputs, what their text holds."""

    tool: str
    given: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Never:
    """A tool was not called so, however the call ended."""

    called: Called


@dataclass(frozen=True)
class Order:
    """These happened, each for the first time after the one before it."""

    events: tuple[Loaded | Ran | Called, ...]


Completion = FileCheck | Unchanged | AnswerCheck | CommandCheck
Workflow = Loaded | Ran | Called | Never | Order


@dataclass(frozen=True)
class Task:
    """What is asked, and by what it is judged: checks, each under the name that a report uses.

    skill: what is measured; without it there are no skills at all.
    """

    name: str
    text: str
    skill: str
    completion: tuple[tuple[str, Completion], ...]
    workflow: tuple[tuple[str, Workflow], ...]


def task_of(data: bytes, where: str) -> Task:
    """A task from its YAML. where: for errors. Raises BadTask."""
    if len(data) > MAX_BYTES:
        raise BadTask(f"{where} has over {MAX_BYTES:,} bytes.")
    try:
        given = yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadTask(f"{where} is no YAML: {str(error)[:500]}") from error
    try:
        return _task(given)
    except _Wrong as error:
        raise BadTask(f"{where}: {error}") from None


class _Wrong(Exception):
    """What is wrong, and where in the file."""


def _task(given: Any) -> Task:
    known = ("name", "task", "skill", "completion", "workflow")
    _known(given, known, "the task")
    name, skill = _text(given.get("name"), "name"), _text(given.get("skill"), "skill")
    for each, text in (("name", name), ("skill", skill)):
        if not _NAME.fullmatch(text):
            raise _Wrong(f"{each} is at most 64 of a-z, 0-9 and inner hyphens, not {text!r}")
    said = _text(given.get("task"), "task")
    completion = [(_named(c, at), _completion(c, at)) for c, at in _list(given, "completion")]
    workflow = [(_named(c, at), _workflow(c, at)) for c, at in _list(given, "workflow")]
    for kind, checks in (("completion", completion), ("workflow", workflow)):
        if not checks:
            raise _Wrong(f"{kind} has no check")
        if len({named for named, _ in checks}) < len(checks):
            raise _Wrong(f"two checks of {kind} have one name; give them names")
    return Task(name, said, skill, tuple(completion), tuple(workflow))


def _completion(given: Mapping[str, Any], at: str) -> Completion:
    words = ("contains", "lacks", "matches")
    if "file" in given:
        _known(given, ("name", "file", "json", *words), at)
        values = given.get("json", [])
        listed = values if isinstance(values, list) else [values]
        return FileCheck(
            _path(given["file"], f"{at}.file"),
            _words(given, at),
            tuple(_value(value, f"{at}.json") for value in listed),
        )
    if "unchanged" in given:
        _known(given, ("name", "unchanged"), at)
        return Unchanged(_path(given["unchanged"], f"{at}.unchanged"))
    if "answer" in given:
        _known(given, ("name", "answer"), at)
        _known(given["answer"], words, f"{at}.answer")
        return AnswerCheck(_words(given["answer"], f"{at}.answer"))
    if "command" in given:
        _known(given, ("name", "command", *words), at)
        return CommandCheck(_text(given["command"], f"{at}.command"), _words(given, at))
    raise _Wrong(f"{at} is one of file, unchanged, answer, command")


def _workflow(given: Mapping[str, Any], at: str) -> Workflow:
    if "order" in given:
        _known(given, ("name", "order"), at)
        events = given["order"]
        if not isinstance(events, list) or not 2 <= len(events) <= _MOST_CHECKS:
            raise _Wrong(f"{at}.order is a list of two events or more")
        return Order(tuple(_event(each, f"{at}.order[{n}]") for n, each in enumerate(events)))
    if "never" in given:
        _known(given, ("name", "never", "given"), at)
        return Never(Called(_text(given["never"], f"{at}.never"), _given(given, at)))
    return _event(given, at)


def _event(given: Any, at: str) -> Loaded | Ran | Called:
    if isinstance(given, Mapping):
        if "loaded" in given:
            _known(given, ("name", "loaded"), at)
            return Loaded(_text(given["loaded"], f"{at}.loaded"))
        if "ran" in given:
            _known(given, ("name", "ran", "skill"), at)
            return Ran(_text(given["ran"], f"{at}.ran"), _text(given.get("skill"), f"{at}.skill"))
        if "called" in given:
            _known(given, ("name", "called", "given"), at)
            return Called(_text(given["called"], f"{at}.called"), _given(given, at))
    raise _Wrong(f"{at} is one of loaded, ran, called, never, order")


def _given(given: Mapping[str, Any], at: str) -> dict[str, str]:
    found = given.get("given", {})
    if not isinstance(found, Mapping):
        raise _Wrong(f"{at}.given is {{input: text}}")
    return {_text(name, f"{at}.given"): _text(text, f"{at}.given") for name, text in found.items()}


def _words(given: Mapping[str, Any], at: str) -> Words:
    pattern = given.get("matches")
    if pattern is not None:
        try:
            re.compile(_text(pattern, f"{at}.matches"))
        except (re.error, OverflowError) as error:
            raise _Wrong(f"{at}.matches is no regular expression: {error}") from None
    return Words(_texts(given, "contains", at), _texts(given, "lacks", at), pattern)


def _value(given: Any, at: str) -> Value:
    _known(given, ("at", "is", "within", "any_order"), at)
    if "is" not in given:
        raise _Wrong(f"{at} lacks `is`, the value")
    within = given.get("within", 0)
    if isinstance(within, bool) or not isinstance(within, int | float) or not within >= 0:
        raise _Wrong(f"{at}.within is a number, 0 or more")
    place = given.get("at", "")
    if not isinstance(place, str | int) or isinstance(place, bool):
        raise _Wrong(f"{at}.at is a text such as columns.0.name")
    return Value(str(place), given["is"], float(within), given.get("any_order") is True)


def _texts(given: Mapping[str, Any], key: str, at: str) -> tuple[str, ...]:
    found = given.get(key, [])
    listed = found if isinstance(found, list) else [found]
    return tuple(_text(each, f"{at}.{key}") for each in listed)


def _text(value: Any, at: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise _Wrong(f"{at} is a text of 1 to {_LONGEST:,} characters")
    return value


def _path(value: Any, at: str) -> str:
    path = _text(value, at)
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise _Wrong(f"{at} is a path within the workspace, such as out/table.csv")
    return path


def _list(given: Mapping[str, Any], key: str) -> list[tuple[Mapping[str, Any], str]]:
    found = given.get(key, [])
    if not isinstance(found, list) or len(found) > _MOST_CHECKS:
        raise _Wrong(f"{key} is a list of at most {_MOST_CHECKS} checks")
    for number, each in enumerate(found):
        if not isinstance(each, Mapping):
            raise _Wrong(f"{key}[{number}] is a check such as {{file: out.csv}}")
    return [(each, f"{key}[{number}]") for number, each in enumerate(found)]


def _known(given: Any, known: tuple[str, ...], at: str) -> None:
    if not isinstance(given, Mapping):
        raise _Wrong(f"{at} has fields: {', '.join(known)}")
    for key in given:
        if key not in known:
            raise _Wrong(f"{at} has no field {str(key)[:60]!r}; it has {', '.join(known)}")


def _named(given: Mapping[str, Any], at: str) -> str:
    """The name of a check: its own, or what it looks at."""
    if "name" in given:
        return _text(given["name"], f"{at}.name")
    for key in ("file", "unchanged", "answer", "command", "loaded", "ran", "called", "never"):
        if key in given:
            what = given[key]
            return f"{key} {what}" if isinstance(what, str) else key
    return next(iter(map(str, given)), at)
