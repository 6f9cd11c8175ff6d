"""How what a script needs of packages comes into a session, and why it cannot (pure).

Three places are told apart. The *environment* is read-only. The session's *own packages* are what
`%pip install` writes: missing ones come there, and nothing that is there already changes, since
the user's cells run on it. Where that cannot be (another version is there, or what is missing
cannot live beside the rest), the script gets a *folder apart*, named by what it needs, whose
packages only it sees.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprise.client.failures import DependenciesMissing, ProgramMissing
from reprise.client.skill_command import PACKAGES
from reprise.environments.lock import wheel_of
from reprise.log.model import Json
from reprise.sandbox.built import built_python
from reprise.skills.requirements import Comparison, Needs, SessionPython, compare

_INFO: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*)-([A-Za-z0-9][A-Za-z0-9.!+_]*)\.dist-info")
#: Variables of an environment that say where packages are without a network.
_LOCAL: Final = ("PIP_FIND_LINKS", "UV_FIND_LINKS")
#: What pip and uv say when versions do not go together.
_CONFLICT: Final = re.compile(r"ResolutionImpossible|conflict|No solution found|unsatisfiable")
#: Lines of an installer's words that are repeated.
_LINES: Final = 12

PIP: Final = ("-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")
_PIP_MORE: Final = ("--no-warn-script-location", "--root-user-action=ignore", "--no-compile")
UV: Final = ("uv", "pip", "install", "--quiet", "--no-progress")


@dataclass(frozen=True)
class Ways:
    """By which ways packages may come into a session.

    python: the program that runs its Python.  pip, uv: whether they are there.
    network: whether anything may be reached; why not, in `shut`.
    local: the environment names a folder of wheels.  wheels: files of wheels in the workspace.
    own: whether the session has packages of its own, apart from this machine's.
    """

    python: str
    pip: bool
    uv: bool
    network: bool
    local: bool
    wheels: tuple[str, ...] = ()
    own: bool = True
    shut: str | None = None


@dataclass(frozen=True)
class Installation:
    """A command to run in the notebook's folder. stdin: what it reads.  what: for people.

    folder: the folder apart that it fills, None for the session's own packages.
    """

    command: str | tuple[str, ...]
    stdin: str | None
    what: tuple[str, ...]
    folder: str | None = None


def interpreter(spec: Mapping[str, Json], *, isolated: bool) -> str:
    """The program that runs a session's Python, as a command finds it.

    isolated: its own environment is first on PATH. Else this machine's programs are, and the
    session's Python may be another one.
    """
    if isolated:
        return "python3"
    built = spec.get("built")
    if isinstance(built, str):
        return str(built_python(built))
    kernel = spec.get("kernel")
    argv = kernel.get("argv") if isinstance(kernel, Mapping) else None
    return str(argv[0]) if isinstance(argv, list) and argv else "python3"


def local_packages(spec: Mapping[str, Json]) -> bool:
    """Whether an environment's variables name a folder of packages."""
    variables = spec.get("variables")
    return isinstance(variables, Mapping) and any(variables.get(name) for name in _LOCAL)


# a folder apart -----------------------------------------------------------------------------------


def folder_apart(needs: Needs, python: SessionPython) -> str:
    """Where a script with these needs has packages that only it sees."""
    wanted = sorted({str(requirement) for requirement in needs.dependencies})
    series = f"{python.version.major}.{python.version.minor}"
    key = hashlib.sha256("\n".join([series, *wanted]).encode("utf-8", "surrogatepass"))
    return f"{PACKAGES}/{key.hexdigest()[:16]}"


def filled(folder: str, paths: Iterable[str], needs: Needs, python: SessionPython) -> bool:
    """Whether that folder of the workspace, which is made whole or not at all, has all of it."""
    there: dict[str, str] = {}
    for path in paths:
        inside = path.removeprefix(f"{folder}/")
        name, slash, file = inside.partition("/")
        info = _INFO.fullmatch(name)
        if inside != path and info is not None and slash and file == "METADATA":
            there[canonicalize_name(info[1])] = info[2]
    return not compare(needs, SessionPython(python.version, there, python.markers)).lacking


# how to install -----------------------------------------------------------------------------------


def into_own(lacking: Sequence[Requirement], python: SessionPython, ways: Ways) -> Installation:
    """Missing packages into the session's own, where nothing that is there may change."""
    pins = sorted(
        f"{name}=={version}"
        for name, version in python.packages.items()
        if _is_version(version) and name not in {canonicalize_name(r.name) for r in lacking}
    )
    what = tuple(map(str, lacking))
    words = (*_installer(ways), "--constraint", "/dev/stdin", *_sources(ways), *what)
    return Installation(words, "".join(f"{pin}\n" for pin in pins), what)


def into_folder(folder: str, needs: Needs, ways: Ways) -> Installation:
    """All that a script needs into a folder apart, which is there whole or not at all."""
    what = tuple(str(requirement) for requirement in needs.dependencies)
    part = f"{folder}.part"
    words = (*_installer(ways), "--target", part, *_sources(ways), *what)
    text = f"rm -rf {part} {folder} && {shlex.join(words)} && mv {part} {folder}"
    return Installation(text, None, what, folder)


def conflicts(said: str) -> bool:
    """Whether an installer says that versions do not go together."""
    return _CONFLICT.search(said) is not None


def _installer(ways: Ways) -> tuple[str, ...]:
    if ways.pip:
        return (ways.python, *PIP, *_PIP_MORE)
    return UV if ways.own else (*UV, "--python", ways.python)


def _sources(ways: Ways) -> tuple[str, ...]:
    """Where packages come from, besides what the environment names itself."""
    folders = sorted({wheel.rpartition("/")[0] or "." for wheel in ways.wheels})
    words = [word for folder in folders for word in ("--find-links", folder)]
    return (*words, *(() if ways.network else ("--no-index",)))


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


# why not ------------------------------------------------------------------------------------------


def fitting_wheels(paths: Iterable[str], lacking: Collection[Requirement]) -> tuple[str, ...]:
    """The wheels of a workspace that are of packages that are lacking, in a version that fits."""
    wanted = {canonicalize_name(requirement.name): requirement for requirement in lacking}
    found = []
    for path in paths:
        wheel = wheel_of(path.rpartition("/")[2])
        requirement = None if wheel is None else wanted.get(canonicalize_name(wheel[0]))
        if wheel is None or requirement is None or not _is_version(wheel[1]):
            continue
        if requirement.specifier.contains(Version(wheel[1]), prereleases=True):
            found.append(path)
    return tuple(sorted(found))


def check_ways(path: str, comparison: Comparison, ways: Ways, environment: str) -> None:
    """Raises DependenciesMissing, ProgramMissing: what is lacking cannot be had here."""
    lacking = comparison.lacking
    if not (ways.network or ways.local):
        have = {wheel_name(wheel) for wheel in ways.wheels}
        nowhere = [r for r in lacking if canonicalize_name(r.name) not in have]
        if nowhere:
            raise missing(path, comparison, nowhere, ways, environment)
    if not (ways.pip or ways.uv):
        raise ProgramMissing(
            f"{path} needs {_listed(comparison, lacking)}, and this session has neither pip nor uv "
            f"to install it with. The script was not run. {_mend(lacking, environment)}"
        )


def wheel_name(path: str) -> str | None:
    wheel = wheel_of(path.rpartition("/")[2])
    return None if wheel is None else canonicalize_name(wheel[0])


def missing(
    path: str,
    comparison: Comparison,
    lacking: Sequence[Requirement],
    ways: Ways,
    environment: str,
    said: str = "",
) -> DependenciesMissing:
    """The error that names them. said: the words of the installer that failed."""
    if said:
        lines = [line for line in said.splitlines() if line.strip()][-_LINES:]
        why = "they could not be installed:\n" + "".join(f"  {line}\n" for line in lines)
    elif ways.shut is not None:
        why = f"nothing can be installed: {ways.shut}. "
    else:
        why = f"its environment {environment!r} lets nothing through to get it from. "
    return DependenciesMissing(
        f"{path} needs {_listed(comparison, lacking)}, which this session does not have, and {why}"
        f"The script was not run. {_mend(comparison.lacking, environment)}",
        tuple(map(str, lacking)),
    )


def _listed(comparison: Comparison, lacking: Sequence[Requirement]) -> str:
    have = {str(requirement): version for requirement, version in comparison.unfit}
    said = [
        f"{each} ({have[str(each)]} is there)" if str(each) in have else str(each)
        for each in lacking
    ]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def _mend(lacking: Sequence[Requirement], environment: str) -> str:
    lines = "".join(f"  {requirement}\n" for requirement in lacking)
    return (
        "Two ways to have it. Let sessions reach the package index, and restart the kernel:\n"
        f"  reprise env allow package-index --environment {environment}\n"
        "Or make an environment that has it, and run the session in that:\n"
        f"  reprise env create NAME --requirements FILE\n"
        f"where FILE holds:\n{lines}"
    ).rstrip()
