"""The workspace of a session for a command: of its running kernel, or rebuilt from the log."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from reprise.commands.terminal import Terminal
from reprise.errors import UnavailableError, UsageError
from reprise.jupyter.kernelspec import language_kernel
from reprise.jupyter.sidecar import read_sidecar
from reprise.jupyter.visitor import KernelWorkspace
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from reprise.replay.at_rest import rebuilt
from reprise.replay.executor import Played
from reprise.sandbox.backends import backend
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import Backend, SandboxSpec
from reprise.sandbox.environment import sandbox_spec
from reprise.sandbox.named import load
from reprise.workspace.folder import HostFolder
from reprise.workspace.manifest import Entry, Manifest
from reprise.workspace.transfer import fetch, workspace_manifest


class Workspace(Protocol):
    """What can be asked of a workspace. `origin` says in words which one it is."""

    origin: str

    async def manifest(self, *, hashes: bool) -> Manifest: ...

    async def fetch(self, path: str, sink: BinaryIO, limit: int) -> int:
        """Copy a file into `sink`; returns its size. Raises RepriseError when it is none."""


class RunningWorkspace:
    """The workspace of a kernel that runs on this machine, asked over its control channel."""

    origin = "of the running kernel"

    def __init__(self, kernel: KernelWorkspace) -> None:
        self._kernel = kernel

    async def manifest(self, *, hashes: bool) -> Manifest:
        reply, _ = await asyncio.to_thread(self._kernel.ask, op="list", hashes=hashes)
        return Manifest.of([Entry.from_json(value) for value in reply["entries"]])

    async def fetch(self, path: str, sink: BinaryIO, limit: int) -> int:
        done, size = 0, None
        while size is None or done < size:
            reply, data = await asyncio.to_thread(
                self._kernel.ask, op="read", path=path, offset=done
            )
            if reply.get("type") != "file":
                raise UsageError(f"{path!r} in the workspace is a {reply.get('type')}, not a file.")
            # A file that grows meanwhile has no end; the size at the beginning counts.
            size = int(reply["size"]) if size is None else size
            if size > limit:
                raise UsageError(f"{path!r} holds {size:,} bytes, more than {limit:,}.")
            piece = b"".join(data)[: size - done]
            if not piece and done < size:
                raise UnavailableError(f"{path!r} became shorter while it was read.")
            sink.write(piece)
            done += len(piece)
        return done


class RebuiltWorkspace:
    """The workspace of a sandbox that has just been brought to the session's last state."""

    origin = "rebuilt from the log"

    def __init__(self, guest: Guest) -> None:
        self._guest = guest

    async def manifest(self, *, hashes: bool) -> Manifest:
        return await workspace_manifest(self._guest, hashes=hashes)

    async def fetch(self, path: str, sink: BinaryIO, limit: int) -> int:
        return await fetch(self._guest, path, sink, limit)


@contextlib.contextmanager
def fresh_sandbox(
    info: SessionInfo, folder: Path | None = None
) -> Iterator[tuple[Backend, SandboxSpec]]:
    """What a sandbox beside the session's own is started with, under the environment of now.

    The process backend works in a copy of `folder`; without one, of the notebook's where it is
    known, else of the folder that the command runs in.
    """
    chosen = backend()
    with tempfile.TemporaryDirectory(prefix="reprise-beside-") as copy:
        if not chosen.isolated:
            _copy_folder(folder or _notebook_folder(info), Path(copy))
        yield chosen, sandbox_spec(load(), language_kernel(info.kernel), Path(copy))


def _notebook_folder(info: SessionInfo) -> Path:
    known = None if info.notebook is None else Path(info.notebook).parent
    return known if known is not None and known.is_dir() else Path.cwd()


def _copy_folder(source: Path, target: Path) -> None:
    """What an upload would bring in, within its bounds."""
    folder = HostFolder(source)
    for entry in folder.first().manifest:
        path = target / entry.path
        if entry.type == "dir":
            path.mkdir(parents=True, exist_ok=True)
        elif entry.type == "link" and entry.target is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(entry.target)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join(folder.read(entry)))
            path.chmod(entry.mode)


def running_kernel(info: SessionInfo) -> Path | None:
    """The connection file of the kernel that holds a session, when it runs here and is ours.

    The log says who holds it; its command line says where its connection file is, which may be
    in any folder (nbclient and others use none of Jupyter's); its sidecar confirms the session.
    """
    holder = info.holder or {}
    if holder.get("host") != platform.node():
        return None
    try:
        argv = Path(f"/proc/{int(holder.get('pid', 0))}/cmdline").read_bytes().split(b"\0")
        connection = Path(os.fsdecode(argv[argv.index(b"-f") + 1]))
    except (OSError, ValueError, IndexError, TypeError):
        return None
    found = read_sidecar(connection)
    return connection if found is not None and found["session"] == str(info.id) else None


@contextlib.asynccontextmanager
async def opened_workspace(
    log: Log, session: uuid.UUID, terminal: Terminal
) -> AsyncIterator[Workspace]:
    """The workspace as it is now. Raises UsageError where there is none of its own."""
    reader = await log.reader(session)
    info = await reader.info()
    connection = running_kernel(info)
    if connection is not None:
        with KernelWorkspace(connection) as kernel:
            yield RunningWorkspace(kernel)
        return
    if info.holder is not None:
        who = ", ".join(f"{name} {value}" for name, value in info.holder.items())
        raise UnavailableError(
            f"Session {session} is in use by another kernel ({who}) that cannot be asked from "
            "here. Run this on its machine and as its user, or shut it down."
        )
    with fresh_sandbox(info) as (chosen, spec):
        if not chosen.isolated:
            raise UsageError(
                f"Without a sandbox (backend {chosen.name}) the workspace is the notebook's own "
                f"folder: {info.notebook or 'where the kernel was started'}."
            )
        terminal.status("starting a sandbox …")
        played = 0

        def on_step(_: Played) -> None:
            nonlocal played
            played += 1
            terminal.status(f"replayed {played} of {info.steps} steps")

        async with rebuilt(reader, chosen, spec, on_step=on_step) as guest:
            terminal.status("")
            yield RebuiltWorkspace(guest)
