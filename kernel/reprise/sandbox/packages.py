"""What an environment of this host consists of: its interpreter's build and its packages' RECORDs.

A RECORD lists every file of a distribution with its hash, so its own hash stands for all of
them. The files themselves are not read: who edits an installed file by hand, or the source of
an editable install, changes the environment without changing its digest.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprise.errors import UnavailableError
from reprise.sandbox.contract import LanguageKernel
from reprise.sandbox.documents import read_json, write_json

#: Run in the environment's own interpreter: isolated, without site (no .pth of it is executed).
_PROBE = """
import json, sys, sysconfig
print(json.dumps({
    "version": sys.version,
    "cache_tag": sys.implementation.cache_tag,
    "platform": sysconfig.get_platform(),
    "series": "%d.%d" % sys.version_info[:2],
    "base_prefix": sys.base_prefix,
}))
"""
_PROBE_SECONDS = 20.0
_ABOUT = ("version", "cache_tag", "platform", "series", "base_prefix")

#: Files changed so recently may change again within their times' granularity: not cached.
_RACY_NS = 2_000_000_000
#: A distribution's list of files; the others for distributions installed without one.
_RECORDS = ("RECORD", "METADATA", "PKG-INFO")


@dataclass(frozen=True, order=True)
class Package:
    """An installed distribution. record: sha256 (hex) of its RECORD."""

    name: str
    version: str
    record: str


@dataclass(frozen=True)
class Prefix:
    """An environment of this host.

    interpreter: of Python {version, cache_tag, platform}, else {executable: sha256 of it}.
    """

    base: str
    interpreter: Mapping[str, str]
    packages: tuple[Package, ...]


@dataclass
class _Cache:
    """Hashes by path, each valid for one stat signature; what was not used is forgotten."""

    old: Mapping[str, Any]
    new: dict[str, Any] = field(default_factory=dict)

    def value(self, path: str, compute: Any) -> Any:
        found = Path(path).stat()
        signature = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
        known = self.old.get(path)
        if isinstance(known, list) and len(known) == 2 and known[0] == signature:
            value = known[1]
        else:
            value = compute(path)
        if time.time_ns() - found.st_ctime_ns > _RACY_NS:
            self.new[path] = [signature, value]
        return value


def read_prefix(kernel: LanguageKernel, cache: Path) -> Prefix:
    """The environment a language kernel runs in. Blocks: about a millisecond when cached.

    cache: a directory for what was hashed. Raises UnavailableError when the interpreter is gone.
    """
    executable = kernel.argv[0]
    base = str(kernel.prefixes[0]) if kernel.prefixes else str(Path(executable).parent.parent)
    name = hashlib.sha256(f"{base}\0{executable}".encode(errors="surrogateescape")).hexdigest()
    file = cache / f"packages-{name[:16]}.json"
    known = read_json(file)
    hashes = _Cache(known if isinstance(known, dict) else {})
    packages: list[Package] = []
    try:
        if re.fullmatch(r"(python|pypy)[\d.]*t?", Path(executable).name):
            about = hashes.value(os.path.realpath(executable), lambda _: probe(executable))
            if not (isinstance(about, dict) and all(isinstance(about.get(k), str) for k in _ABOUT)):
                about = probe(executable)
            interpreter = {key: about[key] for key in ("version", "cache_tag", "platform")}
            for directory in site_packages(Path(executable), about):
                packages += _distributions(directory, hashes)
        else:
            interpreter = {"executable": hashes.value(executable, _hash_file)}
        for prefix in kernel.prefixes:
            packages += _conda_packages(prefix, hashes)
    except OSError as error:
        raise UnavailableError(
            f"The environment of the language kernel {kernel.name} cannot be read: {error}. "
            f"Install it again, or name another kernel with `reprise kernelspec add`."
        ) from error
    if hashes.new != known:
        write_json(file, hashes.new)
    return Prefix(base, interpreter, tuple(sorted(set(packages))))


def unpublished(prefix: Path) -> list[str]:
    """Distributions of a prefix that were installed from a folder or an address (PEP 610)."""
    found = prefix.glob("lib*/python3*/*-packages/*.dist-info/direct_url.json")
    return sorted({path.parent.name.partition("-")[0] for path in found})


def probe(executable: str) -> dict[str, str]:
    """An interpreter's build: {version, cache_tag, platform, series, base_prefix}.

    Raises OSError when it does not run.
    """
    try:
        # The user's own interpreter, the very one the sandbox runs; nothing of a session is in it.
        done = subprocess.run(
            [executable, "-I", "-S", "-c", _PROBE],
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=True,
            env={"PATH": "/usr/bin:/bin"},
        )
        about = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError) as error:
        raise OSError(f"{executable} does not run: {error}") from error
    return {key: str(about[key]) for key in _ABOUT}


def site_packages(executable: Path, about: Mapping[str, str]) -> Iterator[Path]:
    """Directories with packages, as the interpreter would search them."""
    prefix = executable.parent.parent
    config = _config(prefix / "pyvenv.cfg")
    prefixes = [prefix]
    if config and config.get("include-system-site-packages") == "true":
        prefixes.append(Path(about["base_prefix"]))
    seen: set[str] = set()
    for root in prefixes:
        for inner in (
            f"local/lib/python{about['series']}/dist-packages",
            f"lib/python{about['series']}/site-packages",
            f"lib64/python{about['series']}/site-packages",
            "lib/python3/dist-packages",
        ):
            path = root / inner
            real = os.path.realpath(path)
            if real not in seen and path.is_dir():
                seen.add(real)
                yield path


def _config(path: Path) -> dict[str, str]:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return {}
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip().lower(): value.strip().lower() for key, _, value in pairs}


def _distributions(directory: Path, hashes: _Cache) -> Iterator[Package]:
    for name in _names(directory):
        stem, dot, kind = name.rpartition(".")
        if not dot or kind not in ("dist-info", "egg-info"):
            continue
        # https://packaging.python.org/en/latest/specifications/recording-installed-packages/
        project, _, version = stem.partition("-")
        version = re.sub(r"-py3\.\d+$", "", version)
        project = re.sub(r"[-_.]+", "-", project).lower()
        yield Package(project, version, _record(f"{directory}/{name}", hashes))


def _record(path: str, hashes: _Cache) -> str:
    for record in _RECORDS:
        try:
            return str(hashes.value(f"{path}/{record}", _hash_file))
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            return str(hashes.value(path, _hash_file))
    return ""


def _conda_packages(prefix: Path, hashes: _Cache) -> Iterator[Package]:
    """Packages of a conda environment, of any language: conda-meta/NAME-VERSION-BUILD.json."""
    for name in _names(prefix / "conda-meta"):
        parts = name.removesuffix(".json").rsplit("-", 2)
        if name.endswith(".json") and len(parts) == 3:
            record = str(hashes.value(str(prefix / "conda-meta" / name), _hash_file))
            yield Package(f"conda:{parts[0]}", f"{parts[1]} {parts[2]}", record)


def _names(directory: Path) -> list[str]:
    """What a directory holds; nothing when it is not there."""
    try:
        with os.scandir(directory) as listing:
            return sorted(entry.name for entry in listing)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _hash_file(path: str) -> str:
    with open(path, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()
