"""Looks at each part that Reprise needs on this machine; `doctor` tells what it found."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
import psycopg
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from reprise import settings
from reprise.errors import RepriseError
from reprise.jupyter.kernelspec import language_kernel
from reprise.log.connect import KERNEL_ROLE, described, open_connection
from reprise.log.embedded import Server
from reprise.log.postgres import Log
from reprise.log.schema import version_of
from reprise.quantities import amount
from reprise.sandbox import cgroup
from reprise.sandbox.backends import backend, known
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import Backend, DeathCause
from reprise.sandbox.environment import environment_kernel, load, sandbox_spec
from reprise.sandbox.frames import Channel

State = Literal["ok", "limited", "missing"]

#: Below this much free space a session of ordinary size may not fit (bytes).
LITTLE_SPACE = 1 << 30
#: With less the embedded database cannot even be created (bytes).
NO_SPACE = 200 << 20
#: A commit waits for the disk once; from here on it is felt with every cell (seconds).
SLOW_FSYNC_S = 0.020
#: File systems on which locks or durable writes cannot be relied on.
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "lustre"}
)
#: The limits that no backend need hold, since the kernel does.
BY_THE_KERNEL = {
    "wall": "by the kernel: a cell is interrupted, and its sandbox ended when that does not help; "
    "a command is asked to end, and two seconds later ended",
    "output": "by the kernel and the guest: what is shown and recorded of a step is cut, with a "
    "mark",
}
#: Seconds that a sandbox may take to answer before doctor calls it hanging.
SANDBOX_S = 60.0
#: Any of these lets the agent's SDK in.
_MODEL_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@dataclass(frozen=True)
class Part:
    """One part: its state, what that means here, what to do, and whether cells need it to run."""

    name: str
    state: State
    says: str
    mend: str = ""
    needed: bool = False

    @property
    def blocks(self) -> bool:
        return self.needed and self.state == "missing"


async def examine(progress: Callable[[str], None]) -> AsyncIterator[Part]:
    """All parts, in the order in which they build on each other. Raises nothing of ours."""
    yield _python()
    progress("looking at the disk …")
    for part in _disk():
        yield part
    progress("looking at the database …")
    yield await _database(progress)
    progress("starting a sandbox …")
    for part in await _sandbox():
        yield part
    yield _control_groups()
    progress("looking at the other backends …")
    for part in await asyncio.to_thread(lambda: list(_other_backends())):
        yield part
    yield _kernelspec()
    yield _package(
        "JupyterLab", "jupyterlab", "lab", "`reprise lab` needs it; other front ends do not"
    )
    yield _package("pandas", "pandas", "demo", "`reprise demo` runs a pandas notebook")
    yield _agent()


def _python() -> Part:
    says = f"{platform.python_implementation()} {platform.python_version()} in {sys.prefix}"
    if sys.platform != "linux":
        return Part(
            "Python",
            "missing",
            f"{says}, on {platform.system()}: sandboxes need Linux",
            "Use a Linux machine or a Linux virtual machine (WSL 2 on Windows).",
            needed=True,
        )
    return Part("Python", "ok", f"{says}, Linux {platform.release()}", needed=True)


def _disk() -> Iterator[Part]:
    try:
        home = settings.home()
    except RepriseError as error:
        yield Part("disk", "missing", str(error), f"Set {settings.HOME}.", needed=True)
        return
    try:
        free, fsync_s = shutil.disk_usage(home).free, _fsync_seconds(home)
    except OSError as error:
        yield Part(
            "disk",
            "missing",
            f"{home} cannot be written: {error.strerror}",
            f"Free some space, or set {settings.HOME} to a folder on another disk.",
            needed=True,
        )
        return
    kind = _file_system(home)
    says = f"{home} ({kind}): {amount(free)} free, a durable write takes {fsync_s * 1e3:.1f} ms"
    if free < NO_SPACE:
        mend = f"Free some space, or set {settings.HOME} to a folder on another disk."
        yield Part("disk", "missing", says, mend, needed=True)
    elif kind in NETWORK_FILE_SYSTEMS and settings.DSN not in os.environ:
        yield Part(
            "disk",
            "limited",
            f"{says}; on a network file system a database's locks and writes are not safe",
            f"Set {settings.HOME} to a local folder, or use another Postgres with {settings.DSN}.",
            needed=True,
        )
    elif free < LITTLE_SPACE:
        yield Part("disk", "limited", says, "Free some space before long.", needed=True)
    elif fsync_s > SLOW_FSYNC_S:
        yield Part(
            "disk",
            "limited",
            f"{says}: each cell waits for two of them",
            f"Set {settings.HOME} to a folder on a faster disk.",
            needed=True,
        )
    else:
        yield Part("disk", "ok", says, needed=True)


def _fsync_seconds(folder: Path) -> float:
    """The median time of a small append with fsync, as Postgres does for each commit."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(20):
            file.write(b"\0" * 8192)
            file.flush()
            started = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - started)
    return statistics.median(times)


def _file_system(path: Path) -> str:
    """The type of the file system that holds `path`."""
    real = path.resolve()
    mounts = [
        (partition.mountpoint, partition.fstype)
        for partition in psutil.disk_partitions(all=True)
        if real.is_relative_to(partition.mountpoint)
    ]
    return max(mounts, key=lambda mount: len(mount[0]))[1] if mounts else "unknown"


async def _database(progress: Callable[[str], None]) -> Part:
    dsn = os.environ.get(settings.DSN)
    name = "database"
    try:
        log = await Log.connect(progress=progress)
        await log.close()
        if dsn:
            where = described(dsn)
        else:
            server = Server(settings.home())
            await server.ensure_running(progress)
            dsn, where = server.kernel_dsn, "embedded"
        connection = await open_connection(dsn, role=KERNEL_ROLE)
        try:
            started = time.perf_counter()
            schema = await version_of(connection)
            took = time.perf_counter() - started
            number = connection.info.server_version
        finally:
            await connection.close()
    except (RepriseError, psycopg.Error) as error:
        mend = (
            f"Check {settings.DSN} and that the server runs and lets you in."
            if os.environ.get(settings.DSN)
            else f"Or use another Postgres with {settings.DSN}."
        )
        return Part(name, "missing", " ".join(str(error).split()), mend, needed=True)
    return Part(
        name,
        "ok",
        f"{where}, PostgreSQL {number // 10000}.{number % 10000}, schema {schema}, "
        f"a query takes {took * 1e3:.1f} ms",
        needed=True,
    )


async def _sandbox() -> list[Part]:
    try:
        chosen = backend()
    except RepriseError as error:
        return [Part("sandbox", "missing", str(error), needed=True)]
    problems = chosen.check()
    if problems:
        return [
            Part(
                f"sandbox ({chosen.name})",
                "missing",
                "no sandbox can be started here",
                " ".join(
                    [
                        *problems,
                        f"Or run without isolation, as ipykernel does: {settings.BACKEND}=process.",
                    ]
                    if chosen.isolated
                    else problems
                ),
                needed=True,
            )
        ]
    parts = [await _started(chosen)]
    if parts[0].state != "missing":
        parts += _limits({**chosen.enforcement(), **BY_THE_KERNEL})
    return parts


def _control_groups() -> Part:
    says = cgroup.described()
    return Part("control groups", "limited" if says.startswith("none") else "ok", says)


def _other_backends() -> Iterator[Part]:
    """The backends beside the chosen one that would work here, and how each would hold limits."""
    for name in known():
        if name.partition(":")[0] == _chosen():
            continue
        other = backend(name)
        if other.check():
            continue  # what one lacks is said when it is chosen
        held = "; ".join(f"{limit} {how}" for limit, how in sorted(other.enforcement().items()))
        yield Part(
            f"also here: {name}",
            "ok" if other.isolated else "limited",
            f"{other.isolation} Limits: {held}.",
            f"Choose it with {settings.BACKEND}={name}." if other.isolated else "",
        )


def _chosen() -> str:
    return (os.environ.get(settings.BACKEND) or settings.DEFAULT_BACKEND).partition(":")[0]


async def _started(chosen: Backend) -> Part:
    """Whether a sandbox really starts and its language kernel answers."""
    name = f"sandbox ({chosen.name})"
    try:
        with tempfile.TemporaryDirectory(prefix="reprise-doctor-") as folder:
            named = load()
            language = environment_kernel(named, language_kernel("python3"))
            spec = sandbox_spec(named, language, Path(folder))
            started = time.perf_counter()
            guest = await Guest.start(chosen, spec, _Deaf())
            try:
                async with asyncio.timeout(SANDBOX_S):
                    await guest.ready()
                took = time.perf_counter() - started
            finally:
                await guest.kill()
    except (RepriseError, TimeoutError) as error:
        said = str(error) or f"no answer within {SANDBOX_S:.0f} s"
        return Part(name, "missing", f"a sandbox does not start here: {said}", needed=True)
    says = f"{chosen.isolation} Started and answered in {took:.1f} s."
    if not chosen.isolated:
        return Part(
            name,
            "limited",
            says,
            f"Unset {settings.BACKEND} to run cells in a sandbox.",
            needed=True,
        )
    return Part(name, "ok", says, needed=True)


class _Deaf:
    """A `GuestListener`: the language kernel is asked nothing, so what it says is for nobody."""

    def message(self, channel: Channel, parts: list[bytes]) -> None: ...

    def died(self, cause: DeathCause) -> None: ...


def _limits(enforced: Mapping[str, str]) -> Iterator[Part]:
    """How each limit is held here. One that is not is a limit of this machine, not of a cell."""
    for name, how in enforced.items():
        missing = how.startswith("not enforced")
        yield Part(
            f"limit of {name}",
            "limited" if missing else "ok",
            how,
            "Run Reprise where it may make control groups (a systemd user session, or as root)."
            if missing and "control group" in how
            else "",
        )


def _kernelspec() -> Part:
    name = "kernelspec"
    works = "`reprise lab`, `run` and `demo` work without it"
    try:
        spec = KernelSpecManager().get_kernel_spec("reprise")
    except NoSuchKernel:
        return Part(
            name,
            "limited",
            f"not installed where Jupyter looks, so other front ends do not offer it; {works}",
            "Run: reprise kernelspec install",
        )
    except (OSError, ValueError, json.JSONDecodeError) as error:
        return Part(
            name, "limited", f"cannot be read: {error}; {works}", "Run: reprise kernelspec install"
        )
    program = spec.argv[0] if spec.argv else ""
    if not program or shutil.which(program) is None:
        return Part(
            name,
            "limited",
            f"{spec.resource_dir} starts {program or 'nothing'}, which is not there; {works}",
            "Run: reprise kernelspec install",
        )
    return Part(name, "ok", f"installed in {spec.resource_dir}")


def _agent() -> Part:
    """Whether a model can be asked from here, as far as variables say; no value of one is told."""
    found = _package("agent", "anthropic", "agent", "`reprise agent` speaks with models by it")
    if found.state != "ok" or any(os.environ.get(name) for name in _MODEL_KEYS):
        return found
    return Part(
        "agent",
        "limited",
        f"anthropic {found.says}, and no key of a model in {_MODEL_KEYS[0]}; a server's own "
        "configuration may have one. All else works",
        "Set it, or see docs/model-endpoints.md; `reprise demo --agent` needs none.",
    )


def _package(name: str, module: str, extra: str, why: str) -> Part:
    if importlib.util.find_spec(module) is None:
        mend = f"Run: {sys.executable} -m pip install 'jupyter-reprise[{extra}]'"
        return Part(name, "limited", f"not installed; {why}", mend)
    return Part(name, "ok", importlib.metadata.version(module))
