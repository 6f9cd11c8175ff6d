"""Runs uv, which resolves and installs, and says in words why it could not."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from reprise.environments.index import PackageIndex, package_index
from reprise.errors import RepriseError, UnavailableError, UsageError

#: A resolution asks an index for hundreds of packages; a large environment is gigabytes.
_SECONDS: Final = 3600.0
#: Of what uv says; its reasons for an unsatisfiable requirement can be pages.
_SAID: Final = 3000

#: Variables of the caller that would lead uv to another interpreter, or that interpreter astray.
_MISLEADING: Final = (
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYTHONPATH",
    "PYTHONHOME",
    "UV_PYTHON",
    "UV_PROJECT_ENVIRONMENT",
    "UV_SYSTEM_PYTHON",
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_LINK_MODE",
    "UV_COMPILE_BYTECODE",
    "UV_NO_BINARY",
    "UV_CONSTRAINT",
    "UV_OVERRIDE",
)


class HashMismatch(RepriseError):
    """A file of the index is not the one that a lock names; nothing was built."""


def uv_program() -> str:
    """The path of uv: of the wheel that Reprise depends on, else the machine's own."""
    try:
        # Imported here: few commands need it.
        import uv  # noqa: PLC0415

        return str(uv.find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        raise UnavailableError(
            "uv, which resolves and builds environments, is not installed. Nothing was made. Run: "
            "pip install uv"
        )
    return found


def run_uv(
    arguments: Sequence[str],
    folder: Path,
    *,
    find_links: Iterable[Path] = (),
    environ: Mapping[str, str] = os.environ,
    keep_open: Sequence[int] = (),
) -> str:
    """What uv says on stdout. Blocks, for minutes.

    folder: where it runs; it looks for no project there or above.  find_links: folders of wheels,
      before the index.  keep_open: files that stay open as long as it runs.
    Raises UsageError (no solution, a wrong file), UnavailableError (the index cannot be reached, a
    full disk), HashMismatch.
    """
    index = package_index(environ)
    command = [uv_program(), *arguments]
    if index.no_index and arguments[0] == "pip":
        command.append("--no-index")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=_variables(index, [*map(str, find_links)], environ),
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            pass_fds=tuple(keep_open),
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(
            f"uv had not ended after {_SECONDS / 60:.0f} minutes and was stopped. Nothing was made."
        ) from None
    except OSError as error:
        raise UnavailableError(f"uv could not be run: {error}. Nothing was made.") from error
    if done.returncode != 0:
        raise _failure(done.stderr, index)
    return done.stdout


def _variables(
    index: PackageIndex, find_links: list[str], environ: Mapping[str, str]
) -> dict[str, str]:
    """uv's variables. Where only pip is configured, uv is told what pip knows.

    As variables, not arguments: an address may hold a password, and `ps` shows arguments.
    """
    kept = {name: value for name, value in environ.items() if name not in _MISLEADING}
    kept |= {
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        "NO_COLOR": "1",
    }
    if index.tool == "pip":
        told = {"UV_DEFAULT_INDEX": index.default or "", "UV_INDEX": " ".join(index.extra)}
        kept |= {name: value for name, value in told.items() if value}
    if index.tool == "pip" or find_links:
        # pip overlooks folders that are not there; what is named here is all that uv looks at.
        links = [each for each in index.find_links if "://" in each or Path(each).is_dir()]
        kept["UV_FIND_LINKS"] = ",".join([*find_links, *links])
    if index.certificates:
        kept.setdefault("SSL_CERT_FILE", index.certificates)
    return kept


# what went wrong ----------------------------------------------------------------------------------

_UNREACHABLE: Final = re.compile(
    r"error sending request|dns error|tcp connect|connection (?:refused|reset|closed)"
    r"|timed? ?out|network is unreachable|certificate|status (?:client|server) error"
    r"|request failed after|failed to fetch",
    re.IGNORECASE,
)
_UNSATISFIABLE: Final = re.compile(
    r"no solution found|unsatisfiable|was not found in|no usable wheels|no wheels with"
    r"|building source distributions is disabled|only pre-built wheels|--no-build",
    re.IGNORECASE,
)


def _failure(said: str, index: PackageIndex) -> RepriseError:
    text = _readable(said)
    low = said.lower()
    if "no space left on device" in low or "disk quota exceeded" in low:
        return UnavailableError(
            f"There is no room to build in (uv says: {_last_line(text)}). Nothing of it is left; "
            "free some room, or name another place with REPRISE_HOME (UV_CACHE_DIR for what uv "
            "downloads), and run the same command again."
        )
    if "hash mismatch" in low or ("hash" in low and "did not match" in low):
        return HashMismatch(
            f"A file is not the one that the lock names, so nothing was built. uv says:\n{text}\n"
            "Whoever made the lock saw other bytes under that name: do not use that index, or "
            "lock again from the requirements if you know why."
        )
    if "network was disabled" in low or (
        _UNREACHABLE.search(said) and not _UNSATISFIABLE.search(said)
    ):
        return UnavailableError(
            f"The package index could not be reached ({index.described}). Nothing was made. uv "
            f"says:\n{text}\nTry again with a network, or give wheels with --find-links DIR."
        )
    if _UNSATISFIABLE.search(said):
        return UsageError(
            f"These requirements cannot be had together, so nothing was made. uv says:\n{text}\n"
            "Only wheels are taken, since what a source distribution does when it is built is "
            "nothing a lock could hold: build one yourself (`pip wheel`) and name its folder with "
            "--find-links."
        )
    if "hash" in low:
        return HashMismatch(f"The lock does not hold, so nothing was built. uv says:\n{text}")
    return UsageError(f"uv could not use this, so nothing was made. It says:\n{text}")


def _readable(said: str) -> str:
    """uv's words without credentials, and no more of them than a person reads."""
    text = re.sub(r"://[^/@\s]+@", "://****@", said).strip()
    text = text.removeprefix("error: ")
    return text if len(text) <= _SAID else f"{text[:_SAID]} …"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"
