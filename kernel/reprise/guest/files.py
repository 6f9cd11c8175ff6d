"""The workspace's files for the host: put, remove, get, tree; everything beneath one folder."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from reprise.guest.beneath import components, open_beneath
from reprise.guest.folder import FOLDER, discard, lstat, remove_tree
from reprise.guest.install import ON_THE_WAY, Installation

#: The most one `get` answers; longer files are fetched in pieces.
MAX_PIECE = 4 << 20

#: One `tree` answer ends after so many entries, or so many bytes hashed: messages of the
#: language kernel wait meanwhile.
MAX_ENTRIES = 2000
MAX_HASHED = 32 << 20

#: Our own folder. Its content is part of the workspace (what a command's file holds can be read
#: by the next cell, hence is state), but for half-done uploads in `STAGE`.
OWN = ".reprise"
STAGE = re.compile(r"stage-[0-9a-f]{16}\Z")

#: How another kind of thing than a folder, or a link that leads out or nowhere, shows itself.
_IN_THE_WAY = (errno.ENOTDIR, errno.ELOOP, errno.EXDEV)

_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "link"}


class Files:
    """File operations beneath a root folder. All raise OSError, ValueError for bad arguments.

    skipped: says of a path and its lstat whether `tree` leaves it out.
    """

    def __init__(self, root: str, skipped: Callable[[str], bool]) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._skipped = skipped

    def clear_stages(self, older_than_s: float) -> None:
        """Remove uploads that were left half done, in a workspace that outlives its sandboxes.

        Young ones may be another session's that comes in right now.
        """
        try:
            own = open_beneath(self._root, OWN, FOLDER)
        except OSError:
            return
        try:
            for name in filter(STAGE.match, os.listdir(own)):
                found = lstat(own, name)
                if found is not None and time.time() - found.st_mtime > older_than_s:
                    with contextlib.suppress(OSError):  # somebody else clears it, or holds it
                        discard(own, name)
        finally:
            os.close(own)

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
            parent = self.make_folders(parts[:-1])
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

    def make_folders(self, parts: list[str]) -> int:
        """A descriptor of a folder, made with all above it where they are missing.

        In our own folder whatever else is in the way gives way: only a cell can have put it there.
        """
        ours = parts[:1] == [OWN]
        mode = 0o755 | (ON_THE_WAY if ours and len(parts) > 1 and STAGE.match(parts[1]) else 0)
        for end in range(1, len(parts) + 1):
            path = "/".join(parts[:end])
            try:
                os.close(open_beneath(self._root, path, os.O_PATH | os.O_DIRECTORY))
                continue
            except OSError as error:
                if not (error.errno == errno.ENOENT or (ours and error.errno in _IN_THE_WAY)):
                    raise
            above = open_beneath(self._root, "/".join(parts[: end - 1]), FOLDER)
            try:
                if ours:
                    discard(above, parts[end - 1])
                os.mkdir(parts[end - 1], mode if end > 2 else 0o755, dir_fd=above)
            finally:
                os.close(above)
        return open_beneath(self._root, "/".join(parts), FOLDER)

    def replace_file(self, path: str) -> int:
        """A descriptor for writing of a fresh file; what was at its path has made way."""
        *folders, name = components(path)
        parent = self.make_folders(folders)
        try:
            discard(parent, name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(name, flags, 0o644, dir_fd=parent)
        finally:
            os.close(parent)

    def is_at(self, path: str, descriptor: int) -> bool:
        """Whether a path still names the file that is open here."""
        try:
            found = open_beneath(self._root, path, os.O_PATH)
        except OSError:
            return False
        try:
            return os.path.sameopenfile(found, descriptor)
        finally:
            os.close(found)

    def install(self, stage: str, removed: Sequence[str]) -> None:
        """Move a staged tree into place, after removing some paths; the stage is gone afterwards.

        Raises OSError when nothing has changed, install.HalfInstalled when something has.
        """
        try:
            Installation(self._root, stage).run(removed)
        finally:
            self._leave_no_empty_folder()

    def _leave_no_empty_folder(self) -> None:
        """A stage may have been the first thing in our own folder, and no upload is to show it."""
        with contextlib.suppress(OSError):
            os.rmdir(OWN, dir_fd=self._root)

    def _put_folder(self, parent: int, name: str, mode: int) -> None:
        found = lstat(parent, name)
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
        found = lstat(parent, name)
        if append and found is not None and stat.S_ISREG(found.st_mode):
            flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, dir_fd=parent), "wb") as file:
                file.write(content)
            return
        if found is not None and stat.S_ISDIR(found.st_mode):
            remove_tree(parent, name)
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
        found = lstat(parent, name)
        if found is not None and stat.S_ISDIR(found.st_mode):
            remove_tree(parent, name)
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
                parent = open_beneath(self._root, "/".join(parts[:-1]), FOLDER)
            except (FileNotFoundError, NotADirectoryError):
                continue
            try:
                discard(parent, parts[-1])
            finally:
                os.close(parent)
            if parts[0] == OWN and len(parts) == 2 and STAGE.match(parts[1]):
                self._leave_no_empty_folder()

    def get(self, path: str, offset: int, length: int) -> tuple[dict[str, Any], bytes]:
        """Size, mode and type of what a path names, whether it is named by a link, and a piece of
        it if it is a file."""
        parts = components(path)
        if offset < 0 or length < 0:
            raise ValueError("offset and length cannot be below zero")
        # NONBLOCK: opening a FIFO must not wait for its writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
        named = self._lstat(parts, os.O_PATH | os.O_NOFOLLOW)
        link = stat.S_ISLNK(named.st_mode)
        found = self._lstat(parts, os.O_PATH) if link else named
        kind = _TYPES.get(stat.S_IFMT(found.st_mode))
        if kind is None:
            raise OSError(errno.ENXIO, "neither a file nor a folder nor a link", path)
        about = {
            "size": found.st_size,
            "mode": stat.S_IMODE(found.st_mode),
            "type": kind,
            "link": link,
        }
        if kind != "file":
            return about, b""
        with os.fdopen(open_beneath(self._root, "/".join(parts), flags), "rb") as file:
            return about, os.pread(file.fileno(), min(length, MAX_PIECE), offset)

    def _lstat(self, parts: list[str], flags: int) -> os.stat_result:
        handle = open_beneath(self._root, "/".join(parts), flags)
        try:
            return os.fstat(handle)
        finally:
            os.close(handle)

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

    def folder(
        self, path: str, limit: int, after: str | None, own: bool
    ) -> tuple[list[dict[str, Any]], int, bool]:
        """What lies in one folder (links on the way followed within the workspace), names in byte
        order after the name `after`; how many there are in all, and whether more follow.

        own: with our own folder."""
        opened = open_beneath(self._root, "/".join(components(path)), FOLDER)
        try:
            names = [name for name in os.listdir(opened) if self._listed(path, name, own)]
            behind = b"" if after is None else os.fsencode(after)
            entries: list[dict[str, Any]] = []
            for name in sorted(filter(lambda n: os.fsencode(n) > behind, names), key=os.fsencode):
                if len(entries) >= min(limit, MAX_ENTRIES):
                    return entries, len(names), True
                entry = self._child(opened, path, name)
                if entry is not None:
                    entries.append(entry)
            return entries, len(names), False
        finally:
            os.close(opened)

    def _listed(self, folder: str, name: str, own: bool) -> bool:
        """Whether `tree` would not leave it out for its name."""
        parts = components(folder)
        if not parts and name == OWN and not own:
            return False
        staged = parts == [OWN] and STAGE.match(name)
        return name != "__pycache__" and not staged and not self._skipped("/".join([*parts, name]))

    def _child(self, opened: int, folder: str, name: str) -> dict[str, Any] | None:
        found = lstat(opened, name)
        kind = None if found is None else _TYPES.get(stat.S_IFMT(found.st_mode))
        if found is None or kind is None:
            return None
        entry: dict[str, Any] = {
            "name": name,
            "type": kind,
            "mode": stat.S_IMODE(found.st_mode),
            "size": found.st_size if kind == "file" else 0,
            "mtime_ns": found.st_mtime_ns,
        }
        if kind == "link":
            with contextlib.suppress(OSError):
                entry["target"] = os.readlink(name, dir_fd=opened)
            with contextlib.suppress(OSError, ValueError):
                led = open_beneath(self._root, "/".join([*components(folder), name]), os.O_PATH)
                try:
                    entry["leads"] = _TYPES.get(stat.S_IFMT(os.fstat(led).st_mode))
                finally:
                    os.close(led)
        return entry

    def _walk(
        self, folder: int, prefix: list[str], after: list[str]
    ) -> Iterator[tuple[str, os.stat_result, int]]:
        """Depth first, names in byte order; folders that lie wholly before `after` are skipped."""
        opened = os.open(".", FOLDER, dir_fd=folder)
        try:
            for name in sorted(os.listdir(opened), key=os.fsencode):
                if after and os.fsencode(name) < os.fsencode(after[0]):
                    continue
                found = lstat(opened, name)
                if found is None or name == "__pycache__":
                    continue
                if prefix == [OWN] and STAGE.match(name):
                    continue
                below = after[1:] if after and name == after[0] else []
                if not (after and name == after[0]):
                    yield "/".join([*prefix, name]), found, opened
                if stat.S_ISDIR(found.st_mode):
                    try:
                        child = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=opened)
                    except OSError:
                        continue
                    try:
                        yield from self._walk(child, [*prefix, name], below)
                    finally:
                        os.close(child)
        finally:
            os.close(opened)


def _hash(parent: int, name: str) -> tuple[str, int]:
    total, size = hashlib.sha256(), 0
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=parent), "rb") as file:
        while piece := file.read(1 << 20):
            total.update(piece)
            size += len(piece)
    return total.hexdigest(), size
