"""The environment of a session: an immutable spec, named by the sha256 of its canonical form.

It says all that decides what a cell does besides the log: the prefix with its interpreter and
packages, the language kernel, limits, egress policy, variables and mounts of data. The log's
steps name it; when it differs at a resume, `difference` says how.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reprise.log.model import Json, canonical, sha256_hex
from reprise.quantities import amount, seconds
from reprise.sandbox.contract import GuestNetwork, LanguageKernel, Limits, Mount, SandboxSpec
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
    "environment_spec",
    "environments",
    "limit_set",
    "load",
    "mount_add",
    "mount_remove",
    "sandbox_spec",
]

#: Host variables that change what programs compute or print: they go in and are recorded.
#: IPYKERNEL_CELL_NAME: nbclient sets it, so that tracebacks name cells the same in each run.
RECORDED_VARIABLES = frozenset({"LANG", "LANGUAGE", "TZ", "PYTHONHASHSEED", "IPYKERNEL_CELL_NAME"})
RECORDED_PREFIX = "LC_"
#: Without a fixed seed a set of strings is ordered anew in each process, so a replay would print
#: and compute other things; nothing in a sandbox needs protection from collisions it makes itself.
FIXED_VARIABLES = {"PYTHONHASHSEED": "0"}
#: Host variables about the terminal: they go in, but another window is no other environment.
TERMINAL_VARIABLES = frozenset({"TERM", "COLUMNS", "LINES", "COLORTERM", "NO_COLOR"})

_SIZE_LIMITS = frozenset({"memory", "workspace", "tmp", "output", "message", "request", "mounts"})
#: Sentences of `difference`; more packages than these are counted.
NAMED_PACKAGES = 30


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
    built: the digest of what `env create` built.  image, reuse, output: see NamedEnvironment.
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
    output: str = "static"

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
            ("output", "static"),
        ):
            if (value := getattr(self, name)) != usual:
                said[name] = value
        return said

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of the canonical form."""
        return sha256_hex(canonical(self.to_json()))


def environment_spec(
    named: NamedEnvironment, kernel: LanguageKernel, environ: Mapping[str, str] = os.environ
) -> EnvironmentSpec:
    """The environment as it is on this machine now. Blocks: a few milliseconds when cached.

    Raises UnavailableError when the language kernel's prefix cannot be read.
    """
    prefix = read_prefix(kernel, home() / "cache")
    return EnvironmentSpec(
        base=prefix.base,
        kernel=kernel.name,
        language=kernel.language,
        argv=kernel.argv,
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
    )


def difference(old: Mapping[str, Json], new: Mapping[str, Json]) -> list[str]:
    """How two recorded environments differ, in short phrases: "pandas 2.2.3 → 3.0.1"."""
    return [
        *_pair("environment prefix", old.get("base"), new.get("base")),
        *_interpreter(_mapping(old, "interpreter"), _mapping(new, "interpreter")),
        *_kernel(_mapping(old, "kernel"), _mapping(new, "kernel")),
        *_packages(_packages_of(old), _packages_of(new)),
        *_limits(_mapping(old, "limits"), _mapping(new, "limits")),
        *_pair("egress", old.get("egress"), new.get("egress")),
        *_variables(_mapping(old, "variables"), _mapping(new, "variables")),
        *_mounts(_mounts_of(old), _mounts_of(new)),
    ]


def _mapping(spec: Mapping[str, Json], name: str) -> Mapping[str, Any]:
    value = spec.get(name)
    return value if isinstance(value, Mapping) else {}


def _pair(what: str, old: object, new: object) -> list[str]:
    return [] if old == new else [f"{what} {old} → {new}"]


def _interpreter(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old == new:
        return []
    before, after = (str(each.get("version", "")).partition(" ")[0] for each in (old, new))
    if before != after:
        return [f"Python {before or '(none)'} → {after or '(none)'}"]
    return ["the interpreter was built anew" if before else "the language kernel's program changed"]


def _kernel(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    if old.get("name") != new.get("name"):
        return _pair("language kernel", old.get("name"), new.get("name"))
    return [] if old == new else [f"the command of the language kernel {new.get('name')} changed"]


def _packages_of(spec: Mapping[str, Json]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for name, version, digest in spec.get("packages", ()):
        found.setdefault(str(name), []).append((str(version), str(digest)))
    return found


def _packages(
    old: Mapping[str, Sequence[tuple[str, str]]], new: Mapping[str, Sequence[tuple[str, str]]]
) -> list[str]:
    said: list[str] = []
    for name in sorted(set(old) | set(new)):
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        was, now = (", ".join(version for version, _ in each or ()) for each in (before, after))
        if before is None:
            said.append(f"{name} {now} added")
        elif after is None:
            said.append(f"{name} {was} removed")
        elif was == now:
            said.append(f"{name} {now} reinstalled with other files")
        else:
            said.append(f"{name} {was} → {now}")
    if len(said) > NAMED_PACKAGES:
        more = len(said) - NAMED_PACKAGES
        said = [*said[:NAMED_PACKAGES], f"and {more:,} more packages"]
    return said


def _limits(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [
        f"limit {name} {_limit(name, old.get(name))} → {_limit(name, new.get(name))}"
        for name in sorted(set(old) | set(new))
        if old.get(name) != new.get(name)
    ]


def _limit(name: str, value: Any) -> str:
    if not value:
        return "none"
    if name in _SIZE_LIMITS:
        return amount(int(value))
    return seconds(float(value)) if name == "wall" else f"{value:g}"


def _variables(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    said: list[str] = []
    for name in sorted(set(old) | set(new)):
        if old.get(name) == new.get(name):
            continue
        before, after = (repr(each[name]) if name in each else "unset" for each in (old, new))
        said.append(f"variable {name} {before} → {after}")
    return said


def _mounts_of(spec: Mapping[str, Json]) -> dict[str, Mapping[str, Any]]:
    return {str(mount["target"]): mount for mount in spec.get("mounts", ())}


def _mounts(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    said: list[str] = []
    for target in sorted(set(old) | set(new)):
        before, after = old.get(target), new.get(target)
        if before == after:
            continue
        if after is None:
            said.append(f"data at {target} no longer mounted")
        elif before is None:
            said.append(f"data at {target} mounted from {after['source']}")
        elif after["source"] != before["source"]:
            said.append(f"data at {target} from {before['source']} → {after['source']}")
        elif after["manifest"] is None:
            said.append(f"data at {target} is gone ({after['source']} is not there)")
        else:
            said.append(f"data at {target} has changed")
    return said
