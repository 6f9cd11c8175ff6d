"""What a session has installed for itself becomes requirements (values in, values out).

Everything here comes out of a sandbox: names and versions are believed only where they are names
and versions, and nothing of it is run or unpacked here.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from reprise.environments.lock import normalised, wheel_of
from reprise.log.model import Json

#: Where `%pip install` writes, and what of it is looked at.
_SITE: Final = re.compile(r"\.reprise/venv/lib/python3\.\d+/site-packages/([^/]+)")
_INFO: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*)-([A-Za-z0-9][A-Za-z0-9.!+_]*)\.dist-info")
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}")
#: A session has no more packages of its own, and a package no longer list of files.
MAX_PACKAGES: Final = 5_000
RECORD_BYTES: Final = 32 << 20
#: The largest wheel that is carried out of a workspace.
WHEEL_BYTES: Final = 4 << 30


@dataclass(frozen=True)
class Installed:
    """A distribution of the session's own. folder: its .dist-info in the workspace."""

    name: str
    version: str
    folder: str

    @property
    def pin(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Origin:
    """Where one came from. wheel: the name of its file, if it was one.  problem: why it cannot be
    had anywhere else, "" when it can."""

    wheel: str | None = None
    problem: str = ""


def installed(paths: Iterable[str]) -> tuple[list[Installed], list[str]]:
    """The distributions in a workspace by its paths, and what is there that is none."""
    found: dict[str, Installed] = {}
    other: list[str] = []
    for path in paths:
        inside = _SITE.match(path)
        if inside is None:
            continue
        name = inside[1]
        info = _INFO.fullmatch(name)
        if info is not None and path.endswith("/METADATA"):
            project, version = normalised(info[1]), info[2]
            if _NAME.fullmatch(project) and _VERSION.fullmatch(version):
                found[project] = Installed(project, version, path.rpartition("/")[0])
        elif name.endswith((".egg-info", ".egg-link", ".egg")) and name not in other:
            other.append(name)
    return sorted(found.values(), key=lambda each: each.name)[:MAX_PACKAGES], sorted(other)


def origin(direct_url: bytes | None) -> Origin:
    """What a direct_url.json says (PEP 610); without one the package came from an index."""
    if direct_url is None:
        return Origin()
    try:
        said = json.loads(direct_url)
        url, folder, vcs = str(said["url"]), said.get("dir_info"), said.get("vcs_info")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Origin(problem="what it says of its origin cannot be read")
    if isinstance(folder, dict):
        kind = "an editable install" if folder.get("editable") else "installed from a folder"
        return Origin(problem=f"it is {kind}, not a wheel: build one (`pip wheel`), install that")
    if vcs is not None:
        return Origin(problem="it came from a repository: build a wheel of it and install that")
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.scheme != "file":
        return Origin(problem="it came from an address, not from the index")
    if not path.endswith(".whl"):
        return Origin(problem="it was built of a source archive: build a wheel, install that")
    return Origin(wheel=path.rpartition("/")[2])


def wheels_of(paths: Iterable[str], package: Installed) -> Iterator[str]:
    """The files of a workspace that may be the wheel of a package, by their names."""
    for path in paths:
        # Versions are compared as they are written: installers write them as the file does.
        if wheel_of(path.rpartition("/")[2]) == (package.name, package.version):
            yield path


def is_wheel_of(wheel: Path, record: bytes) -> bool:
    """Whether what was installed is what the wheel holds, by the hashes in both RECORDs.

    Scripts are written anew at every installation, so what lies in NAME.data does not count.
    """
    have = set(_hashed(record))
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/RECORD", n)]
            if len(names) != 1 or archive.getinfo(names[0]).file_size > RECORD_BYTES:
                return False
            inside = archive.read(names[0])
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False
    return all(each in have or re.match(r"[^/]+\.data/", each[0]) for each in _hashed(inside))


def _hashed(record: bytes) -> Iterator[tuple[str, str]]:
    try:
        for row in csv.reader(io.StringIO(record.decode("utf-8", "surrogateescape"))):
            if len(row) >= 2 and row[1]:
                yield row[0], row[1].rstrip("=")
    except csv.Error:
        return


def host_pins(spec: Mapping[str, Json], unpublished: Iterable[str]) -> tuple[list[str], list[str]]:
    """The packages of a host's own prefix as requirements, and those that no index has.

    unpublished: what was installed there from a folder or an address.
    """
    local = {normalised(each) for each in unpublished}
    pins: list[str] = []
    left_out: list[str] = []
    for name, version, _ in spec.get("packages", ()):
        if (
            not (_NAME.fullmatch(str(name)) and _VERSION.fullmatch(str(version)))
            or normalised(name) in local
        ):
            left_out.append(str(name))
        else:
            pins.append(f"{name}=={version}")
    return pins, left_out
