"""What a person decides by a press: what it is, why it is asked, which buttons there are (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Choice:
    """One button.

    look: accept and warn widen something, reject does not.  shows: what else has to be seen before
    it can be pressed, exactly (name, text).  reason: whether a reason can be given with it.
    """

    option: str
    label: str
    look: Literal["accept", "warn", "reject"]
    shows: tuple[tuple[str, str], ...] = ()
    reason: bool = False


@dataclass(frozen=True)
class Matter:
    """What is to be decided.

    title: one line.  said: names and texts, each shown exactly.  why: why it is asked.
    ending: what a person reads when nobody answered in time.
    """

    title: str
    said: tuple[tuple[str, str], ...]
    why: str
    choices: tuple[Choice, ...]
    ending: str


@dataclass(frozen=True)
class Parts:
    """What can be decided part by part.

    each: by the part's name, in their order; its choices are ACCEPT and REJECT.
    rest: the whole matter without the parts that were rejected.
    """

    each: Mapping[str, Matter]
    rest: Callable[[Collection[str]], Matter]


#: The options of a part.
ACCEPT, REJECT = "accept", "reject"
