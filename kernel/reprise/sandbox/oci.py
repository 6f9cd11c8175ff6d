"""The oci backend: sandboxes made by an OCI runtime (crun, runc, gVisor's runsc) without rights.

Whoever starts it, root too, the runtime runs in a user namespace of its own (`oci_launch`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import select
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from reprise.errors import SandboxError
from reprise.sandbox import cgroup, view
from reprise.sandbox.bubblewrap import compile_guest
from reprise.sandbox.child import Child
from reprise.sandbox.contained import NamespacedContainer
from reprise.sandbox.contract import MOUNT_PLACES, Limits, Said, SandboxSpec, silent
from reprise.sandbox.dial import DIAL_PATIENCE, GUEST, Listener
from reprise.sandbox.entering import Entering, SandboxGone, may_enter
from reprise.sandbox.image_python import guest_python
from reprise.sandbox.images import unpacked
from reprise.sandbox.oci_order import Folder, Users, launcher, users_for
from reprise.sandbox.oci_runtime import PLATFORMS, Runtime, named
from reprise.sandbox.trees import CheckedTree, Mounted

#: Where a guest that dials finds the host's socket.
_DIAL = "/run/reprise/dial"

#: Seconds between two looks whether the runtime has started the sandbox's init.
_LOOK_AGAIN = 0.01

#: Seconds of one trial of a runtime.
_TRIAL = 30.0

#: What gVisor's kernel needs beside what the sandbox may use: its own memory, and threads, of which
#: each of the sandbox's takes several. With too few of them it ends, and the sandbox with it.
_KERNEL_MEMORY = 192 << 20
_KERNEL_THREADS = 512
_THREADS_EACH = 4


class OciBackend:
    """Starts sandboxes with an OCI runtime, as root or as an ordinary user.

    runtime: its name or path; None for REPRISE_OCI_RUNTIME's, or the first there is. Raises
    UsageError for one that is not known.
    """

    name = "oci"
    isolated = True

    def __init__(self, runtime: str | None = None) -> None:
        self._missing: SandboxError | None = None
        self._runtime: Runtime | None = None
        self.isolation = "Isolated by an OCI runtime, which is not here."
        try:
            self._runtime = named(runtime)
        except SandboxError as error:
            self._missing = error
        else:
            kind = self._runtime.kind
            self.isolation = (
                f"Isolated by {kind.name}: own user, process and network namespaces, no network, "
                f"no host files but the environment's, read-only; and by {kind.wall}."
            )

    def check(self) -> list[str]:
        try:
            runtime = self._found()
            if runtime.kind.own_kernel:
                _platform(runtime)
            else:
                _try(runtime, ())
        except SandboxError as error:
            return [str(error)]
        return []

    def _found(self) -> Runtime:
        if self._runtime is None:
            raise self._missing or SandboxError("No OCI runtime is here.")
        return self._runtime

    def enforcement(self) -> dict[str, str]:
        """For each limit, how it is enforced on this machine (for `doctor`)."""
        by_group = cgroup.possible()
        own_kernel = self._runtime is not None and self._runtime.kind.own_kernel
        each = "for each process by RLIMIT_DATA"
        watched = each if own_kernel else f"{each}, for all together by the guest's watch"
        counted = "by gVisor" if own_kernel else "by RLIMIT_NPROC in its own user namespace"
        return {
            "memory": f"by a control group and {watched}" if "memory" in by_group else watched,
            "processes": f"by a control group and {counted}"
            if "processes" in by_group
            else counted,
            "cpus": "by a control group"
            if "cpus" in by_group
            else "not enforced: this process may not make a control group with cpu",
            "workspace": "by the size of its memory file system",
            "tmp": "by the sizes of the memory file systems /tmp and /dev/shm",
            "mounts": _how_mounts_hold(own_kernel),
            "open_files": "by RLIMIT_NOFILE",
        }

    async def start(self, spec: SandboxSpec, said: Said = silent) -> NamespacedContainer:
        runtime = self._found()
        options = await asyncio.to_thread(_options, runtime)
        if spec.image is None:
            python = view.guest_interpreter(spec.kernel)
            seen = view.of_host(spec, python)
        else:
            image = await unpacked(spec.image, said)
            seen = view.of_image(spec, image)
            run = functools.partial(_run, runtime, options, seen)
            python = await asyncio.to_thread(guest_python, image, spec.kernel, run)
        compile_guest()
        users = users_for(runtime.kind)
        with contextlib.ExitStack() as made:
            folder = _made(users)
            made.callback(folder.remove)
            group = cgroup.create(_with_kernel(spec.limits, runtime))
            start = _Start(runtime, options, spec, seen, python, users, folder, group)
            try:
                container = await start.container()
            except BaseException:
                if group is not None:
                    await group.remove()
                raise
            made.pop_all()
            return container


@dataclasses.dataclass(frozen=True)
class _Start:
    """One start, all that it takes."""

    runtime: Runtime
    options: tuple[str, ...]
    spec: SandboxSpec
    seen: view.View
    python: str
    users: Users
    folder: Folder
    group: cgroup.Cgroup | None

    async def container(self) -> NamespacedContainer:
        """Start it. Raises SandboxError; leaves no process then."""
        if self.runtime.kind.descriptors:
            ours, theirs = socket.socketpair()
            try:
                with theirs:
                    return self._launch(["3"], ours, theirs.fileno())
            except BaseException:
                ours.close()
                raise
        listener = Listener(uid=self.users.host)
        try:
            self.seen.bind_over(listener.folder, _DIAL)
            argv = ["--dial", f"{_DIAL}/{listener.path.name}"]
            container = self._launch(argv, None, None, listener.variables())
            try:
                container.stream = await _dialled(container, listener)
            except BaseException:
                await container.kill()
                raise
            return container
        finally:
            listener.close()

    def _launch(
        self,
        arguments: list[str],
        ours: socket.socket | None,
        theirs: int | None,
        variables: dict[str, str] | None = None,
    ) -> NamespacedContainer:
        places, mounts = self._mounts()
        info, told = os.pipe2(os.O_CLOEXEC)
        try:
            command = launcher(
                self.runtime,
                self.folder,
                self.users,
                self.seen,
                [self.python, "-I", "-S", f"{view.LIBRARY}/reprise/guest/__main__.py", *arguments],
                variables=variables,
                places=places,
                options=self.options,
                procs=[] if self.group is None else self.group.procs,
                stream=theirs,
                info=told,
            )
            child = Child.start(
                command,
                pass_fds=[told] if theirs is None else [told, theirs],
                env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            )
        except OSError as error:
            os.close(info)
            name = self.runtime.kind.name
            raise SandboxError(f"{name} could not be started: {error}.") from error
        finally:
            os.close(told)
        return NamespacedContainer(
            child,
            ours,
            info,
            self.group,
            mounts(),
            memory=self.spec.limits.memory,
            forget=self.folder.remove,
        )

    def _mounts(self) -> tuple[dict[str, Path], Callable[[], _Mounts]]:
        """Host folders that are shown, and how trees come in; not to be asked before the bundle
        is written."""
        seen = self.seen
        taken = [path for place in MOUNT_PLACES for path in seen.taken(place)]
        mounted = Mounted(view.mounts_room(self.spec.limits), seen.places, taken)
        if self.runtime.kind.own_kernel:
            places = {place: self.folder.place(place.strip("/")) for place in seen.places}
            for path in taken:
                # What the environment itself shows there needs somewhere to be.
                for place, folder in places.items():
                    if path.startswith(f"{place}/"):
                        (folder / path.removeprefix(f"{place}/")).mkdir(parents=True)
            return places, lambda: _Mounts(Entering(mounted, None, [], folders=places), None)
        procs = [] if self.group is None else self.group.procs
        root = self.folder.bundle / "rootfs"
        return {}, lambda: _Mounts(
            Entering(mounted, self.users.host, procs, root=root, inside=self.users.inside), _inner
        )


class _Mounts:
    """Trees in one sandbox. inner: finds the sandbox's init below the runtime, to enter it."""

    def __init__(self, entering: Entering, inner: Callable[[int], int | None] | None) -> None:
        self._entering = entering
        self._inner = inner

    async def show(self, target: str, tree: CheckedTree, pid: int, alive: int) -> None:
        if self._inner is None:
            await self._entering.show(target, tree, pid, alive)
            if select.select([alive], [], [], 0)[0]:
                raise SandboxGone
            return
        while (found := self._inner(pid)) is None:
            if select.select([alive], [], [], 0)[0]:
                raise SandboxGone
            await asyncio.sleep(_LOOK_AGAIN)
        try:
            guest = os.pidfd_open(found)
        except ProcessLookupError:
            raise SandboxGone from None
        try:
            if self._inner(pid) != found:
                raise SandboxGone  # somebody else has its number now
            await self._entering.show(target, tree, found, guest)
        finally:
            os.close(guest)

    async def end(self) -> None:
        await self._entering.end()


def _inner(runtime: int) -> int | None:
    """The init of the sandbox's own PID namespace: a child of the runtime, first in its own."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text("utf-8", "replace")
        except OSError:
            continue
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        numbers = fields.get("NSpid", "").split()
        # In this process's namespace, in the runtime's, in its own.
        if fields.get("PPid") == str(runtime) and len(numbers) > 2 and numbers[-1] == "1":
            return int(entry.name)
    return None


async def _dialled(container: NamespacedContainer, listener: Listener) -> socket.socket:
    """The guest's connection. Raises SandboxError, also when the container ends before."""
    dialling = asyncio.ensure_future(listener.accept(DIAL_PATIENCE))
    ended = asyncio.ensure_future(container.wait())
    try:
        await asyncio.wait({dialling, ended}, return_when=asyncio.FIRST_COMPLETED)
        if dialling.done():
            return dialling.result()[GUEST]
        raise SandboxError(
            f"The sandbox ended before its guest dialled: {ended.result().detail or 'no reason'}."
        )
    finally:
        for each in (dialling, ended):
            each.cancel()
        await asyncio.wait({dialling, ended})


def _made(users: Users) -> Folder:
    try:
        return Folder(users)
    except OSError as error:
        raise SandboxError(f"There is no room for a sandbox's folder: {error}.") from error


def _with_kernel(limits: Limits, runtime: Runtime) -> Limits:
    """The limits of the control group: a kernel of the sandbox's own has its share of them."""
    if not runtime.kind.own_kernel:
        return limits
    return dataclasses.replace(
        limits,
        memory=limits.memory and limits.memory + _KERNEL_MEMORY,
        processes=limits.processes and _THREADS_EACH * limits.processes + _KERNEL_THREADS,
    )


def _how_mounts_hold(own_kernel: bool) -> str:
    if own_kernel:
        return "before anything is written"
    if may_enter():
        return "before anything is written, and by the size of their memory file systems"
    return (
        "not enforced: nothing can be mounted here, because this machine's seccomp profile refuses "
        "setns; allow it beside unshare, mount and pivot_root"
    )


def _options(runtime: Runtime) -> tuple[str, ...]:
    """What the runtime is told of this machine. Raises SandboxError."""
    return (f"--platform={_platform(runtime)}",) if runtime.kind.own_kernel else ()


@functools.cache
def _platform(runtime: Runtime) -> str:
    """The best of gVisor's platforms that works here. Raises SandboxError."""
    reasons = []
    for each in PLATFORMS:
        try:
            _try(runtime, (f"--platform={each}",))
        except SandboxError as error:
            reasons.append(str(error))
        else:
            return each
    raise SandboxError("\n".join(reasons))


def _try(runtime: Runtime, options: tuple[str, ...]) -> None:
    """Run a program that does nothing. Raises SandboxError with what the runtime said."""
    code, _told, said = _run(runtime, options, view.trial(), ["/usr/bin/true"])
    if code != 0:
        raise SandboxError(explain(runtime, options, said.strip()[-2000:]))


def _run(
    runtime: Runtime, options: tuple[str, ...], seen: view.View, argv: Sequence[str]
) -> tuple[int, str, str]:
    """Run a program of what is seen to its end: its exit code, its words on stdout and stderr.

    It is to write little. Blocks; raises SandboxError.
    """
    users = users_for(runtime.kind)
    folder = _made(users)
    try:
        done = subprocess.run(
            launcher(runtime, folder, users, seen, argv, options=options),
            stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin"},
            capture_output=True,
            timeout=_TRIAL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SandboxError(f"{runtime.kind.name} could not be tried: {error}.") from error
    finally:
        folder.remove()
    told, said = (each.decode("utf-8", "replace")[-4000:] for each in (done.stdout, done.stderr))
    return done.returncode, told, said


def explain(runtime: Runtime, options: tuple[str, ...], said: str) -> str:
    """The runtime's own words with what they mean here and the mend."""
    how = " ".join((runtime.kind.name, *options))
    mend = "Its own words say what is missing."
    if "user namespace" in said or "max_user_namespaces" in said or "uid_map" in said:
        mend = (
            "User namespaces are switched off for it: a larger user.max_user_namespaces, "
            "`sysctl kernel.unprivileged_userns_clone=1` (Debian), "
            "`sysctl kernel.apparmor_restrict_unprivileged_userns=0` (AppArmor), or in a container "
            "a seccomp profile that allows unshare, mount and pivot_root."
        )
    elif "mount /proc" in said:
        mend = (
            "This machine is itself a container whose /proc is covered in places, and Linux lets "
            "nobody make a fresh one then: run it with an unmasked /proc."
        )
    return f"{how} cannot make a sandbox here: {said or 'it gave no reason'}. {mend}"
