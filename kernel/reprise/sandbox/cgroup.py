"""Control groups for sandboxes: version 1 and 2, where this process may make them.

Rules of version 2 (Documentation/admin-guide/cgroup-v2.rst): a group has a controller's files when
its parent's `cgroup.subtree_control` names the controller; a group that has processes of its own
cannot name any ("no internal processes"), so groups are made beside ours, not below; and a process
moves only for who may write `cgroup.procs` of the nearest common ancestor too ("delegation").
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from reprise.sandbox.contract import Limits

_ROOT = Path("/sys/fs/cgroup")

#: What guest and launcher need beside the language kernel's own memory, so that the guest's
#: watch comes first and can say what happened.
HEADROOM = 64 << 20

#: The period CPU time is dealt out in, microseconds (the kernel's default).
_PERIOD = 100_000

#: Seconds that removing a group may take after its last process is gone (the kernel is
#: asynchronous there).
_PATIENCE = 5.0


@dataclass(frozen=True)
class Cgroup:
    """The groups of one sandbox: one folder in version 2, one a controller in version 1.

    enforced: names of the limits it holds ("memory", "processes", "cpus").
    """

    folders: tuple[Path, ...]
    enforced: frozenset[str]
    memory: int

    @property
    def procs(self) -> list[str]:
        """Files that a process writes its pid to in order to join."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def memory_exceeded(self) -> int | None:
        """The limit, if the kernel ever killed a process here for passing it."""
        if "memory" not in self.enforced:
            return None
        for folder in self.folders:
            for name in ("memory.events", "memory.oom_control"):
                with contextlib.suppress(OSError):
                    if _counts((folder / name).read_text()).get("oom_kill", 0):
                        return self.memory
        return None

    def oom_event(self) -> int:
        """A descriptor that becomes readable when the memory limit is met; -1 where there is none.

        Version 1 only: in version 2 the kernel itself ends the whole group (memory.oom.group).
        The caller closes it.
        """
        for folder in self.folders if "memory" in self.enforced else ():
            event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            try:
                control = os.open(folder / "memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    (folder / "cgroup.event_control").write_text(f"{event} {control}")
                finally:
                    os.close(control)
            except OSError:
                os.close(event)
            else:
                return event
        return -1

    async def remove(self) -> None:
        """Remove it once its processes are gone; a group that cannot be removed stays empty."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        for folder in self.folders:
            while True:
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    if loop.time() >= deadline:
                        break
                    await asyncio.sleep(0.005)
                else:
                    break


def create(limits: Limits) -> Cgroup | None:
    """A group with these limits; None where this process may make none, or nothing is limited."""
    name = f"reprise-{os.getpid()}-{secrets.token_hex(4)}"
    folders: list[Path] = []
    enforced: set[str] = set()
    wanted = _wanted(limits)
    for parent, version in _parents().items():
        _sweep(parent)
        files = {key: value for key, value in wanted.items() if key[0] == version}
        if version == 2 and not _is_delegated(parent, {limit for _, limit in files.values()}):
            continue
        _make(parent / name, files, folders, enforced)
    if not enforced:
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()
        return None
    return Cgroup(tuple(folders), frozenset(enforced), limits.memory)


def possible() -> frozenset[str]:
    """Names of the limits that a control group could hold here, found out by making one."""
    return _tried()[0]


def described() -> str:
    """What control groups can do for this process, as a sentence for people."""
    enforced, versions = _tried()
    if not enforced:
        return (
            "none can be made here: this process was given no part of the tree of groups, "
            "or one without controllers"
        )
    names = ", ".join(sorted(enforced))
    if 2 not in versions:
        return f"version 1, for {names}"
    # Said as long as no machine with such controllers has run the tests of limits.
    return f"version 2, delegated to this process, for {names}; Reprise is untested there"


def _tried() -> tuple[frozenset[str], frozenset[int]]:
    """The limits a group could hold here, and the versions of the groups that would hold them."""
    group = create(Limits(memory=1 << 30, processes=64, cpus=1.0))
    if group is None:
        return frozenset(), frozenset()
    versions = {2 if (folder / "cgroup.controllers").exists() else 1 for folder in group.folders}
    for folder in group.folders:
        folder.rmdir()
    return group.enforced, frozenset(versions)


#: (cgroup version, file) → (value, the limit it enforces or "" for an optional companion).
_Wanted = dict[tuple[int, str], tuple[str, str]]


def _wanted(limits: Limits) -> _Wanted:
    wanted: _Wanted = {}
    if limits.memory:
        memory = str(limits.memory + HEADROOM)
        wanted[1, "memory.limit_in_bytes"] = (memory, "memory")
        wanted[1, "memory.memsw.limit_in_bytes"] = (memory, "")
        wanted[2, "memory.max"] = (memory, "memory")
        wanted[2, "memory.swap.max"] = ("0", "")
        # One process killed and the others left: no replay could come to that state again.
        wanted[2, "memory.oom.group"] = ("1", "")
    if limits.processes:
        # Guest, init and launcher are not the user's.
        processes = str(limits.processes + 8)
        wanted[1, "pids.max"] = (processes, "processes")
        wanted[2, "pids.max"] = (processes, "processes")
    if limits.cpus:
        quota = max(1000, int(limits.cpus * _PERIOD))
        wanted[1, "cpu.cfs_quota_us"] = (str(quota), "cpus")
        wanted[2, "cpu.max"] = (f"{quota} {_PERIOD}", "cpus")
    return wanted


def _make(folder: Path, files: _Wanted, folders: list[Path], enforced: set[str]) -> None:
    """Make one group and set what it can hold; nothing stays of one that holds nothing."""
    try:
        folder.mkdir()
    except OSError:
        return
    held = set()
    for (_version, file), (value, limit) in files.items():
        # Files are missing where the controller is not there, or swap is not accounted.
        with contextlib.suppress(OSError):
            descriptor = os.open(folder / file, os.O_WRONLY)
            try:
                os.write(descriptor, value.encode())
            finally:
                os.close(descriptor)
            held.add(limit)
    held.discard("")
    if held - enforced:
        folders.append(folder)
        enforced |= held
    else:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _parents() -> Mapping[Path, int]:
    """Folders to make groups in, with their cgroup version: in each hierarchy one.

    Version 1: our own group. Version 2: the group above ours, since ours has processes; where ours
    is the root of what we see, that one (the machine's real root may have both).
    """
    try:
        text = Path("/proc/self/cgroup").read_text()
    except OSError:
        return {}
    return {path: version for path, version in _groups(text, _ROOT) if path.is_dir()}


def _groups(text: str, root: Path) -> list[tuple[Path, int]]:
    """`_parents`, by the lines of /proc/self/cgroup and where the hierarchies are mounted."""
    found = []
    for line in text.splitlines():
        number, controllers, path = line.split(":", 2)
        if ".." in path.split("/"):
            continue  # outside of what our cgroup namespace shows
        if number == "0":
            unified = root / "unified"
            own = (unified if unified.is_dir() else root) / path.lstrip("/")
            found.append((own.parent if path != "/" else own, 2))
        elif set(controllers.split(",")) & {"memory", "pids", "cpu"}:
            found.append((root / controllers / path.lstrip("/"), 1))
    return found


#: Limit → the controller of version 2 that holds it.
_CONTROLLERS = {"memory": "memory", "processes": "pids", "cpus": "cpu"}


def _is_delegated(parent: Path, limits: set[str]) -> bool:
    """Whether a process can be moved into a group below `parent`, and that can hold a limit.

    Controllers that the group has and does not hand down yet are switched on, but in a slice:
    those are systemd's own, which switches off what it did not switch on.
    """
    # Of the nearest ancestor of where a process is and where it goes: `parent` itself.
    if not os.access(parent / "cgroup.procs", os.W_OK):
        return False
    kind = parent / "cgroup.type"
    try:
        # In a threaded group no process can be moved alone; the root has no type.
        if kind.exists() and kind.read_text().strip() != "domain":
            return False
        there = set((parent / "cgroup.controllers").read_text().split())
        down = set((parent / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False
    wanted = {_CONTROLLERS[limit] for limit in limits if limit}
    if not parent.name.endswith(".slice"):
        for controller in (wanted & there) - down:
            # One at a time: a refusal (EBUSY: it has processes) refuses all of a line.
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text(f"+{controller}")
                down.add(controller)
    return bool(wanted & down)


def _sweep(parent: Path) -> None:
    """Remove groups that a killed process of ours left, here and in the groups beside.

    Only empty ones can be removed (rmdir), and only those whose maker is dead are tried: a
    living one may be about to fill it.
    """
    for pattern in ("reprise-*", "../*/reprise-*"):
        for folder in islice(parent.glob(pattern), 1000):
            maker = folder.name.split("-")[1]
            if maker.isdigit() and not Path("/proc", maker).exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()


def _counts(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
