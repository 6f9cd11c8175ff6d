"""Reaches the kernel of a session: the one that holds it, or one of our own; again when it died."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from reprise import settings
from reprise.client.alive import kernel_pid
from reprise.client.beside import notebook_folder
from reprise.client.environment import environment_of
from reprise.client.failures import ClientClosed, KernelGone, NoAnswer
from reprise.client.holder import beginning_kernel, held_elsewhere, known_kernel, running_kernel
from reprise.client.line import Line, open_line
from reprise.client.started import OwnKernel, Start, start_kernel
from reprise.errors import SessionNotFound, UnavailableError
from reprise.jupyter.attachment import read_identity
from reprise.jupyter.kernelspec import NAME, NATIVE
from reprise.jupyter.sidecar import read_sidecar
from reprise.log.model import Json
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from reprise.sandbox.named import file_of

#: Seconds between two looks for something that nobody tells of.
LOOK_S: Final = 0.1
#: Seconds that a kernel which is just ending may still hold its session.
RELEASE_S: Final = 3.0

OnOther = Callable[[str, Mapping[str, Json]], None]


@dataclass(frozen=True)
class Patience:
    """How long the client waits, in seconds.

    start: for a kernel to answer after its start (a first sandbox on a cold disk is slow).
    answer: for the answer to a request that runs nothing.
    back: for a kernel that somebody else started to be started again by them.
    interrupt: for a step to end after it was interrupted.
    heartbeat: without a heartbeat of a kernel whose process is not seen from here.
    """

    start: float = 180.0
    answer: float = 120.0
    back: float = 10.0
    interrupt: float = 15.0
    heartbeat: float = 30.0


@dataclass(frozen=True)
class Wanted:
    """Which kernel to reach.

    session: None for a new one.  connection: the file of the kernel to attach to.
    notebook: whose session it is to be.  folder, kernel: of a kernel to start; None for the
      session's own.  may_start: whether one may be started at all.
    """

    session: uuid.UUID | None = None
    connection: Path | None = None
    notebook: Path | None = None
    folder: Path | None = None
    kernel: str | None = None
    environ: Mapping[str, str] | None = None
    may_start: bool = True

    @property
    def variables(self) -> Mapping[str, str]:
        return os.environ if self.environ is None else self.environ


#: What a kernel says when a port of its connection file was taken by somebody else.
PORT_TAKEN = "Address already in use"


class Reach:
    """The way to one session's kernel, for one client."""

    def __init__(self, wanted: Wanted, patience: Patience) -> None:
        self._wanted = wanted
        self.patience = patience
        self._on_other: OnOther | None = None
        self._session = wanted.session
        self._line: Line | None = None
        self._reaching: asyncio.Task[Line] | None = None
        self._own: OwnKernel | None = None
        self._log: Log | None = None
        self._lock = asyncio.Lock()
        self._log_lock = asyncio.Lock()
        self._closed = False

    # what there is ------------------------------------------------------------------------------

    @property
    def session(self) -> uuid.UUID:
        if self._session is None:
            raise ClientClosed("The client has not reached a kernel yet.")
        return self._session

    @session.setter
    def session(self, session: uuid.UUID) -> None:
        """The kernel went over to another session."""
        self._session = session

    @property
    def own(self) -> OwnKernel | None:
        """The kernel process, when this client started it."""
        return self._own

    @property
    def folder(self) -> Path | None:
        return self._wanted.folder

    @property
    def environ(self) -> Mapping[str, str]:
        return self._wanted.variables

    @property
    def connection(self) -> Path | None:
        return None if self._line is None else self._line.connection

    def listen(self, on_other: OnOther | None) -> None:
        """Have what belongs to no request of ours told, on this connection and later ones."""
        self._on_other = on_other

    async def log(self) -> Log:
        """The log, opened when it is first asked for. Raises UnavailableError."""
        async with self._log_lock:
            self._check_open()
            if self._log is None:
                environ = self._wanted.variables
                self._log = await Log.connect(
                    environ.get(settings.DSN), home=settings.home_path(environ)
                )
            return self._log

    async def line(self) -> Line:
        """A connection to the session's kernel, made anew when the last one broke.

        Raises KernelGone, NoAnswer, LeaseHeld, UnavailableError, UsageError.
        """
        async with self._lock:
            self._check_open()
            if self._line is not None and not self._line.gone:
                return self._line
            work = self._first() if self._line is None else self._back()
            self._reaching = asyncio.get_running_loop().create_task(work)
            try:
                self._line = await self._reaching
            except asyncio.CancelledError:
                self._check_open()
                raise
            self._line.on_other = self._other
            return self._line

    def _other(self, kind: str, content: Mapping[str, Json]) -> None:
        """What the kernel tells everybody; also that it went over to another session."""
        if kind == "reprise_attached":
            with contextlib.suppress(ValueError):
                self._session = uuid.UUID(str(content.get("session")))
        if self._on_other is not None:
            self._on_other(kind, content)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("This client is closed. Connect again; the session is in the log.")

    # the first time -----------------------------------------------------------------------------

    async def _first(self) -> Line:
        wanted = self._wanted
        if wanted.connection is not None:
            line = await self._attach(wanted.connection)
            try:
                found = await self._told_session(wanted.connection)
            except BaseException:
                await line.close()
                raise
            if wanted.session is not None and found != wanted.session:
                await line.close()
                raise UnavailableError(
                    f"The kernel of {wanted.connection} holds session {found}, not"
                    f" {wanted.session}."
                )
            self._session = found
            return line
        if self._session is None and wanted.notebook is not None:
            self._session = await self._of_notebook(wanted.notebook)
        if self._session is None:
            self._session = uuid.uuid4()
            return await self._started(None)
        return await self._held_or_started(wait_s=0.0)

    async def _of_notebook(self, notebook: Path) -> uuid.UUID | None:
        """The session that the notebook has, if any."""
        log = await self.log()
        place = str(await asyncio.to_thread(notebook.resolve))
        identity = await asyncio.to_thread(read_identity, notebook)
        sessions = [info for info in await log.sessions() if info.notebook in (place, None)]
        for info in sessions:
            if info.id == identity:
                return identity
        return next((info.id for info in sessions if info.notebook == place), None)

    async def _told_session(self, connection: Path) -> uuid.UUID:
        """The session of a kernel, which it may still be taking."""
        try:
            async with asyncio.timeout(self.patience.start):
                while True:
                    found = read_sidecar(connection)
                    if found is not None and kernel_pid(connection) == found.get("pid"):
                        return uuid.UUID(found["session"])
                    # It is a file; nobody tells of its being written.
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise NoAnswer(
                f"The kernel of {connection} does not say which session it holds. Is it one of"
                " Reprise's, on this machine?"
            ) from None

    # and again ----------------------------------------------------------------------------------

    async def _back(self) -> Line:
        """The session's kernel after the last one has gone."""
        if self._line is not None:
            # It stays ours until there is another, so that the next try is no first one.
            await self._line.close()
        mine, self._own = self._own, None
        if mine is not None:
            await mine.close()
            return await self._held_or_started(wait_s=0.0)
        # Whoever started it may start it again, as JupyterLab does.
        return await self._held_or_started(wait_s=self.patience.back)

    async def _held_or_started(self, wait_s: float) -> Line:
        """The kernel that holds the session; when none does within `wait_s`, one of our own."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while True:
            found, info = await self._look()
            if found is not None:
                try:
                    return await self._attach(found)
                except KernelGone:
                    if loop.time() - begun > self.patience.start:
                        raise
            elif info is None or not _holds(info):
                if loop.time() - begun >= wait_s:
                    return await self._started(info)
            elif loop.time() - begun > self._grace_s(info, wait_s):
                raise held_elsewhere(info)
            await asyncio.sleep(LOOK_S)

    def _grace_s(self, info: SessionInfo, wait_s: float) -> float:
        """How long whoever holds the session may be one that cannot be asked yet."""
        if beginning_kernel(info):
            return self.patience.start
        return max(wait_s, RELEASE_S)

    async def _look(self) -> tuple[Path | None, SessionInfo | None]:
        found = known_kernel(self.session)
        if found is not None:
            return found, None
        try:
            info = await (await (await self.log()).reader(self.session)).info()
        except SessionNotFound:
            return None, None
        return running_kernel(info), info

    async def _attach(self, connection: Path) -> Line:
        patience = self.patience
        return await open_line(connection, timeout_s=patience.start, heartbeat_s=patience.heartbeat)

    async def _started(self, info: SessionInfo | None) -> Line:
        """A kernel process of our own on the session."""
        if not self._wanted.may_start:
            raise KernelGone(
                f"No kernel holds session {self.session}, and this client was told to start none."
            )
        start = self._start(info)
        here = settings.home_path(start.environ) == settings.home_path()
        if here and info is not None and info.steps > 0:
            reader = await (await self.log()).reader(info.id)
            named = await environment_of(reader, info, start.environ)
            if file_of(named.name).exists():
                # What it is called; a kernel finds nothing else by it.
                start = replace(start, environ={**start.environ, settings.ENVIRONMENT: named.name})
        for last in (False, True):
            own = await start_kernel(start, self.session)
            try:
                line = await own.line(self.patience.start, self.patience.heartbeat)
            except KernelGone as error:
                await own.close()
                # Ports are drawn before they are taken (jupyter_client): another start may have
                # been faster. It draws anew.
                if last or PORT_TAKEN not in str(error):
                    raise
            except BaseException:
                await own.close()
                raise
            else:
                self._own = own
                return line
        raise AssertionError("not reached")

    def _start(self, info: SessionInfo | None) -> Start:
        wanted = self._wanted
        kernel = wanted.kernel
        if kernel is None:
            other = info is not None and info.kernel != NATIVE
            kernel = f"{NAME}-{info.kernel}" if info is not None and other else NAME
        begun = info is not None and info.steps > 0
        folder = wanted.folder
        if folder is None and wanted.notebook is not None:
            folder = wanted.notebook.absolute().parent
        if folder is None and info is not None:
            folder = notebook_folder(info)
        return Start(
            kernel,
            folder or Path.cwd(),
            wanted.variables,
            None if wanted.notebook is None else wanted.notebook.absolute(),
            # Another folder's files would come in, and its own would look removed.
            bring_folder=folder is not None or not begun,
        )

    # endings ------------------------------------------------------------------------------------

    async def restart(self) -> None:
        """End the interpreter, keep the files: a `restart` step, and a new kernel process."""
        line = await self.line()
        async with self._lock:
            own = self._own
            if own is not None:
                await own.restart(self.session)
                await line.close(KernelGone("The kernel was restarted."))
                self._line = await own.line(self.patience.start, self.patience.heartbeat)
                self._line.on_other = self._other
                return
        await line.ask("shutdown_request", {"restart": True}, timeout_s=self.patience.answer)
        await line.ended(self.patience.answer)
        await self.line()

    async def close(self) -> None:
        """End what is ours: the connection, and a kernel that we started."""
        if self._closed:
            return
        self._closed = True
        if self._reaching is not None:
            self._reaching.cancel()
        line, self._line = self._line, None
        if line is not None:
            await line.close()
        async with self._lock:
            own, self._own = self._own, None
            if own is not None:
                await own.close()
        async with self._log_lock:
            log, self._log = self._log, None
            if log is not None:
                await log.close()


def _holds(info: SessionInfo) -> bool:
    """Whether somebody holds it, as far as is known: a process that has died here does not."""
    holder = info.holder
    if holder is None:
        return False
    pid = holder.get("pid")
    if holder.get("host") != platform.node() or type(pid) is not int:
        return True
    return Path(f"/proc/{pid}").exists() or not Path("/proc/self").exists()
