"""Skills as folders: a folder read into a tree, within bounds and itself; a tree written whole.

A folder is walked through directory descriptors with O_NOFOLLOW. A symbolic link is not left to
the system: it is followed here, name by name beneath the folder, so that one which is swapped
meanwhile leads nowhere else. What it leads to stands in its place.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Iterable
from contextlib import closing
from pathlib import Path

from reprise.errors import BadSkill, UnavailableError, UsageError
from reprise.skills.contract import (
    EXECUTABLE,
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILE_BYTES,
    MAX_FILES,
    PLAIN,
    SKILL_FILE,
    SkillTree,
)
from reprise.skills.paths import checked_path, is_left_out, refuse_collisions
from reprise.workspace.manifest import BadManifest, Entry, Manifest, parents, path_text, shown

#: Looked at while a folder is read. Links can show one folder at many places.
_MAX_LOOKED_AT = 4 * MAX_FILES
#: As Linux does (path_resolution(7)).
_MAX_LINKS = 40

#: Readings of a folder that is replaced meanwhile, as `write_folder` does.
_ATTEMPTS = 5

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_NONBLOCK: a file swapped for a fifo must not make the open wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


def tree_of_files(files: Iterable[tuple[str, int, bytes]]) -> SkillTree:
    """The tree of these files: (path, mode, bytes), in any order.

    Of a mode the owner's executable bit counts. What is no part of a skill (`paths.LEFT_OUT`) is
    left out. The bounds are held while `files` is consumed. Raises BadSkill: a path that cannot be
    kept everywhere, two at one place, too many or too large.
    """
    entries: list[Entry] = []
    contents: dict[str, bytes] = {}
    total = 0
    for path, mode, data in files:
        if is_left_out(path):
            continue
        checked_path(path)
        if len(entries) >= MAX_FILES:
            raise BadSkill(f"A skill has at most {MAX_FILES:,} files; this one has more.")
        total += len(data)
        _refuse_size(path, len(data), total)
        digest = hashlib.sha256(data).hexdigest()
        contents.setdefault(digest, bytes(data))
        kept = EXECUTABLE if mode & stat.S_IXUSR else PLAIN
        entries.append(Entry(path, "file", kept, len(data), digest))
    refuse_collisions(entry.path for entry in entries)
    try:
        return SkillTree(Manifest.of(entries), contents)
    except BadManifest as error:
        raise BadSkill(f"These files make no skill. {error}") from error


def _refuse_size(path: str, size: int, total: int) -> None:
    if size > MAX_FILE_BYTES:
        raise BadSkill(
            f"{shown(path)} is larger than the {MAX_FILE_BYTES >> 20} MiB that a file of a skill "
            "may have. Let a script fetch it, or mount it as data."
        )
    if total > MAX_BYTES:
        raise BadSkill(f"A skill holds at most {MAX_BYTES >> 20} MiB; this one holds more.")


def read_folder(path: Path) -> SkillTree:
    """The skill in this folder, which may itself be a link to one.

    Empty folders and what is no part of a skill (`paths.LEFT_OUT`) do not count. A link within
    the folder stands as what it leads to. Raises BadSkill: no such folder, no SKILL.md in it, a
    link that leads out of it, nowhere or around, something that is no file, something that cannot
    be read, or whatever `tree_of_files` refuses. Blocks.
    """
    for attempt in range(_ATTEMPTS):
        root = _opened(path)
        try:
            tree = _read(path, root)
        except BadSkill:
            if attempt == _ATTEMPTS - 1 or _still_at(path, root):
                raise
        else:
            if _still_at(path, root):
                return tree
        finally:
            os.close(root)
    raise BadSkill(
        f"{shown(str(path))} was replaced again and again while it was read. Try again when "
        "nothing writes there."
    )


def _opened(path: Path) -> int:
    try:
        return os.open(path, _DIRECTORY & ~os.O_NOFOLLOW)
    except OSError as error:
        mend = (
            " Name the folder that the file is in."
            if error.errno == errno.ENOTDIR
            else " Name the folder of a skill, with a SKILL.md in it."
        )
        raise BadSkill(f"{shown(str(path))} is no folder: {error.strerror}.{mend}") from error


def _still_at(path: Path, root: int) -> bool:
    """Whether the open folder is still the one at `path`: else its files may be going already."""
    try:
        return _identity(path.stat()) == _identity(os.fstat(root))
    except OSError:
        return False


def _read(path: Path, root: int) -> SkillTree:
    try:
        with os.scandir(root) as listing:
            # Told at once, before the whole of some other large folder was read.
            if not any(entry.name.casefold() == SKILL_FILE.casefold() for entry in listing):
                raise BadSkill(
                    f"{shown(str(path))} holds no {SKILL_FILE}, so it is no skill. Name the folder "
                    f"of a skill, or write its {SKILL_FILE}."
                )
        with closing(_Reading(path, root).files()) as files:
            return tree_of_files(files)
    except OSError as error:
        raise BadSkill(f"{shown(str(path))} cannot be read: {error.strerror}.") from error


class _Reading:
    """One reading of a folder."""

    def __init__(self, path: Path, root: int) -> None:
        self.path = path
        self.root = root
        self.real = os.path.realpath(os.fsencode(path))
        self.looked_at = 0
        self.total = 0

    def files(self) -> Generator[tuple[str, int, bytes], None, None]:
        return self._folder(self.root, b"", (), (_identity(os.fstat(self.root)),))

    def _folder(
        self,
        fd: int,
        shown_at: bytes,
        really_at: tuple[bytes, ...],
        around: tuple[tuple[int, int], ...],
    ) -> Generator[tuple[str, int, bytes], None, None]:
        """Files below the open folder `fd`, which is `really_at` beneath the root.

        shown_at: its path in the skill, with a "/" at its end.  around: itself and those above it.
        """
        for name in self._names(fd):
            at = shown_at + name
            try:
                inner, place = self._open(fd, really_at, name, at)
            except FileNotFoundError as error:
                raise self._refusal(at, "is a link that leads nowhere") from error
            except OSError as error:
                raise self._refusal(at, f"cannot be read ({error.strerror})") from error
            try:
                found = os.fstat(inner)
                if not stat.S_ISDIR(found.st_mode):
                    yield path_text(at), found.st_mode, self._bytes(inner, at, found)
                    continue
                if _identity(found) in around:
                    raise self._refusal(at, "is a link that leads around in a circle")
                if len(around) > MAX_DEPTH:
                    raise self._refusal(at, f"lies more than {MAX_DEPTH} folders deep")
                yield from self._folder(inner, at + b"/", place, (*around, _identity(found)))
            finally:
                os.close(inner)

    def _names(self, fd: int) -> list[bytes]:
        names = []
        with os.scandir(fd) as listing:
            for entry in listing:
                if is_left_out(entry.name):
                    continue
                self.looked_at += 1
                if self.looked_at > _MAX_LOOKED_AT:
                    raise BadSkill(
                        f"{shown(str(self.path))} holds more than {_MAX_LOOKED_AT:,} files and "
                        "folders (links counted by what they lead to), so it is no skill."
                    )
                # fsencode: the locale's file system encoding need not be UTF-8.
                names.append(os.fsencode(entry.name))
        return sorted(names)

    def _open(
        self, fd: int, really_at: tuple[bytes, ...], name: bytes, at: bytes
    ) -> tuple[int, tuple[bytes, ...]]:
        """A descriptor of the file or folder `name` in the folder `fd`, and where it really is.

        Raises OSError, BadSkill.
        """
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return self._follow(really_at, name, at)
        if stat.S_ISDIR(found.st_mode):
            return os.open(name, _DIRECTORY, dir_fd=fd), (*really_at, name)
        if not stat.S_ISREG(found.st_mode):
            raise self._refusal(at, "is no file (a socket, a pipe or a device)")
        return os.open(name, _FILE, dir_fd=fd), (*really_at, name)

    def _follow(
        self, really_at: tuple[bytes, ...], name: bytes, at: bytes
    ) -> tuple[int, tuple[bytes, ...]]:
        """What the link `name` leads to: each part looked up in an open folder beneath the root.

        Raises OSError, BadSkill.
        """
        ahead = [name, *reversed(really_at)]
        behind: list[bytes] = []
        folders = [os.dup(self.root)]
        links = 0
        try:
            while ahead:
                part = ahead.pop()
                if part in (b"", b"."):
                    continue
                if part == b"..":
                    if not behind:
                        raise self._refusal(at, "is a link that leads out of the skill")
                    behind.pop()
                    os.close(folders.pop())
                    continue
                found = os.stat(part, dir_fd=folders[-1], follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    links += 1
                    if links > _MAX_LINKS:
                        raise self._refusal(at, "is a link that leads around in a circle")
                    target = os.readlink(part, dir_fd=folders[-1])
                    if target.startswith(b"/"):
                        target = self._beneath(target, at)
                        behind.clear()
                        while len(folders) > 1:
                            os.close(folders.pop())
                    ahead.extend(reversed(target.split(b"/")))
                elif stat.S_ISDIR(found.st_mode):
                    if len(folders) > MAX_DEPTH:
                        raise self._refusal(at, f"leads more than {MAX_DEPTH} folders deep")
                    folders.append(os.open(part, _DIRECTORY, dir_fd=folders[-1]))
                    behind.append(part)
                elif ahead:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                elif not stat.S_ISREG(found.st_mode):
                    raise self._refusal(at, "is no file (a socket, a pipe or a device)")
                else:
                    return os.open(part, _FILE, dir_fd=folders[-1]), (*behind, part)
            return folders.pop(), tuple(behind)
        finally:
            for folder in folders:
                os.close(folder)

    def _beneath(self, target: bytes, at: bytes) -> bytes:
        """An absolute target as a path beneath the root."""
        if (target + b"/").startswith(self.real + b"/"):
            return target[len(self.real) :]
        raise self._refusal(at, "is a link that leads out of the skill")

    def _bytes(self, fd: int, at: bytes, found: os.stat_result) -> bytes:
        if not stat.S_ISREG(found.st_mode):  # swapped since it was looked at
            raise self._refusal(at, "is no file (a socket, a pipe or a device)")
        path = path_text(at)
        checked_path(path)
        # Looked at before it is read: a sparse file of a terabyte is refused at once.
        _refuse_size(path, found.st_size, self.total + found.st_size)
        with os.fdopen(os.dup(fd), "rb", buffering=0) as file:
            pieces = []
            left = MAX_FILE_BYTES + 1
            while left and (piece := file.read(min(left, 1 << 20))):
                pieces.append(piece)
                left -= len(piece)
        data = b"".join(pieces)
        self.total += len(data)
        return data

    def _refusal(self, at: bytes, why: str) -> BadSkill:
        return BadSkill(
            f"{shown(path_text(at))} in {shown(str(self.path))} {why}. A skill is made of files "
            "that lie in its own folder."
        )


def write_folder(tree: SkillTree, path: Path) -> None:
    """The tree as a folder at `path`, whole or not at all; scripts stay executable.

    A skill that is already there is replaced by the new one in a single rename. Folders above are
    made. Raises UsageError when what is at `path` is no skill's folder (it stays as it is), and
    UnavailableError when it cannot be written (as before, too). Blocks.
    """
    try:
        _refuse_replacing(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")
        try:
            _make_folder(new)
            for folder in sorted({above for e in tree.manifest for above in parents(e.path)}):
                _make_folder(new / folder)
            for entry in tree.manifest:
                _write_file(new / entry.path, entry.mode, tree.get(entry.path) or b"")
            _put(new, path)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise UnavailableError(
            f"{shown(str(path))} could not be written: {error.strerror}. What was there before is "
            "unchanged."
        ) from error


def _refuse_replacing(path: Path) -> None:
    """Raises UsageError unless there is nothing at `path`, or a skill's folder, or an empty one."""
    if path.is_symlink():
        raise UsageError(
            f"{shown(str(path))} is a link to {shown(str(path.readlink()))}. Remove it, or write "
            "to where it leads."
        )
    if not path.exists():
        return
    if not path.is_dir():
        raise UsageError(f"{shown(str(path))} is a file. A skill is written as a folder.")
    names = {each.name.casefold() for each in path.iterdir()}
    if ".git" in names:
        raise UsageError(
            f"{shown(str(path))} is a Git repository, whose history would be lost. Write the skill "
            "into a folder within it, or elsewhere."
        )
    if names and SKILL_FILE.casefold() not in names:
        raise UsageError(
            f"{shown(str(path))} is a folder without a {SKILL_FILE}, so it is not replaced by a "
            "skill. Name another place, or empty it."
        )


# The umask has its say in both, as with Git, but never takes the owner's rights.


def _make_folder(path: Path) -> None:
    path.mkdir()
    path.chmod(stat.S_IMODE(path.stat().st_mode) | 0o700)


def _write_file(path: Path, mode: int, data: bytes) -> None:
    fd = os.open(
        path,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        0o777 if mode == EXECUTABLE else 0o666,
    )
    with os.fdopen(fd, "wb") as file:
        made = stat.S_IMODE(os.fstat(fd).st_mode)
        os.fchmod(fd, made | mode & 0o700)
        file.write(data)


def _put(new: Path, path: Path) -> None:
    """Gives `path` the folder `new`; one that was there is at `new` afterwards, or gone."""
    if not path.exists():
        # Also over a folder that somebody made meanwhile, as long as it is empty (rename(2)).
        new.rename(path)
    elif not _exchange(new, path):
        # This file system cannot exchange two names (NFS, some FUSE): a moment with neither.
        old = new.with_name(f"{new.name}.old")
        path.rename(old)
        try:
            new.rename(path)
        except OSError:
            old.rename(path)
            raise
        old.rename(new)


def _exchange(one: Path, other: Path) -> bool:
    """Both names exchanged at once; False where the system cannot. Raises OSError."""
    if not hasattr(_libc, "renameat2"):
        return False
    result = _libc.renameat2(
        _AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE
    )
    if result == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), os.fspath(other))


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino
