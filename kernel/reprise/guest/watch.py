"""How much memory the processes of a sandbox use, from /proc."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import os
from collections.abc import Iterable


def resident(pids: Iterable[int]) -> int:
    """Bytes of anonymous memory of some processes; pages they share count for each.

    All of their memory where that is not told apart (gVisor); `proportional` then tells.
    """
    total = 0
    for pid in pids:
        lines = _lines(f"/proc/{pid}/status")
        total += _sum(lines, b"RssAnon:") or _sum(lines, b"VmRSS:")
    return total


def proportional(pids: Iterable[int]) -> int:
    """As `resident`, with shared pages divided among those who share them: exact, but slow.

    gVisor has no sums, and does not know who shares a page.
    """
    total = 0
    for pid in pids:
        if lines := _lines(f"/proc/{pid}/smaps_rollup"):
            total += _sum(lines, b"Pss_Anon:")
        else:
            total += _sum(_lines(f"/proc/{pid}/smaps"), b"Anonymous:")
    return total


def _sum(lines: Iterable[bytes], name: bytes) -> int:
    """Bytes of all lines of a name, whose numbers are KiB."""
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


def over(pids: list[int], limit: int, files: int = 0) -> int | None:
    """Bytes in use, files in memory included, if that is more than `limit`; else None."""
    if resident(pids) + files <= limit:
        return None
    used = proportional(pids) + files
    return used if used > limit else None


def filled(folders: Iterable[str]) -> int:
    """Bytes that lie in the memory-backed file systems of some folders."""
    total = 0
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue
        total += (found.f_blocks - found.f_bfree) * found.f_frsize
    return total


def in_memory(folders: Iterable[str]) -> list[str]:
    """Those of some folders at which a file system in memory is mounted; others lie on a disk."""
    mounted = {
        fields[1] for line in _lines("/proc/self/mounts") if (fields := line.split())[2] == b"tmpfs"
    }
    return [folder for folder in folders if os.fsencode(folder) in mounted]


def _lines(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            return file.readlines()
    except OSError:
        return []
