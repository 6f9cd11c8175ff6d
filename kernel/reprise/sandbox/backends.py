"""Finds a backend by name: the two built in, and those that other distributions register."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from reprise.errors import UsageError
from reprise.sandbox.bubblewrap import BubblewrapBackend
from reprise.sandbox.contract import Backend
from reprise.sandbox.dagger import DaggerBackend
from reprise.sandbox.oci import OciBackend
from reprise.sandbox.process import ProcessBackend
from reprise.settings import BACKEND, DEFAULT_BACKEND

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

#: Entry point group for backends of other distributions: name → class without arguments.
GROUP = "reprise.backends"

_BUILT_IN: dict[str, Callable[[], Backend]] = {
    "bubblewrap": BubblewrapBackend,
    "dagger": DaggerBackend,
    "oci": OciBackend,
    "process": ProcessBackend,
}


def _entry_points() -> EntryPoints:
    # Imported only when asked: a kernel's start with a built-in backend need not pay for it.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)


def known() -> list[str]:
    """The names `backend` takes."""
    return sorted({*_BUILT_IN, *(entry.name for entry in _entry_points())})


def backend(name: str | None = None) -> Backend:
    """The backend of that name; without one REPRISE_BACKEND's, without that bubblewrap's.

    `oci:RUNTIME` names the OCI runtime as well. Raises UsageError for an unknown name. Never
    another one instead: isolation is not given up unasked.
    """
    name = name or os.environ.get(BACKEND) or DEFAULT_BACKEND
    if name in _BUILT_IN:
        return _BUILT_IN[name]()
    kind, colon, runtime = name.partition(":")
    if kind == "oci" and colon:
        return OciBackend(runtime)
    for entry in _entry_points():
        if entry.name == name:
            made: Backend = entry.load()()
            return made
    raise UsageError(
        f"There is no backend named {name!r}; there are {', '.join(known())}. "
        "Set REPRISE_BACKEND to one of them."
    )
