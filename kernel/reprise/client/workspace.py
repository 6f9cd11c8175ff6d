"""Asks the kernel about its workspace: files, artifacts, background commands, state."""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

from reprise.client.failures import Refused, refusal
from reprise.client.reach import Reach
from reprise.client.results import Artifact, Reply, State, Surroundings
from reprise.errors import (
    GuestCallFailed,
    RepriseError,
    TooLarge,
    UnavailableError,
    UsageError,
)
from reprise.log.model import Actor, Json
from reprise.quantities import amount
from reprise.replay.variables import Variables, parse
from reprise.settings import ARTIFACT_BYTES
from reprise.workspace.listing import PAGE, FolderPage
from reprise.workspace.manifest import BadManifest, Entry, Manifest, check_path, shown

#: Bytes of a file that are asked for at once (the kernel's bound).
PIECE = 4 << 20
#: Times that a file is taken anew because it changed between being kept and being read.
TRIES = 3


@dataclass(frozen=True)
class BackgroundStatus:
    """A background command, running or ended.

    started_at: microseconds since the epoch, UTC.  stdout, stderr: files of the workspace.
    """

    command: int
    running: bool
    exit_code: int | None
    signal: int | None
    started_at: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class About:
    """What a path of a workspace names. type: file, dir or another.  link: whether by a link, of
    which all else is what it leads to."""

    type: str
    size: int
    mode: int
    link: bool


class LiveWorkspace:
    """The workspace of the kernel that `reach` leads to. actor: who asks, if not the user."""

    origin = "of the running kernel"

    def __init__(self, reach: Reach, actor: Actor | None = None) -> None:
        self._reach = reach
        self._actor = actor

    async def ask(self, op: str, **more: Json) -> Reply:
        """One workspace_request. Raises what the kernel refuses with; KernelGone, NoAnswer."""
        line = await self._reach.line()
        content = {"op": op, **more}
        timeout = self._reach.patience.answer
        reply = await line.ask("workspace_request", content, timeout_s=timeout)
        if reply.content.get("status") != "ok":
            raise refusal(reply.content)
        return reply

    async def manifest(self, *, hashes: bool = True, own: bool = True) -> Manifest:
        """All that lies in it. own: with Reprise's own folder (`.reprise`)."""
        reply = await self.ask("list", hashes=hashes, own=own)
        entries = reply.content.get("entries")
        try:
            if not isinstance(entries, list):
                raise BadManifest("there are no entries")
            return Manifest.of(Entry.from_json(value) for value in entries)
        except BadManifest as error:
            raise Refused(f"The kernel's list of files cannot be read: {error}") from error

    async def folder(
        self, path: str = "", *, after: str | None = None, limit: int = PAGE, own: bool = True
    ) -> FolderPage:
        """What lies in one folder ("" for the workspace itself), behind the name `after`.

        Raises GuestCallFailed where there is no such folder.
        """
        more: dict[str, Json] = {} if after is None else {"after": after}
        asked = path and _check(path)
        reply = await self.ask("folder", path=asked, limit=limit, own=own, **more)
        try:
            return FolderPage.of(reply.content)
        except BadManifest as error:
            raise Refused(f"The kernel's list of a folder cannot be read: {error}") from error

    async def piece(self, path: str, offset: int, length: int) -> tuple[int, bytes]:
        """The size that a file has now, and up to `length` bytes of it from `offset` on.

        Raises UsageError when it is no file, and what the kernel refuses with.
        """
        reply = await self.ask("read", path=_check(path), offset=offset, length=length)
        told, kind = reply.content.get("size"), reply.content.get("type")
        if kind != "file" or type(told) is not int:
            raise UsageError(f"{shown(path)} in the workspace is a {kind}, not a file.")
        return told, b"".join(reply.buffers)[:length]

    async def pieces(
        self, path: str, offset: int = 0, limit: int | None = None
    ) -> AsyncIterator[bytes]:
        """A file from `offset` to the end that it has now, in bounded pieces.

        Raises UsageError when it is no file, TooLarge when more than `limit` bytes follow.
        """
        size: int | None = None
        while size is None or offset < size:
            told, piece = await self.piece(path, offset, PIECE)
            if size is None:
                # A file that grows meanwhile has no end; the size at the beginning counts.
                size = told
                if limit is not None and size - offset > limit:
                    raise TooLarge(
                        f"{shown(path)} in the workspace holds {amount(size)}, more than the "
                        f"{amount(limit)} that may be taken."
                    )
            piece = piece[: max(size - offset, 0)]
            if not piece:
                if offset < size:
                    raise UnavailableError(
                        f"{shown(path)} became shorter while it was read: {offset:,} bytes of"
                        f" {size:,}."
                    )
                return
            yield piece
            offset += len(piece)

    async def fetch(self, path: str, sink: BinaryIO, limit: int | None = None) -> int:
        """Copy a file into `sink`; returns its size. Raises as `pieces`."""
        size = 0
        async for piece in self.pieces(path, limit=limit):
            await asyncio.to_thread(sink.write, piece)
            size += len(piece)
        return size

    async def read(self, path: str, offset: int = 0, limit: int | None = None) -> bytes:
        return b"".join([piece async for piece in self.pieces(path, offset, limit)])

    async def about(self, path: str) -> About | None:
        """What a path names; None where nothing is, or a link that leads to nothing.

        Raises GuestCallFailed for one that leads out of the workspace.
        """
        try:
            reply = await self.ask("read", path=_check(path), offset=0, length=0)
        except GuestCallFailed as error:
            if error.kind == "not-found":
                return None
            raise
        told = reply.content
        size, mode = told.get("size"), told.get("mode")
        return About(
            str(told.get("type")),
            size if type(size) is int else 0,
            mode & 0o777 if type(mode) is int else 0,
            told.get("link") is True,
        )

    async def mode(self, path: str) -> int | None:
        reply = await self.ask("read", path=_check(path), offset=0, length=0)
        mode = reply.content.get("mode")
        return mode & 0o777 if type(mode) is int else None

    async def keep(self, path: str, *, actor: Actor | None = None) -> Artifact:
        """Store a file as an artifact of the session. actor: who asks, if not the client's own."""
        who: dict[str, Json] = {}
        asks = actor or self._actor
        if asks is not None and asks.kind == "agent":
            line = await self._reach.line()
            token = await line.agent_token(self._reach.patience.start)
            who = {"actor": asks.to_json(), "token": token}
        reply = await self.ask("keep", path=_check(path), **who)
        return _artifact(reply.content, self._reach.session, path)

    async def keep_and_fetch(self, path: str, sink: BinaryIO) -> Artifact:
        """Store a file as an artifact and copy just those bytes into `sink`."""
        for _ in range(TRIES):
            artifact = await self.keep(path)
            sink.seek(0)
            sink.truncate()
            total = hashlib.sha256()
            async for piece in self.pieces(path, limit=ARTIFACT_BYTES):
                total.update(piece)
                await asyncio.to_thread(sink.write, piece)
            if total.hexdigest() == artifact.sha256:
                return artifact
        raise UnavailableError(
            f"{shown(path)} changes all the time, so it cannot be taken as it is. Stop what writes"
            " it, or copy it in a cell first."
        )

    async def commands(self) -> list[BackgroundStatus]:
        """The background commands of the sandbox, in the order they were started."""
        reply = await self.ask("commands")
        told = reply.content.get("commands")
        found = [_status(each) for each in told] if isinstance(told, list) else []
        return sorted(found, key=lambda each: each.command)

    async def sync(self) -> bool:
        """Bring in what changed in the notebook's folder, which else the next step does.

        False while a step runs or waits, which does it by itself. Before a session's first step
        nothing lies in its workspace without this.
        """
        return (await self.ask("sync")).content.get("synced") is True

    async def environment(self) -> tuple[str, str | None]:
        """Digest of the environment that the session runs in now, and why its network is shut."""
        content = (await self.ask("environment")).content
        digest, shut = content.get("environment"), content.get("shut")
        if not isinstance(digest, str):
            raise Refused("The kernel did not say which environment the session runs in.")
        return digest, None if shut is None else str(shut)

    async def surroundings(self) -> Surroundings:
        """What code runs in here, as the kernel says; it need not be ready for that."""
        line = await self._reach.line()
        told = await line.said(self._reach.patience.start)
        return Surroundings.of(told.get("surroundings"))

    async def programs(self, names: Iterable[str]) -> frozenset[str]:
        """Those of the names, or absolute paths, by which a command would find a program."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return frozenset()
        told = (await self.ask("programs", names=wanted)).content.get("found")
        return frozenset(each for each in wanted if isinstance(told, list) and each in told)

    async def state(self) -> State:
        content = (await self.ask("state")).content
        seq = content.get("seq")
        if type(seq) is not int:
            raise Refused("The kernel did not say after which step its state stands.")
        return State(seq, content.get("files"), content.get("variables"))

    async def variables(self) -> Variables | None:
        """What the interpreter holds; None where that cannot be told. It waits for its turn."""
        return parse((await self.state()).variables)

    async def reset(self) -> int:
        """Empty the workspace and begin a clean interpreter; returns the step's seq."""
        seq = (await self.ask("reset")).content.get("seq")
        if type(seq) is not int:
            raise Refused("The kernel did not say which step the reset is.")
        return seq


def _check(path: str) -> str:
    try:
        return check_path(path)
    except BadManifest as error:
        raise UsageError(f"{shown(str(path))} is no path in a workspace: {error}") from error


def _artifact(content: Mapping[str, Json], session: uuid.UUID, path: str) -> Artifact:
    try:
        return Artifact(
            id=uuid.UUID(str(content["id"])),
            session=session,
            seq=int(content["seq"]),
            path=path,
            sha256=str(content["sha256"]),
            size=int(content["size"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"The kernel's word about an artifact cannot be read: {error}") from error


def _status(value: Json) -> BackgroundStatus:
    try:
        return BackgroundStatus(
            int(value["command"]),
            bool(value["running"]),
            value["exit_code"],
            value["signal"],
            int(value["started_at"]),
            str(value["stdout"]),
            str(value["stderr"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RepriseError(f"The kernel's list of commands cannot be read: {error}") from error
