"""Finds the kernel that holds a session, when it runs on this machine and is ours to ask."""

from __future__ import annotations

import os
import platform
import uuid
from pathlib import Path

from jupyter_core.paths import jupyter_runtime_dir

from reprise.client.alive import kernel_pid
from reprise.errors import LeaseHeld
from reprise.jupyter.sidecar import read_sidecar, sidecars
from reprise.log.store import SessionInfo


def running_kernel(info: SessionInfo) -> Path | None:
    """The connection file of the kernel that holds a session, when it runs here and is ours.

    The log says who holds it; its command line says where its connection file is, which may be
    in any folder (nbclient and others use none of Jupyter's); its sidecar confirms the session.
    What a process that died left in that file confirms nothing.
    """
    connection = _connection(info)
    if connection is None:
        return None
    found = read_sidecar(connection)
    ours = found is not None and found["session"] == str(info.id)
    return connection if ours and kernel_pid(connection) == _pid(info) else None


def beginning_kernel(info: SessionInfo) -> bool:
    """Whether a kernel here has taken the session and is about to say so in its file, where the
    process before it left one."""
    connection = _connection(info)
    return (
        connection is not None
        and read_sidecar(connection) is not None
        and kernel_pid(connection) is None
    )


def _pid(info: SessionInfo) -> int:
    holder = info.holder or {}
    pid = holder.get("pid")
    return pid if type(pid) is int and holder.get("host") == platform.node() else 0


def _connection(info: SessionInfo) -> Path | None:
    """The connection file of the process here that holds a session, as its command line says."""
    if not _pid(info):
        return None
    try:
        argv = Path(f"/proc/{_pid(info)}/cmdline").read_bytes().split(b"\0")
        return Path(os.fsdecode(argv[argv.index(b"-f") + 1]))
    except (OSError, ValueError, IndexError):
        return None


def known_kernel(session: uuid.UUID) -> Path | None:
    """The same without asking the log: among the kernels in Jupyter's own folder."""
    for connection, found in sidecars(Path(jupyter_runtime_dir())):
        if found["session"] == str(session) and kernel_pid(connection) is not None:
            return connection
    return None


def held_elsewhere(info: SessionInfo) -> LeaseHeld:
    """Why a session that somebody holds cannot be reached from here."""
    who = ", ".join(f"{name} {value}" for name, value in (info.holder or {}).items())
    return LeaseHeld(
        f"Session {info.id} is in use by another kernel ({who}) that cannot be asked from here."
        " Run this on its machine and as its user, or shut it down."
    )
