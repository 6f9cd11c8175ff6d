"""What `package-index` in an environment's rules stands for on this machine.

The hosts of the indexes that pip and uv are configured with here (`index_settings`), and the
variables that make pip and uv inside use the same ones. The operator's own tools go there, so they
may be wherever this machine's resolver leads, private addresses included.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from reprise.egress.policy import NoHost, normal_host, place
from reprise.environments.index_settings import (
    Configured,
    Default,
    pip_configured,
    pip_default,
    uv_configured,
    uv_default,
)
from reprise.sandbox.network import PACKAGE_INDEX, HostSecret, NetworkRules

#: Where certificates lie that sandboxes see too (`sandbox.view`).
_SHOWN: Final = ("/etc/ssl/certs/", "/etc/pki/tls/certs/", "/etc/pki/ca-trust/extracted/")

#: Names of variables that only `PackageIndex.environ` has.
_NAME: Final = "REPRISE_PACKAGE_INDEX_"

_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Password:
    """A user and password that stood in the address of an index; never shown."""

    host: str
    port: int
    user: str = field(repr=False)
    password: str = field(repr=False)

    @property
    def basic(self) -> str:
        """As HTTP's Basic scheme sends it."""
        return base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")


@dataclass(frozen=True)
class PackageIndex:
    """What pip and uv need inside to use the indexes that they use here.

    places: HOST:PORT of the indexes, and of where their files are if that is known elsewhere.
    variables: what goes inside.  said: what of the configuration cannot, in sentences.
    passwords: what stood in addresses and stays outside: the proxy adds it to requests.
    """

    places: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    passwords: tuple[Password, ...] = ()
    said: tuple[str, ...] = ()

    def added_to(self, rules: NetworkRules) -> NetworkRules:
        """Rules under which the proxy also adds the passwords of the indexes."""
        secrets = tuple(
            HostSecret(
                place(each.host, each.port), "Authorization", "Basic ", f"env:{_NAME}{number}"
            )
            for number, each in enumerate(self.passwords)
        )
        return replace(rules, secrets=(*rules.secrets, *secrets))

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables that the credentials of `added_to` are read from, with those passwords."""
        values = {f"{_NAME}{number}": each.basic for number, each in enumerate(self.passwords)}
        return {**environ, **values}


def index_for(rules: NetworkRules) -> PackageIndex:
    """The indexes of this machine where the rules allow them, else nothing. Blocks."""
    return package_index() if PACKAGE_INDEX in rules.allow else PackageIndex()


def package_index(
    environ: Mapping[str, str] = os.environ, prefix: Path | None = None
) -> PackageIndex:
    """The indexes that pip and uv use here. Blocks: reads some files, and asks uv if need be.

    prefix: of the Python whose pip counts; default this one's.
    """
    pip = pip_configured(environ, prefix or Path(sys.prefix))
    uv = uv_configured(environ)
    default = pip_default()
    collected = _Collected()
    collected.tool(
        pip, default, index="PIP_INDEX_URL", extra="PIP_EXTRA_INDEX_URL", links="PIP_FIND_LINKS"
    )
    if pip.trusted:
        collected.variables["PIP_TRUSTED_HOST"] = " ".join(pip.trusted)
    collected.cert("PIP_CERT", pip.cert)
    uv_own = None if uv.index else uv_default(environ)
    if uv_own is None:
        uv_own = default
    elif default is not None and urlsplit(uv_own.url).hostname == urlsplit(default.url).hostname:
        uv_own = Default(uv_own.url, default.files)
    collected.tool(uv, uv_own, index="UV_DEFAULT_INDEX", extra="UV_INDEX", links="UV_FIND_LINKS")
    if uv.trusted:
        collected.variables["UV_INSECURE_HOST"] = " ".join(uv.trusted)
    collected.cert("SSL_CERT_FILE", uv.cert)
    return collected.index()


class _Collected:
    """Gathers what both tools need."""

    def __init__(self) -> None:
        self._places: dict[str, None] = {}
        self._passwords: dict[Password, None] = {}
        self._said: dict[str, None] = {}
        self.variables: dict[str, str] = {}

    def tool(
        self, found: Configured, default: Default | None, *, index: str, extra: str, links: str
    ) -> None:
        if not found.none:
            if found.index is not None:
                if url := self._inside(found.index):
                    self.variables[index] = url
            elif default is not None:
                self._inside(default.url)
                if default.files is not None:
                    self._places[place(default.files, 443)] = None
            else:
                self._said[
                    "Which index pip uses where none is configured could not be found out; "
                    "configure one (`pip config set global.index-url URL`)."
                ] = None
            if more := [url for each in found.extra if (url := self._inside(each))]:
                self.variables[extra] = " ".join(more)
        # Folders of this machine are not there inside.
        remote = [each for each in found.links if urlsplit(each).scheme in _PORTS]
        if more := [url for each in remote if (url := self._inside(each))]:
            self.variables[links] = " ".join(more)

    def cert(self, variable: str, path: str | None) -> None:
        if path is None:
            return
        if os.path.realpath(path).startswith(_SHOWN) or path.startswith(_SHOWN):
            self.variables[variable] = path
        else:
            self._said[
                f"The certificates in {path} do not go inside; add them to this machine's "
                "(/etc/ssl/certs), or the index may not be believed there."
            ] = None

    def _inside(self, url: str) -> str | None:
        """An index's address as it goes inside; where it is, is allowed."""
        name, parts = _split(url)
        host = _host(parts)
        if host is None:
            self._said[
                f"The package index {_shown(parts)!r} has no http(s) address, so it is left out."
            ] = None
            return None
        self._places[place(*host)] = None
        if parts.username is not None or parts.password is not None:
            user, password = unquote(parts.username or ""), unquote(parts.password or "")
            self._passwords[Password(*host, user, password)] = None
        return f"{name}{urlunsplit(parts._replace(netloc=parts.netloc.rpartition('@')[2]))}"

    def index(self) -> PackageIndex:
        return PackageIndex(
            tuple(self._places), self.variables, tuple(self._passwords), tuple(self._said)
        )


def _split(url: str) -> tuple[str, SplitResult]:
    """The name that uv allows before an index (`NAME=URL`), and the parts of its address."""
    found = re.match(r"[A-Za-z0-9._-]+=(?=https?://)", url)
    name = found[0] if found else ""
    try:
        return name, urlsplit(url[len(name) :].strip())
    except ValueError:
        return name, urlsplit("")


def _host(parts: SplitResult) -> tuple[str, int] | None:
    try:
        if parts.scheme not in _PORTS or not parts.hostname:
            return None
        return normal_host(parts.hostname), parts.port or _PORTS[parts.scheme]
    except (NoHost, ValueError):
        return None


def _shown(parts: SplitResult) -> str:
    """An address without what may be a password."""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))
