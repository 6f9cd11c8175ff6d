"""Stops an embedded Postgres that nobody has used for a while; run as a script of its own.

Imports the standard library only and runs under `python -I -S`, since it stays in memory as
long as the server. All that it needs are files that it inherits open:

  use    every process with an open Log holds this lock shared; whoever gets it exclusively
         knows that nobody uses the server, and keeps newcomers waiting while it stops it
  alive  the server and all its children hold this lock; whoever gets it knows that none lives
  self   held by this watcher, so that a newcomer sees whether one is watching

Time is CLOCK_MONOTONIC: a clock that jumps or a machine that sleeps stops nothing.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path


def try_lock(descriptor: int) -> bool:
    """Take an exclusive lock if it is free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def is_alive(alive: int) -> bool:
    """Whether any process of the server lives."""
    if not try_lock(alive):
        return True
    unlock(alive)
    return False


def has_clients(postmaster: int) -> bool:
    """Whether someone else (psql, a backup) is connected: backends name their client's address."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            title = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended meanwhile
        if int(fields[1]) == postmaster and b"[local]" in title:
            return True
    return False


def main(use: int, alive: int, myself: int, idle: float) -> int:
    """Watch until the server is gone. Returns the exit status."""
    if not try_lock(myself):
        return 0  # another one watches
    unused_since = time.monotonic()
    pause = min(max(idle / 10, 0.05), 30.0)
    while True:
        time.sleep(pause)
        if not try_lock(use):
            # Somebody uses it; should it have died, they start it again and we go on watching.
            unused_since = time.monotonic()
            continue
        try:
            if not is_alive(alive):
                return 0
            if time.monotonic() - unused_since < idle:
                continue
            server = postmaster(alive)
            if server is None or has_clients(server):
                unused_since = time.monotonic()
                continue
            os.kill(server, signal.SIGINT)  # Postgres's "fast" shutdown: clean and quick
            while is_alive(alive):
                time.sleep(0.02)
            return 0
        finally:
            unlock(use)


def write_postmaster(alive: int, pid: int) -> None:
    """Note the server's pid in the alive file, with its start time, since pids are used again."""
    os.ftruncate(alive, 0)
    os.pwrite(alive, f"{pid} {_started(pid)}\n".encode(), 0)


def postmaster(alive: int) -> int | None:
    """The pid of the running server, or None when it is not known to run."""
    words = os.pread(alive, 64, 0).split()
    if len(words) != 2 or not words[0].isdigit():
        return None
    pid = int(words[0])
    return pid if _started(pid) == words[1].decode("ascii", "replace") else None


def runs(pid: int) -> bool:
    """Whether a process runs, and is not just waiting to be reaped."""
    return _started(pid) != ""


def _started(pid: int) -> str:
    """When a process started, in clock ticks since boot, as the kernel says; "" when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
