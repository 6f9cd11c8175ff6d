"""Notices the end of a kernel process: by its process id on this machine, else by its heartbeat."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import zmq.asyncio

from reprise.jupyter.sidecar import read_sidecar

#: Seconds between two looks where the system cannot tell of a process' end by itself.
LOOK_S = 0.2
#: Seconds between two heartbeats.
BEAT_S = 2.0


def kernel_pid(connection: Path) -> int | None:
    """The process that serves a connection file, by its sidecar; None when none (still) does.

    A process that got the number later is not taken for it: the command line must name the file.
    """
    found = read_sidecar(connection)
    pid = None if found is None else found.get("pid")
    if type(pid) is not int or pid <= 0:
        return None
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    name = os.fsencode(connection.name)
    return pid if any(word.endswith(name) for word in words) else None


async def process_ended(pid: int) -> None:
    """Return when the process has ended (a zombie has)."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or one before 5.3
        while _runs(pid):  # noqa: ASYNC110 - the system tells nobody
            await asyncio.sleep(LOOK_S)
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    try:
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def heart_stopped(socket: zmq.asyncio.Socket, patience_s: float) -> None:
    """Return when the kernel has not answered its heartbeat for so many seconds.

    socket: a REQ socket, connected. The kernel answers in a thread of its own, however busy it is.
    """
    while True:
        await socket.send(b"ping")
        if not await socket.poll(int(patience_s * 1000)):
            return
        await socket.recv()
        await asyncio.sleep(BEAT_S)
