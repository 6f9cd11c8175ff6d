"""Named environments: REPRISE_HOME/environments/NAME.json, what a user may set of a sandbox.

The file holds {limits: {NAME: number}, mounts: [{source, target, manifest}], variables: {NAME:
value}, network: {…} (`sandbox.network`), packages: digest of what `reprise env create` built,
image: "NAME@sha256:…", reuse: "session" | "never", output: "auto" | "static" | "live", team:
"team/NAME", skills: [pattern] (`sandbox.named_skills`)}, each part optional. `default` need not
exist. Sizes in bytes, times in seconds, 0 for no limit.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from reprise.errors import UnavailableError, UsageError
from reprise.quantities import amount, parse_seconds, parse_size
from reprise.sandbox.contract import Limits
from reprise.sandbox.documents import write_json
from reprise.sandbox.mounts import DataMount, check_source, check_target, record
from reprise.sandbox.named_skills import check_skills, check_team
from reprise.sandbox.network import NetworkRules, parse_rules
from reprise.settings import DEFAULT_ENVIRONMENT, ENVIRONMENT, MEMORY_SHARE, home

MAX_FILE = 1 << 20
_FIELDS = frozenset(
    {
        *("limits", "mounts", "variables", "network", "packages", "image", "reuse", "output"),
        *("team", "skills"),
    }
)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_IMAGE = re.compile(
    r"(?:oci:/[^\0\n@]{1,1000}|[a-z0-9][A-Za-z0-9._:/-]{0,254})@sha256:[0-9a-f]{64}"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
#: Variables are recorded in the log in the clear, so these are refused by their names.
_SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|API_?KEY|PRIVATE|DSN", re.IGNORECASE)

_SIZES = frozenset({"memory", "workspace", "tmp", "output", "message", "request", "mounts"})
_COUNTS = frozenset({"processes", "open_files"})
#: Below these not even an idle kernel lives, or no message passes.
_LEAST: Mapping[str, float] = {
    "memory": 128 << 20,
    "processes": 16,
    "open_files": 64,
    "workspace": 1 << 20,
    "tmp": 1 << 20,
    "mounts": 1 << 20,
    "output": 64 << 10,
    "message": 64 << 10,
    "request": 64 << 10,
    "cpus": 0.05,
    "wall": 1.0,
}
#: Messages travel in one frame each (`frames.MAX_BODY`), with room for their headers.
_MOST: Mapping[str, float] = {"message": 60 << 20, "request": 60 << 20}

OutputRule = Literal["auto", "static", "live"]
OUTPUT_RULES: tuple[OutputRule, ...] = get_args(OutputRule)

LIMIT_NAMES: tuple[str, ...] = tuple(each.name for each in fields(Limits))


@dataclass(frozen=True)
class NamedEnvironment:
    """What a user has set under one name; what is not set has its default.

    packages, image: at most one of them; None for the host's own prefix.
    output: "live" allows scripts in what is shown whatever ran before, "static" never does; "auto"
      until an agent or something that is not trusted acts (`jupyter.static`).
    team: whose members alone may use it; None for everybody.  skills: patterns of those that may be
      mounted; None for all that trust lets in.
    """

    name: str = DEFAULT_ENVIRONMENT
    limits: Mapping[str, float] = field(default_factory=dict)
    mounts: tuple[DataMount, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    network: NetworkRules = field(default_factory=NetworkRules)
    packages: str | None = None
    image: str | None = None
    reuse: Literal["session", "never"] = "session"
    output: OutputRule = "auto"
    team: str | None = None
    skills: tuple[str, ...] | None = None

    def sandbox_limits(self) -> Limits:
        """All limits. Memory is three quarters of what this machine or control group has."""
        return replace(Limits(memory=default_memory()), **self.limits)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        said: dict[str, Any] = {
            "limits": dict(self.limits),
            "mounts": [mount.to_json() for mount in self.mounts],
            "variables": dict(self.variables),
        }
        if network := self.network.to_json():
            said["network"] = network
        for name, usual in (
            ("packages", None),
            ("image", None),
            ("reuse", "session"),
            ("output", "auto"),
            ("team", None),
        ):
            if (value := getattr(self, name)) != usual:
                said[name] = value
        if self.skills is not None:
            said["skills"] = list(self.skills)
        return said


def file_of(name: str) -> Path:
    """Where a named environment is kept. Raises UsageError for what is no name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name of an environment: letters, digits, '.', '_' and '-' only."
        )
    return home() / "environments" / f"{name}.json"


def load(name: str | None = None, environ: Mapping[str, str] = os.environ) -> NamedEnvironment:
    """A named environment; without a name, the one that REPRISE_ENVIRONMENT names, or `default`.

    Raises UsageError naming file and field, or that there is no such environment.
    """
    name = name or environ.get(ENVIRONMENT) or DEFAULT_ENVIRONMENT
    path = file_of(name)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE + 1)
    except FileNotFoundError:
        if name == DEFAULT_ENVIRONMENT:
            return NamedEnvironment()
        known = ", ".join(environments())
        raise UsageError(
            f"There is no environment {name!r} ({path} is missing). There are: {known}."
        ) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > MAX_FILE:
        raise UsageError(f"{path} is over {amount(MAX_FILE)}; no environment is.")
    return _parse(name, path, data)


def _parse(name: str, path: Path, data: bytes) -> NamedEnvironment:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}. Mend or remove it.") from error
    if not isinstance(value, dict):
        raise UsageError(f"{path} holds no object. Mend or remove it.")
    unknown = set(value) - _FIELDS
    if unknown:
        raise UsageError(
            f"{path}: unknown field {min(unknown)!r}; there are {', '.join(sorted(_FIELDS))}."
        )
    limits = _object(path, value, "limits")
    variables = _object(path, value, "variables")
    mounts = value.get("mounts", [])
    if not isinstance(mounts, list):
        raise UsageError(f"{path}: mounts is no list.")
    return NamedEnvironment(
        name,
        {k: _field(path, f"limits.{k}", check_limit, k, v) for k, v in limits.items()},
        tuple(_field(path, f"mounts[{i}]", _mount_of, each, None) for i, each in enumerate(mounts)),
        {k: _field(path, f"variables.{k}", check_variable, k, v) for k, v in variables.items()},
        _field(path, "network", lambda _, v: parse_rules(v), None, value.get("network", {})),
        **_field(path, "built", _built, None, value),
    )


def _built(_: None, value: Mapping[str, Any]) -> dict[str, Any]:
    """What it stands on, and how it is used."""
    packages, image = value.get("packages"), value.get("image")
    if packages is not None and not (isinstance(packages, str) and _DIGEST.fullmatch(packages)):
        raise UsageError("packages is no sha256 of a built environment.")
    if image is not None:
        check_image(image)
    if packages is not None and image is not None:
        raise UsageError("packages and image exclude each other: an image brings its own.")
    reuse, output = value.get("reuse", "session"), value.get("output", "auto")
    if reuse not in ("session", "never"):
        raise UsageError('reuse is "session" or "never".')
    if output not in OUTPUT_RULES:
        raise UsageError(f"output is one of {', '.join(OUTPUT_RULES)}.")
    return {
        "packages": packages,
        "image": image,
        "reuse": reuse,
        "output": output,
        "team": check_team(value.get("team")),
        "skills": check_skills(value.get("skills")),
    }


def check_image(image: Any) -> str:
    """An image named by its digest. Raises UsageError."""
    if not isinstance(image, str) or not _IMAGE.fullmatch(image):
        raise UsageError(
            f"{image!r} names no image by its digest. Give NAME@sha256:… of a registry, or "
            "oci:/PATH@sha256:… of an OCI layout."
        )
    return image


def _object(path: Path, value: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name, {})
    if not isinstance(found, dict):
        raise UsageError(f"{path}: {name} is no object.")
    return found


def _field(path: Path, where: str, check: Callable[[Any, Any], Any], name: Any, value: Any) -> Any:
    try:
        return check(name, value)
    except UsageError as error:
        raise UsageError(f"{path}: {where}: {error}") from error


def _mount_of(value: Any, _: None) -> DataMount:
    return DataMount.from_json(value)


def check_limit(name: str, value: Any) -> float:
    """A limit's value when it makes sense. Raises UsageError."""
    if name not in LIMIT_NAMES:
        raise UsageError(f"there is no limit {name!r}; there are {', '.join(LIMIT_NAMES)}.")
    whole = name in _SIZES or name in _COUNTS
    if type(value) is not int and (whole or type(value) is not float):
        raise UsageError(f"{value!r} is no {'whole ' if whole else ''}number.")
    if value == 0 and name not in _MOST:
        return value
    least, most = _LEAST[name], _MOST.get(name, float(1 << 50))
    if not least <= value <= most:
        low, high = (amount(int(each)) if name in _SIZES else f"{each:g}" for each in (least, most))
        raise UsageError(f"the limit {name} must be from {low} to {high}.")
    return int(value) if whole else float(value)


def check_variable(name: str, value: Any) -> str:
    """A variable's value when it may go into sandboxes. Raises UsageError."""
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a variable.")
    if _SECRET.search(name):
        raise UsageError(
            "its name says that it holds a secret, and variables are recorded in the log in "
            "the clear. Read it in a cell with getpass instead, which is never stored."
        )
    if not isinstance(value, str) or "\0" in value or len(value) > 4096:
        raise UsageError("its value is no text of at most 4,096 characters.")
    return value


def environments() -> list[str]:
    """Names of all environments, `default` first whether or not it has a file."""
    directory = home() / "environments"
    found = {path.stem for path in directory.glob("*.json")} if directory.is_dir() else set()
    return [DEFAULT_ENVIRONMENT, *sorted(found - {DEFAULT_ENVIRONMENT})]


def save(environment: NamedEnvironment) -> Path:
    """Write it; the next kernels start with it, running ones keep what they have."""
    path = file_of(environment.name)
    write_json(path, environment.to_json(), indent=2)
    return path


def create(environment: NamedEnvironment) -> Path:
    """Write it under a name that nobody has. Raises UsageError when somebody has."""
    path = file_of(environment.name)
    try:
        write_json(path, environment.to_json(), indent=2, exclusive=True)
    except FileExistsError:
        raise name_taken(environment.name) from None
    return path


def name_taken(name: str) -> UsageError:
    """What is said where an environment of that name is there already."""
    return UsageError(
        f"There is an environment {name!r} already; it was not changed. Choose another name, or "
        "give --replace to have it stand on this instead (its limits, mounts, variables and "
        "network stay)."
    )


def remove(name: str) -> NamedEnvironment:
    """Take an environment away; sessions that ran in it keep their record of it.

    Raises UsageError when there is none.
    """
    environment = load(name)
    try:
        file_of(name).unlink()
    except FileNotFoundError:
        raise UsageError(
            f"The environment {name!r} has no file: it is what you get without one, and stays."
        ) from None
    except OSError as error:
        raise UnavailableError(
            f"{file_of(name)} could not be removed: {error.strerror}. It is as it was."
        ) from error
    return environment


def changed(name: str, **fields: Any) -> NamedEnvironment:
    """Set fields of an environment, begun if it is not there; returns what it is now."""
    environment = replace(load_or_new(name), **fields)
    save(environment)
    return environment


def load_or_new(name: str) -> NamedEnvironment:
    """The environment of that name; one with nothing set where there is none."""
    return load(name) if file_of(name).exists() else NamedEnvironment(name)


def limit_set(name: str, limit: str, text: str) -> NamedEnvironment:
    """Set a limit from what a person wrote ("2GiB", "5min", "none"; "default" takes it back)."""
    environment = load_or_new(name)
    limits = dict(environment.limits)
    if limit not in LIMIT_NAMES:
        raise UsageError(f"There is no limit {limit!r}; there are {', '.join(LIMIT_NAMES)}.")
    if text == "default":
        limits.pop(limit, None)
    else:
        limits[limit] = check_limit(limit, _limit_value(limit, text))
    environment = replace(environment, limits=limits)
    save(environment)
    return environment


def _limit_value(limit: str, text: str) -> int | float:
    if text in ("none", "0"):
        return 0
    if limit in _SIZES:
        return parse_size(text)
    if limit == "wall":
        return parse_seconds(text)
    try:
        return int(text) if limit in _COUNTS else float(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number for the limit {limit}.") from None


def mount_add(name: str, directory: Path, target: str | None = None) -> DataMount:
    """Show a host directory read-only in the sandboxes of an environment; records what it holds.

    target: where it stands inside, `/data/NAME` by default. Raises UsageError with the reason
    when the directory holds more than data, or the target is taken.
    """
    environment = load_or_new(name)
    source = check_source(directory)
    target = check_target(target or f"/data/{source.name}", source)
    others = [mount for mount in environment.mounts if mount.source != source]
    for mount in others:
        a, b = f"{mount.target}/", f"{target}/"
        if a.startswith(b) or b.startswith(a):
            raise UsageError(
                f"{mount.source} is mounted at {mount.target} already. Give {source} another "
                f"place with --target."
            )
    added = DataMount(source, target, record(source).sha256)
    save(replace(environment, mounts=(*others, added)))
    return added


def mount_remove(name: str, place: str) -> DataMount:
    """Take a mount away, named by its directory or its target. Raises UsageError."""
    environment = load(name)
    real = Path(os.path.realpath(Path(place).expanduser()))
    for mount in environment.mounts:
        if mount.target == place or mount.source == real:
            left = tuple(each for each in environment.mounts if each != mount)
            save(replace(environment, mounts=left))
            return mount
    there = "; ".join(f"{m.source} at {m.target}" for m in environment.mounts) or "none"
    raise UsageError(f"Nothing is mounted from or at {place} in {name!r}. Mounts: {there}.")


def default_memory() -> int:
    """Three quarters of the memory of this machine or its control group, in bytes.

    Rounded down to 256 MiB: the total differs by some kilobytes from boot to boot, and the
    limit is part of an environment's digest.
    """
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = min([most, *_group_limits()])
    return max(int(most * MEMORY_SHARE) >> 28 << 28, 256 << 20)


def _group_limits() -> list[int]:
    """Memory limits of the control group that this process is in, and of those above it."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found: list[int] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, name = Path("/sys/fs/cgroup"), "memory.max"
        elif "memory" in controllers.split(","):
            root, name = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
        else:
            continue
        group = root / path.lstrip("/")
        while True:
            try:
                text = (group / name).read_text().strip()
            except OSError:
                text = "max"
            if text.isdigit():
                found.append(int(text))
            if group in (root, group.parent):
                break
            group = group.parent
    return found
