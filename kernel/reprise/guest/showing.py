"""Writes a tree that the host sends and puts it where it belongs, whole or not at all.

Done with a privilege that nothing in the sandbox has: by the host itself where it can enter the
sandbox (`sandbox/enter.py`), by the guest's parent where it cannot (`rooted`). The standard library
alone, and as little of it as can be: a Python is started for each mount, and waits for its imports.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat

TYPE_CHECKING = False  # typing itself takes 10 ms, at each mount
if TYPE_CHECKING:
    from collections.abc import Callable

_RENAME_EXCHANGE = 2

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20

_libc = ctypes.CDLL(None, use_errno=True)


class Wanted:
    """What to show: told by the host, which has checked it (`sandbox.trees`).

    place: a folder that belongs to mounts alone.  names: where below it, one or more.  incoming:
    the name below it that a tree in the making has.  entries: [path, type, mode, size, link
    target], folders before what lies in them.  time: of everything, so that a replay finds what
    there was; seconds.
    """

    __slots__ = ("entries", "incoming", "names", "place", "time")

    def __init__(
        self,
        place: str,
        names: list[str],
        incoming: str,
        entries: list[tuple[str, str, int, int, str]],
        time: int,
    ) -> None:
        self.place = place
        self.names = names
        self.incoming = incoming
        self.entries = entries
        self.time = time


def show(
    place: int,
    wanted: Wanted,
    read: Callable[[int], bytes],
    told: Callable[[], None],
    mode_of: Callable[[int], int] = int,
) -> None:
    """Show a tree in the opened folder `place`. What was there stays unless this returns.

    read: the next so many bytes of all files in the order of entries, no fewer.  told: returns
    when the host wants it shown, else raises.  mode_of: the mode that one of the tree becomes.
    Raises OSError, and what `read` and `told` raise.
    """
    os.umask(0)
    # Its mode lets nobody in who has no privilege: the sandbox sees a name, and nothing beneath.
    os.mkdir(wanted.incoming, 0, dir_fd=place)
    try:
        top = _opened(place, wanted.incoming)
        try:
            _write(top, wanted, read, mode_of)
            told()
            _put(place, top, wanted)
        finally:
            os.close(top)
    except BaseException:
        remove(place, wanted.incoming)
        raise
    try:  # noqa: SIM105
        remove(place, wanted.incoming)
    except OSError:
        pass  # a rest of what was there before goes before the next tree comes


def mode_for_all(mode: int) -> int:
    """The mode of a file that is not the sandbox's user's: what its owner may do, all may, but
    only its owner may write. So 0600 becomes 0644 and 0777 becomes 0755."""
    return mode & 0o700 | (mode >> 6 & 0o5) * 0o11


def remove(place: int, name: str) -> None:
    """Remove what was not put where it belongs, following nothing; closed to others at once."""
    for each in (name, _aside(name)):
        if not _is_there(place, each):
            continue
        if stat.S_ISDIR(os.lstat(each, dir_fd=place).st_mode):
            _remove_folder(place, each)
        else:
            os.unlink(each, dir_fd=place)


def _remove_folder(place: int, name: str) -> None:
    top = os.open(name, FOLDER, dir_fd=place)
    os.fchmod(top, 0)
    folders = ["."]
    for folder in folders:
        opened = os.open(folder, FOLDER, dir_fd=top)
        with os.scandir(opened) as found:
            entries = list(found)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{folder}/{entry.name}")
            else:
                os.unlink(entry.name, dir_fd=opened)
        os.close(opened)
    for folder in reversed(folders[1:]):
        os.rmdir(folder, dir_fd=top)
    os.close(top)
    os.rmdir(name, dir_fd=place)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _write(
    top: int, wanted: Wanted, read: Callable[[int], bytes], mode_of: Callable[[int], int]
) -> None:
    times = (wanted.time * 10**9, wanted.time * 10**9)
    folders = []
    for path, kind, mode, size, target in wanted.entries:
        name = _raw(path)
        if kind == "dir":
            os.mkdir(name, 0o700, dir_fd=top)
            folders.append((name, mode))
        elif kind == "link":
            os.symlink(_raw(target), name, dir_fd=top)
            os.utime(name, ns=times, dir_fd=top, follow_symlinks=False)
        else:
            file = os.open(name, _NEW_FILE, 0o600, dir_fd=top)
            try:
                left = size
                while left:
                    data = memoryview(read(min(left, _CHUNK)))
                    left -= len(data)
                    while data:
                        data = data[os.write(file, data) :]
                os.fchmod(file, mode_of(mode))
                os.utime(file, ns=times)
            finally:
                os.close(file)
    for name, mode in reversed(folders):
        folder = os.open(name, FOLDER, dir_fd=top)
        os.fchmod(folder, mode_of(mode))
        os.utime(folder, ns=times)
        os.close(folder)


def _put(place: int, top: int, wanted: Wanted) -> None:
    """Put the tree where it belongs, in place of what lies there."""
    *above, last = wanted.names
    parent, made, opened = place, [], []
    try:
        for name in above:
            try:
                os.mkdir(_raw(name), 0o755, dir_fd=parent)
                made.append((parent, name))
            except FileExistsError:
                pass
            parent = os.open(_raw(name), FOLDER, dir_fd=parent)
            opened.append(parent)
        os.fchmod(top, 0o755)
        os.utime(top, ns=(wanted.time * 10**9, wanted.time * 10**9))
        # Nobody else writes in here, so what is found stays so.
        if _is_there(parent, _raw(last)):
            _exchange(place, wanted.incoming, parent, last)
        else:
            os.rename(wanted.incoming, _raw(last), src_dir_fd=place, dst_dir_fd=parent)
    except OSError:
        for folder, name in reversed(made):
            os.rmdir(_raw(name), dir_fd=folder)
        raise
    finally:
        for folder in opened:
            os.close(folder)


def _is_there(folder: int, name: str | bytes) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def _exchange(place: int, incoming: str, parent: int, last: str) -> None:
    if _exchanged(place, incoming, parent, last):
        return
    # gVisor cannot exchange two names: for a moment there is none.
    os.rename(_raw(last), _aside(incoming), src_dir_fd=parent, dst_dir_fd=place)
    try:
        os.rename(incoming, _raw(last), src_dir_fd=place, dst_dir_fd=parent)
    except OSError:
        os.rename(_aside(incoming), _raw(last), src_dir_fd=place, dst_dir_fd=parent)
        raise


def _exchanged(old: int, name: str, new: int, to: str) -> bool:
    """Whether two names were exchanged; not where that does not exist. Raises OSError."""
    try:
        renameat2 = _libc.renameat2
    except AttributeError:
        return False  # a C library without it
    if renameat2(old, _raw(name), new, _raw(to), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(number, f"rename to {to!a}: {os.strerror(number)}")


def _opened(place: int, incoming: str) -> int:
    """The folder that the tree is written to, closed to all who have no privilege over it.

    Whoever writes without one (gVisor's folders, an ordinary user's) needs it open to itself.
    """
    try:
        return os.open(incoming, FOLDER, dir_fd=place)
    except PermissionError:
        os.chmod(incoming, 0o700, dir_fd=place)
        return os.open(incoming, FOLDER, dir_fd=place)


def _aside(incoming: str) -> str:
    """The name that a tree has which is being replaced, where two cannot be exchanged."""
    return f"{incoming}-old"
