"""Run by the host to show a tree in a running sandbox: enters it, writes the tree, leaves.

    python -I -S enter.py ORDER < tree

    ORDER: hexadecimal digits of what marshal makes of a dict, which the same Python has written
    (json, typing or contextlib would take longer to import than a small tree to write):
    {"procs": [cgroup.procs files to join], "uid": int or null, "parent": pid, "pid": of the
     sandbox's init, "alive": pidfd of that init, "root": [device, inode] of the folder that becomes
     the sandbox's root or null, "inside": the user to be in there or null, "folders": null, or for
     a sandbox that cannot be entered {place: the folder of ours that it shows there, read-only}}

    tree: 4 bytes, length of what marshal makes of {"place": folder, "names": [name below it, …],
    "incoming": name, "entries": [[path, type, mode, size, link target], …], "time": seconds},
    folders before what lies in them; the bytes of all files in that order; a last byte that says:
    now show it.

The place is a memory file system that is mounted read-only for all of the sandbox. Nothing in
there can write to it, because nothing in there has a privilege. This program has them as the owner
of the sandbox's user namespace: it joins that and the mount namespace, goes on in a copy of the
latter that only itself is in, and clears the flag there. It does not join the PID namespace, so
the sandbox cannot see it, let alone trace it. Standard library only, but for the writing itself
(`guest.showing`), and loaded before it is inside.

Exit codes: os.EX_UNAVAILABLE, the sandbox has ended; os.EX_CANTCREAT, the memory file system is
full; os.EX_NOINPUT, stdin ended before the last byte; 1, see stderr. With these nothing is shown.
"""

import ctypes
import errno
import fcntl
import marshal
import os
import select
import sys

sys.path.insert(0, __file__.rsplit("/", 3)[0])

from reprise.guest.prctl import keep_capabilities
from reprise.guest.showing import FOLDER, Wanted, mode_for_all, remove, show

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_NS_GET_USERNS = 0xB701
_MS_NOSUID = 0x2
_MS_NODEV = 0x4
_MS_REMOUNT = 0x20
_MS_BIND = 0x1000
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_SIGKILL = 9

_CHUNK = 1 << 20

#: Milliseconds that a process which is being ended may take for it.
_EXIT_MS = 2000

_libc = ctypes.CDLL(None, use_errno=True)


class _Ended(Exception):
    """There is nothing more to do; carries the exit code."""


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _mount(source: str, target: str, flags: int) -> None:
    where = os.fsencode(source), os.fsencode(target)
    _check(_libc.mount(*where, None, ctypes.c_ulong(flags), None), f"mount {target}")


def _namespaces(pid: int, alive: int, root: list[int] | None) -> tuple[int, int]:
    """The sandbox's mount namespace and the user namespace that owns it, opened.

    Not before its root is its own; until then it is the host's. With `root` that is seen by what
    the root is. Without, by the further user namespace in which the processes are then:
    bubblewrap makes it (--disable-userns) after all its mounts.
    """
    ended = select.poll()
    ended.register(alive, select.POLLIN)
    while True:
        try:
            mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            users = os.stat(f"/proc/{pid}/ns/user")
            top = os.stat(f"/proc/{pid}/root")
        except (FileNotFoundError, ProcessLookupError):
            raise _Ended(os.EX_UNAVAILABLE) from None
        except PermissionError:
            # A process on its way out has no memory any more, and is closed to ordinary users.
            if ended.poll(_EXIT_MS):
                raise _Ended(os.EX_UNAVAILABLE) from None
            raise
        # While it lives, nobody else has its pid.
        if ended.poll(0):
            raise _Ended(os.EX_UNAVAILABLE)
        owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
        if root is None:
            made = not os.path.samestat(os.fstat(owner), users)
        else:
            made = [top.st_dev, top.st_ino] == root
        if made:
            return mounts, owner
        os.close(mounts)
        os.close(owner)
        ended.poll(1)


def _enter(pid: int, alive: int, parent: int, root: list[int] | None, inside: int | None) -> None:
    """Join the sandbox's user and mount namespaces, then go on in a copy of the latter."""
    mounts, owner = _namespaces(pid, alive, root)
    _check(_libc.setns(owner, _CLONE_NEWUSER), "setns to the user namespace")
    _check(_libc.setns(mounts, _CLONE_NEWNS), "setns to the mount namespace")
    os.close(mounts)
    os.close(owner)
    top = os.stat("/")
    if root is not None and [top.st_dev, top.st_ino] != root:
        raise OSError(errno.EXDEV, "the sandbox's root is not its own yet")
    if inside is not None:
        # What is written is that user's.
        keep_capabilities(lambda: _be(inside))
    # After the last change of credentials, which resets both.
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        raise _Ended(os.EX_NOINPUT)
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    _mount("none", "/", _MS_REC | _MS_PRIVATE)


def _be(user: int) -> None:
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def _open_place(place: str, incoming: str) -> int:
    """The place, writable in this process's mount namespace; every other name is lost.

    Whatever Python might still open by name, a module or a source line for a message, would
    be the sandbox's. So the root becomes a folder that no longer exists.
    """
    # The place alone: what the environment mounts below it stays out of reach.
    _mount(place, place, _MS_BIND)
    _mount("none", place, _MS_REMOUNT | _MS_BIND | _MS_NOSUID | _MS_NODEV)
    opened = os.open(place, FOLDER)
    if os.fstat(opened).st_dev == os.stat("/").st_dev:
        raise OSError(errno.EXDEV, f"{place} is no file system of its own")
    remove(opened, incoming)
    os.fchdir(opened)
    os.mkdir(incoming, 0)
    os.chdir(incoming)
    os.rmdir(f"../{incoming}")
    os.chroot(".")
    return opened


def _read(size: int) -> bytes:
    """Exactly so many bytes of stdin."""
    parts = []
    while size:
        part = os.read(0, min(size, _CHUNK))
        if not part:
            raise _Ended(os.EX_NOINPUT)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _become(procs: list[str], uid: int | None) -> None:
    """The sandbox's user on the host, which owns its user namespace; root has no number there."""
    for file in procs:
        with open(file, "w") as group:
            group.write("0")
    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def _show_in(folder: str, parent: int, wanted: Wanted) -> None:
    """Show a tree in a folder of ours. All may read what is in it, only we may write."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0), "prctl")
    if os.getppid() != parent:
        raise _Ended(os.EX_NOINPUT)
    place = os.open(folder, FOLDER)
    remove(place, wanted.incoming)
    show(place, wanted, _read, _told, mode_for_all)


def _told() -> None:
    _read(1)


def main() -> None:
    order = marshal.loads(bytes.fromhex(sys.argv[1]))  # noqa: S302 - from the host itself
    try:
        # Before it joins the sandbox's control group: this is no memory of the sandbox.
        told = _read(int.from_bytes(_read(4), "big"))
        wanted = Wanted(**marshal.loads(told))  # noqa: S302 - from the host itself
        if order["folders"] is not None:
            _show_in(order["folders"][wanted.place], order["parent"], wanted)
            os._exit(0)
        _become(order["procs"], order["uid"])
        _enter(order["pid"], order["alive"], order["parent"], order["root"], order["inside"])
        show(_open_place(wanted.place, wanted.incoming), wanted, _read, _told)
    except _Ended as ended:
        os._exit(int(ended.args[0]))
    except OSError as error:
        os.write(2, str(error).encode("utf-8", "backslashreplace"))
        os._exit(os.EX_CANTCREAT if error.errno in (errno.ENOSPC, errno.ENOMEM) else 1)
    except BaseException as error:  # noqa: BLE001
        # No traceback: Python would open the source by its name.
        os.write(2, f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace"))
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
