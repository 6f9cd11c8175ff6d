"""A command's keeper: a process that starts it, signals it, and ends its whole tree with it.

One keeper for each command, forked from the guest (not a program of its own: that would take
longer than most commands). It is the subreaper of the command's tree, so whatever leaves its
parent, session or process group stays below it, and it alone signals the command: nobody else
can know that a process id still means the same process.

Guest and keeper speak over a socket that keeps messages apart:

    guest → keeper   one byte: a signal for the command's process group; SIGKILL: for its tree
    keeper → guest   STARTED  u32 pid             the program runs
                     FAILED   u32 errno, u8 step  it does not; the keeper ends
                     ENDED    i32 wait status, u64 µs  nothing of it is left; the keeper ends
"""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import struct
import time
from typing import NamedTuple, NoReturn

from reprise.guest.child import close_all_but, leave_guest
from reprise.guest.prctl import set_child_subreaper, set_name, set_parent_death_signal
from reprise.guest.settings import Settings
from reprise.guest.tree import descendants

STARTED = struct.Struct(">cI")
FAILED = struct.Struct(">cIB")
ENDED = struct.Struct(">ciQ")

#: Steps at which a start can fail.
AT_FORK, AT_FOLDER, AT_PROGRAM = range(3)

#: Seconds after which a keeper gives up on processes that SIGKILL does not end (disk sleep).
PATIENCE = 30.0

#: Rounds in which only children are killed, which is quick and ends most trees.
_GENTLE_ROUNDS = 4

#: Looks for processes that were not stopped yet, before what was found is killed.
_STOP_ROUNDS = 20


class Program(NamedTuple):
    """What to run; argv[0] is looked up in PATH of `env`, or relative to `cwd`."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


def start(program: Program, settings: Settings, streams: list[int]) -> tuple[int, socket.socket]:
    """Fork a keeper: its pid, and our end of the socket to it. Raises OSError.

    streams: what is to be the command's stdin, stdout and stderr; the caller closes its copies.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    guest = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        ours.close()
        theirs.close()
        raise
    if pid == 0:
        try:
            _keep(program, settings, streams, theirs, guest)
        finally:
            os._exit(1)
    theirs.close()
    return pid, ours


def _keep(
    program: Program, settings: Settings, streams: list[int], control: socket.socket, guest: int
) -> NoReturn:
    # A finalizer of some object of the guest's would close a descriptor that is ours by now.
    gc.disable()
    signal.set_wakeup_fd(-1)
    # Whatever the command sends to everybody: only SIGKILL and SIGSTOP reach its keeper.
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    close_all_but([*streams, control.fileno()])
    os.setsid()
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != guest:
        os._exit(1)
    set_child_subreaper()
    set_name(b"reprise-keeper")
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    said, say = os.pipe2(os.O_CLOEXEC)
    begun = time.monotonic_ns()
    me = os.getpid()
    try:
        pid = os.fork()
    except OSError as error:
        control.send(FAILED.pack(b"F", error.errno or 0, AT_FORK))
        os._exit(0)
    if pid == 0:
        _become(program, settings, streams, say, me)
    os.close(say)
    for descriptor in streams:
        os.close(descriptor)
    status, ended = _watch(pid, control, said, woken)
    control.send(ENDED.pack(b"E", status, (ended - begun) // 1000))
    os._exit(0)


def _become(
    program: Program, settings: Settings, streams: list[int], say: int, keeper: int
) -> NoReturn:
    """Be the command, or say why not."""
    step = AT_FORK
    try:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        leave_guest(settings, keeper, [say])
        step = AT_FOLDER
        os.chdir(program.cwd)
        step = AT_PROGRAM
        os.execvpe(program.argv[0], program.argv, program.env)  # noqa: S606
    except OSError as error:
        os.write(say, FAILED.pack(b"F", error.errno or 0, step))
    except BaseException:  # noqa: BLE001  nothing may return from the child
        os.write(say, FAILED.pack(b"F", 0, step))
    finally:
        os._exit(127)


def _watch(pid: int, control: socket.socket, said: int, woken: int) -> tuple[int, int]:
    """Until nothing is left: the command's wait status, and when it ended in nanoseconds."""
    poller = select.poll()
    for descriptor in (said, control.fileno(), woken):
        poller.register(descriptor, select.POLLIN)
    told = False
    status: int | None = None
    while status is None:
        ready = [descriptor for descriptor, _event in poller.poll()]
        if said in ready:
            poller.unregister(said)
            _tell_start(pid, control, said)
            told = True
        if control.fileno() in ready:
            order = control.recv(1)
            if not order or order[0] == signal.SIGKILL:
                status = _end_tree(pid)
                break
            with contextlib.suppress(OSError):
                os.killpg(pid, order[0])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(woken, 512):
                    pass
            status = _reap(pid)
    ended = time.monotonic_ns()
    if not told:
        _tell_start(pid, control, said)
    _end_tree(pid)
    return status, ended


def _tell_start(pid: int, control: socket.socket, said: int) -> None:
    """Tell the guest whether the program runs; ends here when it does not."""
    failed = os.read(said, FAILED.size)
    os.close(said)
    if failed:
        control.send(failed)
        os._exit(0)
    control.send(STARTED.pack(b"S", pid))


def _reap(pid: int) -> int | None:
    """Reap what has ended; the command's wait status if it was among it. Raises
    ChildProcessError when there is no child."""
    status = None
    while (found := os.waitpid(-1, os.WNOHANG))[0]:
        if found[0] == pid:
            status = found[1]
            # The rest is for `_end_tree`, which knows by its absence that all is over.
            break
    return status


def _end_tree(pid: int) -> int:
    """End every process below this one; the command's wait status, if that was among them.

    There is none left exactly when there is no child left: orphans become our children. So the
    usual case, a command that leaves nothing behind, costs one system call.
    """
    deadline = time.monotonic() + PATIENCE
    status: int = signal.SIGKILL
    rounds = 0
    while time.monotonic() < deadline:
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == pid:
                    status = found[1]
        except ChildProcessError:
            break
        if rounds < _GENTLE_ROUNDS:
            _signal(_children(), signal.SIGKILL)
        else:
            _end_all_at_once()
        rounds += 1
        time.sleep(0.0005 * rounds)
    return status


def _end_all_at_once() -> None:
    """One that is stopped starts no other, so stop all before any is killed: a fork bomb ends."""
    stopped: set[int] = set()
    for _ in range(_STOP_ROUNDS):
        fresh = set(descendants(os.getpid())) - stopped
        if not fresh:
            break
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    _signal(stopped, signal.SIGKILL)


def _signal(pids: set[int] | list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _children() -> list[int]:
    """Our own children, as far as one look tells them (proc(5), /proc/PID/task/TID/children)."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return descendants(me)
