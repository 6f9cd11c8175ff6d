"""Commands that a guest runs beside the language kernel: what is asked, and how they ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Command:
    """A program to run (`contract`: run). Either `argv` or `shell`; sizes in bytes, times in s.

    name: unique in its sandbox; the folder of its streams in the workspace is called so.
    """

    name: str
    argv: tuple[str, ...] | None = None
    shell: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    output_bytes: int = 256 << 10
    output_lines: int = 10_000
    background: bool = False


@dataclass(frozen=True)
class StreamEnd:
    """What became of a command's stdout or stderr: all it wrote, in bytes and lines.

    cut: not all of it was sent. file: path of the workspace file that holds the whole stream.
    """

    bytes: int = 0
    lines: int = 0
    cut: bool = False
    file: str | None = None


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended: by `exit_code` or by `signal`; both None while in the background."""

    exit_code: int | None = None
    signal: int | None = None
    timed_out: bool = False
    duration_us: int = 0
    stdout: StreamEnd = StreamEnd()
    stderr: StreamEnd = StreamEnd()


@dataclass(frozen=True)
class BackgroundCommand:
    """A command in the background, running or ended. started_us: since the epoch, UTC."""

    name: str
    pid: int
    running: bool
    exit_code: int | None
    signal: int | None
    started_us: int

    def to_json(self) -> dict[str, Any]:
        """As a `workspace_reply` gives it."""
        folder = f".reprise/commands/{self.name}"
        return {
            "command": int(self.name),
            "running": self.running,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "started_at": self.started_us,
            "stdout": f"{folder}/stdout",
            "stderr": f"{folder}/stderr",
        }
