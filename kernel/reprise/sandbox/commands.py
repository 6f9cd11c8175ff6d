"""Commands in a sandbox as the host asks for them, and its checks of what the guest answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from reprise.sandbox.frames import FrameError

#: What a command can be given to read, in bytes: with its arguments it is one frame.
MAX_STDIN = 12 << 20

#: Background commands in one answer: those that run and those the guest still remembers.
_MAX_LISTED = 1000

#: Numbers that a guest may say: they fit into a bigint of the log.
_MAX_NUMBER = 1 << 62

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}\Z")

StreamName = Literal["stdout", "stderr"]
OnOutput = Callable[[StreamName, bytes], None]

_STREAMS: Mapping[bytes, StreamName] = {b"o": "stdout", b"e": "stderr"}


@dataclass(frozen=True)
class Command:
    """What to run (`contract`: Calls, run). Either `argv` or `shell` is given.

    name: by which it is signalled and listed; letters, digits, `.`, `_` and `-`, at most 64.
    env: variables on top of the language kernel's.
    output_bytes, output_lines: bounds of each stream, above which it only goes to a file.
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

    def arguments(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "argv": None if self.argv is None else list(self.argv),
            "shell": self.shell,
            "cwd": self.cwd,
            "env": dict(self.env),
            "timeout_s": self.timeout_s,
            "output_bytes": self.output_bytes,
            "output_lines": self.output_lines,
            "background": self.background,
        }


@dataclass(frozen=True)
class StreamEnd:
    """What a stream came to: all its bytes and newlines, sent or not.

    cut: not all of it was sent.  file: the file of the workspace that holds all of it, if any.
    """

    bytes: int
    lines: int
    cut: bool
    file: str | None


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended. Of `exit_code` and `signal` one is None.

    timed_out: its time limit ended it (or was about to).
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    duration_us: int
    stdout: StreamEnd
    stderr: StreamEnd


#: Of a background command, which is told of before it ends.
BEGUN = CommandEnd(None, None, False, 0, StreamEnd(0, 0, False, None), StreamEnd(0, 0, False, None))


@dataclass(frozen=True)
class BackgroundCommand:
    """A background command as the guest lists it.

    pid: inside the sandbox.  started_us: microseconds since 1970 by the sandbox's clock.
    """

    name: str
    pid: int
    running: bool
    exit_code: int | None
    signal: int | None
    started_us: int


class Listening:
    """The host's part of one `run` call: takes what comes of it, and holds the guest to its word.

    All methods raise FrameError for what no honest guest sends.
    """

    def __init__(self, command: Command, on_output: OnOutput) -> None:
        self._command = command
        self._on_output: OnOutput | None = on_output
        self._bytes = dict.fromkeys(_STREAMS.values(), 0)
        self._lines = dict.fromkeys(_STREAMS.values(), 0)

    def forget(self) -> None:
        """Nobody listens any more; what comes is still checked."""
        self._on_output = None

    def output(self, parts: list[bytes]) -> None:
        """A COMMAND frame without its id."""
        if len(parts) != 2 or parts[0] not in _STREAMS or not parts[1]:
            raise FrameError("a malformed COMMAND frame")
        stream, data = _STREAMS[parts[0]], parts[1]
        if self._command.background:
            raise FrameError("output of a command in the background")
        # A line is over when its newline is there; more bytes after the last one allowed belong
        # to a line too many.
        if self._lines[stream] >= self._command.output_lines:
            raise FrameError(f"more lines of {stream} than were asked for")
        self._bytes[stream] += len(data)
        self._lines[stream] += data.count(b"\n")
        over = self._lines[stream] > self._command.output_lines or (
            self._lines[stream] == self._command.output_lines and not data.endswith(b"\n")
        )
        if over or self._bytes[stream] > self._command.output_bytes:
            raise FrameError(f"more of {stream} than was asked for")
        if self._on_output is not None:
            self._on_output(stream, data)

    def end(self, body: Mapping[str, Any], data: list[bytes]) -> CommandEnd:
        """The answer to the call."""
        if data:
            raise FrameError("data with a command's answer")
        if self._command.background:
            return BEGUN
        exit_code, signal = _end(body)
        return CommandEnd(
            exit_code,
            signal,
            _flag(body, "timed_out"),
            _number(body, "duration_us"),
            self._stream_end(body, "stdout"),
            self._stream_end(body, "stderr"),
        )

    def _stream_end(self, body: Mapping[str, Any], stream: StreamName) -> StreamEnd:
        found = body.get(stream)
        if not isinstance(found, dict):
            raise FrameError(f"a command's end without its {stream}")
        size, lines, cut = _number(found, "bytes"), _number(found, "lines"), _flag(found, "cut")
        path = found.get("file")
        if path not in (None, f".reprise/commands/{self._command.name}/{stream}"):
            raise FrameError(f"a file for {stream} that is not its own")
        sent, sent_lines = self._bytes[stream], self._lines[stream]
        all_sent = (sent, sent_lines) == (size, lines)
        some_sent = sent < size and sent_lines <= lines
        if not (some_sent if cut else all_sent) or (path is not None and not cut):
            raise FrameError(f"an end of {stream} that is not what came of it")
        return StreamEnd(size, lines, cut, path)


def background_commands(body: Mapping[str, Any], data: list[bytes]) -> list[BackgroundCommand]:
    """The answer to `commands`. Raises FrameError."""
    found = body.get("commands")
    if data or not isinstance(found, list) or len(found) > _MAX_LISTED:
        raise FrameError("a listing of commands that is none")
    return [_background(entry) for entry in found]


def _background(entry: object) -> BackgroundCommand:
    if not isinstance(entry, dict):
        raise FrameError("a listed command that is no object")
    name, running = entry.get("name"), _flag(entry, "running")
    if not isinstance(name, str) or not _NAME.match(name):
        raise FrameError("a listed command without a name")
    exit_code, signal = (None, None) if running else _end(entry)
    return BackgroundCommand(
        name, _number(entry, "pid"), running, exit_code, signal, _number(entry, "started_us")
    )


def _end(body: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Exit code or signal, one of them."""
    exit_code, signal = body.get("exit_code"), body.get("signal")
    if exit_code is None and type(signal) is int and 1 <= signal <= 64:
        return None, signal
    if signal is None and type(exit_code) is int and 0 <= exit_code <= 255:
        return exit_code, None
    raise FrameError("a command's end without exit code or signal")


def _number(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if type(value) is not int or not 0 <= value < _MAX_NUMBER:
        raise FrameError(f"a command's answer without {name}")
    return value


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if type(value) is not bool:
        raise FrameError(f"a command's answer without {name}")
    return value
