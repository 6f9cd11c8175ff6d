"""How a program that has stopped being root reaches what lies on the host."""

from __future__ import annotations

import os
from pathlib import Path


class Sources:
    """Host paths, as that program names them.

    stage: where a launcher run by root (`launch.stage`) makes source number N visible as stage/N
      (or under a name of its own), since it may lie beneath folders that only root may enter;
      without one the sources are named as they are.
    """

    def __init__(self, stage: str | None) -> None:
        self._stage = stage
        self.staged: list[tuple[str, str]] = []

    def reach(self, path: str | Path, name: str | None = None) -> str:
        """The name by which it reaches a host path."""
        if self._stage is None:
            return os.fspath(path)
        name = name or str(len(self.staged))
        self.staged.append((name, os.fspath(path)))
        return f"{self._stage}/{name}"
