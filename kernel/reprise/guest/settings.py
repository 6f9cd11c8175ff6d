"""What the host tells the guest in its HELLO: which kernel to start, where, under which limits."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Settings(NamedTuple):
    """The JSON of the host's HELLO (made by `sandbox.connection`); sizes in bytes, 0 for none.

    isolated: the guest's process namespace holds nothing but init, the guest and its children,
      and the workspace is a fresh tree of its own.
    message: the longest iopub message the host takes.
    in_memory: folders with a file system in memory of their own; what is in them counts as memory.
    network: what the proxy needs (`sandbox.contract.GuestNetwork`); None where nothing goes out.
    """

    argv: list[str]
    name: str
    language: str
    interrupt_mode: str
    env: dict[str, str]
    resource_dir: str
    workspace: str
    cwd: str
    isolated: bool
    memory: int
    processes: int
    open_files: int
    message: int
    in_memory: list[str]
    network: dict[str, Any] | None = None

    @classmethod
    def parse(cls, data: bytes) -> Settings:
        value: dict[str, Any] = json.loads(data)
        return cls(**value)
