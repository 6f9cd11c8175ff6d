"""What a process of the guest's does before it becomes another program: it lets go of the guest."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterable

from reprise.guest.prctl import set_dumpable, set_parent_death_signal
from reprise.guest.settings import Settings

#: What runs in the sandbox dies before the guest when the machine runs out of memory, so that
#: the guest can tell of it (proc(5), oom_score_adj).
OOM_SCORE = b"700"

#: No core file of a crash. Not 0: where the machine's core_pattern is a pipe, its program would run
#: all the same, as root and outside of every sandbox; at 1 it does not (fs/coredump.c).
_NO_CORE = 1

#: Above any descriptor that the guest has.
_LAST_DESCRIPTOR = 4096


def close_all_but(kept: Iterable[int]) -> None:
    """Close every descriptor above 2 but these."""
    before = 2
    for descriptor in sorted(kept):
        os.closerange(before + 1, descriptor)
        before = descriptor
    os.closerange(before + 1, _LAST_DESCRIPTOR)


def leave_guest(settings: Settings, parent: int, kept: Iterable[int] = ()) -> None:
    """In a fresh child of `parent`, 0 to 2 already its own: be a process like any other.

    Only 0 to 2 and `kept` stay open: the stream must not be open in a process that others may
    look into. It has a session of its own, its limits, and dies with its parent.
    """
    close_all_but(kept)
    os.setsid()
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)
    set_dumpable(True)
    with open("/proc/self/oom_score_adj", "wb", buffering=0) as score:
        score.write(OOM_SCORE)
    set_limits(settings)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def set_limits(settings: Settings) -> None:
    """RLIMITs of the language kernel, of commands, and of all they start."""
    wanted = [(resource.RLIMIT_CORE, _NO_CORE), (resource.RLIMIT_NOFILE, settings.open_files)]
    if settings.memory:
        # DATA, not AS: libraries reserve address space they never use. Each process on its own;
        # the tree's total is watched (`watch`).
        wanted.append((resource.RLIMIT_DATA, settings.memory))
    if settings.processes and settings.isolated:
        # Counted per user namespace since Linux 5.14, so only where we have one of our own.
        wanted.append((resource.RLIMIT_NPROC, settings.processes))
    for limit, value in wanted:
        _soft, hard = resource.getrlimit(limit)
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        if allowed:
            resource.setrlimit(limit, (allowed, allowed))
