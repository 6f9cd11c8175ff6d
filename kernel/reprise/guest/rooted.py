"""The guest's parent where process 1 is root: starts it as an ordinary user, and mounts trees.

For containers whose mount namespace the host cannot enter (a Dagger engine's, on another machine).
It dials twice: the guest's connection, which the guest inherits, and one of its own, over which the
host (`sandbox/rooted_mount.py`) asks it to show trees:

    host → rooted   u32 length, JSON of `showing.Wanted`
                    u32 length (at most PIECE), bytes of the files, one after the other; repeated
                    u32 0: show it now, or u32 GIVE_UP
                    u32 END instead of a tree: end the sandbox, every process of it
    rooted → host   u8 how it went (SHOWN, FAILED, FULL, GIVEN_UP), u16 length, UTF-8 text

Nothing is mounted here, it has no privilege to; what it shows are files of root's in folders of
root's, with modes by which all may read and only root may write (`showing.mode_for_all`).

It is init, too: it reaps, ends what is left when the guest has ended, and itself exits with 0.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
import socket
import stat
import time
from collections.abc import Callable

from reprise.guest import dial, shim
from reprise.guest.prctl import (
    drop_capabilities,
    set_child_subreaper,
    set_no_new_privileges,
    set_parent_death_signal,
)
from reprise.guest.seccomp import deny_calls, deny_network, taken
from reprise.guest.showing import FOLDER, Wanted, mode_for_all, remove, show

#: The one user and group in a sandbox that is not root.
USER = 1000

#: Bytes of JSON, of one piece of the files, and the word that ends a tree which is not wanted.
HEAD = 32 << 20
PIECE = 1 << 20
GIVE_UP = END = 0xFFFFFFFF

SHOWN, FAILED, FULL, GIVEN_UP = range(4)

#: Where trees may be shown (`contract.MOUNT_PLACES`).
PLACES = ("/skills", "/mnt")

#: The writable places, made the user's; the backend names the runtime folder.
_WORKSPACE = "/workspace"
#: An engine may mount them for root alone.
_TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108
_RUNTIME = "REPRISE_RUNTIME"

#: Milliseconds between looks at what the kernel has killed for memory.
_LOOK = 250

#: Seconds that ending what is left may take.
_PATIENCE = 10.0


class _GuestEnded(Exception):
    """The guest has ended, or whoever runs the container wants the end."""


class _GivenUp(Exception):
    """The host does not want this tree any more."""


def run(path: str, serve: Callable[[socket.socket], None]) -> None:
    """Dial the host at `path`, run the guest (`serve`) as USER, mount trees until it ends."""
    tokens = dial.take(dial.GUEST), dial.take(dial.ROOTED)
    stream, asked = (dial.dial(path, token) for token in tokens)
    shut = shim.asked() and not shim.report(asked)
    denied = taken()
    set_child_subreaper()
    _prepare()
    woken, wake = socket.socketpair()
    for end in (woken, wake):
        end.setblocking(False)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    ends: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda number, _: ends.append(number))
    guest = os.fork()
    if guest == 0:
        _become_guest(stream, (asked, woken, wake), serve, shut, denied)
    stream.close()
    mounting = _Mounting(asked, woken, lambda: bool(ends) or _reap(guest))
    try:
        mounting.run()
    except _GuestEnded:
        pass
    finally:
        _end_all()


def _become_guest(
    stream: socket.socket,
    others: tuple[socket.socket, ...],
    serve: Callable[[socket.socket], None],
    shut: bool,
    denied: bytes,
) -> None:
    """In the fresh child: let go of everything that is its parent's, root first of all.

    shut: also of the network, which nobody outside has taken away.  denied: a filter for system
    calls that no sandbox needs; empty for none.
    """
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        for other in others:
            other.close()
        parent = os.getppid()
        drop_to(USER)
        if denied:
            deny_calls(denied)
        if shut:
            deny_network()
        set_parent_death_signal(signal.SIGKILL)
        if os.getppid() == parent:
            serve(stream)
    except BaseException as error:  # noqa: BLE001  nothing may return from the child
        os.write(2, f"reprise: the guest ended: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


def drop_to(user: int) -> None:
    """Be this user, with no privilege left nor any to be had. Raises OSError."""
    with contextlib.suppress(PermissionError):
        # Without CAP_SETPCAP (the runtime shim leaves none) the set stays. It only bounds what
        # setuid programs and file capabilities give, and below nothing is given by those.
        drop_capabilities(bounding=True)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    drop_capabilities(bounding=False)
    set_no_new_privileges()


def _prepare() -> None:
    """The user's folders and the places for trees, where the image has none."""
    runtime = os.environ.get(_RUNTIME, "")
    for folder, mode in ((_WORKSPACE, 0o755), (runtime, 0o700)):
        if folder:
            os.makedirs(folder, exist_ok=True)
            os.chown(folder, USER, USER, follow_symlinks=False)
            os.chmod(folder, mode)
    for folder in _TEMPORARY:
        if os.path.isdir(folder) and os.stat(folder).st_uid == 0:
            os.chmod(folder, 0o1777)  # noqa: S103  as everywhere
    for place in PLACES:
        if not os.path.lexists(place):
            os.mkdir(place, 0o755)


def _reap(guest: int) -> bool:
    """Reap who has ended; whether the guest is among them."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if ended[0] == guest:
                if os.WIFSIGNALED(ended[1]):
                    number = os.WTERMSIG(ended[1])
                    os.write(2, f"reprise: the guest was ended by signal {number}\n".encode())
                return True
    except ChildProcessError:
        return True
    return False


def _end_all() -> None:
    """End every process but init and this one, and wait until those below us are gone."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError):
            # One system call for all: a fork bomb cannot outrun it (kill(2)).
            os.kill(-1, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


class _Mounting:
    """Shows what the host asks for on its connection.

    woken: readable after a signal.  over: to be asked then: whether this is the end.
    """

    def __init__(
        self, asked: socket.socket, woken: socket.socket, over: Callable[[], bool]
    ) -> None:
        asked.setblocking(False)
        self._asked = asked
        self._woken = woken
        self._over = over
        self._poll = select.poll()
        self._poll.register(woken, select.POLLIN)
        self._poll.register(asked, select.POLLIN)
        #: Bytes left of the piece that is being read.
        self._left = 0
        self._told = False
        self._killed = shim.killed_for_memory()

    def run(self) -> None:
        """Until the guest ends (_GuestEnded)."""
        try:
            while True:
                self._one()
        except ConnectionError:
            # Nobody asks any more, or nobody who may. The guest sees the end of its own stream.
            self._poll.unregister(self._asked)
            self._asked.close()
            while True:
                self._wait()

    def _one(self) -> None:
        length = int.from_bytes(self._exactly(4), "big")
        if length == END:
            raise _GuestEnded
        if length > HEAD:
            raise ConnectionError("a request over its bound")
        wanted = Wanted(**json.loads(self._exactly(length)))
        self._left, self._told = 0, False
        how, text = SHOWN, ""
        try:
            self._show(wanted)
        except _GivenUp:
            how = GIVEN_UP
        except OSError as error:
            if isinstance(error, ConnectionError):
                raise
            how = FULL if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM) else FAILED
            text = str(error)
            self._pass_over()
        told = text.encode("utf-8", "backslashreplace")[:4000]
        self._answer(bytes([how]) + len(told).to_bytes(2, "big") + told)

    def _show(self, wanted: Wanted) -> None:
        if wanted.place not in PLACES:
            raise OSError(errno.EINVAL, f"{wanted.place!a} is no place for trees")
        place = os.open(wanted.place, FOLDER)
        try:
            found = os.fstat(place)
            if found.st_uid != 0 or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise OSError(errno.EPERM, f"others than root may write in {wanted.place}")
            remove(place, wanted.incoming)
            show(place, wanted, self._content, self._until_told, mode_for_all)
        finally:
            os.close(place)

    # The host's words

    def _content(self, size: int) -> bytes:
        """The next bytes of the files, however the host cut them."""
        parts = []
        while size:
            if not self._left:
                self._left = self._length()
            if not self._left:
                raise ConnectionError("fewer bytes than the entries have")
            part = self._exactly(min(size, self._left))
            self._left -= len(part)
            size -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _until_told(self) -> None:
        if self._left or self._length():
            raise ConnectionError("more bytes than the entries have")

    def _length(self) -> int:
        """The next length; 0 when the tree is to be shown. Raises _GivenUp."""
        length = int.from_bytes(self._exactly(4), "big")
        if length in (0, GIVE_UP):
            self._told = True
        if length == GIVE_UP:
            raise _GivenUp
        if length > PIECE:
            raise ConnectionError("a piece over its bound")
        return length

    def _pass_over(self) -> None:
        """Read what belongs to a tree that cannot be shown."""
        try:
            while not self._told:
                self._exactly(self._left)
                self._left = self._length()
        except _GivenUp:
            pass

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size:
            try:
                part = self._asked.recv(min(size, PIECE))
            except (BlockingIOError, InterruptedError):
                self._wait()
                continue
            if not part:
                raise ConnectionError("the host closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _answer(self, data: bytes) -> None:
        # A few bytes, and the host reads: they fit, or it has broken its own protocol.
        if self._asked.send(data) != len(data):
            raise ConnectionError("the host does not read")

    def _wait(self) -> None:
        """Until the host said something, or a signal came. Raises _GuestEnded."""
        while not (ready := self._poll.poll(_LOOK)):
            if shim.killed_for_memory() > self._killed:
                # What is left when one of its processes is gone is a state that no replay can
                # come to again.
                os.write(2, b"reprise: the sandbox passed its memory limit\n")
                raise _GuestEnded
        for descriptor, _ in ready:
            if descriptor == self._woken.fileno():
                self._woken.recv(4096)
                if self._over():
                    raise _GuestEnded
