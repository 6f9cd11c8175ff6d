"""What pip and uv are configured with on this machine, read as the tools read it.

pip's files, least specific first (XDG, system, user, prefix, PIP_CONFIG_FILE), then PIP_*
variables; uv's system and user files, then UV_* variables. The default of a tool is what the tool
itself says.
"""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

#: The tools' files for a whole machine.
PIP_SYSTEM: Final = Path("/etc/pip.conf")
UV_SYSTEM: Final = Path("/etc/uv/uv.toml")

#: A configuration is a few lines; what is longer is none.
_MOST: Final = 1 << 20

_TRUE: Final = frozenset({"1", "yes", "true", "on", "y", "t"})

#: In pip's own file of indexes: its default, and the host that its files are on.
_PIP_DEFAULT: Final = re.compile(
    rb'^\w+ = PackageIndex\(\s*"(https://[^"\s]{1,200})",\s*file_storage_domain="([^"\s]{1,200})"',
    re.MULTILINE,
)
#: In what `uv pip install --help` says of --default-index.
_UV_DEFAULT: Final = re.compile(r"by\s+default:\s+<(https://[^>\s]{1,200})>")


@dataclass(frozen=True)
class Default:
    """An index that a tool uses unasked. files: the host that its files are on."""

    url: str
    files: str | None = None


@dataclass(frozen=True)
class Configured:
    """What one tool is configured with. index: None for its default.

    trusted: hosts (or HOST:PORT) whose certificates it does not check.  cert: a file.
    """

    index: str | None = None
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    cert: str | None = None
    none: bool = False


# pip ---------------------------------------------------------------------------------------------


def pip_configured(environ: Mapping[str, str], prefix: Path) -> Configured:
    """What pip is configured with. https://pip.pypa.io/en/stable/topics/configuration/"""
    said: dict[str, str] = {}
    for path in pip_files(environ, prefix):
        said.update(_pip_file(path))
    for name, value in environ.items():
        # An empty variable is no setting for pip.
        if name.startswith("PIP_") and value:
            said[name[4:].lower().replace("_", "-")] = value
    return Configured(
        index=said.get("index-url") or said.get("pypi-url"),
        extra=tuple(said.get("extra-index-url", "").split()),
        links=tuple(said.get("find-links", "").split()),
        trusted=tuple(said.get("trusted-host", "").split()),
        cert=said.get("cert") or None,
        none=said.get("no-index", "").lower() in _TRUE,
    )


def pip_files(environ: Mapping[str, str], prefix: Path) -> list[Path]:
    """pip's files, a later one before an earlier one.

    As pip has it, a file that PIP_CONFIG_FILE names takes the place of the user's own.
    """
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    home = Path(environ.get("HOME") or "~").expanduser()
    shared = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    found = [*(Path(each, "pip", "pip.conf") for each in shared if each), PIP_SYSTEM]
    if not (named and Path(named).exists()):
        found += [home / ".pip" / "pip.conf", own / "pip" / "pip.conf"]
    found.append(prefix / "pip.conf")
    return [*found, Path(named)] if named else found


def _pip_file(path: Path) -> dict[str, str]:
    text = _read(path)
    if text is None:
        return {}
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}  # pip itself refuses to run with it, and says so
    return {
        key.replace("_", "-"): value
        for section in ("global", "install")
        if parser.has_section(section)
        for key, value in parser.items(section)
    }


def pip_default() -> Default | None:
    """The index that pip uses unasked, as pip itself has it: this Python's, or the bundled one."""
    name = "pip/_internal/models/index.py"
    spec = find_spec("pip")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = _default_in(_bytes(Path(folder).parent / name))
        if found is not None:
            return found
    spec = find_spec("ensurepip")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for wheel in sorted(Path(folder, "_bundled").glob("pip-*.whl")):
            try:
                with zipfile.ZipFile(wheel) as archive:
                    found = _default_in(archive.read(name))
            except (OSError, KeyError, zipfile.BadZipFile):
                continue
            if found is not None:
                return found
    return None


def _default_in(source: bytes | None) -> Default | None:
    found = _PIP_DEFAULT.search(source or b"")
    if found is None:
        return None
    return Default(found[1].decode("ascii", "replace"), found[2].decode("ascii", "replace"))


# uv ----------------------------------------------------------------------------------------------


def uv_configured(environ: Mapping[str, str]) -> Configured:
    """What uv is configured with, projects left aside. https://docs.astral.sh/uv/configuration/"""
    index: str | None = None
    extra: list[str] = []
    links: list[str] = []
    trusted: list[str] = []
    none = False
    for path in uv_files(environ):
        for said in _uv_file(path):
            for each in _tables(said.get("index")):
                if each.get("default") is True:
                    index = str(each["url"])
                else:
                    extra.append(str(each["url"]))
            index = _text(said.get("index-url")) or index
            extra += _texts(said.get("extra-index-url"))
            links += _texts(said.get("find-links"))
            trusted += _texts(said.get("allow-insecure-host"))
            none = said.get("no-index") is True or none
    extra += environ.get("UV_INDEX", "").split() + environ.get("UV_EXTRA_INDEX_URL", "").split()
    links += [each for each in re.split(r"[\s,]+", environ.get("UV_FIND_LINKS", "")) if each]
    trusted += environ.get("UV_INSECURE_HOST", "").split()
    return Configured(
        index=environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL") or index,
        extra=tuple(dict.fromkeys(extra)),
        links=tuple(dict.fromkeys(links)),
        trusted=tuple(dict.fromkeys(trusted)),
        cert=environ.get("SSL_CERT_FILE") or None,
        none=none or environ.get("UV_NO_INDEX", "").lower() in _TRUE,
    )


def uv_files(environ: Mapping[str, str]) -> list[Path]:
    """uv's files, a later one before an earlier one."""
    if environ.get("UV_NO_CONFIG", "").lower() in _TRUE:
        return []
    if named := environ.get("UV_CONFIG_FILE"):
        return [Path(named)]
    home = Path(environ.get("HOME") or "~").expanduser()
    shared = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    system = [Path(each, "uv", "uv.toml") for each in shared if each]
    found = next((each for each in system if each.is_file()), UV_SYSTEM)
    return [found, Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"]


def _uv_file(path: Path) -> list[Mapping[str, Any]]:
    """What a file says for uv, and then for `uv pip`."""
    text = _read(path)
    try:
        said = tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return []  # uv itself refuses to run with it, and says so
    pip = said.get("pip")
    return [said, pip] if isinstance(pip, dict) else [said]


def uv_default(environ: Mapping[str, str]) -> Default | None:
    """The index that uv uses unasked, as its help says; None where there is no uv."""
    try:
        said = subprocess.run(
            ["uv", "pip", "install", "--help"],
            capture_output=True,
            timeout=30,
            check=False,
            env={"PATH": environ.get("PATH", os.defpath), "HOME": environ.get("HOME", "/")},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _UV_DEFAULT.search(said.stdout.decode("utf-8", "replace"))
    return None if found is None else Default(found[1])


def _tables(value: Any) -> Iterable[Mapping[str, Any]]:
    if isinstance(value, list):
        for each in value:
            if isinstance(each, dict) and isinstance(each.get("url"), str):
                yield each


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> Sequence[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


# Files -------------------------------------------------------------------------------------------


def _read(path: Path) -> str | None:
    found = _bytes(path)
    return None if found is None else found.decode("utf-8", "replace")


def _bytes(path: Path) -> bytes | None:
    try:
        with path.open("rb") as file:
            found = file.read(_MOST + 1)
    except OSError:
        return None
    return found if len(found) <= _MOST else None
