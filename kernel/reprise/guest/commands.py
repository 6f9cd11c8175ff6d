"""The commands that run in the sandbox: started, fed, listened to, stopped and told of.

All in the guest's loop, which nothing here may hold up: pipes are read and written as they are
ready, each command is the business of its keeper, and what a hostile one leaves behind is
ended bit by bit.
"""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import zmq

from reprise.guest import keeper
from reprise.guest.calls import CallError
from reprise.guest.command import Pipe, Running, ended, listed, ticks_now, wanted_of
from reprise.guest.files import OWN, Files
from reprise.guest.language import LanguageKernel
from reprise.guest.output import Output
from reprise.guest.settings import Settings
from reprise.guest.stream import Stream
from reprise.guest.tree import strays
from reprise.sandbox.frames import Channel

#: Commands that may run at once.
MAX_RUNNING = 64

#: Ended background commands that are still listed; the oldest goes first.
MAX_ENDED = 256

#: Keepers that wait for another command. Each holds some of the guest's memory.
MAX_IDLE = 2

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

#: Kind and words for each step at which a start can fail.
_STEPS = {
    keeper.AT_FORK: ("os", "no process could be made for {argv[0]!r}"),
    keeper.AT_FOLDER: ("cwd", "{argv[0]!r} could not be run in {cwd!r}"),
    keeper.AT_PROGRAM: ("program", "the program {argv[0]!r} could not be run"),
}


class Commands:
    """All commands of one sandbox.

    answer_run: answer a `run` call, behind what the command wrote.
    answer, refuse: answer any call with what it asked for, or with a kind and a message.
    """

    def __init__(
        self,
        settings: Settings,
        language: LanguageKernel,
        files: Files,
        stream: Stream,
        poller: zmq.Poller,
        answer_run: Callable[[bytes, dict[str, Any]], None],
        answer: Callable[[bytes, dict[str, Any]], None],
        refuse: Callable[[bytes, str, str], None],
    ) -> None:
        self._settings = settings
        self._language = language
        self._files = files
        self._stream = stream
        self._poller = poller
        self._answer_run = answer_run
        self._answer = answer
        self._refuse = refuse
        self._running: dict[str, Running] = {}
        self._ended: OrderedDict[str, dict[str, Any]] = OrderedDict()
        #: Keepers without a command.
        self._idle: list[keeper.Keeper] = []
        self._handlers: dict[int, Callable[[], object]] = {}

    # Calls

    def run(self, call: bytes, arguments: dict[str, Any], data: list[bytes]) -> None:
        """Start one. Answered when it has ended, or when it runs in the background.

        Raises CallError, OSError, ValueError and the like when it cannot even be tried.
        """
        wanted = wanted_of(arguments, self._language.env, self._language.cwd)
        if wanted.name in self._running:
            raise CallError("name", f"a command named {wanted.name} is running")
        if len(self._running) >= MAX_RUNNING:
            raise CallError("many", f"{MAX_RUNNING} commands are running; stop one of them first")
        stdin = b"".join(data)
        self._ended.pop(wanted.name, None)
        folder = f"{OWN}/commands/{wanted.name}"
        with contextlib.suppress(OSError, RecursionError):
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
            ticks = ticks_now()
            kept_by = self._give_to_keeper(wanted.program, theirs)
        except OSError:
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        run = self._running[wanted.name] = Running(wanted, call, ticks, kept_by)
        if wanted.timeout_s is not None:
            run.due, run.overdue = run.began + wanted.timeout_s, self._time_out
        self._watch(kept_by.control.fileno(), lambda: self._hear(run))
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
            *(listed(run) for run in self._running.values() if run.background),
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
                self._tell_killed(run)
                self._drain(run)
            else:
                for pipe in run.pipes.values():
                    self._listen(run, pipe, flows or pipe.output.to_file)

    def reaped(self, pid: int, status: int) -> None:
        """A child of the guest's has ended: a keeper, or an orphan of one that was killed."""
        for idle in [idle for idle in self._idle if idle.pid == pid]:
            self._idle.remove(idle)
            idle.control.close()
        for run in list(self._running.values()):
            if run.keeper is not None and pid == run.keeper.pid:
                self._hear(run)
                if run.keeper is not None:
                    self._lose(run)
            elif pid == run.pid and run.sweep_until is not None:
                run.status = status

    def stopped(self, pid: int) -> None:
        """A child of the guest's was stopped; a keeper must not be."""
        if pid in self._keepers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def all_killed(self) -> None:
        """Every process below the guest has been ended: tell what that means for commands."""
        while self._idle:
            self._idle.pop().control.close()
        for run in list(self._running.values()):
            self._hear(run)
            if run.name not in self._running:
                continue  # it had not even begun
            if run.status is None:
                run.status = signal.SIGKILL
                run.duration_us = run.duration_us or _since(run.began)
            self._part_from_keeper(run)
            run.sweep_until = None
            self._tell_killed(run)
            self._drain(run, force=True)

    # Start

    def _give_to_keeper(self, program: keeper.Program, streams: list[int]) -> keeper.Keeper:
        """Have a free keeper run it, or a new one. Raises OSError."""
        while self._idle:
            free = self._idle.pop()
            try:
                free.run(program, streams)
            except OSError:
                free.control.close()  # killed a moment ago: `reaped` will hear of it
            else:
                return free
        fresh = keeper.Keeper.start(self._settings)
        try:
            fresh.run(program, streams)
        except OSError:
            fresh.control.close()
            raise
        return fresh

    def _keepers(self) -> list[int]:
        running = (run.keeper for run in self._running.values())
        return [each.pid for each in (*running, *self._idle) if each is not None]

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

    def _feed(self, run: Running) -> None:
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

    def _stop_feeding(self, run: Running) -> None:
        if run.stdin >= 0:
            self._unwatch(run.stdin)
            os.close(run.stdin)
            run.stdin = -1
            run.rest = memoryview(b"")

    def _flows(self) -> bool:
        return self._stream.queued(Channel.COMMAND) < _QUEUE

    def _listen(self, run: Running, pipe: Pipe, wanted: bool) -> None:
        """Read a pipe when something comes, or leave it: then the command waits."""
        listening = pipe.descriptor in self._handlers
        if wanted and not listening:
            self._watch(pipe.descriptor, lambda: self._read(run, pipe))
        elif listening and not wanted:
            self._unwatch(pipe.descriptor)

    def _read(self, run: Running, pipe: Pipe) -> int:
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

    def _close_pipe(self, run: Running, pipe: Pipe) -> None:
        self._unwatch(pipe.descriptor)
        os.close(pipe.descriptor)
        run.pipes = {name: kept for name, kept in run.pipes.items() if kept is not pipe}

    def _drain(self, run: Running, *, force: bool = False) -> None:
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

    def _tell_keeper(self, run: Running, number: int) -> None:
        if run.keeper is not None:
            with contextlib.suppress(OSError):
                run.keeper.signal(number)

    def _kill(self, run: Running) -> None:
        self._tell_keeper(run, signal.SIGKILL)
        run.due, run.overdue = time.monotonic() + _KEEPER_PATIENCE, self._give_up_keeper

    def _time_out(self, run: Running) -> None:
        run.timed_out = True
        self._tell_keeper(run, signal.SIGTERM)
        run.due, run.overdue = time.monotonic() + GRACE, self._kill

    def _give_up_keeper(self, run: Running) -> None:
        """Its keeper does not do what it is told; `reaped` hears of its end."""
        if run.keeper is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.keeper.pid, signal.SIGKILL)

    def _tell_killed(self, run: Running) -> None:
        """Nothing of it is left; whoever wanted that need not wait for its output."""
        for call in run.waiting:
            self._answer(call, {})
        run.waiting.clear()

    def _hear(self, run: Running) -> None:
        """Read what its keeper says."""
        while run.keeper is not None:
            try:
                said = run.keeper.control.recv(64)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            match said[:1]:
                case b"S":
                    run.pid = keeper.STARTED.unpack(said)[1]
                    self._started(run)
                case b"F":
                    self._part_from_keeper(run, free=True)
                    self._failed(run, *keeper.FAILED.unpack(said)[1:])
                case b"E" | b"L":
                    how, run.status, run.duration_us = keeper.ENDED.unpack(said)
                    self._part_from_keeper(run, free=True)
                    if how == b"L":
                        run.sweep_until = time.monotonic() + _SWEEP_PATIENCE
                case _:
                    self._lose(run)

    def _started(self, run: Running) -> None:
        if run.background and run.call is not None:
            self._answer(run.call, {})
            run.call = None

    def _failed(self, run: Running, number: int, step: int) -> None:
        """It could not be started."""
        kind, what = _STEPS[step]
        if run.call is not None:
            words = what.format(argv=run.program.argv, cwd=run.program.cwd)
            self._refuse(run.call, kind, f"{words}: {os.strerror(number)}")
            run.call = None
        self._forget(run)
        for output in run.outputs.values():
            output.end()

    def _part_from_keeper(self, run: Running, *, free: bool = False) -> None:
        """free: it has nothing below it and may have another command."""
        self._stop_feeding(run)
        run.due = run.overdue = None
        if run.keeper is None:
            return
        self._unwatch(run.keeper.control.fileno())
        if free and len(self._idle) < MAX_IDLE:
            self._idle.append(run.keeper)
        else:
            run.keeper.control.close()  # then it ends
        run.keeper = None

    def _lose(self, run: Running) -> None:
        """Its keeper is gone without a word: the command has killed it."""
        self._part_from_keeper(run)
        run.sweep_until = time.monotonic() + _SWEEP_PATIENCE

    def _sweep(self, run: Running, now: float) -> None:
        """End what a command left behind whose keeper it killed, or is no reaper.

        Such orphans come to the guest. Which of its descendants they are is told by what they
        are not: the language kernel's, or another command's, or older than the command.
        """
        found = strays(self._settings.isolated, self._keepers(), self._language.pid, run.ticks)
        if found and run.sweep_until is not None and now < run.sweep_until:
            for number in (signal.SIGSTOP, signal.SIGKILL):
                for pid in found:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            return
        run.sweep_until = None
        if run.status is None:
            run.status = signal.SIGKILL
        run.duration_us = _since(run.began)

    def _finish(self, run: Running) -> None:
        status = run.status or 0
        self._forget(run)
        ends = {name: output.end() for name, output in run.outputs.items()}
        if run.call is not None:
            if run.background:
                self._refuse(run.call, "ended", "it was ended before it had begun")
            else:
                answer = {
                    **ended(status),
                    "timed_out": run.timed_out,
                    "duration_us": run.duration_us,
                    **ends,
                }
                self._answer_run(run.call, answer)
        if run.background:
            self._ended[run.name] = listed(run)
            while len(self._ended) > MAX_ENDED:
                self._ended.popitem(last=False)

    def _forget(self, run: Running) -> None:
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


def _since(began: float) -> int:
    return int((time.monotonic() - began) * 1e6)
