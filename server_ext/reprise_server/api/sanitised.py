"""Static output of recorded steps, of each session with its own count of the time that takes."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from typing import Final

from reprise.client.holder import running_kernel
from reprise.jupyter.sidecar import read_sidecar
from reprise.jupyter.static.recorded import Recorded
from reprise.log.store import SessionInfo

#: Sessions whose time is kept count of.
_REMEMBERED: Final = 200


class Sanitised:
    """Static output of each session, with its count of time; of one server."""

    def __init__(self) -> None:
        self._known: OrderedDict[uuid.UUID, Recorded] = OrderedDict()

    def of(self, info: SessionInfo) -> Recorded:
        found = self._known.pop(info.id, None) or Recorded(_environment_name(info))
        self._known[info.id] = found
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found


def _environment_name(info: SessionInfo) -> str:
    """Of the environment that the running kernel has; else in the words of a command's help."""
    connection = running_kernel(info)
    said = None if connection is None else read_sidecar(connection)
    surroundings = {} if said is None else said.get("surroundings")
    name = surroundings.get("environment") if isinstance(surroundings, dict) else None
    return name if isinstance(name, str) and name else "NAME"
