"""Looks into the image that an environment stands on: which Python a kernel runs on, its packages.

The image is unpacked (`sandbox.images`) and looked at as files. Nothing of it runs here, and no
link in it leads to a file of this machine: an image is a stranger's.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reprise.environments.interpreter import OLDEST
from reprise.environments.lock import normalised
from reprise.errors import UsageError
from reprise.sandbox.imaged import keep_facts
from reprise.sandbox.images import Image, unpacked
from reprise.sandbox.packages import Package, Prefix

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Beside PATH, where images put environments without setting it.
_USUAL: Final = "/opt/venv/bin:/venv/bin:/opt/conda/bin"
_SERIES: Final = re.compile(r"python3\.(\d+)")
_INFO: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*)-([A-Za-z0-9][A-Za-z0-9.!+_]*)\.dist-info")
_RECORD_BYTES: Final = 64 << 20
_LINKS: Final = 40
#: What the language kernel is, and what it is spoken with.
_NEEDED: Final = ("ipykernel", "pyzmq")

_RECIPE: Final = """\
An image that has them is made so, and named by the digest that the push prints:
  FROM YOUR-IMAGE
  RUN python3 -m pip install ipykernel"""


@dataclass(frozen=True)
class Found:
    """A Python of an image. path: inside.  minor: of its version 3.MINOR."""

    path: str
    minor: int
    packages: tuple[Package, ...]

    def lacks(self) -> list[str]:
        have = {package.name for package in self.packages}
        said = [name for name in _NEEDED if name not in have]
        if (3, self.minor) < OLDEST:
            said.append(f"Python {'.'.join(map(str, OLDEST))} or newer (it is 3.{self.minor})")
        return said


def look_into(image: str, told: Callable[[str], None] = lambda _: None) -> Prefix:
    """Find the Python that a kernel runs on, and keep what was found. Blocks: fetches the image.

    Raises UsageError that names what the image lacks; SandboxError when it cannot be had.
    """
    found = asyncio.run(unpacked(image, told))
    told("looking into the image …")
    python, prefix = examined(found, image)
    keep_facts(image, python, prefix)
    return prefix


def examined(found: Image, image: str) -> tuple[str, Prefix]:
    """The path of the Python in an unpacked image, and what it consists of. Raises UsageError."""
    pythons = list(_pythons(found.root, found.env))
    if not pythons:
        raise UsageError(
            f"There is no Python in the image {image} (PATH is "
            f"{found.env.get('PATH', _PATH)}). Nothing was made. {_RECIPE}"
        )
    for each in pythons:
        if not each.lacks():
            return each.path, Prefix(image, _interpreter(each, found.env), each.packages)
    missing = "; ".join(f"{each.path} lacks {', '.join(each.lacks())}" for each in pythons)
    raise UsageError(
        f"No kernel can run in the image {image}: {missing}. Nothing was made. {_RECIPE}"
    )


def _interpreter(found: Found, env: Mapping[str, str]) -> dict[str, str]:
    """As `packages.probe` says it of a host's, as far as files tell; the digest says the rest."""
    told = env.get("PYTHON_VERSION", "")
    version = told if told.startswith(f"3.{found.minor}.") else f"3.{found.minor}"
    return {
        "version": version,
        "cache_tag": f"cpython-3{found.minor}",
        "platform": f"linux-{os.uname().machine}",
    }


def _pythons(root: Path, env: Mapping[str, str]) -> Iterator[Found]:
    seen: set[str] = set()
    for folder in f"{env.get('PATH') or _PATH}:{_USUAL}".split(":"):
        for name in ("python3", "python"):
            path = f"{folder.rstrip('/')}/{name}"
            real = _inside(root, path) if folder.startswith("/") else None
            if real is None or not _is_program(root, real):
                continue
            prefix = folder.rstrip("/").rpartition("/")[0]
            minor = _minor(root, prefix, real)
            # One file can be the Python of several environments, each with packages of its own.
            if minor is None or (prefix or "/") in seen:
                continue
            seen.add(prefix or "/")
            yield Found(path, minor, tuple(sorted(set(_packages(root, prefix, real, minor)))))


def _is_program(root: Path, real: str) -> bool:
    mode = (root / real.lstrip("/")).lstat().st_mode
    return stat.S_ISREG(mode) and bool(mode & 0o111)


def _minor(root: Path, prefix: str, real: str) -> int | None:
    if found := _SERIES.search(real.rpartition("/")[2]):
        return int(found[1])
    config = _read(root, f"{prefix}/pyvenv.cfg", 1 << 16).decode("utf-8", "replace")
    if found := re.search(r"^version(?:_info)?\s*=\s*3\.(\d+)", config, re.MULTILINE):
        return int(found[1])
    library = _inside(root, f"{prefix}/lib")
    names = _names(root, library) if library else []
    minors = [int(match[1]) for name in names if (match := _SERIES.fullmatch(name))]
    return max(minors, default=None)


def _packages(root: Path, prefix: str, real: str, minor: int) -> Iterator[Package]:
    prefixes = [prefix]
    config = _read(root, f"{prefix}/pyvenv.cfg", 1 << 16).decode("utf-8", "replace")
    if re.search(r"^include-system-site-packages\s*=\s*true", config, re.MULTILINE | re.IGNORECASE):
        prefixes.append(real.rpartition("/")[0].rpartition("/")[0])
    for each in dict.fromkeys(prefixes):
        for inner in (
            f"local/lib/python3.{minor}/dist-packages",
            f"lib/python3.{minor}/site-packages",
            f"lib64/python3.{minor}/site-packages",
            "lib/python3/dist-packages",
        ):
            folder = _inside(root, f"{each}/{inner}")
            for name in _names(root, folder) if folder else []:
                if found := _INFO.fullmatch(name):
                    record = _read(root, f"{folder}/{name}/RECORD", _RECORD_BYTES)
                    digest = hashlib.sha256(record).hexdigest() if record else ""
                    yield Package(normalised(found[1]), found[2], digest)


def _inside(root: Path, path: str) -> str | None:
    """Where a path of the image really leads, links followed as inside; None when nowhere."""
    real: list[str] = []
    rest = [part for part in path.split("/") if part and part != "."]
    followed = 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            del real[-1:]
            continue
        here = root.joinpath(*real, part)
        try:
            mode = here.lstat().st_mode
            target = str(here.readlink()) if stat.S_ISLNK(mode) else None
        except OSError:
            return None
        if target is None:
            real.append(part)
            continue
        followed += 1
        if followed > _LINKS:
            return None
        if target.startswith("/"):
            real = []
        rest = [each for each in target.split("/") if each and each != "."] + rest
    return "/" + "/".join(real)


def _names(root: Path, folder: str) -> list[str]:
    try:
        return sorted(path.name for path in (root / folder.lstrip("/")).iterdir())
    except OSError:
        return []


def _read(root: Path, path: str, limit: int) -> bytes:
    """A plain file of the image; nothing for what is none, or larger than `limit`."""
    real = _inside(root, path)
    if real is None:
        return b""
    try:
        file = os.open(root / real.lstrip("/"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    with open(file, "rb") as opened:  # noqa: PTH123
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return b""
        return opened.read(limit)
