"""The Python that an environment is built on: the one Reprise runs on, or one that is named."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reprise.environments.uv import run_uv
from reprise.errors import RepriseError, UsageError
from reprise.sandbox.packages import probe

#: The guest runs on the environment's own Python where it can (`sandbox.view`), and is written
#: for the versions that Reprise itself runs on.
OLDEST: Final = (3, 11)


@dataclass(frozen=True)
class Interpreter:
    """path: an executable.  about: its build (`packages.probe`)."""

    path: Path
    about: Mapping[str, str]

    @property
    def tag(self) -> str:
        return self.about["cache_tag"]

    @property
    def platform(self) -> str:
        return self.about["platform"]


def find_interpreter(named: str | None = None, *, folder: Path) -> Interpreter:
    """The interpreter of a path or a version ("3.12"), by default Reprise's own. Blocks.

    folder: where uv runs. Nothing is ever downloaded. Raises UsageError when there is none, or it
    is older than the guest can be.
    """
    path = sys.executable
    if named is not None and "/" in named:
        path = named
    elif named is not None:
        try:
            found = run_uv(["python", "find", "--no-project", "--system", named], folder)
        except RepriseError as error:
            raise UsageError(
                f"There is no Python {named!r} on this machine, and none is downloaded. Name its "
                f"path with --python. uv says: {error}"
            ) from error
        path = found.strip()
    try:
        about = probe(path)
    except OSError as error:
        raise UsageError(f"{named or path} is no Python that runs: {error}") from error
    if tuple(map(int, about["series"].split("."))) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise UsageError(
            f"{path} is Python {about['series']}; an environment is built on {oldest} or newer. "
            "An older one is used as it is: `reprise kernelspec add NAME` wraps its kernel."
        )
    return Interpreter(Path(path), about)
