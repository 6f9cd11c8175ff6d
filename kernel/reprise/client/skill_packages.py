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
from reprise.environments.lock import wheel_of
from reprise.log.model import Json
from reprise.sandbox.built import built_python
from reprise.skills.command import PACKAGES
from reprise.skills.requirements import Comparison, Needs, SessionPython, compare
from reprise.skills.script import PYTHON

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
    kernel = spec.get("kernel")
    if isolated or not isinstance(kernel, Mapping) or kernel.get("language") != "python":
        return PYTHON
    built, argv = spec.get("built"), kernel.get("argv")
    if isinstance(built, str):
        return str(built_python(built))
    return str(argv[0]) if isinstance(argv, list) and argv else PYTHON


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
    """Whether that folder of the workspace is there (it is made whole or not at all), and with it
    all that the script needs."""
    there: dict[str, str] = {}
    for path in paths:
        inside = path.removeprefix(f"{folder}/")
        name, slash, file = inside.partition("/")
        info = _INFO.fullmatch(name)
        if inside != path and info is not None and slash and file == "METADATA":
            there[canonicalize_name(info[1])] = info[2]
    seen = SessionPython(python.version, {**python.packages, **there}, python.markers)
    return bool(there) and not compare(needs, seen).lacking


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


def into_folder(folder: str, needs: Needs, comparison: Comparison, ways: Ways) -> Installation:
    """What a script needs into a folder apart, which is there whole or not at all.

    All of it, so that versions go together; without a network what is lacking.
    """
    wanted = needs.dependencies if ways.network or ways.local else comparison.lacking
    what = tuple(map(str, wanted))
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


# why not ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lacking:
    """What the script at `path` needs and a session lacks, and the errors that say so.

    environment: the name of the session's.
    """

    path: str
    comparison: Comparison
    ways: Ways
    environment: str

    def check_ways(self) -> None:
        """Raises DependenciesMissing, ProgramMissing when there is no way to have it here."""
        ways = self.ways
        if not (ways.network or ways.local):
            have = {wheel_of(wheel.rpartition("/")[2]) for wheel in ways.wheels}
            names = {canonicalize_name(wheel[0]) for wheel in have if wheel is not None}
            nowhere = [r for r in self.comparison.lacking if canonicalize_name(r.name) not in names]
            if nowhere:
                why = f"its environment {self.environment!r} lets nothing through to get it from."
                if ways.shut is not None:
                    why = f"nothing comes through to get it from: {ways.shut}."
                raise self.error(nowhere, why)
        if not (ways.pip or ways.uv):
            raise ProgramMissing(
                f"{self.path} needs {self._listed(self.comparison.lacking)}, and this session has "
                f"neither pip nor uv to install it with. The script was not run. {self._mend()}"
            )

    def failed(self, said: str) -> DependenciesMissing:
        """The installer could not do it. said: its words."""
        lines = [line for line in said.splitlines() if line.strip()][-_LINES:]
        told = "".join(f"\n  {line}" for line in lines)
        return self.error(self.comparison.lacking, f"it could not be installed:{told}\n")

    def error(self, lacking: Sequence[Requirement], why: str) -> DependenciesMissing:
        """why: ends the sentence that names what is lacking."""
        between = "" if why.endswith("\n") else " "
        return DependenciesMissing(
            f"{self.path} needs {self._listed(lacking)}, which this session does not have, and "
            f"{why}{between}The script was not run. {self._mend()}",
            tuple(map(str, lacking)),
        )

    def _listed(self, lacking: Sequence[Requirement]) -> str:
        have = {str(requirement): version for requirement, version in self.comparison.unfit}
        said = [
            f"{each} ({have[str(each)]} is there)" if str(each) in have else str(each)
            for each in lacking
        ]
        return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"

    def _mend(self) -> str:
        lines = "".join(f"\n  {requirement}" for requirement in self.comparison.lacking)
        made = (
            "an environment that has it, and run the session in that:\n"
            f"  reprise env create NAME --requirements FILE\nwhere FILE holds:{lines}"
        )
        if self.ways.network:
            return f"Make {made}"
        return (
            "Two ways to have it. Let sessions reach the package index, and restart the kernel:\n"
            f"  reprise env allow package-index --environment {self.environment}\n"
            f"Or make {made}"
        )
