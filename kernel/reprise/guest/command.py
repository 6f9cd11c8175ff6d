"""A command of the sandbox: what a `run` call asks for, and its state from its start to its end."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from reprise.guest.keeper import Keeper, Program
from reprise.guest.output import MAX_FILE, Output

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}\Z")


class Wanted(NamedTuple):
    """The arguments of `run`, checked."""

    name: str
    program: Program
    timeout_s: float | None
    output_bytes: int
    output_lines: int
    background: bool


class Pipe(NamedTuple):
    """The reading end of a command's stdout or stderr, and where what comes goes."""

    descriptor: int
    output: Output


class Running:
    """A command from its start to its end."""

    def __init__(self, wanted: Wanted, call: bytes, ticks: int, keeper: Keeper) -> None:
        self.name = wanted.name
        self.program = wanted.program
        self.background = wanted.background
        #: The `run` call, None once it is answered.
        self.call: bytes | None = call
        #: None once it is gone, or free for another command.
        self.keeper: Keeper | None = keeper
        self.pid = 0
        self.began_us = time.time_ns() // 1000
        self.began = time.monotonic()
        #: Nothing of it began earlier; clock ticks since boot, as /proc tells them.
        self.ticks = ticks
        self.pipes: dict[str, Pipe] = {}
        self.outputs: dict[str, Output] = {}
        self.stdin = -1
        self.rest = memoryview(b"")
        #: When something is overdue, and what that means.
        self.due: float | None = None
        self.overdue: Callable[[Running], None] | None = None
        self.timed_out = False
        self.status: int | None = None
        self.duration_us = 0
        #: Its keeper is gone; until then what it left behind is killed.
        self.sweep_until: float | None = None
        #: Bytes read since it ended.
        self.after_end = 0
        #: Calls to be answered at its end.
        self.waiting: list[bytes] = []


def wanted_of(arguments: dict[str, Any], kernel_env: dict[str, str], kernel_cwd: str) -> Wanted:
    """The arguments of `run`, checked. Raises KeyError, TypeError, ValueError for wrong ones.

    kernel_env, kernel_cwd: the language kernel's.
    """
    name = arguments["name"]
    if not isinstance(name, str) or not _NAME.match(name):
        raise ValueError(f"{name!r} is no name for a command")
    env = dict(kernel_env)
    for key, value in (arguments.get("env") or {}).items():
        if not key or "=" in key:
            raise ValueError(f"{key!r} cannot be a variable's name")
        env[_word(key)] = _word(value)
    argv, shell = arguments.get("argv"), arguments.get("shell")
    if (argv is None) == (shell is None):
        raise ValueError("a command has either argv or shell")
    if argv is None:
        argv = [_find_shell(kernel_env), "-c", shell]
    if not argv:
        raise ValueError("argv must have a program")
    cwd = os.path.join(kernel_cwd, _word(arguments.get("cwd") or ""))
    timeout = arguments.get("timeout_s")
    if timeout is not None and not 0 <= float(timeout) < 1 << 31:
        raise ValueError(f"a time limit of {timeout} s")
    bounds = int(arguments["output_bytes"]), int(arguments["output_lines"])
    if not (0 <= bounds[0] <= MAX_FILE and bounds[1] >= 0):
        raise ValueError(f"output bounds of {bounds[0]} bytes and {bounds[1]} lines")
    return Wanted(
        name,
        Program([_word(word) for word in argv], env, cwd),
        None if timeout is None else float(timeout),
        *bounds,
        bool(arguments.get("background")),
    )


def _word(text: str) -> str:
    """Text that a program can be given. Raises ValueError, TypeError for any other."""
    if b"\0" in os.fsencode(text):
        raise ValueError(f"{text[:40]!r} holds a NUL")
    return text


def _find_shell(env: dict[str, str]) -> str:
    """bash, or sh where there is none."""
    for folder in env.get("PATH", os.defpath).split(":"):
        if folder.startswith("/") and os.access(f"{folder}/bash", os.X_OK):
            return f"{folder}/bash"
    return "/bin/sh"


def ticks_now() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def ended(status: int) -> dict[str, Any]:
    killed = os.WIFSIGNALED(status)
    return {
        "exit_code": None if killed else os.waitstatus_to_exitcode(status),
        "signal": os.WTERMSIG(status) if killed else None,
    }


def listed(run: Running) -> dict[str, Any]:
    running = run.status is None
    return {
        "name": run.name,
        "pid": run.pid,
        "running": running,
        "started_us": run.began_us,
        **({"exit_code": None, "signal": None} if running else ended(run.status or 0)),
    }
