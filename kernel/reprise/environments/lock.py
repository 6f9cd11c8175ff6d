"""The lock of an environment: every package pinned and hashed, in one form (pure).

It is a requirements file, since that rebuilds elsewhere best: pip and uv of any age install it,
and it names no address, so that it holds with another index, a mirror, or a folder of wheels
(pylock.toml, PEP 751, pins the very URLs of one index; it is read, but not written).

    # Packages of a Reprise environment for cpython-311 on linux-x86_64.
    # Built again by: reprise env create NAME --lock THIS_FILE
    six==1.17.0 \\
        --hash=sha256:4721f391… \\
        --hash=sha256:ff70335d…

A lock holds for one series of Python and one platform, which its first line names: what a package
needs depends on them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from reprise.errors import UsageError
from reprise.log.model import canonical, sha256_hex

#: No lock is larger: 3,000 packages with 100 files each.
MAX_BYTES: Final = 32 << 20
#: Changes when the same lock would be built into something else.
FORM: Final = 1

_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_PIN: Final = re.compile(
    rf"(?P<name>{_NAME})\s*(?:\[[A-Za-z0-9._,\s-]*\])?\s*==\s*"
    r"(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99})\s*"
    r"(?:;\s*(?P<marker>[ -\"$-\[\]-~]+?))?(?=\s+--hash|\s*$)"
)
_HASH: Final = re.compile(r"--hash[=\s]\s*sha256:([0-9a-f]{64})")
_OTHER_HASH: Final = re.compile(r"--hash[=\s]\s*\S+")
#: Where files come from is said by the index configured here, never by a lock.
_PLACES: Final = re.compile(
    r"(?:-i|-f|--(?:index-url|extra-index-url|find-links|trusted-host|pre|prefer-binary"
    r"|only-binary|no-binary|require-hashes|no-index))(?:[=\s]|$)"
)
_FOR: Final = re.compile(
    r"^# Packages of a Reprise environment for ([A-Za-z0-9_.-]+) on ([A-Za-z0-9_.-]+)\.$",
    re.MULTILINE,
)


@dataclass(frozen=True, order=True)
class Pin:
    """One package: its normalised name, version, marker ("" for always), and files by sha256."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]


@dataclass(frozen=True)
class Lock:
    """All packages. tag, platform: what it holds for ("cpython-311", "linux-x86_64")."""

    tag: str
    platform: str
    pins: tuple[Pin, ...]

    @property
    def text(self) -> str:
        """Its one form."""
        lines = [
            f"# Packages of a Reprise environment for {self.tag} on {self.platform}.\n",
            "# Built again by: reprise env create NAME --lock THIS_FILE\n",
        ]
        for pin in self.pins:
            marker = f" ; {pin.marker}" if pin.marker else ""
            hashes = (f" \\\n    --hash=sha256:{each}" for each in pin.hashes)
            lines.append(f"{pin.name}=={pin.version}{marker}{''.join(hashes)}\n")
        return "".join(lines)

    def version(self, name: str) -> str | None:
        """The version that is pinned of a package."""
        return next((pin.version for pin in self.pins if pin.name == name), None)

    def digest(self, interpreter: Mapping[str, str]) -> str:
        """What names the environment built of it: the lock and the build of the interpreter.

        interpreter: {version, cache_tag, platform} of `packages.probe`. Where it is installed
        does not count, so that another machine comes to the same digest.
        """
        build = {key: interpreter[key] for key in ("version", "cache_tag", "platform")}
        return sha256_hex(canonical({"form": FORM, "lock": self.text, "interpreter": build}))


#: NAME-VERSION(-BUILD)-PYTHON-ABI-PLATFORM.whl
_WHEEL: Final = re.compile(
    r"([A-Za-z0-9._]+)-([A-Za-z0-9.!+_]+)(?:-\d[^-]*)?-[^-]+-[^-]+-[^-]+\.whl"
)


def wheel_of(filename: str) -> tuple[str, str] | None:
    """The normalised name and the version that a wheel's file name says; None for no wheel."""
    found = _WHEEL.fullmatch(filename)
    return None if found is None else (normalised(found[1]), found[2])


def normalised(name: str) -> str:
    """A package's name as an index compares it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_lock(text: str, where: str, tag: str, platform: str, *, hashed: bool = True) -> Lock:
    """The lock that a file holds, for the interpreter named. Raises UsageError naming the line.

    Refused: one made for another series or platform, what is not pinned with `==`, what has no
    sha256 (unless it need not be `hashed`), and addresses in place of versions.
    """
    made_for = _FOR.search(text)
    if made_for is not None and made_for.groups() != (tag, platform):
        raise UsageError(
            f"{where} is a lock for {made_for[1]} on {made_for[2]}; here is {tag} on {platform}. "
            "What a package needs differs between them: create the environment from its "
            "requirements here, or name a fitting interpreter with --python."
        )
    pins = _pylock(text, where) if where.endswith(".toml") else _requirements(text, where, hashed)
    return made(pins, where, tag, platform)


def says_for_what(text: str) -> bool:
    """Whether a lock says what it was made for, as those that are written here do."""
    return _FOR.search(text) is not None


def recorded_lock(text: str) -> Lock | None:
    """The lock whose one form is exactly this text; None for anything else (from a stranger)."""
    made_for = _FOR.match(text)
    if made_for is None or len(text) > MAX_BYTES:
        return None
    try:
        lock = parse_lock(text, "", made_for[1], made_for[2])
    except UsageError:
        return None
    return lock if lock.text == text else None


def made(pins: Iterable[Pin], where: str, tag: str, platform: str) -> Lock:
    """A lock of these pins, in order. Raises UsageError when a package stands there twice."""
    ordered = sorted(pins)
    seen: set[tuple[str, str]] = set()
    for pin in ordered:
        if (pin.name, pin.marker) in seen:
            raise UsageError(f"{where} pins {pin.name} twice.")
        seen.add((pin.name, pin.marker))
    if not ordered:
        raise UsageError(f"{where} pins no package.")
    return Lock(tag, platform, tuple(ordered))


def _requirements(text: str, where: str, hashed: bool) -> Iterator[Pin]:
    for number, line in _logical_lines(text):
        if _PLACES.match(line):
            continue
        found = _PIN.match(line)
        rest = line[found.end() :] if found else ""
        hashes = _HASH.findall(rest)
        if found is None or _OTHER_HASH.sub("", rest).strip():
            raise UsageError(
                f"{where}, line {number}: {line[:100]!r} is no NAME==VERSION with hashes. A lock "
                "pins every package; give this file as --requirements to have it resolved and "
                "locked."
            )
        if hashed and not hashes:
            raise UsageError(
                f"{where}, line {number}: {found['name']}=={found['version']} has no "
                "--hash=sha256:…, so nothing says which file is meant. Give this file as "
                "--requirements to have it locked with hashes; its versions stay."
            )
        yield Pin(
            normalised(found["name"]),
            found["version"],
            " ".join((found["marker"] or "").split()),
            tuple(sorted(set(hashes))),
        )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined and comments gone, each with its first line's number."""
    joined, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        first = first if joined else number
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        joined = (joined + line).strip()
        if joined:
            yield first, joined
        joined = ""
    if joined.strip():
        yield first, joined.strip()


def _pylock(text: str, where: str) -> Iterator[Pin]:
    """The pins of a pylock.toml (https://packaging.python.org/en/latest/specifications/pylock-toml/)."""
    try:
        packages = tomllib.loads(text).get("packages", [])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{where} is not TOML: {error}.") from error
    for package in packages if isinstance(packages, list) else []:
        name, version = str(package.get("name")), package.get("version")
        hashes = {str(each.get("hashes", {}).get("sha256")) for each in _files(package)}
        fits = isinstance(version, str) and _PIN.fullmatch(f"{name}=={version}")
        if not fits or not hashes or not all(re.fullmatch("[0-9a-f]{64}", h) for h in hashes):
            raise UsageError(
                f"{where}: {name} is not pinned to files of an index by their sha256. A folder, "
                "a repository or an address is nothing that can be had elsewhere."
            )
        marker = " ".join(str(package.get("marker", "")).split())
        yield Pin(normalised(name), str(version), marker, tuple(sorted(hashes)))


def _files(package: Any) -> list[Mapping[str, Any]]:
    wheels = package.get("wheels", [])
    files = [*(wheels if isinstance(wheels, list) else []), package.get("sdist")]
    return [each for each in files if isinstance(each, dict)]
