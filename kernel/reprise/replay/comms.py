"""Which widget model each comm of a language kernel is, by what opened it (pure)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from reprise.log.model import Json

#: Comms remembered, the oldest forgotten first, and characters of their names.
REMEMBERED: Final = 50_000
LONGEST: Final = 200

TARGET: Final = "jupyter.widget"


@dataclass(frozen=True)
class Model:
    """A widget's model, as the comm that opened it says."""

    module: str
    name: str


@dataclass
class Comms:
    """The comms that a language kernel has opened, live or on a replay, under their known ids.

    refused: those that pages were not told of (`jupyter.static`).
    """

    models: OrderedDict[str, Model | None] = field(default_factory=OrderedDict)
    refused: set[str] = field(default_factory=set)

    def opened(self, content: Mapping[str, Json]) -> None:
        """Remember the comm of a comm_open's content; None stands for what is no widget."""
        comm = content.get("comm_id")
        if not isinstance(comm, str) or len(comm) > LONGEST:
            return
        self.models[comm] = model_of(content)
        self.models.move_to_end(comm)
        self.refused.discard(comm)
        while len(self.models) > REMEMBERED:
            self.closed(next(iter(self.models)))

    def renamed(self, comm: str, known: str) -> None:
        """A replay found out late which recorded comm this one is."""
        if comm != known and comm in self.models:
            self.models[known] = self.models.pop(comm)

    def closed(self, comm: str) -> None:
        self.models.pop(comm, None)
        self.refused.discard(comm)


def model_of(content: Mapping[str, Json]) -> Model | None:
    """The model that a comm_open opens; None when it opens no widget."""
    data = content.get("data")
    state = data.get("state") if isinstance(data, dict) else None
    if content.get("target_name") != TARGET or not isinstance(state, dict):
        return None
    return model_named(state)


def model_named(state: Mapping[str, Json]) -> Model | None:
    """The model that a widget's state names, if it names one."""
    module, name = state.get("_model_module"), state.get("_model_name")
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if len(module) > LONGEST or len(name) > LONGEST:
        return None
    return Model(module, name)
