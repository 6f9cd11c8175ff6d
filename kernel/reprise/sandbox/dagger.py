"""The Dagger backend: a sandbox is one long exec on a Dagger engine, whose guest dials back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reprise.errors import SandboxDied, SandboxError
from reprise.sandbox import dagger_shim
from reprise.sandbox.contract import (
    DeathCause,
    Said,
    SandboxSpec,
    Tree,
    silent,
)
from reprise.sandbox.dagger_cli import RUNNER_HOST
from reprise.sandbox.dagger_client import Line, status
from reprise.sandbox.dagger_order import Order, encode
from reprise.sandbox.dial import DIAL_PATIENCE, GUEST, ROOTED, Listener
from reprise.sandbox.entering import SandboxGone
from reprise.sandbox.rooted_mount import RootedMount
from reprise.sandbox.trees import Mounted, check_tree
from reprise.sandbox.view import LIBRARY, WORKSPACE, environment, guest_interpreter

#: A registry that the engine reaches: environments are published there instead of being brought
#: into each engine from here.
REGISTRY = "REPRISE_REGISTRY"

#: Where the guest finds the host's socket; `dagger_exec` puts it there.
_SOCKET = "/run/reprise/host"

#: Makes each exec another one than those that the engine has in its cache.
_NONCE = "REPRISE_NONCE"

#: What the guest's parent says last when the guest did not end by itself (`guest.rooted`).
_SIGNALLED = re.compile(r"reprise: the guest was ended by signal (\d{1,2})$")

_OVER_MEMORY = "reprise: the sandbox passed its memory limit"

#: Dagger's interface has 32 bits for the size of a memory file system.
_LARGEST = (1 << 31) - 1

#: Seconds in which a sandbox that was asked to end has ended, on a loaded machine too.
_ASKED = 10.0

#: Seconds in which the processes of a container are gone once nobody holds it any more.
_ENDING = 30.0


class DaggerContainer:
    """A sandbox that the broker runs for us: a `contract.Container`, and `Renewable`.

    pid: of its first process where that can be seen from here, else of Dagger's client process, on
    which it hangs.
    """

    def __init__(
        self,
        backend: DaggerBackend,
        spec: SandboxSpec,
        line: Line,
        dialled: Mapping[str, socket.socket],
        report: dagger_shim.Report,
        mounted: Mounted,
        pid: int,
    ) -> None:
        self.stream = dialled[GUEST]
        self.pid = pid
        self.workspace = WORKSPACE
        self.report = report
        self._backend = backend
        self._spec = spec
        self._line = line
        self._mounted = mounted
        self._rooted = dialled[ROOTED]
        self._mounting = RootedMount(dialled[ROOTED].dup(), mounted)
        self._killed = False
        self._over_memory = False
        self._kept = False
        self._ending = asyncio.get_running_loop().create_task(self._finish())

    async def _finish(self) -> DeathCause:
        word = await self._line.hear()
        kept = bool(word and word.get("kept")) and not self._killed
        self._kept = kept and self._spec.reuse == "never"
        if not self._kept:
            self._line.close()
        self._mounting.close()
        await self._gone()
        if word is None and not self._killed:
            return DeathCause("vanished", detail="the Dagger broker went away")
        detail = str((word or {}).get("ended", ""))
        self._over_memory = _OVER_MEMORY in detail.splitlines()
        if found := _SIGNALLED.search(detail):
            return DeathCause("signal", signal=int(found[1]), detail=detail)
        if self._killed:
            return DeathCause("killed", detail=detail)
        return DeathCause("vanished", detail=detail)

    async def _gone(self) -> None:
        """Wait until the guest's parent is no more: its end of its connection closes with it."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_ENDING):
                while await loop.sock_recv(self._rooted, 1 << 12):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            self._rooted.close()

    async def wait(self) -> DeathCause:
        return await asyncio.shield(self._ending)

    def memory_exceeded(self) -> int | None:
        return self._spec.limits.memory if self._over_memory else None

    async def mount(self, target: str, tree: Tree) -> str:
        checked = await asyncio.to_thread(check_tree, tree)
        try:
            await self._mounting.show(target, checked)
        except SandboxGone:
            await self.kill()
            raise SandboxDied(
                f"The sandbox ended before {target!a} was mounted in it. The next one will "
                "have what the log names.",
                await self.wait(),
            ) from None
        return target

    async def renew(self, said: Said = silent) -> DaggerContainer:
        await self.wait()
        if not self._kept:
            self._line.close()
            raise SandboxError("The sandbox ended in a way that left no files to go on with.")
        self._kept = False
        return await self._backend.renewed(self._spec, self._line, self._mounted, said)

    async def kill(self) -> None:
        if not self._ending.done():
            self._killed = True
            # Asked, the guest's parent ends all of it before the exec does, and we hear of that.
            # A container that is given up is ended by the engine, at some moment soon after.
            if self._mounting.end():
                await asyncio.wait({self._ending}, timeout=_ASKED)
            if not self._ending.done():
                self._line.close()
        await self.wait()


class DaggerBackend:
    """Starts sandboxes on a Dagger engine, here or elsewhere."""

    name = "dagger"
    isolation = (
        "Isolated by a Dagger engine: a container of its own there, as an ordinary user without "
        "privileges; with the runtime shim also without a network, under limits, and in gVisor if "
        "wanted. It shares the engine's Linux kernel unless gVisor or Kata runs it."
    )
    isolated = True

    def check(self) -> list[str]:
        try:
            status()
        except SandboxError as error:
            return [str(error)]
        return []

    def enforcement(self) -> dict[str, str]:
        """For each limit, how it is enforced (for `doctor`)."""
        return dagger_shim.enforcement()

    async def start(self, spec: SandboxSpec, said: Said = silent) -> DaggerContainer:
        mounted = Mounted(spec.limits.mounts)
        line = await Line.open()
        return await self._begun(spec, line, mounted, said, first=True)

    async def renewed(
        self, spec: SandboxSpec, line: Line, mounted: Mounted, said: Said
    ) -> DaggerContainer:
        """The next container of a sandbox, on the files that the last one has left."""
        return await self._begun(spec, line, mounted, said, first=False)

    async def _begun(
        self, spec: SandboxSpec, line: Line, mounted: Mounted, said: Said, *, first: bool
    ) -> DaggerContainer:
        dialled: dict[str, socket.socket] = {}
        listener = None
        try:
            listener = Listener((GUEST, ROOTED))
            nonce = secrets.token_hex(16)
            fresh = {**listener.variables(), _NONCE: nonce}
            if first:
                variables = {**environment(spec), **dagger_shim.variables(spec), **fresh}
                await line.say(_order(spec, variables, str(listener.path)).line())
            else:
                await line.say(encode({"variables": fresh, "socket": str(listener.path)}))
            begun = await line.hear(said)
            if begun is None:
                raise SandboxError("The Dagger broker went away while a sandbox was started.")
            dialled = await _until_dialled(listener, line, said)
            report = await dagger_shim.hear_report(dialled[ROOTED])
            await asyncio.to_thread(dagger_shim.remember, report)
            dagger_shim.check_report(spec, report)
        except BaseException:
            line.close()
            for sock in dialled.values():
                sock.close()
            raise
        finally:
            if listener is not None:
                listener.close()
        pid = await asyncio.to_thread(_pid_here, nonce) or int(begun.get("pid", 0))
        return DaggerContainer(self, spec, line, dialled, report, mounted, pid)


def _pid_here(nonce: str) -> int | None:
    """The sandbox's first process, where the engine runs on this machine and we may see it."""
    if os.geteuid() != 0 or not os.environ.get(RUNNER_HOST, "").startswith("unix:"):
        return None
    wanted = f"{_NONCE}={nonce}".encode()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                return int(entry.name)
    return None


async def _until_dialled(listener: Listener, line: Line, said: Said) -> dict[str, socket.socket]:
    """The connections, unless the container ends first. Raises SandboxError."""
    accepting = asyncio.ensure_future(listener.accept(DIAL_PATIENCE))
    hearing = asyncio.ensure_future(line.peek(said))
    try:
        await asyncio.wait({accepting, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if accepting.done():
            return accepting.result()
        word = hearing.result()
    finally:
        hearing.cancel()
        if not accepting.done():
            accepting.cancel()
        await asyncio.wait({accepting, hearing})
    detail = str(word.get("ended") or "its guest could not be run") if word else "the broker left"
    raise SandboxError(
        f"The sandbox ended as soon as it was started on Dagger: {detail}. The environment's "
        "image needs a Python 3.11 or newer with pyzmq at the path of its language kernel."
    )


def _order(spec: SandboxSpec, variables: Mapping[str, str], path: str) -> Order:
    kernel = spec.kernel
    python = kernel.argv[0] if spec.image else guest_interpreter(kernel)
    guest = f"{LIBRARY}/reprise/guest/__main__.py"
    image = spec.image or ""
    kind: Any = "prefix"
    if image:
        kind = "layout" if image.startswith("oci:") else "registry"
    return Order(
        image_kind=kind,
        image=image.removeprefix("oci:"),
        argv=(python, "-I", "-S", guest, "--rooted", _SOCKET),
        variables=variables,
        temporary=_temporary(spec),
        socket=path,
        data=tuple((str(mount.source), mount.target) for mount in spec.mounts),
        kernel={
            "name": kernel.name,
            "language": kernel.language,
            "argv": list(kernel.argv),
            "prefixes": [str(prefix) for prefix in kernel.prefixes],
            "resource_dir": kernel.resource_dir,
        }
        if not image
        else {},
        registry=os.environ.get(REGISTRY, "").rstrip("/"),
        renewable=spec.reuse == "never",
    )


def _temporary(spec: SandboxSpec) -> dict[str, int]:
    """Memory file systems and their sizes. Together they stay within the memory's limit.

    With `reuse: never` the workspace is part of the container, whose layers carry it.
    """
    limits = spec.limits
    memory = limits.memory or _LARGEST * 2
    tmp = min(limits.tmp or _LARGEST, memory // 4, _LARGEST)
    found = {"/tmp": tmp, "/dev/shm": tmp}  # noqa: S108
    if spec.reuse != "never":
        found[WORKSPACE] = min(limits.workspace or _LARGEST, memory // 2, _LARGEST)
    return found
