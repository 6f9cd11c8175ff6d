"""From requirements to a lock: uv resolves them once, with what a kernel needs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reprise.environments.files import file_digest
from reprise.environments.index import package_index
from reprise.environments.interpreter import Interpreter
from reprise.environments.lock import (
    MAX_BYTES,
    Lock,
    Pin,
    normalised,
    parse_lock,
    says_for_what,
    wheel_of,
)
from reprise.environments.uv import run_uv
from reprise.errors import UsageError

#: What stands in every environment: the language kernel, what the guest speaks through, and what
#: `%pip install` runs. The bounds are those of the guest, no newer than it needs.
NEEDED: Final = {"ipykernel": "ipykernel>=6.29", "pyzmq": "pyzmq>=26", "pip": "pip>=23"}

_OURS: Final = "reprise-needs.in"
_LINES: Final = "reprise-packages.in"
_LOCKED: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?\s*==")


@dataclass(frozen=True)
class Wanted:
    """What an environment is to hold: files, and requirements as lines.

    extras, groups: of the pyproject.  exactly: `lines` are all there is to be, with no more than
    their own dependencies looked at by nobody (an installed set is complete as it is).
    wheels: a folder whose wheels are meant where they fit, and no others of their version.
    """

    requirements: tuple[Path, ...] = ()
    pyproject: Path | None = None
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    exactly: bool = False
    wheels: Path | None = None


@dataclass(frozen=True)
class Resolved:
    """added: what nobody asked for and the kernel needs."""

    lock: Lock
    added: tuple[str, ...]


def resolve(
    wanted: Wanted,
    interpreter: Interpreter,
    *,
    find_links: Sequence[Path] = (),
    environ: Mapping[str, str] = os.environ,
) -> Resolved:
    """The lock of what is wanted, for one interpreter. Blocks: asks the package index.

    Raises UsageError for files that are not there, requirements that cannot be had together or
    name an address, UnavailableError when the index cannot be reached.
    """
    sources = [*wanted.requirements, *([wanted.pyproject] if wanted.pyproject else [])]
    for path in sources:
        if not path.is_file():
            raise UsageError(f"There is no file {path}. Nothing was made.")
    with tempfile.TemporaryDirectory(prefix="reprise-resolve-") as scratch:
        ours, lines = Path(scratch, _OURS), Path(scratch, _LINES)
        ours.write_text("".join(f"{line}\n" for line in NEEDED.values()), "utf-8")
        lines.write_text("".join(f"{line}\n" for line in wanted.lines), "utf-8")
        arguments = ["pip", "compile", *map(str, (path.absolute() for path in sources))]
        arguments += [str(lines), str(ours)]
        arguments += ["--python", str(interpreter.path), "--generate-hashes", "--no-header"]
        arguments += ["--only-binary", ":all:", "--annotation-style", "split", "--quiet"]
        for extra in wanted.extras:
            arguments += ["--extra", extra]
        for group in wanted.groups:
            pyproject = wanted.pyproject or Path("pyproject.toml")
            arguments += ["--group", f"{pyproject.absolute()}:{group}"]
        if wanted.exactly:
            arguments.append("--no-deps")
        # Beside the file, as pip and uv take relative paths, and where a project says its index.
        folder = sources[0].absolute().parent if sources else Path(scratch)
        links = [*([wanted.wheels] if wanted.wheels else []), *find_links]
        text = run_uv(arguments, folder, find_links=links, environ=environ)
    configured = (Path(each) for each in package_index(environ).find_links if "://" not in each)
    resolved = _resolved(text, interpreter)
    pins = _hashed(resolved.lock.pins, wanted.wheels, [*find_links, *configured])
    return replace(resolved, lock=replace(resolved.lock, pins=pins))


def _hashed(pins: Sequence[Pin], meant: Path | None, folders: Sequence[Path]) -> tuple[Pin, ...]:
    """The pins with the hashes of wheels in folders, which uv does not say."""
    known = _wheels(folders)
    only = _wheels([] if meant is None else [meant])
    found: list[Pin] = []
    for pin in pins:
        key = (pin.name, pin.version)
        files = only.get(key) or ([] if pin.hashes else known.get(key, []))
        hashes = tuple(sorted({file_digest(path) for path in files})) or pin.hashes
        if not hashes:
            raise UsageError(
                f"{pin.name}=={pin.version} was resolved from an address that says no hash of it, "
                "so it cannot be locked. Put a wheel of it into a folder that --find-links names."
            )
        found.append(replace(pin, hashes=hashes))
    return tuple(found)


def _wheels(folders: Iterable[Path]) -> dict[tuple[str, str], list[Path]]:
    found: dict[tuple[str, str], list[Path]] = {}
    for folder in folders:
        for path in folder.glob("*.whl"):
            if (said := wheel_of(path.name)) is not None:
                found.setdefault(said, []).append(path)
    return found


def read_lock(
    path: Path,
    interpreter: Interpreter,
    *,
    find_links: Sequence[Path] = (),
    environ: Mapping[str, str] = os.environ,
) -> Lock:
    """The lock in a file. Blocks: one that was not written here is compared with the index.

    Raises UsageError when it is none, or lacks what a kernel or one of its packages needs.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode()
    except OSError as error:
        raise UsageError(f"The lock {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text, so no lock.") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is too large for a lock ({MAX_BYTES >> 20} MiB at most).")
    lock = parse_lock(text, str(path), interpreter.tag, interpreter.platform)
    if missing := [name for name in NEEDED if lock.version(name) is None]:
        raise UsageError(
            f"{path} does not pin {', '.join(missing)}, which a kernel needs, and nothing is added "
            "to a lock. Give the file as --requirements: its versions stay, and the missing ones "
            "are added and locked."
        )
    if not says_for_what(text):
        _check_complete(path, lock, interpreter, find_links, environ)
    return lock


def _check_complete(
    path: Path,
    lock: Lock,
    interpreter: Interpreter,
    find_links: Sequence[Path],
    environ: Mapping[str, str],
) -> None:
    """Raises UsageError when the packages of a lock need others, or do not fit together here."""
    with tempfile.TemporaryDirectory(prefix="reprise-resolve-") as scratch:
        lines = Path(scratch, _LINES)
        pins = (f"{p.name}=={p.version}{f' ; {p.marker}' if p.marker else ''}" for p in lock.pins)
        lines.write_text("".join(f"{pin}\n" for pin in pins), "ascii")
        arguments = ["pip", "compile", str(lines), "--python", str(interpreter.path)]
        arguments += ["--no-header", "--no-annotate", "--only-binary", ":all:", "--quiet"]
        text = run_uv(arguments, Path(scratch), find_links=find_links, environ=environ)
    tag, platform = interpreter.tag, interpreter.platform
    whole = parse_lock(text, "uv's resolution", tag, platform, hashed=False)
    if missing := {pin.name for pin in whole.pins} - {pin.name for pin in lock.pins}:
        raise UsageError(
            f"{path} does not pin {', '.join(sorted(missing))}, which what it pins needs on "
            f"{tag}, {platform}. Was it made for another Python or platform? Give it as "
            "--requirements: its versions stay, and what is missing is added and locked."
        )


def _resolved(text: str, interpreter: Interpreter) -> Resolved:
    for line in text.splitlines():
        if re.match(r"\S+ @ ", line):
            raise UsageError(
                f"{line.split(' ', 1)[0]} is required by an address or a path "
                f"({line.partition(' @ ')[2].split(' ')[0]}), which a lock could not be rebuilt "
                "from elsewhere. Require it by its name, and put a wheel of it into a folder that "
                "--find-links names."
            )
    plain = "".join(f"{line}\n" for line in text.splitlines() if not line.lstrip().startswith("#"))
    tag, platform = interpreter.tag, interpreter.platform
    lock = parse_lock(plain, "uv's resolution", tag, platform, hashed=False)
    return Resolved(lock, _added(text))


def _added(text: str) -> tuple[str, ...]:
    """Of what the kernel needs, what no requirement of the user's leads to."""
    parents: dict[str, set[str]] = {}
    name = ""
    for line in text.splitlines():
        if found := _LOCKED.match(line):
            name = normalised(found[1])
            parents[name] = set()
        elif name and (note := line.strip()).startswith("#"):
            parent = note.lstrip("# ").removeprefix("via").strip()
            if parent:
                parents[name].add(parent)

    def asked(package: str, seen: set[str]) -> bool:
        for parent in parents.get(package, ()):
            if parent.endswith(_OURS):
                continue
            if " " in parent:
                return True  # a file of the user's: "-r FILE", "PROJECT (FILE)"
            if parent not in seen and asked(normalised(parent), {*seen, parent}):
                return True
        return False

    return tuple(each for each in NEEDED if not asked(each, {each}))
