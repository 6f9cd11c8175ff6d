"""What a script says it needs (PEP 723), and what of it a session lacks (values in, values out).

A script's metadata is a comment block between `# /// script` and `# ///`, TOML inside
(packaging.python.org, "Inline script metadata"). It is read line by line instead of with the
regular expression that the specification gives, since that one takes time in the square of a
file's length; both find the same blocks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from reprise.errors import BadSkill
from reprise.log.model import Json

#: More, or longer ones, no script names; a resolver would work on them for minutes.
MAX_DEPENDENCIES: Final = 200
MAX_LENGTH: Final = 1_000
#: Of the TOML in one block.
MAX_BLOCK: Final = 64 << 10

_START: Final = re.compile(r"# /// ([a-zA-Z0-9-]+)")
_INSIDE: Final = re.compile(r"#(?: .*)?")
_END: Final = "# ///"


@dataclass(frozen=True)
class Needs:
    """What a script asks for. Nothing said: nothing needed.

    python: versions of Python that it runs on.  dependencies: as PEP 508 writes them.
    """

    python: SpecifierSet = field(default_factory=SpecifierSet)
    dependencies: tuple[Requirement, ...] = ()

    def plus(self, python: Iterable[str] = (), dependencies: Iterable[str] = ()) -> Needs:
        """With what else was asked for, beside the block. Raises BadSkill."""
        versions = self.python
        for text in python:
            versions &= _specifier(text)
        return Needs(versions, (*self.dependencies, *map(_requirement, dependencies)))


@dataclass(frozen=True)
class SessionPython:
    """The Python of a session: its version, and its distributions by normalised name.

    markers: what environment markers are evaluated with (PEP 508).
    """

    version: Version
    packages: Mapping[str, str]
    markers: Mapping[str, str]


@dataclass(frozen=True)
class Comparison:
    """missing: not there at all.  unfit: there in another version, as (requirement, that version).
    unchecked: there, but whether its extras are cannot be told.
    """

    missing: tuple[Requirement, ...] = ()
    unfit: tuple[tuple[Requirement, str], ...] = ()
    unchecked: tuple[Requirement, ...] = ()

    @property
    def lacking(self) -> tuple[Requirement, ...]:
        return (*self.missing, *(requirement for requirement, _ in self.unfit))


# what a script says -------------------------------------------------------------------------------


def needs_of(source: bytes, path: str) -> Needs:
    """What the script at `path` says in its block; nothing when it has none. Raises BadSkill."""
    # As Python reads source: UTF-8, whatever ends its lines. What is no UTF-8 is in no block.
    text = source.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    blocks = [(line, content) for kind, line, content in metadata_blocks(text) if kind == "script"]
    if not blocks:
        return Needs()
    if len(blocks) > 1:
        raise BadSkill(
            f"{path} has {len(blocks)} blocks `# /// script` (lines "
            f"{' and '.join(str(line) for line, _ in blocks[:5])}); a script has one at most."
        )
    line, content = blocks[0]
    where = f"{path}, in the block `# /// script` at line {line}"
    if len(content) > MAX_BLOCK:
        raise BadSkill(f"{where}: it is longer than {MAX_BLOCK:,} characters.")
    try:
        said = tomllib.loads(content)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise BadSkill(f"{where}: it is no TOML. {error}.") from error
    except ValueError as error:  # a date that there is not
        raise BadSkill(f"{where}: {error}.") from error
    try:
        return _needs(said)
    except BadSkill as error:
        raise BadSkill(f"{where}: {error}") from error


def metadata_blocks(text: str) -> Iterator[tuple[str, int, str]]:
    """Each block of inline metadata as (type, line of its start from 1, content).

    A block ends with the last `# ///` of the comment lines that follow each other.
    """
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        found = _START.fullmatch(lines[at])
        if found is None:
            at += 1
            continue
        after = at + 1
        while after < len(lines) and _INSIDE.fullmatch(lines[after]):
            after += 1
        # At least one line lies between start and end.
        end = next((n for n in range(after - 1, at + 1, -1) if lines[n] == _END), None)
        if end is None:
            # Nor does any later start among these lines have an end.
            at = after
            continue
        inside = (line[2:] if line.startswith("# ") else line[1:] for line in lines[at + 1 : end])
        yield found[1], at + 1, "".join(f"{line}\n" for line in inside)
        at = end + 1


def _needs(said: Mapping[str, Json]) -> Needs:
    python, dependencies = said.get("requires-python", ""), said.get("dependencies", [])
    if not isinstance(python, str):
        raise BadSkill('`requires-python` is text, such as ">=3.11".')
    if not isinstance(dependencies, list) or not all(isinstance(d, str) for d in dependencies):
        raise BadSkill('`dependencies` is a list of texts, such as ["pandas>=2"].')
    if len(dependencies) > MAX_DEPENDENCIES:
        raise BadSkill(f"it names {len(dependencies)} dependencies; {MAX_DEPENDENCIES} are most.")
    return Needs(_specifier(python), tuple(map(_requirement, dependencies)))


def _specifier(text: str) -> SpecifierSet:
    if len(text) > MAX_LENGTH:
        raise BadSkill(f"{text[:40]!r}… is longer than {MAX_LENGTH:,} characters.")
    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        raise BadSkill(f"{text!r} names no versions; write it as in `>=3.11`.") from None


def _requirement(text: str) -> Requirement:
    if len(text) > MAX_LENGTH or not text.isprintable():
        raise BadSkill(f"{text[:40]!r}… is no dependency: one line of {MAX_LENGTH:,} characters.")
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        said = str(error).partition("\n")[0]
        raise BadSkill(f"{text!r} is no dependency: {said} (PEP 508: `pandas>=2`).") from None


# what a session has -------------------------------------------------------------------------------


def session_python(
    spec: Mapping[str, Json], installed: Iterable[tuple[str, str]] = ()
) -> SessionPython | None:
    """The Python of a session by its recorded environment; None when that has none.

    installed: what the session installed for itself, which is found before the rest.
    """
    interpreter, kernel = spec.get("interpreter"), spec.get("kernel")
    if not isinstance(interpreter, Mapping) or not isinstance(kernel, Mapping):
        return None
    found = re.match(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", str(interpreter.get("version", "")))
    if kernel.get("language") != "python" or found is None:
        return None
    version = Version(found[0])
    packages: dict[str, str] = {}
    for each in spec.get("packages") or ():
        if isinstance(each, list) and len(each) == 3 and not str(each[0]).startswith("conda:"):
            # The first one found is the one that is imported.
            packages.setdefault(canonicalize_name(str(each[0])), str(each[1]))
    packages.update((canonicalize_name(name), number) for name, number in installed)
    return SessionPython(version, packages, _markers(version, interpreter))


def _markers(version: Version, interpreter: Mapping[str, Json]) -> dict[str, str]:
    tag, platform = str(interpreter.get("cache_tag", "")), str(interpreter.get("platform", ""))
    implementation = tag.partition("-")[0] or "cpython"
    series = f"{version.major}.{version.minor}"
    return {
        "python_version": series,
        "python_full_version": str(version),
        "implementation_name": implementation,
        "implementation_version": str(version),
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(
            implementation, implementation
        ),
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": platform.rpartition("-")[2],
        "platform_release": "",
        "platform_version": "",
        "extra": "",
    }


def runs_on(needs: Needs, python: SessionPython) -> bool:
    """Whether the session's Python is one that the script runs on."""
    return needs.python.contains(python.version, prereleases=True)


def compare(needs: Needs, python: SessionPython) -> Comparison:
    """Which dependencies the session lacks; those that are not for its platform do not count."""
    missing: list[Requirement] = []
    unfit: list[tuple[Requirement, str]] = []
    unchecked: list[Requirement] = []
    for requirement in needs.dependencies:
        if not _applies(requirement, python):
            continue
        have = python.packages.get(canonicalize_name(requirement.name))
        if have is None:
            missing.append(requirement)
        elif not _fits(requirement, have):
            unfit.append((requirement, have))
        elif requirement.extras:
            unchecked.append(requirement)
    return Comparison(tuple(missing), tuple(unfit), tuple(unchecked))


def _applies(requirement: Requirement, python: SessionPython) -> bool:
    if requirement.marker is None:
        return True
    try:
        return requirement.marker.evaluate(dict(python.markers))
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion):
        return True  # an installer then says what is wrong with it


def _fits(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return not requirement.specifier
