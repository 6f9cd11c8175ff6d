"""Limits and network on Dagger: what the runtime shim is asked for, and what holds without it.

docs/dagger.md defines the shim's variables. Whether an engine has the shim only the inside of a
container can tell: the guest's parent does (`guest.shim`).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reprise.errors import SandboxError
from reprise.sandbox.contract import SandboxSpec
from reprise.sandbox.documents import read_json, write_json
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
    return found


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


def _parse(value: Mapping[str, Any]) -> Report:
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
    write_json(home() / "dagger" / "shim.json", {"applied": report.applied})


def enforcement() -> dict[str, str]:
    """For each limit, how it is enforced, with the shim and without."""
    seen = read_json(home() / "dagger" / "shim.json")
    there = isinstance(seen, dict) and seen.get("applied") is True
    found = (
        "the last engine used here has the runtime shim"
        if there
        else (
            "the last engine used here has no runtime shim"
            if isinstance(seen, dict)
            else "whether the engine has it is known once a sandbox was started"
        )
    )
    watched = "for each process by RLIMIT_DATA, for all together by the guest's watch"
    return {
        "memory": f"by a control group with the runtime shim; always {watched} ({found})",
        "processes": f"by a control group with the runtime shim, else not at all ({found})",
        "cpus": f"by a control group with the runtime shim, else not at all ({found})",
        "network": "by an empty network namespace with the runtime shim; else by a seccomp filter "
        f"that denies every socket but unix ones, the own loopback included ({found})",
        "workspace": "by the size of its memory file system; not with `reuse: never`, where it "
        "lies on the engine's disk",
        "tmp": "by the size of its memory file system",
        "mounts": "before anything is written",
        "open_files": "by RLIMIT_NOFILE",
    }
