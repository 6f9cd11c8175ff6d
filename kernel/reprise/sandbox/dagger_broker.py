"""The broker: keeps one Dagger session for all kernels of a user, and runs their sandboxes in it.

    python -m reprise.sandbox.dagger_broker FOLDER

A process of its own because a session costs 55 MB and half a second, and loading Dagger's library
two seconds more. Started by the first kernel that needs it, it survives that one's end, and goes
when nobody has used it for a while. A sandbox lives as long as its kernel's connection. When this
process dies the sandboxes end, as they do when the engine does: kernels notice, and replay.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprise.errors import RepriseError
from reprise.sandbox import dagger_cli
from reprise.sandbox.dagger_client import LOCK, SOCKET_NAME, bound_socket
from reprise.sandbox.dagger_order import MAX_LINE, PROTOCOL, Order, decode, encode

if TYPE_CHECKING:
    from reprise.sandbox.dagger_exec import Sandbox
    from reprise.sandbox.dagger_image import Images
    from reprise.sandbox.dagger_session import Session

log = logging.getLogger("reprise.dagger")

#: Seconds without any connection after which the broker ends.
IDLE = 600.0
IDLE_VARIABLE = "REPRISE_DAGGER_IDLE"

#: When a session is left to those who are in it, and newcomers get another.
SESSION_SECONDS = 6 * 3600.0
SESSION_SANDBOXES = 500

#: Seconds for which the files of an ended sandbox wait to be gone on with.
_RENEW = 120.0


@dataclass
class _Opened:
    """A session, its images, and who is in it: sandboxes that run, or may be renewed.

    Sessions cannot be resumed, and logs pile up in the engine for each: a worn one is left to
    those who are in it.
    """

    session: Session
    images: Images
    users: int = 0
    begun: int = 0
    since: float = field(default_factory=time.monotonic)

    @property
    def fit(self) -> bool:
        """Whether newcomers are given it."""
        old = time.monotonic() - self.since > SESSION_SECONDS
        return self.session.alive and not old and self.begun < SESSION_SANDBOXES


class Broker:
    """All connections, and the sessions they use."""

    def __init__(self) -> None:
        self._sessions: list[_Opened] = []
        self._opening = asyncio.Lock()
        self._connections: set[asyncio.Task[Any]] = set()
        self.served = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a new connection, to its end."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        self.served += 1
        self.idle.clear()
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[Any]) -> None:
        self._connections.discard(task)
        if not self._connections:
            self.idle.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a connection failed", exc_info=error)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = _Line(reader, writer)
        try:
            asked = decode(await reader.readline())
            if asked.get("protocol") != PROTOCOL:
                line.say(failed="The Dagger broker is of another version of Reprise; end it.")
            elif asked.get("ask") == "status":
                await self._status(line)
            else:
                await self._sandbox(line, Order.of(asked["order"]))
        except (ConnectionError, _Gone):
            pass
        except RepriseError as error:
            line.say(failed=str(error))
        except _dagger_error() as error:
            line.say(failed=f"The Dagger engine failed: {error}. Nothing was started; try again.")
        except (ValueError, KeyError, TypeError) as error:
            line.say(failed=f"The Dagger broker was asked for what it does not know: {error}.")
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    async def _status(self, line: _Line) -> None:
        session = (await line.unless_gone(self._session(line))).session
        line.say(engine=session.engine, pid=session.pid, sdk=dagger_cli.sdk_version())

    async def _sandbox(self, line: _Line, order: Order) -> None:
        # Loaded once, at the first sandbox: whoever waits for our socket need not wait for it.
        from reprise.sandbox.dagger_exec import Sandbox  # noqa: PLC0415

        opened = await line.unless_gone(self._session(line))
        session = opened.session
        opened.users += 1
        opened.begun += 1
        try:
            sandbox = Sandbox(session, opened.images, order)
            await line.unless_gone(sandbox.prepare(line.heard))
            variables, socket = order.variables, order.socket
            while True:
                line.say(engine=session.engine, pid=session.pid)
                kept = await self._exec(line, session, sandbox, variables, socket)
                if not (kept and order.renewable):
                    return
                again = await line.renewal(_RENEW)
                if again is None:
                    return
                variables, socket = again["variables"], str(again["socket"])
        finally:
            opened.users -= 1
            await self._retire()

    async def _exec(
        self,
        line: _Line,
        session: Session,
        sandbox: Sandbox,
        variables: Mapping[str, str],
        socket: str,
    ) -> bool:
        """Run it to its end, and say how that was. Whether it can be gone on with."""
        import dagger  # noqa: PLC0415

        from reprise.sandbox.dagger_exec import failure  # noqa: PLC0415

        try:
            said = await line.unless_gone(sandbox.run(variables, socket))
        except dagger.DaggerError as error:
            if isinstance(error, dagger.TransportError):
                session.broken = True
            line.say(ended=failure(session, error), kept=False)
            return False
        line.say(ended=said, kept=True)
        return True

    async def _session(self, line: _Line) -> _Opened:
        """A session that lives and is not worn. Raises SandboxError."""
        async with self._opening:
            for opened in self._sessions:
                if opened.fit and await opened.session.answers():
                    return opened
            dagger_cli.sdk_version()
            dagger_cli.find_cli()
            from reprise.sandbox.dagger_image import Images  # noqa: PLC0415
            from reprise.sandbox.dagger_session import Session  # noqa: PLC0415

            session = await Session.open(line.heard)
            opened = _Opened(session, Images(session))
            self._sessions.append(opened)
        await self._retire()
        return opened

    async def _retire(self) -> None:
        """Close the sessions that nobody is in and nobody will be given."""
        for opened in list(self._sessions):
            if not opened.users and not opened.fit and opened in self._sessions:
                self._sessions.remove(opened)
                await opened.session.close()

    async def close(self) -> None:
        """End every connection, and with it its sandbox, then the sessions."""
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)
        for opened in self._sessions:
            await opened.session.close()


def _dagger_error() -> type[Exception]:
    """The base of the library's errors, once the library was loaded; before, nothing raises it."""
    loaded = sys.modules.get("dagger")
    found: type[Exception] = _Gone if loaded is None else loaded.DaggerError
    return found


class _Gone(Exception):
    """The kernel has closed its connection."""


class _Line:
    """One kernel's connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._next: asyncio.Task[bytes] | None = None

    def say(self, **what: Any) -> None:
        if not self._writer.is_closing():
            self._writer.write(encode(what))

    def heard(self, text: str) -> None:
        """As a `contract.Said`."""
        self.say(said=text)

    async def unless_gone(self, work: Any) -> Any:
        """What comes of it; cancelled, with _Gone, when the kernel leaves before that."""
        doing = asyncio.ensure_future(work)
        if self._next is None:
            self._next = asyncio.create_task(self._reader.readline())
        try:
            await asyncio.wait({doing, self._next}, return_when=asyncio.FIRST_COMPLETED)
            if doing.done():
                return doing.result()
            # Nothing is said while something runs: so it is the end, or as good as that.
            raise _Gone
        finally:
            if not doing.done():
                doing.cancel()
                await asyncio.wait({doing})

    async def renewal(self, patience: float) -> dict[str, Any] | None:
        """What the next exec of the same sandbox is to have; None when nobody wants one."""
        reading = self._next or asyncio.create_task(self._reader.readline())
        self._next = None
        try:
            async with asyncio.timeout(patience):
                line = await reading
        except TimeoutError:
            return None
        return decode(line) if line else None


async def serve(folder: Path, idle: float, listens: Callable[[], None]) -> None:
    """Serve at FOLDER/socket until nobody has used it for `idle` seconds, or SIGTERM.

    listens: called once newcomers can connect.
    """
    broker = Broker()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    listening = bound_socket(folder)
    server = await asyncio.start_unix_server(broker.connected, sock=listening, limit=MAX_LINE)
    listens()
    stopping = asyncio.create_task(stop.wait())
    try:
        while not stopping.done():
            unused = asyncio.create_task(broker.idle.wait())
            await asyncio.wait({stopping, unused}, return_when=asyncio.FIRST_COMPLETED)
            unused.cancel()
            served = broker.served
            await asyncio.wait({stopping}, timeout=idle)
            if broker.idle.is_set() and broker.served == served:
                break
    finally:
        stopping.cancel()
        # First the name: who comes from now on starts another broker.
        (folder / SOCKET_NAME).unlink(missing_ok=True)
        server.close()
        await broker.close()


def main(argv: list[str]) -> int:
    """Hold the folder's lock, so that there is one broker, and serve."""
    folder = Path(argv[0])
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return 0  # another one is there, or on its way out: the kernel tries again
    # Nobody's child: it belongs to all kernels, and none of them has to reap it.
    if os.fork():
        os._exit(0)
    asyncio.run(serve(folder, float(os.environ.get(IDLE_VARIABLE) or IDLE), _say_ready))
    return 0


def _say_ready() -> None:
    """Whoever started us waits for a word; nothing is said there afterwards."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
