"""The packages of an environment as a requirements file, and what its spec may say (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from reprise.bundle.bounded import parse_canonical
from reprise.environments.lock import recorded_lock
from reprise.errors import BadBundle
from reprise.log.model import Json, sha256_hex

#: Names and versions as packaging's standards have them; whatever is none is not written.
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_VERSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,99}")
_PYTHON: Final = re.compile(r"[0-9][0-9A-Za-z.+]{0,30}")


def lock(spec: Mapping[str, Json]) -> bytes:
    """`pip install -r` of this gives the packages of a recorded environment.

    Of one that was built it is the lock it was built of. Of a host's own prefix, a package that
    was not installed from an index stands there by its name and version alone.
    """
    if (built := spec.get("lock")) is not None and recorded_lock(built) is not None:
        return str(built).encode("ascii")
    interpreter = spec.get("interpreter")
    version = interpreter.get("version") if isinstance(interpreter, Mapping) else None
    python = str(version or "").partition(" ")[0]
    lines = [f"# Python {python}"] if _PYTHON.fullmatch(python) else []
    lines += sorted(
        {
            f"{name}=={version}"
            for name, version, _ in spec.get("packages", ())
            if _NAME.fullmatch(name) and _VERSION.fullmatch(version)
        },
        key=lambda line: (line.lower(), line),
    )
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def checked_spec(data: bytes, digest: str) -> dict[str, Json]:
    """The spec of the environment that is named so. Raises BadBundle.

    Only what this version reads is looked at: a later one may say more.
    """
    where = f"the environment {digest}"
    if sha256_hex(data) != digest:
        raise BadBundle(f"{where} is not what its name says")
    spec = parse_canonical(data, where)
    if not isinstance(spec, dict) or not _fits(spec):
        raise BadBundle(f"{where} says what no environment can")
    return spec


def _fits(spec: dict[str, Json]) -> bool:
    texts = isinstance(spec.get("base", ""), str) and isinstance(spec.get("egress", ""), str | dict)
    objects = all(
        isinstance(spec.get(name, {}), dict)
        for name in ("kernel", "interpreter", "limits", "variables")
    )
    packages, mounts = spec.get("packages", []), spec.get("mounts", [])
    if not (texts and objects and isinstance(packages, list) and isinstance(mounts, list)):
        return False
    limits = spec.get("limits", {}).values()
    own = spec.get("lock")
    if own is not None and not (isinstance(own, str) and recorded_lock(own) is not None):
        return False
    return (
        all(_texts(package, 3) for package in packages)
        and all(_mount(mount) for mount in mounts)
        and all(type(value) in (int, float) for value in limits)
        and _texts(list(spec.get("variables", {}).values()))
    )


def _texts(value: Json, count: int | None = None) -> bool:
    return (
        isinstance(value, list)
        and (count is None or len(value) == count)
        and all(isinstance(each, str) for each in value)
    )


def _mount(value: Json) -> bool:
    return isinstance(value, dict) and {"source", "target", "manifest"} <= value.keys()
