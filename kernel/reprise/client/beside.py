"""A session's workspace as it was after some step, built in a fresh sandbox beside the live one."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from reprise import settings
from reprise.client.environment import environment_of
from reprise.errors import UnavailableError, UsageError
from reprise.jupyter.kernelspec import language_kernel
from reprise.log.model import USER, Actor
from reprise.log.postgres import Log
from reprise.log.store import Artifact, LogReader, SessionInfo
from reprise.replay.artifacts import keep_file
from reprise.replay.at_rest import rebuilt
from reprise.replay.executor import Played
from reprise.replay.link import KernelLink
from reprise.replay.variables import Variables, ask
from reprise.sandbox.backends import backend
from reprise.sandbox.contract import Backend, SandboxSpec
from reprise.sandbox.environment import environment_kernel, sandbox_spec
from reprise.sandbox.named import NamedEnvironment
from reprise.workspace.folder import HostFolder
from reprise.workspace.listing import PAGE, FolderPage, list_folder
from reprise.workspace.manifest import MAX_SIZE, Manifest
from reprise.workspace.transfer import PIECE, fetch, read_file, read_piece, workspace_manifest


class PastWorkspace:
    """The workspace of a sandbox that has just been brought to a state of the session."""

    def __init__(self, link: KernelLink, origin: str) -> None:
        self._link = link
        self._guest = link.guest
        #: which one it is, in words
        self.origin = origin

    async def manifest(self, *, hashes: bool) -> Manifest:
        return await workspace_manifest(self._guest, hashes=hashes)

    async def variables(self) -> Variables | None:
        """What its interpreter holds; None where that cannot be told. Raises SandboxDied."""
        return await ask(self._link)

    async def folder(
        self, path: str = "", *, after: str | None = None, limit: int = PAGE, own: bool = True
    ) -> FolderPage:
        """What lies in one folder. Raises GuestCallFailed where there is none."""
        return await list_folder(self._guest, path, after, limit, own=own)

    async def fetch(self, path: str, sink: BinaryIO, limit: int) -> int:
        """Copy a file into `sink`; returns its size. Raises RepriseError when it is none."""
        return await fetch(self._guest, path, sink, limit)

    async def piece(self, path: str, offset: int, length: int) -> tuple[int, bytes]:
        """The size of a file, and up to `length` bytes of it from `offset` on, a MiB at most.

        Raises GuestCallFailed when it is no file.
        """
        return await read_piece(self._guest, path, offset, min(length, PIECE))

    async def keep(self, log: Log, reader: LogReader, path: str, actor: Actor = USER) -> Artifact:
        """Store a file of it as an artifact of the session."""
        return await keep_file(self._guest, log, reader, path, actor)

    async def read(self, path: str, limit: int | None = None) -> bytes:
        """A file of it. Raises TooLarge over `limit` bytes."""
        return await read_file(self._guest, path, MAX_SIZE if limit is None else limit)


@contextlib.contextmanager
def fresh_sandbox(
    info: SessionInfo,
    named: NamedEnvironment,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Iterator[tuple[Backend, SandboxSpec]]:
    """What a sandbox beside the session's own is started with, as that environment is now.

    The process backend works in a copy of `folder`; without one, of the notebook's where it is
    known, else of the folder that the command runs in.
    """
    environ = os.environ if environ is None else environ
    chosen = backend(environ.get(settings.BACKEND))
    with tempfile.TemporaryDirectory(prefix="reprise-beside-") as copy:
        if not chosen.isolated:
            source = folder or notebook_folder(info) or Path.cwd()
            try:
                _copy_folder(source, Path(copy))
            except OSError as error:
                raise UnavailableError(
                    f"{source} could not be copied to {copy}, where it is to be replayed: "
                    f"{error.strerror}. Nothing was run; TMPDIR names another place for copies."
                ) from error
        language = environment_kernel(named, language_kernel(info.kernel, environ))
        yield chosen, sandbox_spec(named, language, Path(copy), environ)


@contextlib.asynccontextmanager
async def past_workspace(
    reader: LogReader,
    at: int | None = None,
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    on_step: Callable[[Played], None] | None = None,
) -> AsyncIterator[PastWorkspace]:
    """The workspace as after step `at` (-1: before the first), by default after the last one.

    Raises UsageError when there is no such step; SandboxError, SandboxDied.
    """
    info = await reader.info()
    if at is not None and not -1 <= at < info.steps:
        last = f"its last one is {info.steps - 1}" if info.steps else "it has none yet"
        raise UsageError(f"Session {info.id} has no step {at}; {last}.")
    named = await environment_of(reader, info, os.environ if environ is None else environ)
    with fresh_sandbox(info, named, folder, environ) as (chosen, spec):
        stop = None if at is None else at + 1
        async with rebuilt(reader, chosen, spec, stop=stop, on_step=on_step) as link:
            words = "rebuilt from the log" if at is None else f"as after step {at}"
            yield PastWorkspace(link, words)


def notebook_folder(info: SessionInfo) -> Path | None:
    """The folder of the session's notebook, where that is known and still there."""
    known = None if info.notebook is None else Path(info.notebook).parent
    return known if known is not None and known.is_dir() else None


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
