"""Which processes there are below the guest, from /proc."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import os


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def others_in_namespace() -> list[int]:
    """Every process of this PID namespace but init and this one, zombies of init left out."""
    me = os.getpid()
    return [pid for pid in pids() if pid not in (1, me) and _state(pid) not in "ZX"]


def descendants(of: int) -> list[int]:
    """Living and zombie descendants of a process."""
    parents: dict[int, int] = {}
    for pid in pids():
        stat = _stat(pid)
        if stat:
            parents[pid] = int(stat[1])
    found: set[int] = {of}
    grew = True
    while grew:
        grew = False
        for pid, parent in parents.items():
            if parent in found and pid not in found:
                found.add(pid)
                grew = True
    found.discard(of)
    return sorted(found)


def _stat(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the state on; the name before it may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    stat = _stat(pid)
    return stat[0].decode() if stat else "X"
