"""Limits and network on Dagger: what the runtime shim is asked for, and what holds without it.

docs/dagger.md defines the shim's variables. Whether an engine has the shim only the inside of a
container can tell: the guest's parent does (`guest.shim`).
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprise.errors import SandboxError
from reprise.sandbox import seccomp
from reprise.sandbox.contract import SandboxSpec
from reprise.sandbox.documents import read_json, write_json
from reprise.sandbox.prefixes import own_prefixes
from reprise.settings import home

#: Which OCI runtime the shim is asked for ("" for the operator's default).
RUNTIME = "REPRISE_DAGGER_RUNTIME"

_PATIENCE = 60.0
_MAX_REPORT = 4096

#: The shim's own bounds.
_LEAST_MEMORY = 16 << 20
_LEAST_PIDS, _MOST_PIDS = 16, 1 << 22
_MOST_CPUS = 1024.0

#: Processes of a sandbox that are not the user's: the guest and its parent, their threads.
_OWN_PROCESSES = 16


@dataclass(frozen=True)
class Report:
    """What the shim has done for a container; all None where there is no shim."""

    applied: bool = False
    runtime: str | None = None
    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None
    network: str | None = None


#: As in `guest.seccomp`.
_FILTER = "REPRISE_FILTER_"


def variables(spec: SandboxSpec, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What asks the shim for this sandbox's limits, and for no network."""
    limits = spec.limits
    found = {"REPRISE_SHIM": "1", "REPRISE_SHIM_NETWORK": "none"}
    if limits.memory:
        found["REPRISE_SHIM_MEMORY"] = str(max(limits.memory, _LEAST_MEMORY))
    if limits.cpus:
        found["REPRISE_SHIM_CPUS"] = f"{min(limits.cpus, _MOST_CPUS):.3f}"
    if limits.processes:
        pids = limits.processes + _OWN_PROCESSES
        found["REPRISE_SHIM_PIDS"] = str(min(max(pids, _LEAST_PIDS), _MOST_PIDS))
    if runtime := environ.get(RUNTIME):
        found["REPRISE_SHIM_RUNTIME"] = runtime
    if runtime != "runsc":  # gVisor answers the calls itself
        found |= _filters()
    return found


@functools.cache
def _filters() -> dict[str, str]:
    """What `guest.rooted` loads: Docker's profile, which the engine applies, denies less.

    For every machine that is known: the engine's may be another than this one.
    """
    return {
        f"{_FILTER}{machine}": base64.b64encode(seccomp.program(machine)).decode("ascii")
        for machine in seccomp.MACHINES
    }


async def hear_report(sock: socket.socket) -> Report:
    """What the guest's parent tells first. Raises SandboxError.

    It is told from within, before any code of a user runs; bounded all the same.
    """
    try:
        async with asyncio.timeout(_PATIENCE):
            length = int.from_bytes(await _exactly(sock, 2), "big")
            if length > _MAX_REPORT:
                raise ValueError("too long")
            said = json.loads(await _exactly(sock, length))
        applied = said["applied"]
        return Report() if applied is None else _parse(json.loads(applied))
    except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise SandboxError(
            f"The sandbox on Dagger did not say what its engine does for it ({error!r}). It is "
            "ended."
        ) from error


async def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = await asyncio.get_running_loop().sock_recv(sock, size - len(data))
        if not part:
            raise ConnectionError("its parent process left")
        data += part
    return data


def _parse(value: Any) -> Report:
    if not isinstance(value, dict):
        raise TypeError("no JSON object")

    def of(name: str, kind: type) -> Any:
        found = value.get(name)
        return found if type(found) is kind else None

    cpus = value.get("cpus")
    return Report(
        applied=True,
        runtime=of("runtime", str),
        memory=of("memory", int),
        cpus=float(cpus) if isinstance(cpus, (int, float)) else None,
        pids=of("pids", int),
        network=of("network", str),
    )


def check_report(
    spec: SandboxSpec, report: Report, environ: Mapping[str, str] = os.environ
) -> None:
    """Raises SandboxError where the environment needs what only the shim can do."""
    if report.network == "none":
        return
    install = "Ask whoever runs the engine to install the runtime shim (docs/dagger.md)"
    if spec.network is not None:
        raise SandboxError(
            "This environment may reach some hosts, and this Dagger engine has no runtime shim: "
            "without it a sandbox has either the engine's whole network or no sockets at all, not "
            "even its own loopback, on which the proxy would listen. Nothing was started. "
            f"{install}, allow no host, or take another backend."
        )
    if runtime := environ.get(RUNTIME):
        raise SandboxError(
            f"{RUNTIME}={runtime} asks for a container runtime, and this Dagger engine has no "
            f"runtime shim that could choose it. Nothing was started. {install}, or unset it."
        )


def remember(report: Report) -> None:
    """For `doctor`: whether the engine that was used last has a shim."""
    write_json(_seen_file(), {"applied": report.applied, "network": report.network})


def _seen_file() -> Path:
    return home() / "dagger" / "shim.json"


def enforcement() -> dict[str, str]:
    """For each limit, how it is enforced; as the sandbox that was started last has reported."""
    seen = read_json(_seen_file())
    absent = "not enforced: this Dagger engine has no runtime shim (docs/dagger.md)"
    group = "by a control group, which the engine's runtime shim makes"
    network = "by an empty network namespace, which the engine's runtime shim makes"
    if not isinstance(seen, dict):
        unknown = "; whether the engine has the shim is known once a sandbox was started here"
        group, network = group + unknown, network + unknown
    elif not seen.get("applied"):
        group = absent
        network = (
            "by a seccomp filter that denies every socket but unix ones, so that the sandbox has "
            "no loopback either: this Dagger engine has no runtime shim (docs/dagger.md)"
        )
    watched = "for each process by RLIMIT_DATA, for all together by the guest's watch"
    size = "by the size of its memory file system, at most 2 GiB"
    below_tmp = any(path.is_relative_to("/tmp") for path in own_prefixes())  # noqa: S108
    return {
        "memory": watched if group is absent else f"{group}; always {watched}",
        "processes": group,
        "cpus": group,
        "network": network,
        "workspace": f"{size}; with `reuse: never` only by the disk of the engine",
        "tmp": "not enforced: this environment itself lies below /tmp, so that nothing can be "
        "mounted there"
        if below_tmp
        else size,
        "mounts": "before anything is written",
        "open_files": "by RLIMIT_NOFILE",
    }
