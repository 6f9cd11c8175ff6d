"""Finds a backend by name: the two built in, and those that other distributions register."""

from __future__ import annotations

import os
from importlib.metadata import entry_points

from reprise.errors import UsageError
from reprise.sandbox.bubblewrap import BubblewrapBackend
from reprise.sandbox.contract import Backend
from reprise.sandbox.process import ProcessBackend

#: Entry point group for backends of other distributions: name → class without arguments.
GROUP = "reprise.backends"

DEFAULT = "bubblewrap"

_BUILT_IN: dict[str, type[BubblewrapBackend] | type[ProcessBackend]] = {
    "bubblewrap": BubblewrapBackend,
    "process": ProcessBackend,
}


def known() -> list[str]:
    """The names `backend` takes."""
    return sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))})


def backend(name: str | None = None) -> Backend:
    """The backend of that name; without one REPRISE_BACKEND's, without that bubblewrap's.

    Raises UsageError for an unknown name. Never another one instead: isolation is not given up
    unasked.
    """
    name = name or os.environ.get("REPRISE_BACKEND") or DEFAULT
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    for entry in entry_points(group=GROUP):
        if entry.name == name:
            made: Backend = entry.load()()
            return made
    raise UsageError(
        f"There is no backend named {name!r}; there are {', '.join(known())}. "
        "Set REPRISE_BACKEND to one of them."
    )
