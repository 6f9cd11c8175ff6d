"""The process backend: no isolation; the guest and the language kernel run as the user here."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import reprise
from reprise.errors import SandboxDied, SandboxError
from reprise.sandbox.child import Child
from reprise.sandbox.contract import DeathCause, Said, SandboxSpec, Tree, silent
from reprise.sandbox.imaged import refuse_image
from reprise.sandbox.kept_trees import keep
from reprise.sandbox.tree_use import TreeUse
from reprise.sandbox.trees import Mounted, check_tree
from reprise.sandbox.trust import check_trust
from reprise.settings import home

#: Marks the processes of one sandbox, so that those that left its tree are found again.
_MARK = "REPRISE_SANDBOX"

#: Host variables that a program run by this user cannot do without.
_BASE = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
)

#: Of a process's flags in /proc/PID/stat (include/linux/sched.h): it is on its way out.
_PF_EXITING = 0x4

#: Seconds after which processes that a SIGKILL does not end (disk sleep) are left behind.
_PATIENCE = 10.0


class ProcessContainer:
    """A guest started beside us: a `contract.Container`."""

    def __init__(
        self,
        child: Child,
        stream: socket.socket,
        workspace: str,
        mark: str,
        runtime: str,
        mounted: Mounted,
    ) -> None:
        self._child = child
        self._mark = mark
        self._runtime = runtime
        self._mounted = mounted
        self._mounts = home() / "mounts"
        self._use = TreeUse(self._mounts)
        self._killed = False
        self.stream = stream
        self.pid = child.pid
        self.workspace = workspace

    async def wait(self) -> DeathCause:
        code = await self._child.wait()
        await self._end_marked()
        shutil.rmtree(self._runtime, ignore_errors=True)
        await asyncio.to_thread(self._use.end)
        return cause_of(code, self._killed, self._child.said())

    def memory_exceeded(self) -> int | None:
        return None

    async def mount(self, target: str, tree: Tree) -> str:
        """Keep the tree in REPRISE_HOME; cells find it there, and could change it.

        Raises UntrustedCode too: skills that nobody vouches for stay out.
        """
        checked = await asyncio.to_thread(check_tree, tree)
        self._mounted.check_target(target)
        check_trust(target, trusted=tree.trusted)
        self._mounted.check_room(target, checked)
        kept = await keep(checked, self._mounts, self._use)
        if self._child.ended:
            raise SandboxDied(
                f"The sandbox ended before {target!a} was mounted.", await self.wait()
            )
        self._mounted.shows(target, checked)
        return str(kept)

    async def kill(self) -> None:
        self._killed = True
        self._child.kill()
        await self.wait()

    async def _end_marked(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _PATIENCE
        while loop.time() < deadline:
            pids = marked(self._mark)
            if not pids and not dying():
                return
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.002)


def cause_of(code: int, killed: bool, said: str) -> DeathCause:
    """What a container's own end says, when nobody inside could say more."""
    if killed:
        return DeathCause("killed", detail=said)
    if code < 0:
        return DeathCause("signal", signal=-code, detail=said)
    if code > 128:
        # bubblewrap passes on how its child ended the way a shell does.
        return DeathCause("signal", signal=code - 128, detail=said)
    return DeathCause("vanished" if code == 0 else "exit", code=code, detail=said)


def marked(mark: str) -> list[int]:
    """Living processes that carry a sandbox's mark in their environment, its guest's heirs."""
    wanted = f"{_MARK}={mark}".encode()
    return _where(lambda entry: wanted in (entry / "environ").read_bytes().split(b"\0"))


def dying() -> list[int]:
    """Processes of this user that have begun to exit and are no zombies yet.

    Such a process has let go of its memory, its environment too, so its mark can't be read any
    more (do_exit in the kernel), and those of a sandbox can't be told from others: all are awaited.
    """
    user = os.geteuid()

    def exits(entry: Path) -> bool:
        if user not in (0, entry.stat().st_uid):
            return False
        state, *rest = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        return state not in "ZX" and bool(int(rest[5]) & _PF_EXITING)

    return _where(exits)


def _where(holds: Callable[[Path], bool]) -> list[int]:
    """The processes of whose folder in /proc something holds; those that are gone are left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                if holds(entry):
                    found.append(int(entry.name))
    return found


def guest_argv(python: str, library: str, descriptor: int) -> list[str]:
    """How the guest is started. -I: nothing of the user's environment; -S: quick (see main)."""
    return [python, "-I", "-S", f"{library}/reprise/guest/__main__.py", str(descriptor)]


class ProcessBackend:
    """Starts guests as plain child processes: for Binder, for tests, where nothing else works."""

    name = "process"
    isolation = (
        "Not isolated: cells run as your own user, with your files, your network and your "
        "rights on this machine."
    )
    isolated = False

    def check(self) -> list[str]:
        if sys.platform != "linux":
            return ["The process backend needs Linux (it finds processes through /proc)."]
        return []

    def enforcement(self) -> dict[str, str]:
        """For each limit, how it is enforced on this machine (for `doctor`)."""
        return {
            "memory": "for each process by RLIMIT_DATA, for all together by the guest's watch",
            "processes": "not enforced: it would count all of this user's processes",
            "cpus": "not enforced: it runs among this user's other processes",
            "workspace": "not enforced: it is the notebook's own folder",
            "tmp": "not enforced: it is this machine's own",
            "mounts": "before anything is written",
            "open_files": "by RLIMIT_NOFILE",
        }

    async def start(self, spec: SandboxSpec, said: Said = silent) -> ProcessContainer:  # noqa: ARG002
        refuse_image(spec.image, self.name)
        workspace = spec.workspace or Path.cwd()
        if not workspace.is_dir():
            raise SandboxError(
                f"The process backend runs in the notebook's folder, and {workspace} is no "
                "folder. Nothing was started."
            )
        mark = secrets.token_hex(16)
        # For the connection file and sockets. Not TMPDIR: a socket's path has 107 characters.
        runtime = tempfile.mkdtemp(prefix="reprise-", dir="/tmp")
        ours, theirs = socket.socketpair()
        library = str(Path(reprise.__file__).parents[1])
        try:
            with theirs:
                child = Child.start(
                    guest_argv(sys.executable, library, theirs.fileno()),
                    pass_fds=[theirs.fileno()],
                    env={
                        **_base_environment(),
                        **spec.variables,
                        _MARK: mark,
                        "REPRISE_RUNTIME": runtime,
                    },
                    cwd=workspace,
                )
        except OSError as error:
            ours.close()
            shutil.rmtree(runtime, ignore_errors=True)
            raise SandboxError(f"The guest could not be started: {error}.") from error
        ours.setblocking(False)
        mounted = Mounted(spec.limits.mounts)
        return ProcessContainer(child, ours, str(workspace.resolve()), mark, runtime, mounted)


def _base_environment() -> Mapping[str, str]:
    return {
        name: value for name, value in os.environ.items() if name in _BASE or name.startswith("LC_")
    }
