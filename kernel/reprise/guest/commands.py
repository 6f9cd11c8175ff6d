"""The commands that run in the sandbox: started, fed, listened to, stopped and told of.

All in the guest's loop, which nothing here may hold up: pipes are read and written as they are
ready, each command is the business of its keeper, and what a hostile one leaves behind is
ended bit by bit.
"""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import zmq

from reprise.guest import keeper
from reprise.guest.calls import CallError
from reprise.guest.files import OWN, Files
from reprise.guest.language import LanguageKernel
from reprise.guest.output import MAX_FILE, Output
from reprise.guest.settings import Settings
from reprise.guest.stream import Stream
from reprise.guest.tree import strays
from reprise.sandbox.frames import Channel

#: Commands that may run at once.
MAX_RUNNING = 64

#: Ended background commands that are still listed; the oldest goes first.
MAX_ENDED = 256

#: Seconds from a time limit's SIGTERM to the SIGKILL.
GRACE = 2.0

#: Seconds after which a keeper that was told to end the tree counts as stopped by its command.
_KEEPER_PATIENCE = keeper.PATIENCE + 10

#: Seconds in which what a command without keeper left behind is looked for and killed.
_SWEEP_PATIENCE = 10.0

#: Bytes read from a pipe at once: what a pipe holds unless somebody made it larger.
_CHUNK = 1 << 16

#: What a pipe can hold at most (pipe(7), pipe-max-size). More than that after the end of a
#: command comes from somebody else who has the pipe open.
_PIPE = 1 << 20

#: Output waiting for the host above which pipes are not read, in bytes.
_QUEUE = 1 << 18

_STREAMS = (("stdout", b"o"), ("stderr", b"e"))

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}\Z")

#: Kind and words for each step at which a start can fail.
_STEPS = {
    keeper.AT_FORK: ("os", "no process could be made for {argv[0]!r}"),
    keeper.AT_FOLDER: ("cwd", "{argv[0]!r} could not be run in {cwd!r}"),
    keeper.AT_PROGRAM: ("program", "the program {argv[0]!r} could not be run"),
}


class Wanted(NamedTuple):
    """The arguments of `run`, checked."""

    name: str
    program: keeper.Program
    timeout_s: float | None
    output_bytes: int
    output_lines: int
    background: bool


class Pipe(NamedTuple):
    """The reading end of a command's stdout or stderr, and where what comes goes."""

    descriptor: int
    output: Output


class _Running:
    """A command from its start to its end."""

    def __init__(self, wanted: Wanted, call: bytes, pid: int, control: socket.socket) -> None:
        self.name = wanted.name
        self.program = wanted.program
        self.background = wanted.background
        #: The `run` call, None once it is answered.
        self.call: bytes | None = call
        self.keeper = pid
        self.control: socket.socket | None = control
        self.pid = 0
        self.began_us = time.time_ns() // 1000
        self.began = time.monotonic()
        self.ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))
        self.pipes: dict[str, Pipe] = {}
        self.outputs: dict[str, Output] = {}
        self.listening: set[int] = set()
        self.stdin = -1
        self.rest = memoryview(b"")
        #: Signals for a program that does not run yet.
        self.held: list[int] = []
        #: When something is overdue, and what that means.
        self.due: float | None = None
        self.overdue: Callable[[_Running], None] | None = None
        self.timed_out = False
        self.status: int | None = None
        self.duration_us = 0
        #: Its keeper is gone; until then what it left behind is killed.
        self.sweep_until: float | None = None
        #: Bytes read since it ended.
        self.after_end = 0
        #: Calls to be answered at its end.
        self.waiting: list[bytes] = []


class Commands:
    """All commands of one sandbox.

    answer, refuse: answer a call with what it asked for, or with a kind and a message.
    """

    def __init__(
        self,
        settings: Settings,
        language: LanguageKernel,
        files: Files,
        stream: Stream,
        poller: zmq.Poller,
        answer: Callable[[bytes, dict[str, Any]], None],
        refuse: Callable[[bytes, str, str], None],
    ) -> None:
        self._settings = settings
        self._language = language
        self._files = files
        self._stream = stream
        self._poller = poller
        self._answer = answer
        self._refuse = refuse
        self._running: dict[str, _Running] = {}
        self._ended: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._handlers: dict[int, Callable[[], object]] = {}

    # Calls

    def run(self, call: bytes, arguments: dict[str, Any], data: list[bytes]) -> None:
        """Start one. Answered when it has ended, or when it runs in the background.

        Raises CallError, OSError, ValueError and the like when it cannot even be tried.
        """
        wanted = self._wanted(arguments)
        if wanted.name in self._running:
            raise CallError("name", f"a command named {wanted.name} is running")
        if len(self._running) >= MAX_RUNNING:
            raise CallError("many", f"{MAX_RUNNING} commands are running; stop one of them first")
        stdin = b"".join(data)
        self._ended.pop(wanted.name, None)
        folder = f"{OWN}/commands/{wanted.name}"
        with contextlib.suppress(OSError):
            self._files.remove([folder])
        theirs: list[int] = []
        ours: list[int] = []
        try:
            if stdin:
                _pipe(theirs, ours, write=True)
            else:
                theirs.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            _pipe(theirs, ours)
            _pipe(theirs, ours)
            pid, control = keeper.start(wanted.program, self._settings, theirs)
        except OSError:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        run = self._running[wanted.name] = _Running(wanted, call, pid, control)
        if wanted.timeout_s is not None:
            run.due, run.overdue = run.began + wanted.timeout_s, self._time_out
        self._watch(control.fileno(), lambda: self._hear(run))
        if stdin:
            run.stdin, run.rest = ours[0], memoryview(stdin)
            self._feed(run)
        for (name, letter), descriptor in zip(_STREAMS, ours[-2:], strict=True):
            output = Output(
                self._files,
                f"{folder}/{name}",
                max_bytes=wanted.output_bytes,
                max_lines=wanted.output_lines,
                send=None if wanted.background else self._sender(call, letter),
            )
            run.outputs[name] = output
            run.pipes[name] = Pipe(descriptor, output)

    def signal(self, call: bytes, arguments: dict[str, Any]) -> None:
        """Signal one; SIGKILL is answered when nothing of it is left."""
        number = int(arguments["signal"])
        run = self._running.get(arguments["name"])
        if number not in signal.valid_signals():
            raise ValueError(f"there is no signal {number}")
        if run is None or run.status is not None:
            raise CallError("ended", f"no command named {arguments['name']!r} is running")
        if number == signal.SIGKILL:
            run.waiting.append(call)
            self._kill(run)
        else:
            self._tell_keeper(run, number)
            self._answer(call, {})

    def listed(self) -> list[dict[str, Any]]:
        """Background commands, ended ones first."""
        return [
            *self._ended.values(),
            *(_listed(run) for run in self._running.values() if run.background),
        ]

    # The loop's part

    def handle(self, descriptor: int) -> None:
        """Something came on a descriptor that was registered here, or did a moment ago."""
        handler = self._handlers.get(descriptor)
        if handler is not None:
            handler()

    def timeout(self) -> int | None:
        """Milliseconds until there is something to do, None when nothing waits."""
        if not self._running:
            return None
        now = time.monotonic()
        waits = [
            0.005 if run.due is None else run.due - now
            for run in self._running.values()
            if run.due is not None or run.sweep_until is not None
        ]
        return max(0, int(min(waits) * 1000) + 1) if waits else None

    def after(self) -> None:
        """Between two turns of the loop: what is due, what may be read again, what has ended."""
        if not self._running:
            return
        now = time.monotonic()
        flows = self._flows()
        for run in list(self._running.values()):
            if run.due is not None and run.overdue is not None and now >= run.due:
                overdue, run.due, run.overdue = run.overdue, None, None
                overdue(run)
            if run.sweep_until is not None:
                self._sweep(run, now)
            if run.status is not None and run.sweep_until is None:
                self._drain(run)
            else:
                for pipe in run.pipes.values():
                    self._listen(run, pipe, flows or pipe.output.to_file)

    def reaped(self, pid: int, status: int) -> None:
        """A child of the guest's has ended: a keeper, or an orphan of one that was killed."""
        for run in self._running.values():
            if pid == run.keeper:
                self._hear(run)
                if run.control is not None:
                    self._lose(run)
            elif pid == run.pid and run.sweep_until is not None:
                run.status = status

    def stopped(self, pid: int) -> None:
        """A child of the guest's was stopped; a keeper must not be."""
        if any(pid == run.keeper for run in self._running.values()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def all_killed(self) -> None:
        """Every process below the guest has been ended: tell what that means for commands."""
        for run in list(self._running.values()):
            self._hear(run)
            if run.status is None:
                run.status = signal.SIGKILL
                run.duration_us = _since(run.began)
            self._part_from_keeper(run)
            run.sweep_until = None
            self._drain(run, force=True)

    # Start

    def _wanted(self, arguments: dict[str, Any]) -> Wanted:
        name = arguments["name"]
        if not isinstance(name, str) or not _NAME.match(name):
            raise ValueError(f"{name!r} is no name for a command")
        env = dict(self._language.env)
        for key, value in (arguments.get("env") or {}).items():
            if not key or "=" in key or "\0" in key or "\0" in value:
                raise ValueError(f"{key!r} cannot be a variable's name, or its value")
            env[key] = value
        argv, shell = arguments.get("argv"), arguments.get("shell")
        if (argv is None) == (shell is None):
            raise ValueError("a command has either argv or shell")
        if argv is None:
            argv = [_find_shell(self._language.env), "-c", shell]
        if not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
            raise ValueError("argv must be words without NUL, and at least one")
        cwd = os.path.join(self._language.cwd, arguments.get("cwd") or "")
        if "\0" in cwd:
            raise ValueError("cwd holds a NUL")
        timeout = arguments.get("timeout_s")
        if timeout is not None and not 0 <= float(timeout) < 1 << 31:
            raise ValueError(f"a time limit of {timeout} s")
        bounds = int(arguments["output_bytes"]), int(arguments["output_lines"])
        if not (0 <= bounds[0] <= MAX_FILE and bounds[1] >= 0):
            raise ValueError(f"output bounds of {bounds[0]} bytes and {bounds[1]} lines")
        return Wanted(
            name,
            keeper.Program(argv, env, cwd),
            None if timeout is None else float(timeout),
            *bounds,
            bool(arguments.get("background")),
        )

    def _sender(self, call: bytes, letter: bytes) -> Callable[[bytes], None]:
        return lambda data: self._stream.send(Channel.COMMAND, [call, letter, data])

    def _watch(
        self, descriptor: int, handler: Callable[[], object], flags: int = zmq.POLLIN
    ) -> None:
        self._handlers[descriptor] = handler
        self._poller.register(descriptor, flags)

    def _unwatch(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None) is not None:
            self._poller.unregister(descriptor)

    # Its streams

    def _feed(self, run: _Running) -> None:
        """Write to its stdin what the pipe takes."""
        try:
            while run.rest:
                run.rest = run.rest[os.write(run.stdin, run.rest) :]
        except BlockingIOError:
            if run.stdin not in self._handlers:
                self._watch(run.stdin, lambda: self._feed(run), zmq.POLLOUT)
            return
        except OSError:
            run.rest = memoryview(b"")  # it closed its stdin: it wants no more
        self._stop_feeding(run)

    def _stop_feeding(self, run: _Running) -> None:
        if run.stdin >= 0:
            self._unwatch(run.stdin)
            os.close(run.stdin)
            run.stdin = -1
            run.rest = memoryview(b"")

    def _flows(self) -> bool:
        return self._stream.queued(Channel.COMMAND) < _QUEUE

    def _listen(self, run: _Running, pipe: Pipe, wanted: bool) -> None:
        """Read a pipe when something comes, or leave it: then the command waits."""
        listening = pipe.descriptor in self._handlers
        if wanted and not listening:
            self._watch(pipe.descriptor, lambda: self._read(run, pipe))
        elif listening and not wanted:
            self._unwatch(pipe.descriptor)

    def _read(self, run: _Running, pipe: Pipe) -> int:
        """Take one piece from a pipe, and close it at its end: bytes read, -1 if none is there."""
        try:
            data = os.read(pipe.descriptor, _CHUNK)
        except BlockingIOError:
            return -1
        if data:
            pipe.output.take(data)
        else:
            self._close_pipe(run, pipe)
        return len(data)

    def _close_pipe(self, run: _Running, pipe: Pipe) -> None:
        self._unwatch(pipe.descriptor)
        os.close(pipe.descriptor)
        run.pipes = {name: kept for name, kept in run.pipes.items() if kept is not pipe}

    def _drain(self, run: _Running, *, force: bool = False) -> None:
        """It has ended: take what is left in its pipes, as far as the host takes it, and tell."""
        for pipe in list(run.pipes.values()):
            self._listen(run, pipe, wanted=False)
            while pipe in run.pipes.values():
                if not (force or self._flows() or pipe.output.to_file):
                    return
                size = self._read(run, pipe)
                run.after_end += max(size, 0)
                if size < 0 or run.after_end > 2 * _PIPE:
                    self._close_pipe(run, pipe)
        self._finish(run)

    # Its end

    def _tell_keeper(self, run: _Running, number: int) -> None:
        if run.control is None:
            return
        if not run.pid and number != signal.SIGKILL:
            run.held.append(number)
            return
        # It may have been stopped by its command; it is our child, so the id is still its own.
        with contextlib.suppress(OSError):
            os.kill(run.keeper, signal.SIGCONT)
            run.control.send(bytes([number]))

    def _kill(self, run: _Running) -> None:
        self._tell_keeper(run, signal.SIGKILL)
        run.due, run.overdue = time.monotonic() + _KEEPER_PATIENCE, self._give_up_keeper

    def _time_out(self, run: _Running) -> None:
        run.timed_out = True
        self._tell_keeper(run, signal.SIGTERM)
        run.due, run.overdue = time.monotonic() + GRACE, self._kill

    def _give_up_keeper(self, run: _Running) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(run.keeper, signal.SIGKILL)

    def _hear(self, run: _Running) -> None:
        """Read what its keeper says."""
        while run.control is not None:
            try:
                said = run.control.recv(64)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            match said[:1]:
                case b"S":
                    run.pid = keeper.STARTED.unpack(said)[1]
                    self._started(run)
                case b"F":
                    self._failed(run, *keeper.FAILED.unpack(said)[1:])
                case b"E":
                    _, run.status, run.duration_us = keeper.ENDED.unpack(said)
                    self._part_from_keeper(run)
                case _:
                    self._lose(run)

    def _started(self, run: _Running) -> None:
        if run.background and run.call is not None:
            self._answer(run.call, {})
            run.call = None
        for number in run.held:
            self._tell_keeper(run, number)
        run.held.clear()

    def _failed(self, run: _Running, number: int, step: int) -> None:
        """It could not be started."""
        kind, what = _STEPS[step]
        if run.call is not None:
            words = what.format(argv=run.program.argv, cwd=run.program.cwd)
            self._refuse(run.call, kind, f"{words}: {os.strerror(number)}")
            run.call = None
        self._forget(run)
        for output in run.outputs.values():
            output.end()

    def _part_from_keeper(self, run: _Running) -> None:
        self._stop_feeding(run)
        run.due = run.overdue = None
        if run.control is not None:
            self._unwatch(run.control.fileno())
            run.control.close()
            run.control = None

    def _lose(self, run: _Running) -> None:
        """Its keeper is gone without a word: the command has killed it."""
        self._part_from_keeper(run)
        run.sweep_until = time.monotonic() + _SWEEP_PATIENCE

    def _sweep(self, run: _Running, now: float) -> None:
        """End what a command whose keeper it killed left behind.

        Such orphans come to the guest. Which of its descendants they are is told by what they
        are not: the language kernel's, or another command's, or older than the command.
        """
        others = [other.keeper for other in self._running.values() if other.control is not None]
        found = strays(self._settings.isolated, others, self._language.pid, run.ticks)
        if found and run.sweep_until is not None and now < run.sweep_until:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            return
        run.sweep_until = None
        if run.status is None:
            # What its keeper's death does to it, unless it saw to that too.
            run.status = signal.SIGKILL
        run.duration_us = _since(run.began)

    def _finish(self, run: _Running) -> None:
        status = run.status or 0
        self._forget(run)
        ends = {name: output.end() for name, output in run.outputs.items()}
        if run.call is not None:
            if run.background:
                self._refuse(run.call, "ended", "it was ended before it had begun")
            else:
                answer = {
                    **_ended(status),
                    "timed_out": run.timed_out,
                    "duration_us": run.duration_us,
                    **ends,
                }
                self._answer(run.call, answer)
        if run.background:
            self._ended[run.name] = _listed(run)
            while len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)
        for call in run.waiting:
            self._answer(call, {})

    def _forget(self, run: _Running) -> None:
        for pipe in list(run.pipes.values()):
            self._close_pipe(run, pipe)
        self._part_from_keeper(run)
        del self._running[run.name]


def _pipe(theirs: list[int], ours: list[int], *, write: bool = False) -> None:
    """A pipe to a command's stdin (`write`) or from its output: one end each. Raises OSError."""
    ends = os.pipe2(os.O_CLOEXEC)
    theirs.append(ends[0 if write else 1])
    ours.append(ends[1 if write else 0])
    os.set_blocking(ours[-1], False)


def _find_shell(env: dict[str, str]) -> str:
    """bash, or sh where there is none."""
    for folder in env.get("PATH", os.defpath).split(":"):
        if folder.startswith("/") and os.access(f"{folder}/bash", os.X_OK):
            return f"{folder}/bash"
    return "/bin/sh"


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1e6)


def _ended(status: int) -> dict[str, Any]:
    killed = os.WIFSIGNALED(status)
    return {
        "exit_code": None if killed else os.waitstatus_to_exitcode(status),
        "signal": os.WTERMSIG(status) if killed else None,
    }


def _listed(run: _Running) -> dict[str, Any]:
    running = run.status is None
    return {
        "name": run.name,
        "pid": run.pid,
        "running": running,
        "started_us": run.began_us,
        **({"exit_code": None, "signal": None} if running else _ended(run.status or 0)),
    }
