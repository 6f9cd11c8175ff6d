"""Named environments as programs see them: what each says, who runs in it, whether it is whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from reprise.environments.check import Checked, check_built, check_host, check_image
from reprise.environments.files import size_of
from reprise.errors import LogCorrupt, RepriseError
from reprise.jupyter.kernelspec import NATIVE, language_kernel
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from reprise.sandbox.built import built_folder
from reprise.sandbox.environment import difference, environment_kernel, environment_spec
from reprise.sandbox.named import NamedEnvironment


@dataclass
class InUse:
    """Sessions by what they last ran in: what was built, the image, the host's prefix.

    unrecorded: whose environment the log has lost (`reprise log --check` says more).
    """

    built: dict[str, list[SessionInfo]] = field(default_factory=dict)
    image: dict[str, list[SessionInfo]] = field(default_factory=dict)
    host: list[tuple[SessionInfo, Mapping[str, Json]]] = field(default_factory=list)
    unrecorded: list[SessionInfo] = field(default_factory=list)


async def in_use(log: Log) -> InUse:
    """Read the heads of all sessions. Raises DatabaseUnavailable."""
    found = InUse()
    specs: dict[str, Mapping[str, Json]] = {}
    for info in await log.sessions():
        if info.environment is None:
            continue
        if info.environment not in specs:
            reader = await log.reader(info.id)
            try:
                specs[info.environment] = await reader.environment(info.environment)
            except LogCorrupt:
                specs[info.environment] = {}
        spec = specs[info.environment]
        if not spec:
            found.unrecorded.append(info)
        elif built := spec.get("built"):
            found.built.setdefault(str(built), []).append(info)
        elif image := spec.get("image"):
            found.image.setdefault(str(image), []).append(info)
        else:
            found.host.append((info, spec))
    return found


def spec_of(environment: NamedEnvironment) -> dict[str, Json]:
    """The spec of an environment as it is on this machine now. Blocks.

    Raises UsageError and UnavailableError when what it stands on is not here.
    """
    kernel = environment_kernel(environment, language_kernel(NATIVE))
    return environment_spec(environment, kernel).to_json()


def as_json(environment: NamedEnvironment) -> dict[str, Any]:
    """What its file says, with the limits that hold where it says none."""
    return {
        "environment": environment.name,
        "limits": asdict(environment.sandbox_limits()),
        "set": sorted(environment.limits),
        "mounts": [mount.to_json() for mount in environment.mounts],
        "variables": dict(environment.variables),
        "built": environment.packages,
        "image": environment.image,
        "network": environment.network.to_json(),
        "reuse": environment.reuse,
        "output": environment.output,
        "team": environment.team,
        "skills": None if environment.skills is None else list(environment.skills),
    }


def packages_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Versions by name, of a spec."""
    return {str(name): str(version) for name, version, _ in spec.get("packages", ())}


def listed(environment: NamedEnvironment, used: InUse) -> dict[str, Any]:
    """One environment among others. Blocks: the files of what was built are counted.

    sessions: of the host's prefix none is told, since no session names it.
    """
    sessions, size = None, None
    if environment.packages is not None:
        sessions = [str(each.id) for each in used.built.get(environment.packages, ())]
        folder = built_folder(environment.packages)
        size = size_of(folder) if folder.is_dir() else None
    elif environment.image is not None:
        sessions = [str(each.id) for each in used.image.get(environment.image, ())]
    return {
        "environment": environment.name,
        "built": environment.packages,
        "image": environment.image,
        "here": environment.packages is None or size is not None,
        "bytes": size,
        "sessions": sessions,
    }


def checked(
    environment: NamedEnvironment,
    used: Callable[[], InUse],
    when: Callable[[int], str],
    told: Callable[[str], None] = lambda _: None,
) -> Checked:
    """Whether an environment is what its digest says. Blocks: all its files are read.

    used: asked where what changed since a session ran in the host's prefix is to be said.
    when: a moment (microseconds since the epoch) in words.
    """
    if environment.packages is not None:
        return check_built(environment.packages, told)
    if environment.image is not None:
        return check_image(environment.image, told)
    kernel = language_kernel(NATIVE)
    found = check_host(kernel, told)
    now = environment_spec(environment, kernel).to_json()
    try:
        known = used().host
    except RepriseError as error:
        note = f"What changed since sessions ran in it is not known: {error}"
        return Checked(found.problems, found.files, (note,))
    # The limits and variables of a session may be those of another name on the same prefix.
    parts = ("base", "interpreter", "packages")
    earlier = [(info, spec) for info, spec in known if spec.get("base") == now["base"]]
    if not earlier:
        return found
    info, spec = max(earlier, key=lambda each: each[0].last_at)
    said = difference(*({part: each.get(part) for part in parts} for each in (spec, now)))
    if not said:
        note = f"Its packages are those of session {info.id} ({when(info.last_at)})."
        return Checked(found.problems, found.files, (note,))
    note = f"Since session {info.id} last ran in it ({when(info.last_at)}): {'; '.join(said)}."
    return Checked((*found.problems, note), found.files)
