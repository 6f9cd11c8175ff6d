"""The workspace's files for the host: put, remove, get, tree; everything beneath one folder."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from reprise.guest.beneath import components, open_beneath

#: The most one `get` answers; longer files are fetched in pieces.
MAX_PIECE = 4 << 20

#: One `tree` answer ends after so many entries, or so many bytes hashed: messages of the
#: language kernel wait meanwhile.
MAX_ENTRIES = 2000
MAX_HASHED = 32 << 20

_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


class Files:
    """File operations beneath a root folder. All raise OSError, ValueError for bad arguments.

    skipped: says of a path and its lstat whether `tree` leaves it out.
    """

    def __init__(self, root: str, skipped: Callable[[str], bool]) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._skipped = skipped

    def put(self, entries: Sequence[dict[str, Any]], data: Sequence[bytes]) -> None:
        """Make files, folders and links; parents are made as needed, what is in the way replaced.

        A file is written beside its place and renamed, so nobody sees half of it; with `append`
        the data goes to the end of what is there.
        """
        pieces = iter(data)
        for entry in entries:
            path, kind = str(entry["path"]), entry["type"]
            mode = int(entry.get("mode", 0o755 if kind == "dir" else 0o644)) & 0o777
            parts = components(path)
            if not parts:
                if kind != "dir":
                    raise OSError(errno.EISDIR, "the workspace itself is a folder", path)
                continue
            parent = self._make_folders(parts[:-1])
            try:
                if kind == "dir":
                    self._put_folder(parent, parts[-1], mode)
                elif kind == "file":
                    content = next(pieces, None)
                    if content is None:
                        raise ValueError(f"no data came with the file {path}")
                    self._put_file(parent, parts[-1], mode, content, bool(entry.get("append")))
                elif kind == "link":
                    self._put_link(parent, parts[-1], str(entry["target"]))
                else:
                    raise ValueError(f"{path} is to be a {kind!r}; only file, dir and link exist")
            finally:
                os.close(parent)

    def _make_folders(self, parts: list[str]) -> int:
        for end in range(1, len(parts) + 1):
            path = "/".join(parts[:end])
            try:
                os.close(open_beneath(self._root, path, os.O_PATH | os.O_DIRECTORY))
            except FileNotFoundError:
                above = open_beneath(self._root, "/".join(parts[: end - 1]), _FOLDER)
                try:
                    os.mkdir(parts[end - 1], 0o755, dir_fd=above)
                finally:
                    os.close(above)
        return open_beneath(self._root, "/".join(parts), _FOLDER)

    def _put_folder(self, parent: int, name: str, mode: int) -> None:
        found = _lstat(parent, name)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=parent)
            found = None
        if found is None:
            os.mkdir(name, mode, dir_fd=parent)
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        try:
            os.fchmod(folder, mode)
        finally:
            os.close(folder)

    def _put_file(self, parent: int, name: str, mode: int, content: bytes, append: bool) -> None:
        found = _lstat(parent, name)
        if append and found is not None and stat.S_ISREG(found.st_mode):
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, dir_fd=parent), "wb") as file:
                file.write(content)
            return
        if found is not None and stat.S_ISDIR(found.st_mode):
            _remove_tree(parent, name)
        fresh = f".reprise-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=parent), "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(file.fileno(), mode)
            os.rename(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh, dir_fd=parent)
            raise

    def _put_link(self, parent: int, name: str, target: str) -> None:
        found = _lstat(parent, name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            _remove_tree(parent, name)
        elif found is not None:
            os.unlink(name, dir_fd=parent)
        os.symlink(target, name, dir_fd=parent)

    def remove(self, paths: Sequence[str]) -> None:
        """Remove files, links and whole folders; what is not there is no error."""
        for path in paths:
            parts = components(path)
            if not parts:
                raise OSError(errno.EINVAL, "the workspace itself cannot be removed", path)
            try:
                parent = open_beneath(self._root, "/".join(parts[:-1]), _FOLDER)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                found = _lstat(parent, parts[-1])
                if found is None:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    _remove_tree(parent, parts[-1])
                else:
                    os.unlink(parts[-1], dir_fd=parent)
            finally:
                os.close(parent)

    def get(self, path: str, offset: int, length: int) -> tuple[dict[str, Any], bytes]:
        """Size, mode and type of what a path names, and a piece of it if it is a file."""
        parts = components(path)
        if offset < 0 or length < 0:
            raise ValueError("offset and length cannot be below zero")
        # NONBLOCK: opening a FIFO must not wait for its writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        handle = open_beneath(self._root, "/".join(parts), os.O_PATH)
        try:
            found = os.fstat(handle)
        finally:
            os.close(handle)
        kind = _TYPES.get(stat.S_IFMT(found.st_mode))
        if kind is None:
            raise OSError(errno.EINVAL, "neither a file nor a folder nor a link", path)
        about = {"size": found.st_size, "mode": stat.S_IMODE(found.st_mode), "type": kind}
        if kind != "file":
            return about, b""
        with os.fdopen(open_beneath(self._root, "/".join(parts), flags), "rb") as file:
            return about, os.pread(file.fileno(), min(length, MAX_PIECE), offset)

    def tree(
        self, hashes: bool, limit: int, after: str | None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Entries in walk order after the path `after`, and whether more follow."""
        entries: list[dict[str, Any]] = []
        hashed = 0
        start = components(after) if after else []
        for path, found, parent in self._walk(self._root, [], start):
            if len(entries) >= min(limit, MAX_ENTRIES) or hashed >= MAX_HASHED:
                return entries, True
            kind = _TYPES.get(stat.S_IFMT(found.st_mode))
            if kind is None or self._skipped(path):
                continue
            entry: dict[str, Any] = {
                "path": path,
                "type": kind,
                "mode": stat.S_IMODE(found.st_mode),
                "size": found.st_size if kind == "file" else 0,
                "mtime_ns": found.st_mtime_ns,
            }
            name = path.rpartition("/")[2]
            try:
                if kind == "link":
                    entry["target"] = os.readlink(name, dir_fd=parent)
                elif kind == "file" and hashes:
                    entry["sha256"], size = _hash(parent, name)
                    hashed += size
            except OSError as error:
                # Gone or unreadable since it was listed: said, not hidden.
                entry["error"] = os.strerror(error.errno or 0)
            entries.append(entry)
        return entries, False

    def _walk(
        self, folder: int, prefix: list[str], after: list[str]
    ) -> Iterator[tuple[str, os.stat_result, int]]:
        """Depth first, names in byte order; folders that lie wholly before `after` are skipped."""
        opened = os.open(".", _FOLDER, dir_fd=folder)
        try:
            for name in sorted(os.listdir(opened), key=os.fsencode):
                if after and os.fsencode(name) < os.fsencode(after[0]):
                    continue
                found = _lstat(opened, name)
                if found is None or name == "__pycache__":
                    continue
                below = after[1:] if after and name == after[0] else []
                if not (after and name == after[0]):
                    yield "/".join([*prefix, name]), found, opened
                if stat.S_ISDIR(found.st_mode):
                    try:
                        child = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=opened)
                    except OSError:
                        continue
                    try:
                        yield from self._walk(child, [*prefix, name], below)
                    finally:
                        os.close(child)
        finally:
            os.close(opened)


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def _lstat(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _hash(parent: int, name: str) -> tuple[str, int]:
    total, size = hashlib.sha256(), 0
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as file:
        while piece := file.read(1 << 20):
            total.update(piece)
            size += len(piece)
    return total.hexdigest(), size


def _remove_tree(parent: int, name: str) -> None:
    folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    try:
        for child in os.listdir(folder):
            found = _lstat(folder, child)
            if found is not None and stat.S_ISDIR(found.st_mode):
                _remove_tree(folder, child)
            elif found is not None:
                os.unlink(child, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)
