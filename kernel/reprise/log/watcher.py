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
        if not is_alive(alive):
            return 0
        if not try_lock(use):
            unused_since = time.monotonic()
            continue
        try:
            if time.monotonic() - unused_since < idle:
                continue
            postmaster = _postmaster(alive)
            if postmaster is None or has_clients(postmaster):
                unused_since = time.monotonic()
                continue
            os.kill(postmaster, signal.SIGINT)  # Postgres's "fast" shutdown: clean and quick
            while is_alive(alive):
                time.sleep(0.02)
            return 0
        finally:
            unlock(use)


def _postmaster(alive: int) -> int | None:
    """The server's pid, which its starter wrote into the alive file (it holds no other data)."""
    text = os.pread(alive, 32, 0).split()
    return int(text[0]) if text and text[0].isdigit() else None


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
