"""The files of a prefix, listed with their hashes, and compared with a list or with RECORDs."""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: RECORDs are a list of files; no distribution has more of it.
_RECORD_BYTES: Final = 64 << 20


def list_files(prefix: Path) -> dict[str, str]:
    """Every file and link below a prefix: its path, and its sha256 with "x" if it is a program.

    A link stands with "→" and its target. Folders are not listed.
    """
    found: dict[str, str] = {}
    for path in _walk(str(prefix)):
        name = os.path.relpath(path, prefix)
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            found[name] = f"→ {os.readlink(path)}"  # noqa: PTH115
        elif stat.S_ISREG(status.st_mode):
            program = " x" if status.st_mode & stat.S_IXUSR else ""
            found[name] = file_digest(path) + program
        else:
            found[name] = "no file"
    return found


@dataclass(frozen=True)
class Differences:
    """Paths of a prefix that are not as they were said to be."""

    changed: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changed or self.missing or self.added)


def compared(listed: Mapping[str, Any], found: Mapping[str, str]) -> Differences:
    """What of a prefix is not as a list of it says."""
    both = listed.keys() & found.keys()
    return Differences(
        tuple(sorted(name for name in both if listed[name] != found[name])),
        tuple(sorted(listed.keys() - found.keys())),
        tuple(sorted(found.keys() - listed.keys())),
    )


def against_records(site_packages: Sequence[Path]) -> tuple[Differences, int]:
    """What of the distributions in some folders is not as their RECORDs say; how many files did.

    https://packaging.python.org/en/latest/specifications/recording-installed-packages/
    Files without a hash there (compiled ones, the RECORD itself) are not looked at.
    """
    changed: list[str] = []
    missing: list[str] = []
    looked = 0
    for folder in site_packages:
        for record in sorted(folder.glob("*.dist-info/RECORD")):
            for name, expected in _recorded(record):
                path = Path(os.path.normpath(folder / name))
                looked += 1
                try:
                    if _record_hash(path) != expected:
                        changed.append(str(path))
                except (FileNotFoundError, NotADirectoryError):
                    missing.append(str(path))
    return Differences(tuple(changed), tuple(missing)), looked


def _recorded(record: Path) -> Iterator[tuple[str, str]]:
    with record.open("rb") as file:
        text = file.read(_RECORD_BYTES).decode("utf-8", "surrogateescape")
    for row in csv.reader(io.StringIO(text)):
        if len(row) >= 2 and row[1].startswith("sha256="):
            yield row[0], row[1].removeprefix("sha256=").rstrip("=")


def _record_hash(path: Path) -> str:
    digest = bytes.fromhex(file_digest(path))
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def file_digest(path: str | Path) -> str:
    """sha256 (hex) of a file."""
    with open(path, "rb") as file:  # noqa: PTH123
        return hashlib.file_digest(file, "sha256").hexdigest()


def _walk(folder: str) -> Iterator[str]:
    with os.scandir(folder) as listing:
        entries = sorted(listing, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        else:
            yield entry.path


def size_of(folder: Path) -> int:
    """Bytes of the files below a folder; of what goes meanwhile, what is left."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(root, name).lstat().st_size
    return total
