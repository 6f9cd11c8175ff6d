"""The environment of a session: an immutable spec, named by the sha256 of its canonical form.

It says all that decides what a cell does besides the log: the prefix with its interpreter and
packages, the language kernel, limits, egress policy, variables and mounts of data. The log's
steps name it; when it differs at a resume, `difference` says how.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from reprise.errors import UsageError
from reprise.log.model import Json, canonical, sha256_hex
from reprise.sandbox.built import built_kernel, built_lock
from reprise.sandbox.contract import GuestNetwork, LanguageKernel, Limits, Mount, SandboxSpec
from reprise.sandbox.difference import difference
from reprise.sandbox.imaged import image_kernel, image_prefix
from reprise.sandbox.mounts import current
from reprise.sandbox.named import (
    NamedEnvironment,
    environments,
    limit_set,
    load,
    mount_add,
    mount_remove,
)
from reprise.sandbox.packages import Package, read_prefix
from reprise.settings import home

__all__ = [
    "EnvironmentSpec",
    "NamedEnvironment",
    "difference",
    "environment_kernel",
    "environment_spec",
    "environments",
    "limit_set",
    "load",
    "mount_add",
    "mount_remove",
    "sandbox_spec",
]

#: The kernel of Python that Jupyter asks for (`jupyter.kernelspec.NATIVE`).
NATIVE = "python3"
#: Host variables that change what programs compute or print: they go in and are recorded.
#: IPYKERNEL_CELL_NAME: nbclient sets it, so that tracebacks name cells the same in each run.
RECORDED_VARIABLES = frozenset({"LANG", "LANGUAGE", "TZ", "PYTHONHASHSEED", "IPYKERNEL_CELL_NAME"})
RECORDED_PREFIX = "LC_"
#: Without a fixed seed a set of strings is ordered anew in each process, so a replay would print
#: and compute other things; nothing in a sandbox needs protection from collisions it makes itself.
FIXED_VARIABLES = {"PYTHONHASHSEED": "0"}
#: Host variables about the terminal: they go in, but another window is no other environment.
TERMINAL_VARIABLES = frozenset({"TERM", "COLUMNS", "LINES", "COLORTERM", "NO_COLOR"})


@dataclass(frozen=True)
class SpecMount:
    """Data that a session sees. manifest: sha256 of its listing, None when it is gone."""

    source: str
    target: str
    manifest: str | None


@dataclass(frozen=True)
class EnvironmentSpec:
    """Everything that one environment is; two with equal `to_json` are the same environment.

    interpreter: see `packages.Prefix`.  egress: "none", or the rules (`network.NetworkRules`).
    built: the digest of what `env create` built, and lock what of; then base and argv say nothing
      of where that lies, so that another machine has the same environment.
    image, reuse, output, team, skills: see NamedEnvironment.
    """

    base: str
    kernel: str
    language: str
    argv: tuple[str, ...]
    interpreter: Mapping[str, str]
    packages: tuple[Package, ...]
    limits: Limits
    egress: Json
    variables: Mapping[str, str]
    mounts: tuple[SpecMount, ...]
    built: str | None = None
    image: str | None = None
    reuse: str = "session"
    output: str = "auto"
    lock: str | None = None
    team: str | None = None
    skills: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Json]:
        said: dict[str, Json] = {
            "base": self.base,
            "kernel": {"name": self.kernel, "language": self.language, "argv": list(self.argv)},
            "interpreter": dict(self.interpreter),
            "packages": [[p.name, p.version, p.record] for p in self.packages],
            "limits": asdict(self.limits),
            "egress": self.egress,
            "variables": dict(self.variables),
            "mounts": [asdict(mount) for mount in self.mounts],
        }
        # What is as it always was is left out, so that the digests of before stay what they are.
        for name, usual in (
            ("built", None),
            ("image", None),
            ("reuse", "session"),
            ("output", "auto"),
            ("lock", None),
            ("team", None),
        ):
            if (value := getattr(self, name)) != usual:
                said[name] = value
        if self.skills is not None:
            said["skills"] = list(self.skills)
        return said

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the canonical form."""
        return sha256_hex(canonical(self.to_json()))


def environment_kernel(named: NamedEnvironment, kernel: LanguageKernel) -> LanguageKernel:
    """The language kernel that runs in an environment.

    kernel: what Jupyter asked for; what runs on the host's own prefix is it. An environment that
    was built, or is an image, brings an interpreter and ipykernel of its own instead.
    Raises UsageError where that is no kernel for Python, UnavailableError when it is not here.
    """
    if named.packages is None and named.image is None:
        return kernel
    if kernel.name != NATIVE:
        what = "packages of its own" if named.packages else "an image"
        raise UsageError(
            f"The environment {named.name!r} has {what}, with a Python kernel in it; the kernel "
            f"{kernel.name!r} runs on this machine's own prefix. Use the kernelspec `reprise` with "
            "it, or another environment for this kernel (REPRISE_ENVIRONMENT)."
        )
    if named.packages is not None:
        return built_kernel(named.packages, named.name)
    return image_kernel(named.image or "", named.name)


def environment_spec(
    named: NamedEnvironment, kernel: LanguageKernel, environ: Mapping[str, str] = os.environ
) -> EnvironmentSpec:
    """The environment as it is on this machine now. Blocks: a few milliseconds when cached.

    kernel: as `environment_kernel` gives it. Raises UnavailableError when that cannot be read.
    """
    prefix = (
        read_prefix(kernel, home() / "cache")
        if named.image is None
        else image_prefix(named.image, named.name)
    )
    base, argv = prefix.base, kernel.argv
    if named.packages is not None:
        base, argv = f"built:{named.packages}", ("bin/python", *kernel.argv[1:])
    return EnvironmentSpec(
        base=base,
        kernel=kernel.name,
        language=kernel.language,
        argv=argv,
        interpreter=prefix.interpreter,
        packages=prefix.packages,
        limits=named.sandbox_limits(),
        egress=named.network.to_json() if named.network.open else "none",
        variables=recorded_variables(named, environ),
        mounts=tuple(
            SpecMount(str(mount.source), mount.target, current(mount)) for mount in named.mounts
        ),
        built=named.packages,
        image=named.image,
        reuse=named.reuse,
        output=named.output,
        lock=None if named.packages is None else built_lock(named.packages),
        team=named.team,
        skills=named.skills,
    )


def recorded_variables(named: NamedEnvironment, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that go in and into the digest: few of the host's, and those the user has set."""
    host = {
        name: value
        for name, value in environ.items()
        if name in RECORDED_VARIABLES or name.startswith(RECORDED_PREFIX)
    }
    return {**FIXED_VARIABLES, **host, **named.variables}


def sandbox_spec(
    named: NamedEnvironment,
    kernel: LanguageKernel,
    folder: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> SandboxSpec:
    """What a backend needs to start a sandbox of this environment.

    folder: the notebook's, which the process backend takes for its workspace. Mounts whose
    directory is gone are left out (their absence is in the environment's digest).
    """
    terminal = {name: environ[name] for name in TERMINAL_VARIABLES if name in environ}
    return SandboxSpec(
        kernel=kernel,
        limits=named.sandbox_limits(),
        mounts=tuple(
            Mount(mount.source, mount.target) for mount in named.mounts if mount.source.is_dir()
        ),
        variables={**terminal, **recorded_variables(named, environ)},
        workspace=folder,
        image=named.image,
        network=GuestNetwork() if named.network.open else None,
        reuse=named.reuse,
        rules=named.network,
        environment=named.name,
    )
