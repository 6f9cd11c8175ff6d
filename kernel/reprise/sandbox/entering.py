"""Shows trees in a running sandbox: starts `enter.py` to get in, feeds it, says how it ended."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import json
import marshal
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprise.errors import SandboxError, TooLarge
from reprise.log.model import Json
from reprise.sandbox.child import Child
from reprise.sandbox.trees import INCOMING, MODIFIED, CheckedTree, Mounted

#: Seconds in which a helper that was told to give up removes what it wrote.
_PATIENCE = 30.0
#: So many bytes are sent at once.
_TOGETHER = 128 << 10


class SandboxGone(Exception):
    """The sandbox ended before the tree was shown; its container knows why."""


class Entering:
    """How the host gets into one sandbox, what it has mounted there, and the helper inside.

    uid: the host user that a sandbox started by root lives under.  procs: files of the
    sandbox's control group, so that what is written counts as its memory.  root: what becomes the
    sandbox's root, where it is a folder of the host's.  inside: the user who owns what is written,
    as seen from inside, where that is not `uid` anyway.  folders: place → folder of ours that the
    sandbox shows there, where it cannot be entered.
    """

    def __init__(
        self,
        mounted: Mounted,
        uid: int | None,
        procs: Sequence[str],
        *,
        root: Path | None = None,
        inside: int | None = None,
        folders: Mapping[str, Path] | None = None,
    ) -> None:
        self._mounted = mounted
        found = None if root is None else root.stat()
        self._order = {
            "procs": list(procs),
            "uid": uid,
            "root": None if found is None else [found.st_dev, found.st_ino],
            "inside": inside,
            "folders": None if folders is None else {at: str(to) for at, to in folders.items()},
        }
        self._helper: Child | None = None

    async def show(self, target: str, tree: CheckedTree, pid: int, alive: int) -> None:
        """Show a tree, whole or not at all. pid, alive: of the sandbox's init, and a pidfd of it.

        One call at a time. The helper is started before the first await, so what holds when it
        is called still holds then. Raises as `Container.mount`, and SandboxGone.
        """
        place, names = self._mounted.check_target(target)
        self._mounted.check_room(target, tree)
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            with theirs:
                helper = self._start(theirs, pid, alive)
            try:
                wanted = marshal.dumps(_wanted(place, names, tree))
                await _until_told(ours, helper, _framed(wanted), tree)
                await helper.wait()
            finally:
                # Also when cancelled: whether it is shown is known before anybody goes on.
                ours.close()
                if await self._left(helper) == 0:
                    self._mounted.shows(target, tree)
        _raise_for(await helper.wait(), helper.said(), target)

    def _start(self, stdin: socket.socket, pid: int, alive: int) -> Child:
        order = {**self._order, "parent": os.getpid(), "pid": pid, "alive": alive}
        program = str(Path(__file__).with_name("enter.py"))
        try:
            self._helper = Child.start(
                [
                    *(sys.executable, "-I", "-S", "-W", "ignore", program),
                    marshal.dumps(order).hex(),
                ],
                pass_fds=[alive],
                env={"PATH": "/usr/bin:/bin"},
                cwd=Path("/"),
                stdin=stdin.fileno(),
            )
        except OSError as error:
            raise SandboxError(
                "Nothing was mounted: the program that enters the sandbox could not be started "
                f"({error})."
            ) from error
        return self._helper

    async def _left(self, helper: Child) -> int:
        """Its exit code, once it has ended, which it does by itself when its stdin has."""
        try:
            return await asyncio.wait_for(helper.wait(), _PATIENCE)
        except TimeoutError:
            return -1
        finally:
            await self.end()

    async def end(self) -> None:
        """End the helper that is in the sandbox now, if one is; returns when it has gone."""
        if self._helper is not None:
            self._helper.kill()
            await self._helper.wait()


def may_enter() -> bool:
    """Whether this process may ask to enter a namespace at all; container engines may forbid it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.setns(-1, 0)
    return ctypes.get_errno() == errno.EBADF


def head(place: str, names: Sequence[str], tree: CheckedTree) -> bytes:
    """What a guest's parent is told first: `guest.showing.Wanted` as JSON, with its length."""
    return _framed(json.dumps(_wanted(place, names, tree)).encode())


def _wanted(place: str, names: Sequence[str], tree: CheckedTree) -> dict[str, Json]:
    return {
        "place": place,
        "names": list(names),
        "incoming": INCOMING,
        "time": MODIFIED,
        "entries": [[p.path, p.type, p.mode, p.size, p.target or ""] for p in tree.pieces],
    }


def _framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


async def _until_told(ours: socket.socket, helper: Child, head: bytes, tree: CheckedTree) -> None:
    """Send all of it, unless the helper ends first. Raises what reading the tree raises."""
    feeding = asyncio.ensure_future(_feed(ours, head, tree))
    ended = asyncio.ensure_future(helper.wait())
    try:
        await asyncio.wait({feeding, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        feeding.cancel()
        ended.cancel()
        await asyncio.wait({feeding})
    if not feeding.cancelled():
        feeding.result()


async def _feed(ours: socket.socket, head: bytes, tree: CheckedTree) -> None:
    # At once: while the files are read here, the helper goes in.
    if not await _sent(ours, head):
        return
    # Small files go together: each call of the system for itself would take longer than its bytes.
    held = bytearray()
    for piece in tree.pieces:
        if piece.type != "file":
            continue
        if len(held) >= _TOGETHER:
            if not await _sent(ours, held):
                return
            held = bytearray()
        content = await tree.content(piece)
        if len(content) < _TOGETHER:
            held += content
        elif await _sent(ours, held) and await _sent(ours, content):
            held = bytearray()
        else:
            return
    held += b"!"
    await _sent(ours, held)


async def _sent(ours: socket.socket, data: bytes | bytearray) -> bool:
    """Whether the helper still listens; where it has ended, its exit code says more."""
    try:
        await asyncio.get_running_loop().sock_sendall(ours, data)
    except ConnectionError:
        return False
    return True


def _raise_for(code: int, said: str, target: str) -> None:
    if code == 0:
        return
    if code in (os.EX_UNAVAILABLE, -signal.SIGKILL):
        raise SandboxGone
    if code == os.EX_CANTCREAT:
        raise TooLarge(
            f"{target!a} was not mounted: the memory for mounts is full ({said}). Trees that were "
            "replaced keep theirs while a program in the sandbox has files of them open. What was "
            "there before stays. `reprise env limit mounts SIZE` raises the limit."
        )
    raise SandboxError(
        f"{target!a} was not mounted, and what was there before stays: the sandbox could not be "
        f"entered ({said or f'exit code {code}'}). That needs Linux 4.9 or newer, and in a "
        "container a seccomp profile that allows setns beside unshare, mount and pivot_root."
    )
