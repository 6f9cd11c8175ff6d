"""Finds the host folders that a language kernel's program needs, and no more than those.

The sandbox sees them read-only, so a folder that holds a user's other things must not be among
them: of a home directory or its `.local`, only the folders that programs are installed into.
"""

from __future__ import annotations

import importlib.util
import os
import site
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

#: What an installation consists of where its prefix holds other things too.
_PARTS: Final = ("bin", "lib", "lib64", "libexec", "share/jupyter/kernels")

_LINKS: Final = 40


def own_prefixes() -> tuple[Path, ...]:
    """What this very Python needs: its environment first, then what that builds on."""
    roots = [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]
    found = [part for root in dict.fromkeys(roots) for part in _of_prefix(Path(root))]
    found += _program_prefixes(Path(sys.executable))
    spec = importlib.util.find_spec("ipykernel")
    if site.ENABLE_USER_SITE and spec is not None and spec.origin is not None:
        user_site = Path(site.getusersitepackages())
        if Path(spec.origin).is_relative_to(user_site):  # pip install --user
            found.append(user_site)
    return _outermost(found)


def installation_prefixes(program: Path, arguments: Sequence[str] = ()) -> tuple[Path, ...]:
    """What a program needs: the prefixes of each link to it, a virtual environment's base.

    arguments: the rest of its command line; a script named there by an absolute path counts.
    """
    found = _program_prefixes(program)
    for argument in arguments:
        script = Path(argument)
        if script.is_absolute() and script.is_file():
            found += _program_prefixes(script)
    return _outermost(found)


def _program_prefixes(program: Path) -> list[Path]:
    found: list[Path] = []
    for path in _links(program):
        prefix = path.parent.parent
        if path.parent.name in ("bin", "sbin", "libexec", "Scripts"):
            found += _of_prefix(prefix)
        elif not _shared(path.parent):
            found.append(path.parent)
        home = _base_of_venv(prefix)
        if home is not None:
            found += _of_prefix(home.parent)
    return found


def _links(program: Path) -> list[Path]:
    """The program and each file that it is a link to, the folders as they are named."""
    found = [program.absolute()]
    while len(found) < _LINKS and found[-1].is_symlink():
        target = found[-1].parent / found[-1].readlink()
        found.append(Path(os.path.normpath(target)))
    real = Path(os.path.realpath(program))
    return [*found, real] if real not in found else found


def _base_of_venv(prefix: Path) -> Path | None:
    """Where a virtual environment's base Python lies (PEP 405: `home` in pyvenv.cfg)."""
    try:
        text = (prefix / "pyvenv.cfg").read_text("utf-8", "replace")
    except OSError:
        return None
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip().lower() == "home" and value.strip():
            return Path(value.strip()).absolute()
    return None


def _of_prefix(prefix: Path) -> list[Path]:
    if not _shared(prefix) or _is_environment(prefix):
        return [prefix]
    return [prefix / part for part in _PARTS if (prefix / part).is_dir()]


def _is_environment(prefix: Path) -> bool:
    """A virtual or conda environment of its own, such as ~/.venv (but never made in ~ itself)."""
    marked = (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir()
    return marked and not any(home.is_relative_to(os.path.realpath(prefix)) for home in _homes())


def _shared(folder: Path) -> bool:
    """Whether a folder holds more than an installation: /, /etc, a home, its dot folders."""
    real = Path(os.path.realpath(folder))
    if real in (Path("/"), Path("/var"), Path("/tmp")) or real.is_relative_to("/etc"):  # noqa: S108
        return True
    return any(
        home.is_relative_to(real) or (real.parent == home and real.name.startswith("."))
        for home in _homes()
    )


def _homes() -> set[Path]:
    return {Path.home(), Path(os.path.realpath(Path.home()))}


def _outermost(folders: Iterable[Path]) -> tuple[Path, ...]:
    """In order, without those that lie in another one or are not there."""
    kept = [
        folder
        for folder in dict.fromkeys(folders)
        # On merged-usr systems /bin and /lib are links into /usr, which is there anyway.
        if folder.is_dir() and not (folder.is_symlink() and folder.parent == Path("/"))
    ]
    return tuple(
        folder
        for folder in kept
        if not any(folder != other and folder.is_relative_to(other) for other in kept)
    )
