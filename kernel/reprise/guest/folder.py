"""Looks at, opens and removes what a name is in an open folder; follows no link."""

# pathlib is not loaded in here: the language kernel waits for us.

from __future__ import annotations

import os
import stat

#: How a folder is opened for work in it.
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def lstat(parent: int, name: str) -> os.stat_result | None:
    """What a name is, or None when there is none."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_for_work(parent: int, name: str) -> tuple[int, int]:
    """A folder in which we may list, make and remove whatever its mode was; and that mode."""
    try:
        folder = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except PermissionError:
        handle = os.open(
            name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent
        )
        try:
            mode = stat.S_IMODE(os.fstat(handle).st_mode)
            # fchmod does not take a descriptor opened with O_PATH.
            os.chmod(f"/proc/self/fd/{handle}", mode | 0o700)
            return os.open(".", FOLDER, dir_fd=handle), mode
        finally:
            os.close(handle)
    mode = stat.S_IMODE(os.fstat(folder).st_mode)
    try:
        if mode & 0o700 != 0o700:
            os.fchmod(folder, mode | 0o700)
    except BaseException:
        os.close(folder)
        raise
    return folder, mode


def discard(parent: int, name: str) -> None:
    """Remove what a name is, a folder with all it holds; nothing there is no error."""
    found = lstat(parent, name)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        remove_tree(parent, name)
    else:
        os.unlink(name, dir_fd=parent)


def remove_tree(parent: int, name: str) -> None:
    """Remove a folder with all it holds."""
    folder, _mode = open_for_work(parent, name)
    try:
        for child in os.listdir(folder):
            discard(folder, child)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)
