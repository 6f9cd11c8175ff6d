"""`/sessions/{session}/files…`: what lies in a workspace, now or after a step; what was taken out.

Reading starts no kernel. A workspace that no kernel holds, or of a past step, is built by a job
(`/workspaces`) and then stands for a while.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from reprise.client import AsyncKernel, aconnect
from reprise.client.beside import PastWorkspace
from reprise.client.comparison import entry_json
from reprise.client.glance import glance
from reprise.client.holder import held_elsewhere, running_kernel
from reprise.client.requests import below, place
from reprise.client.workspace import LiveWorkspace
from reprise.errors import GuestCallFailed, TooLarge, UnavailableError, UsageError
from reprise.jupyter.workspace import NOT_READY
from reprise.log.as_json import artifact_json, iso
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.log.reader import Reader
from reprise.log.store import SessionInfo
from reprise.quantities import amount
from reprise.sandbox.backends import backend
from reprise.settings import TREE_BYTES
from reprise.workspace.listing import FolderPage, Listed
from reprise.workspace.manifest import BadManifest, Manifest, path_bytes, shown
from reprise_server.api.base import Asked, operation
from reprise_server.api.refusals import Refused
from reprise_server.api.sending import Range, Sending, asked_range
from reprise_server.api.session_steps import stored_bytes
from reprise_server.api.session_uploads import STEPS, brought_in, changed
from reprise_server.api.sessions import SessionEndpoint
from reprise_server.api.workshop import Workshop

T = TypeVar("T")

#: The session's own Python environment and what commands wrote, which Reprise keeps there.
_OWN: Final = ".reprise"
#: Bytes of a file that are sent in one answer.
FILE_BYTES: Final = 512 << 20
#: Seconds that a running kernel has to list a folder.
FOLDER_S: Final = 30.0
#: Bytes that are asked of a workspace at once.
_PIECE: Final = 1 << 20


class _Source(Protocol):
    """A workspace to be listed and read."""

    origin: str
    at: int | None

    async def manifest(self, *, hashes: bool) -> Manifest: ...

    async def folder(self, path: str, after: str | None, limit: int, *, own: bool) -> FolderPage:
        """Raises GuestCallFailed."""

    async def piece(self, path: str, offset: int, length: int) -> tuple[int, bytes]:
        """The size of the file, and bytes of it. Raises UsageError, GuestCallFailed."""

    async def keep(self, path: str) -> uuid.UUID:
        """Store a file as an artifact; returns its id."""

    async def close(self) -> None: ...


class _Live:
    """The workspace of the running kernel; the connection is made when it is first needed."""

    origin = "of the running kernel"
    at: int | None = None

    def __init__(self, connection: Path) -> None:
        self._connection = connection
        self._kernel: AsyncKernel | None = None

    async def _workspace(self) -> LiveWorkspace:
        if self._kernel is None:
            self._kernel = await aconnect(connection_file=self._connection, start=False)
        return self._kernel.workspace

    async def manifest(self, *, hashes: bool) -> Manifest:
        return await (await self._workspace()).manifest(hashes=hashes)

    async def folder(self, path: str, after: str | None, limit: int, *, own: bool) -> FolderPage:
        more: dict[str, Json] = {} if after is None else {"after": after}
        content = {"op": "folder", "path": path, "limit": limit, "own": own, **more}
        told = await glance(self._connection, "workspace_request", content, FOLDER_S)
        try:
            return FolderPage.of(told)
        except BadManifest as error:
            raise UnavailableError(f"The kernel's list of a folder is none: {error}") from error

    async def piece(self, path: str, offset: int, length: int) -> tuple[int, bytes]:
        return await (await self._workspace()).piece(path, offset, length)

    async def keep(self, path: str) -> uuid.UUID:
        return (await (await self._workspace()).keep(path)).id

    async def close(self) -> None:
        if self._kernel is not None:
            await self._kernel.close()


class _Standing:
    """A workspace that stands as after a step, on the loop that the jobs run on."""

    def __init__(self, workshop: Workshop, session: uuid.UUID, at: int) -> None:
        self.origin = f"as after step {at}"
        self.at: int | None = at
        self._at = at
        self._workshop = workshop
        self._session = session

    async def _do(self, work: Callable[[PastWorkspace], Awaitable[T]]) -> T:
        async def done() -> T:
            async with self._workshop.workspaces.use(self._session, self._at) as workspace:
                return await work(workspace)

        try:
            return await self._workshop.beside.run(done())
        except KeyError:
            raise not_built(self._at) from None

    async def manifest(self, *, hashes: bool) -> Manifest:
        return await self._do(lambda workspace: workspace.manifest(hashes=hashes))

    async def folder(self, path: str, after: str | None, limit: int, *, own: bool) -> FolderPage:
        return await self._do(
            lambda workspace: workspace.folder(path, after=after, limit=limit, own=own)
        )

    async def piece(self, path: str, offset: int, length: int) -> tuple[int, bytes]:
        return await self._do(lambda workspace: workspace.piece(path, offset, length))

    async def keep(self, path: str) -> uuid.UUID:
        async def kept(workspace: PastWorkspace) -> uuid.UUID:
            log = await Log.connect()
            try:
                return (await workspace.keep(log, await log.reader(self._session), path)).id
            finally:
                await log.close()

        return await self._do(kept)

    async def close(self) -> None:
        """It stands for others."""


def not_built(at: int) -> Refused:
    return Refused(
        409,
        "not-built",
        f"No kernel holds this workspace, and as after step {at} it does not stand. POST"
        f' {{"at": {at}}} to workspaces of this session builds it; then ask again with at={at}.',
        details={"at": at},
    )


async def step_within(reader: Reader, at: int) -> SessionInfo:
    """The session, when it has that step, or -1 for before the first. Raises Refused (404)."""
    info = await reader.info()
    if not -1 <= at < info.steps:
        last = f"its last one is {info.steps - 1}" if info.steps else "it has none yet"
        raise Refused(404, "step-not-found", f"Session {info.id} has no step {at}; {last}.")
    return info


def at_rest(info: SessionInfo) -> int:
    """The step after which the workspace of a session that nobody holds is.

    Raises LeaseHeld, and Refused (409) where it has none apart from the notebook's folder.
    """
    if info.holder is not None:
        raise held_elsewhere(info)
    chosen = backend()
    if not chosen.isolated:
        raise Refused(
            409,
            "no-workspace",
            f"Without isolation (backend {chosen.name}) it lies in the folder of the notebook.",
        )
    return info.steps - 1


class FilesOfSession(SessionEndpoint):
    """What looks into a workspace."""

    async def source(self, asked: Asked, at: int | None) -> _Source:
        """Raises SessionNotFound, LeaseHeld, Refused (404, 409)."""
        reader = await self.reader(asked)
        if at is None:
            info = await reader.info()
            connection = running_kernel(info)
            if connection is not None:
                return _Live(connection)
            at = at_rest(info)
        else:
            await step_within(reader, at)
        workshop = self.service.workshop
        if not workshop.workspaces.stands(reader.session, at):
            raise not_built(at)
        return _Standing(workshop, reader.session, at)


class FilesEndpoint(FilesOfSession):
    path = "/sessions/{session}/files"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        source = await self.source(asked, asked.query["at"])
        async with _closing(source):
            manifest = await source.manifest(hashes=asked.query["hashes"])
        everything, after = asked.query["all"], asked.query["after"]
        entries = [
            entry
            for entry in manifest.entries
            if (everything or entry.path.partition("/")[0] != _OWN)
            and (after is None or path_bytes(entry.path) > path_bytes(after))
        ]
        shown = entries[: asked.query["limit"]]
        return {
            "session": asked.path["session"],
            "workspace": source.origin,
            "at": source.at,
            "files": [entry_json(entry) for entry in shown],
            "next": shown[-1].path if len(entries) > len(shown) else None,
        }


class FolderEndpoint(FilesOfSession):
    path = "/sessions/{session}/files/folder"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        """One folder, of which the workspace reads no other: cheap, however much else there is."""
        named = place(asked.query["path"])
        source = await self.source(asked, asked.query["at"])
        async with _closing(source):
            try:
                page = await source.folder(
                    named, asked.query["after"], asked.query["limit"], own=asked.query["all"]
                )
            except GuestCallFailed as error:
                raise _no_folder(named, error) from error
        return {
            "session": asked.path["session"],
            "workspace": source.origin,
            "at": source.at,
            "path": named,
            "entries": [listed_json(named, each) for each in page.entries],
            "total": page.total,
            "next": page.next,
        }


def _no_folder(path: str, error: GuestCallFailed) -> Refused:
    if error.kind == NOT_READY:
        return Refused(409, NOT_READY, f"{error} Ask again when it has come back.")
    if error.kind in ("not-found", "outside", "not-a-file"):
        return Refused(404, "folder-not-found", f"There is no folder {shown(path) or '/'} in it.")
    return Refused(409, "guest-call-failed", str(error))


def listed_json(folder: str, entry: Listed) -> dict[str, Json]:
    """One thing of a folder for programs. leads: what a link leads to within the workspace."""
    at = entry.modified_ns
    return {
        "name": entry.name,
        "path": below(folder, entry.name),
        "type": entry.type,
        "mode": entry.mode,
        "size": entry.size if entry.type == "file" else None,
        "modified": None if at is None else iso(at // 1000),
        "target": entry.target,
        "leads": entry.leads,
    }


class FileEndpoint(FilesOfSession):
    path = "/sessions/{session}/files/content"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        named = _file(asked.query["path"])
        source = await self.source(asked, asked.query["at"])
        try:
            try:
                size, _ = await source.piece(named, 0, 0)
            except (GuestCallFailed, UsageError) as error:
                raise Refused(404, "file-not-found", str(error)) from error
            part = asked_range(self.request.headers.get("Range"), size)
            if part.stop - part.start > FILE_BYTES:
                raise TooLarge(
                    f"{shown(named)} holds {amount(size)}, more than the {amount(FILE_BYTES)} that"
                    " are sent at once. Ask for it in ranges (the header Range)."
                )
        except BaseException:
            await source.close()
            raise
        return Sending(
            _pieces(source, named, part),
            part.stop - part.start,
            named.rpartition("/")[2],
            status=part.status,
            headers=part.headers,
        )

    # A large file may be long in coming.
    @operation("execute", STEPS, body_bytes=TREE_BYTES, on_disk=True, patience_s=120)
    async def put(self, asked: Asked) -> Any:
        """Bring a file in, as a step: its bytes go to a disk, to the log's blobs, and then in."""
        named = _file(asked.query["path"])
        reader = await self.reader(asked)
        digest, size = await reader.blobs.put_file(asked.body)
        wanted = brought_in(named, digest, size, replace=asked.query["replace"])
        told = {"path": named, "bytes": size}
        return await changed(self, asked, wanted, told, asked.query["start"])


async def _pieces(source: _Source, path: str, part: Range) -> AsyncGenerator[bytes, None]:
    async with _closing(source):
        offset = part.start
        while offset < part.stop:
            _, piece = await source.piece(path, offset, min(_PIECE, part.stop - offset))
            if not piece:
                raise UnavailableError(f"{shown(path)} became shorter while it was read.")
            offset += len(piece)
            yield piece


@contextlib.asynccontextmanager
async def _closing(source: _Source) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await source.close()


def _file(path: str) -> str:
    """Raises UsageError for what names no file within a workspace."""
    named = place(path)
    if not named:
        raise UsageError("That is the workspace itself. Name a file in it.")
    return named


class ArtifactsEndpoint(FilesOfSession):
    path = "/sessions/{session}/artifacts"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        log = await self.service.log()
        found = await log.artifacts(self.session(asked))
        offset, limit = asked.query["offset"], asked.query["limit"]
        return {
            "artifacts": [artifact_json(each) for each in found[offset : offset + limit]],
            "total": len(found),
        }

    @operation("write", status=201)
    async def post(self, asked: Asked) -> Any:
        named = _file(asked.body["path"])
        session = self.session(asked)
        source = await self.source(asked, asked.body.get("at"))
        async with _closing(source):
            try:
                identity = await source.keep(named)
            except GuestCallFailed as error:
                raise Refused(404, "file-not-found", str(error)) from error
        found = await (await self.service.log()).artifacts(session)
        return artifact_json(next(each for each in found if each.id == identity))


class ArtifactEndpoint(SessionEndpoint):
    path = "/sessions/{session}/artifacts/{artifact}"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        log = await self.service.log()
        wanted = uuid.UUID(asked.path["artifact"])
        for each in await log.artifacts(self.session(asked)):
            if each.id == wanted:
                name = each.path.rpartition("/")[2]
                return await stored_bytes(await log.reader(each.session), each.sha256, name)
        raise Refused(404, "artifact-not-found", f"This session has no artifact {wanted}.")


ENDPOINTS: Final = (
    FilesEndpoint,
    FolderEndpoint,
    FileEndpoint,
    ArtifactsEndpoint,
    ArtifactEndpoint,
)
