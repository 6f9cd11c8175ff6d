"""Where pip and uv are configured to get packages from on this machine.

Nothing is assumed: a variable or a configuration file of uv counts first, else those of pip; where
neither says anything, both ask their own default, which this module does not name.
"""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: No configuration is larger.
_MAX_BYTES: Final = 1 << 20
_UV_VARIABLES: Final = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
)


@dataclass(frozen=True)
class PackageIndex:
    """What is configured. Addresses may hold credentials: show `shown(url)`.

    default: the index itself, None for the default of pip and uv.  extra: asked as well.
    find_links: folders and pages with wheels.  certificates: a file of authorities (PEM).
    source: which file or variable said so; "" when nothing is configured.
    """

    default: str | None = None
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    certificates: str | None = None
    source: str = ""
    tool: str = ""


def package_index(environ: Mapping[str, str] = os.environ) -> PackageIndex:
    """What uv is configured with here, else what pip is. Blocks: reads some small files."""
    found = _of_uv(environ)
    return _of_pip(environ) if found is None else found


def shown(url: str) -> str:
    """An address without the credentials in it."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if not mark or "@" not in host:
        return url
    return f"{scheme}://****@{host.rpartition('@')[2]}{slash}{path}"


# uv: https://docs.astral.sh/uv/concepts/configuration-files/ ------------------------------------


def _of_uv(environ: Mapping[str, str]) -> PackageIndex | None:
    named = [name for name in _UV_VARIABLES if environ.get(name)]
    config, path = _uv_file(environ)
    if not named and not config:
        return None
    indexes = [
        each
        for each in config.get("index", [])
        if isinstance(each, dict) and isinstance(each.get("url"), str)
    ]
    default = next((str(each["url"]) for each in indexes if each.get("default")), None)
    default = (
        environ.get("UV_DEFAULT_INDEX")
        or environ.get("UV_INDEX_URL")
        or default
        or _text(config.get("index-url"))
    )
    extra = [
        *_words(environ.get("UV_INDEX")),
        *_words(environ.get("UV_EXTRA_INDEX_URL")),
        *(str(each["url"]) for each in indexes if not each.get("default")),
        *map(str, config.get("extra-index-url", [])),
    ]
    links = (environ.get("UV_FIND_LINKS") or "").split(",")
    links += map(str, config.get("find-links", []))
    return PackageIndex(
        None if default is None else _unnamed(default),
        tuple(dict.fromkeys(_unnamed(each) for each in extra)),
        tuple(dict.fromkeys(each.strip() for each in links if each.strip())),
        bool(config.get("no-index", False)),
        environ.get("SSL_CERT_FILE"),
        ", ".join(named) or str(path),
        "uv",
    )


def _uv_file(environ: Mapping[str, str]) -> tuple[dict[str, Any], Path | None]:
    """The first of uv's files that says where packages come from."""
    for path in _uv_paths(environ):
        try:
            with path.open("rb") as file:
                value = tomllib.loads(file.read(_MAX_BYTES).decode())
        except (OSError, ValueError, RecursionError):
            continue  # uv itself says what is wrong with it
        pip = value.get("pip")
        both = {**value, **pip} if isinstance(pip, dict) else value
        keys = ("index", "index-url", "extra-index-url", "find-links", "no-index")
        if found := {key: both[key] for key in keys if key in both}:
            for key in ("index", "extra-index-url", "find-links"):
                if not isinstance(found.get(key, []), list):
                    del found[key]
            return found, path
    return {}, None


def _uv_paths(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("UV_NO_CONFIG"):
        return
    if named := environ.get("UV_CONFIG_FILE"):
        yield Path(named)
        return
    yield _user_config(environ) / "uv" / "uv.toml"
    for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield Path(folder) / "uv" / "uv.toml"
    yield Path("/etc/uv/uv.toml")


def _unnamed(url: str) -> str:
    """uv lets an index be given as NAME=URL."""
    name, equals, rest = url.partition("=")
    return rest if equals and "://" in rest and "://" not in name else url


# pip: https://pip.pypa.io/en/stable/topics/configuration/ -----------------------------------------


def _of_pip(environ: Mapping[str, str]) -> PackageIndex:
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    for path in _pip_paths(environ):
        for name, value in _pip_file(path):
            values[name], sources[name] = value, str(path)
    for name in ("index-url", "extra-index-url", "find-links", "no-index", "cert"):
        variable = f"PIP_{name.upper().replace('-', '_')}"
        if environ.get(variable):
            values[name], sources[name] = environ[variable], variable
    told = [sources[n] for n in ("index-url", "extra-index-url", "find-links") if n in sources]
    return PackageIndex(
        values.get("index-url"),
        tuple(dict.fromkeys(_words(values.get("extra-index-url")))),
        tuple(dict.fromkeys(_words(values.get("find-links")))),
        values.get("no-index", "").lower() in ("1", "true", "yes", "on", "y", "t"),
        values.get("cert") or environ.get("SSL_CERT_FILE"),
        ", ".join(dict.fromkeys(told)),
        "pip",
    )


def _pip_paths(environ: Mapping[str, str]) -> Iterator[Path]:
    """From the weakest to the strongest."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return
    for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
        yield Path(folder) / "pip" / "pip.conf"
    yield Path("/etc/pip.conf")
    yield Path.home() / ".pip" / "pip.conf"
    yield _user_config(environ) / "pip" / "pip.conf"
    yield Path(sys.prefix) / "pip.conf"
    if named:
        yield Path(named)


def _pip_file(path: Path) -> Iterator[tuple[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        with path.open("rb") as file:
            parser.read_string(file.read(_MAX_BYTES).decode("utf-8", "replace"))
    except (OSError, configparser.Error):
        return  # pip itself says what is wrong with it
    for section in ("global", "install"):
        if parser.has_section(section):
            for name, value in parser.items(section):
                yield name.lower().replace("_", "-"), value


def _user_config(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")


def _words(text: str | None) -> list[str]:
    return (text or "").split()


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
