"""What a caller wants to bring in: bytes, a file or a folder of the host, as entries of a tree.

Unlike the notebook's folder, which comes in unasked, this is all that was named: nothing is left
out silently. What cannot come in (a socket, a link out of the folder, too much) is an error.
"""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reprise.client.requests import below
from reprise.errors import TooLarge, UsageError
from reprise.quantities import amount
from reprise.settings import TREE_BYTES, TREE_FILES
from reprise.workspace.manifest import BadManifest, Entry, Manifest, path_text, shown
from reprise.workspace.walk import MAX_DEPTH

#: A file of the caller's that is not executable, and one whose bytes came without a file.
PLAIN_MODE: Final = 0o644

Read = Callable[[], bytes]


@dataclass(frozen=True)
class Source:
    """A tree to bring in: its manifest, and how to read each file's bytes, by path."""

    manifest: Manifest
    read: Mapping[str, Read]

    @property
    def size(self) -> int:
        return self.manifest.size

    def contents(self) -> Iterator[tuple[str, bytes]]:
        """Each different file once, as (sha256, bytes). Raises UsageError if one has changed."""
        done: set[str] = set()
        for entry in self.manifest:
            if entry.sha256 is None or entry.sha256 in done:
                continue
            done.add(entry.sha256)
            data = self.read[entry.path]()
            if entry.containing(data).sha256 != entry.sha256:
                raise UsageError(
                    f"{shown(entry.path)} changed while it was read. Nothing was brought in; try"
                    " again when no program writes to it."
                )
            yield entry.sha256, data


@dataclass(frozen=True)
class Bound:
    """How much may come in at once. bytes: of all files; files: entries."""

    bytes: int = TREE_BYTES
    files: int = TREE_FILES

    def check(self, entries: int, size: int, what: str) -> None:
        if size > self.bytes or entries > self.files:
            raise TooLarge(
                f"{what} is over {amount(self.bytes)} or {self.files:,} files. Nothing was brought"
                " in. Large data is mounted: reprise env mount DIR."
            )


def of_bytes(data: bytes, path: str, mode: int | None = None, bound: Bound | None = None) -> Source:
    """A file called `path` in the workspace that holds `data`."""
    (bound or Bound()).check(1, len(data), "What was given")
    entry = Entry(path, "file", PLAIN_MODE if mode is None else _mode(mode)).containing(data)
    return Source(_manifest([entry]), {path: lambda: data})


def of_path(
    source: Path,
    to: str,
    *,
    exclude: Sequence[str] = (),
    mode: int | None = None,
    bound: Bound | None = None,
) -> Source:
    """A file or a folder of the host, to lie at `to` ("" for the root) in the workspace. Blocks.

    exclude: patterns as of the shell (`*.pyc`, `.git`), matched against names and whole paths.
    mode: permission bits of a file instead of its own.
    Raises UsageError, TooLarge.
    """
    limit = bound or Bound()
    try:
        found = source.stat()
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}.") from error
    if stat.S_ISDIR(found.st_mode):
        entries, read = _folder(source, to, exclude, limit)
        return Source(_manifest(entries), read)
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{source} is neither a file nor a folder.")
    if not to:
        raise UsageError(f"Say what {source.name} is to be called in the workspace.")
    limit.check(1, found.st_size, str(source))
    entry = Entry(to, "file", found.st_mode & 0o777 if mode is None else _mode(mode))
    # Hashed as it is read: only what was read is ever named.
    hashed = entry.containing(_read_file(source, limit))
    return Source(_manifest([hashed]), {to: lambda: _read_file(source, limit)})


def _folder(
    source: Path, to: str, exclude: Sequence[str], limit: Bound
) -> tuple[list[Entry], dict[str, Read]]:
    entries: list[Entry] = []
    read: dict[str, Read] = {}
    size = 0
    if to:
        entries.append(Entry(to, "dir", source.stat().st_mode & 0o777))
    for inner, whole in _walk(source, "", exclude):
        found = whole.lstat()
        place = below(to, inner)
        mode = found.st_mode & 0o777
        if stat.S_ISDIR(found.st_mode):
            entries.append(Entry(place, "dir", mode))
        elif stat.S_ISLNK(found.st_mode):
            entries.append(Entry(place, "link", 0o777, target=_text(str(whole.readlink()))))
        elif stat.S_ISREG(found.st_mode):
            size += found.st_size
            limit.check(len(entries) + 1, size, str(source))
            entries.append(Entry(place, "file", mode).containing(_read_file(whole, limit)))
            read[place] = _reader(whole, limit)
        else:
            raise UsageError(
                f"{shown(inner)} in {source} is a socket, a pipe or a device, which cannot come in."
                " Leave it out with `exclude`."
            )
        limit.check(len(entries), size, str(source))
    return entries, read


def _walk(
    root: Path, inner: str, exclude: Sequence[str], depth: int = 0
) -> Iterator[tuple[str, Path]]:
    """What lies below, links not followed, in the order of names: its path as text, and itself."""
    if depth > MAX_DEPTH:
        raise TooLarge(f"{shown(inner)} is over {MAX_DEPTH} folders deep.")
    try:
        inside = sorted(root.iterdir())
    except OSError as error:
        raise UsageError(f"{root} cannot be read: {error.strerror}. Nothing came in.") from error
    for whole in inside:
        path = below(inner, _text(whole.name))
        if excluded(path, exclude):
            continue
        yield path, whole
        if whole.is_dir() and not whole.is_symlink():
            yield from _walk(whole, path, exclude, depth + 1)


def _text(name: str) -> str:
    """A name as manifests write it, whatever encoding this process' names have."""
    return path_text(os.fsencode(name))


def excluded(path: str, patterns: Sequence[str]) -> bool:
    """Whether a pattern fits the path's last name, or all of it."""
    name = path.rpartition("/")[2]
    return any(
        fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(path, pattern)
        for pattern in patterns
    )


def _reader(path: Path, limit: Bound) -> Read:
    return lambda: _read_file(path, limit)


def _read_file(path: Path, limit: Bound) -> bytes:
    """All of a file. A file swapped for a pipe must not make us wait for a writer."""
    try:
        with open(path, "rb", opener=_opener) as file:
            data = file.read(limit.bytes + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Nothing came in.") from error
    limit.check(1, len(data), str(path))
    return data


def _opener(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _mode(mode: int) -> int:
    if not 0 <= mode <= 0o777:
        raise UsageError(f"A mode is permission bits, 0 to 0o777, not {mode:#o}.")
    return mode


def _manifest(entries: Sequence[Entry]) -> Manifest:
    try:
        return Manifest.of(entries)
    except BadManifest as error:
        raise UsageError(f"This cannot come into a workspace: {error}") from error
