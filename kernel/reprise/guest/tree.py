"""Which processes there are below the guest, from /proc."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def others_in_namespace() -> list[int]:
    """Every process of this PID namespace but init, the guest and its parent (`rooted`), zombies
    of init left out."""
    known = _known()
    return [pid for pid in pids() if pid not in known and _state(pid) not in "ZX"]


def _known() -> set[int]:
    return {1, os.getpid(), os.getppid()}


def descendants(of: int) -> list[int]:
    """Living and zombie descendants of a process."""
    return sorted(_below({of}, table()))


class Row(NamedTuple):
    """A process; `started` in clock ticks since boot."""

    state: str
    parent: int
    session: int
    started: int


def table() -> dict[int, Row]:
    """Every process there is, zombies included."""
    found: dict[int, Row] = {}
    for pid in pids():
        stat = _stat(pid)
        if stat:
            found[pid] = Row(stat[0].decode(), int(stat[1]), int(stat[3]), int(stat[19]))
    return found


def strays(isolated: bool, trees: Iterable[int], language: int, since: int) -> list[int]:
    """Living processes below the guest that belong to none of these trees nor to the language
    kernel's session, and began at `since` or later."""
    me = os.getpid()
    rows = table()
    ours = set(rows) - _known() if isolated else _below({me}, rows)
    roots = {pid for pid in (*trees, language) if pid}
    known = roots | _below(roots, rows)
    return sorted(
        pid
        for pid in ours - known
        if rows[pid].started >= since
        and rows[pid].session != language
        and rows[pid].state not in "ZX"
    )


def _below(of: set[int], rows: dict[int, Row]) -> set[int]:
    found = set(of)
    grew = True
    while grew:
        grew = False
        for pid, row in rows.items():
            if row.parent in found and pid not in found:
                found.add(pid)
                grew = True
    return found - of


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
