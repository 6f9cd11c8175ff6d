"""A command's keeper: a process that starts it, signals it, and ends its whole tree with it.

A keeper has one command at a time. It is the subreaper of the command's tree, so whatever
leaves its parent, session or process group stays below it, and it alone signals the command:
nobody else can know that a process id still means the same process.

Keepers are forked from the guest, since a program of its own takes longer to start than most
commands run, and used again, since a fork of the guest's memory is the dearest part of a
command. Between two commands nothing is below a keeper; it knows that for sure (`_end_tree`).

They speak over a socket that keeps messages apart:

    guest → keeper   b"R", with the descriptors of an order and of stdin, stdout and stderr: run
                     b"K", u8: a signal for the command's process group; SIGKILL: for its tree
    keeper → guest   STARTED  u32 pid                  the program runs
                     FAILED   u32 errno, u8 step       it does not
                     ENDED    i32 wait status, u64 µs  nothing of it is left; with b"L" for b"E":
                                                       but what has left the command's tree
"""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from reprise.guest.child import OOM_SCORE, close_all_but, set_limits
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

#: How often a command's OOM score is tried to be set, and the seconds in between.
_SCORE_TRIES = 50
_SCORE_PAUSE_S = 0.0002

#: Ignored by the guest or by Python, hence by a program that does not ask for them. The last two
#: by what nohup, or a shell in the background, has started.
_IGNORED = (
    *(signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD),
    *(signal.SIGHUP, signal.SIGQUIT),
)


class Program(NamedTuple):
    """What to run; argv[0] is looked up in PATH of `env`, or relative to `cwd`."""

    argv: list[str]
    env: dict[str, str]
    cwd: str


class Keeper(NamedTuple):
    """A keeper as the guest has it. All raise OSError when the keeper is gone."""

    pid: int
    control: socket.socket

    @classmethod
    def start(cls, settings: Settings) -> Keeper:
        """Fork one. Raises OSError."""
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
                _serve(theirs, settings, guest)
            finally:
                os._exit(1)
        theirs.close()
        return cls(pid, ours)

    def run(self, program: Program, streams: Sequence[int]) -> None:
        """Start a program with these as its stdin, stdout and stderr; the caller closes them."""
        # In a file of its own: arguments and variables may be longer than a message.
        order = os.memfd_create("reprise-order")
        try:
            with os.fdopen(os.dup(order), "wb") as file:
                file.write(json.dumps(program).encode())
            socket.send_fds(self.control, [b"R"], [order, *streams])
        finally:
            os.close(order)

    def signal(self, number: int) -> None:
        # It may have been stopped by its command; it is our child, so its id is still its own.
        os.kill(self.pid, signal.SIGCONT)
        self.control.send(bytes((ord("K"), number)))


def _serve(control: socket.socket, settings: Settings, guest: int) -> NoReturn:
    """In the fork: run one command after the other."""
    # A finalizer of some object of the guest's would close a descriptor that is ours by now.
    gc.disable()
    signal.set_wakeup_fd(-1)
    # Whatever a command sends to everybody: only SIGKILL and SIGSTOP reach its keeper.
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    close_all_but([control.fileno()])
    os.setsid()
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != guest:
        os._exit(1)
    try:
        set_child_subreaper()
        ended = b"E"
    except OSError:
        # Old versions of gVisor have none. What leaves the tree comes to init, which is the guest.
        ended = b"L"
    set_name(b"reprise-keeper")
    set_limits(settings)
    woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    while True:
        said, descriptors, _flags, _from = socket.recv_fds(control, 16, 4)
        if not said:
            os._exit(0)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        if said == b"R":
            control.send(_run(control, woken, descriptors[0], descriptors[1:], ended))
        # Anything else is a signal for a command that has ended.


def _run(control: socket.socket, woken: int, order: int, streams: list[int], how: bytes) -> bytes:
    """Run one command to its end; what is to be said of that. how: the kind of ENDED."""
    step = AT_FORK
    begun = time.monotonic_ns()
    try:
        os.lseek(order, 0, os.SEEK_SET)
        with os.fdopen(order, "rb") as file:
            program = Program(*json.load(file))
        step = AT_FOLDER
        os.chdir(program.cwd)
        step = AT_PROGRAM
        pid = _spawn(program, streams)
    except (OSError, ValueError) as error:
        number = error.errno or 0 if isinstance(error, OSError) else errno.EINVAL
        # EAGAIN and ENOMEM: the program may be fine, there is no process to be had.
        step = AT_FORK if number in (errno.EAGAIN, errno.ENOMEM) else step
        return FAILED.pack(b"F", number, step)
    finally:
        for descriptor in streams:
            os.close(descriptor)
        os.chdir("/")
    _end_first_when_memory_is_short(pid)
    control.send(STARTED.pack(b"S", pid))
    status = _watch(pid, control, woken)
    ended = time.monotonic_ns()
    _end_tree(pid)
    return ENDED.pack(how, status, (ended - begun) // 1000)


def _end_first_when_memory_is_short(pid: int) -> None:
    """Set the command's OOM score, which what it starts inherits.

    posix_spawn returns in the middle of the exec, when the program has left our memory; the kernel
    lets others at it a moment later (fs/exec.c: exec_mmap, then the new memory becomes dumpable).
    """
    for _ in range(_SCORE_TRIES):
        try:
            with open(f"/proc/{pid}/oom_score_adj", "wb", 0) as score:
                score.write(OOM_SCORE)
        except PermissionError:
            time.sleep(_SCORE_PAUSE_S)
        except OSError:
            return  # it has ended, or this kernel has no such file
        else:
            return


def _spawn(program: Program, streams: Sequence[int]) -> int:
    """Start it in a session of its own: its pid. Raises OSError.

    posix_spawn: unlike a fork it does not copy our memory. Being a program of its own is also
    what makes it visible to others (`prctl.set_dumpable`), not earlier.
    """
    actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
    name = program.argv[0]
    folders = [""] if "/" in name else program.env.get("PATH", os.defpath).split(":")
    # As execvp(3): what is no program is passed over, what may not be run is told of.
    failed: OSError = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
    for folder in folders:
        try:
            return os.posix_spawn(
                os.path.join(folder, name) if folder else name,
                program.argv,
                program.env,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_IGNORED,
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            failed = error
    raise failed


def _watch(pid: int, control: socket.socket, woken: int) -> int:
    """Until the command itself has ended: its wait status."""
    poller = select.poll()
    for descriptor in (control.fileno(), woken):
        poller.register(descriptor, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _event in poller.poll()]
        if control.fileno() in ready:
            said = control.recv(16)
            if not said or said[1] == signal.SIGKILL:
                return _end_tree(pid)
            with contextlib.suppress(OSError):
                os.killpg(pid, said[1])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(woken, 512):
                    pass
            status = _reap(pid)
            if status is not None:
                return status


def _reap(pid: int) -> int | None:
    """Reap what has ended, up to the command itself: its wait status if it was among it."""
    while (found := os.waitpid(-1, os.WNOHANG))[0]:
        if found[0] == pid:
            return found[1]
    return None


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
            return status
        if rounds < _GENTLE_ROUNDS:
            _signal(_children(), signal.SIGKILL)
        else:
            _end_all_at_once()
        rounds += 1
        time.sleep(0.0005 * rounds)
    # Not to be used again with something below us.
    os._exit(1)


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


def _signal(pids: Iterable[int], number: int) -> None:
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
