"""Asks a Python interpreter what its variables are, and compares two such answers.

The answer comes from a sandbox, which may lie (to itself only): it is bounded, checked and
kept as data.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final, Literal

from reprise.log.model import Json
from reprise.replay.executor import request_reply
from reprise.replay.link import KernelLink
from reprise.replay.message import make
from reprise.sandbox.frames import Channel

#: Seconds that an interpreter may spend on its variables.
SECONDS: Final = 1.0
#: What it may need beyond: the request's way there, and a call into a library that cannot be
#: stopped.
GRACE_S: Final = 10.0

#: Bounds on what is believed of an answer.
_NAMES: Final = 4_000
_NAME: Final = 200
_TEXT: Final = 160
_BYTES: Final = 4 << 20

_DIGEST: Final = re.compile(r"[0-9a-f]{24}\Z")
#: In order: each needs those before it.
_PROGRAM: Final = ("glimpse.py", "tables.py", "fingerprint.py")

_MIME: Final = "application/x-reprise-variables"
_KEY: Final = "reprise"
_OURS: Final = re.compile(
    r"^from (?:__future__|reprise[\w.]*) import (?:\([^)]*\)|.*)$", re.MULTILINE
)


@dataclass(frozen=True)
class Variable:
    """One variable as its interpreter tells of it.

    digest: None when it cannot be compared; then, or when it is compared in part only, `why`
      says so.  shape: length or dimensions, for people.
    """

    type: str
    digest: str | None
    shape: str | None = None
    preview: str = ""
    why: str | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "type": self.type,
            "digest": self.digest,
            "shape": self.shape,
            "preview": self.preview,
            "why": self.why,
        }


@dataclass(frozen=True)
class Variables:
    """All variables of an interpreter. `omitted`: how many more there are than were looked at."""

    python: str
    by_name: Mapping[str, Variable]
    omitted: int = 0

    def to_json(self) -> dict[str, Json]:
        return {
            "python": self.python,
            "omitted": self.omitted,
            "variables": {name: each.to_json() for name, each in self.by_name.items()},
        }


@dataclass(frozen=True)
class VariableDifference:
    """One name of which two interpreters do not hold the same. None: it has no such name."""

    name: str
    before: Variable | None
    after: Variable | None
    kind: Literal["value", "type", "missing", "extra"]


@dataclass(frozen=True)
class VariablesCompared:
    """same: names with equal digests.  unknown: names that nothing can be said of, and why."""

    same: tuple[str, ...]
    different: tuple[VariableDifference, ...]
    unknown: Mapping[str, str]


async def ask(link: KernelLink, seconds: float = SECONDS) -> Variables | None:
    """The variables of the interpreter, or None where they cannot be compared.

    Only IPython can be asked. It changes nothing there: no name, no prompt number, no history,
    no generator of random numbers. Call it between steps only. Raises SandboxDied.
    """
    info: Mapping[str, Json] = link.guest.kernel_info or {}
    if info.get("implementation") != "ipython":
        return None
    request = make(
        "execute_request",
        {
            "code": "",
            "silent": True,
            "store_history": False,
            "user_expressions": {_KEY: _expression(seconds)},
            "allow_stdin": False,
            "stop_on_error": False,
        },
    )
    try:
        async with asyncio.timeout(seconds + GRACE_S):
            content = await request_reply(link, request, Channel.SHELL)
    except TimeoutError:
        return None
    return read(content)


@cache
def _program() -> str:
    """What runs there as one text that needs nothing of Reprise."""
    folder = files("reprise.replay")
    texts = [folder.joinpath(name).read_text("utf-8") for name in _PROGRAM]
    whole = _OURS.sub("", "\n".join(texts))
    return f"from __future__ import annotations\n{whole}"


def _expression(seconds: float) -> str:
    """One expression, so that it leaves no name behind; its own names live in a dict of its own."""
    space = "{'__name__': 'reprise_fingerprint', '__builtins__': __import__('builtins')}"
    return (
        f"(lambda space: (__import__('builtins').exec({_program()!r}, space), "
        f"space['run']({seconds!r}))[1])({space})"
    )


def read(content: Mapping[str, Json]) -> Variables | None:
    """The variables in an execute_reply; None when it holds none, or not as it should."""
    told: Json = content
    for key in ("user_expressions", _KEY, "data", _MIME):
        told = told.get(key) if isinstance(told, Mapping) else None
    if not isinstance(told, str) or len(told) > _BYTES:
        return None
    try:
        value = json.loads(told)
    except (ValueError, RecursionError):
        return None
    return parse(value)


def parse(value: Json) -> Variables | None:
    """The variables in their JSON form, as the log keeps it; None when it is malformed."""
    if not isinstance(value, Mapping):
        return None
    python, omitted, held = value.get("python"), value.get("omitted"), value.get("variables")
    if not isinstance(python, str) or type(omitted) is not int or not isinstance(held, Mapping):
        return None
    if len(held) > _NAMES or len(python) > _TEXT or omitted < 0:
        return None
    found: dict[str, Variable] = {}
    for name, each in held.items():
        variable = _variable(each)
        if variable is None or not isinstance(name, str) or len(name) > _NAME:
            return None
        found[name] = variable
    return Variables(python, found, omitted)


def _variable(value: Json) -> Variable | None:
    if not isinstance(value, Mapping):
        return None
    texts: list[str | None] = []
    for key in ("type", "digest", "shape", "preview", "why"):
        text = value.get(key)
        if text is not None and (not isinstance(text, str) or len(text) > _TEXT):
            return None
        texts.append(text)
    type_, digest, shape, preview, why = texts
    if type_ is None or (digest is not None and not _DIGEST.match(digest)):
        return None
    return Variable(type_, digest, shape, preview or "", why)


def compare(before: Variables, after: Variables) -> VariablesCompared:
    """What differs between two interpreters, name by name."""
    same: list[str] = []
    different: list[VariableDifference] = []
    unknown: dict[str, str] = {}
    # Names beyond the bound were not looked at on one side, so their absence says nothing.
    whole = not before.omitted and not after.omitted
    for name in sorted({*before.by_name, *after.by_name}):
        old, new = before.by_name.get(name), after.by_name.get(name)
        if old is None or new is None:
            if whole:
                kind: Literal["missing", "extra"] = "missing" if new is None else "extra"
                different.append(VariableDifference(name, old, new, kind))
            else:
                unknown[name] = "there are too many variables"
        elif old.type != new.type:
            different.append(VariableDifference(name, old, new, "type"))
        elif old.type == "function" and before.python != after.python:
            unknown[name] = f"made by {before.python}, and by {after.python} here"
        elif old.digest is None or new.digest is None:
            unknown[name] = old.why or new.why or "it cannot be compared"
        elif old.digest != new.digest:
            different.append(VariableDifference(name, old, new, "value"))
        else:
            same.append(name)
    return VariablesCompared(tuple(same), tuple(different), unknown)
