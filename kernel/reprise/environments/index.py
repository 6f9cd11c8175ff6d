"""The package index that environments are made from: uv's where uv is configured, else pip's."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from reprise.environments.index_settings import pip_configured, uv_configured


@dataclass(frozen=True)
class PackageIndex:
    """What is configured. Addresses may hold credentials: show `shown(url)`.

    default: the index itself, None for the default of `tool`.  extra: asked as well.
    find_links: folders and pages with wheels.  certificates: a file of authorities (PEM).
    """

    tool: Literal["pip", "uv"]
    default: str | None = None
    extra: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    certificates: str | None = None

    @property
    def described(self) -> str:
        """Where packages are asked for, for people."""
        if self.default is None:
            return f"the default of {self.tool}"
        return f"{shown(self.default)}, as {self.tool} is configured"


def package_index(environ: Mapping[str, str] = os.environ) -> PackageIndex:
    """What uv is configured with here, else what pip is. Blocks: reads some small files."""
    uv, pip = uv_configured(environ), pip_configured(environ, Path(sys.prefix))
    says = bool(uv.index or uv.extra or uv.links or uv.none)
    found = uv if says else pip
    return PackageIndex(
        "uv" if says else "pip",
        found.index,
        found.extra,
        found.links,
        found.none,
        uv.cert or pip.cert,
    )


def shown(url: str) -> str:
    """An address without the credentials in it."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if not mark or "@" not in host:
        return url
    return f"{scheme}://****@{host.rpartition('@')[2]}{slash}{path}"
