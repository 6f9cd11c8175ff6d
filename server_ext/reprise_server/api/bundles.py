"""`/sessions/{session}/bundle` and `/bundles`: a session goes out and comes in as one file."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import threading
import uuid
from collections.abc import AsyncGenerator, Iterator
from typing import IO, Any, BinaryIO, Final, cast

from reprise.bundle.load import check_bundle, checked_json, load_bundle
from reprise.bundle.source import Spooled, compressed
from reprise.bundle.write import write_bundle
from reprise.errors import UnavailableError
from reprise.log.postgres import Log
from reprise_server.api.base import Answer, Asked, Endpoint, operation
from reprise_server.api.job import Done, Job, Progress
from reprise_server.api.sending import Sending
from reprise_server.api.sessions import RESOURCE, SessionEndpoint
from reprise_server.api.workshop import Wanted

#: A bundle that is uploaded, and what it may hold when it is unpacked. `reprise import` takes more.
UPLOAD_BYTES: Final = 128 << 20
UNPACKED_BYTES: Final = 1 << 30
#: A bundle is passed on in pieces of so many bytes, of which so many may wait.
_PIECE: Final = 256 << 10
_PIECES: Final = 8


class BundleEndpoint(SessionEndpoint):
    path = "/sessions/{session}/bundle"

    @operation("read")
    async def get(self, asked: Asked) -> Any:
        reader = await self.reader(asked)
        query = asked.query
        pieces = exported(
            reader.session,
            notices=query["notices"],
            artifacts=query["artifacts"],
            compress=query["compress"],
        )
        return Sending(pieces, None, f"{str(reader.session)[:8]}.reprise")


class BundlesEndpoint(Endpoint):
    path = "/bundles"
    auth_resource = RESOURCE

    @operation("write", status=202, body_bytes=UPLOAD_BYTES, patience_s=300.0)
    async def post(self, asked: Asked) -> Any:
        as_new = uuid.uuid4() if asked.query["as_new"] else None
        file = await asyncio.to_thread(_spooled, asked.body)
        wanted = Wanted(
            "import",
            None,
            {"bytes": len(asked.body), "as_new": asked.query["as_new"]},
            lambda job: imported(job, file, as_new),
            let_go=file.close,
        )
        job, _ = self.service.workshop.begin(wanted, self.person)
        return Answer(job.to_json(), 202)


def _spooled(body: bytes) -> IO[bytes]:
    """In a file without a name: the request's memory is given back before the job's turn comes."""
    file = tempfile.TemporaryFile(prefix="reprise-import-")  # noqa: SIM115
    try:
        file.write(body)
        file.flush()
    except OSError as error:
        file.close()
        raise UnavailableError(
            f"The bundle could not be copied to {tempfile.gettempdir()}: {error.strerror}. Nothing"
            " was imported."
        ) from error
    return file


async def imported(job: Job, file: IO[bytes], as_new: uuid.UUID | None) -> Done:
    """Prove a bundle and bring it in, whole or not at all. Raises BadBundle, UsageError …"""

    def tell(text: str) -> None:
        if job.cancelling:
            raise asyncio.CancelledError
        job.tell(Progress(text))

    bundle = Spooled(cast("BinaryIO", file))
    checked = await asyncio.to_thread(check_bundle, bundle, UNPACKED_BYTES, (), tell)
    log = await Log.connect()
    try:
        loaded = await load_bundle(
            log, bundle, checked, limit=UNPACKED_BYTES, as_new=as_new, progress=tell
        )
    finally:
        await log.close()
    came = loaded.outcome == "imported"
    return Done({**checked_json(checked), "session": str(loaded.session), "imported": came})


# out ---------------------------------------------------------------------------------------------


class _Gone(Exception):
    """Nobody takes the bundle any more."""


class _Pipe:
    """A sink that a thread writes to, and waits at when much is not taken; read on a loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = threading.Semaphore(_PIECES)
        self._gone = False
        self._waiting = bytearray()
        self.pieces: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()

    def write(self, data: bytes, /) -> int:
        self._waiting += data
        if len(self._waiting) >= _PIECE:
            self.flush()
        return len(data)

    def flush(self) -> None:
        self._room.acquire()
        if self._gone:
            raise _Gone
        self.put(bytes(self._waiting))
        self._waiting.clear()

    def put(self, item: bytes | BaseException | None) -> None:
        """The loop may have ended with its server; then nobody listens."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.pieces.put_nowait, item)

    def taken(self) -> None:
        self._room.release()

    def leave(self) -> None:
        self._gone = True
        self._room.release()


async def exported(session: uuid.UUID, **options: bool) -> AsyncGenerator[bytes, None]:
    """The bundle of a session, as it stands now, in pieces. Raises LogCorrupt."""
    pipe = _Pipe()

    def write() -> None:
        try:
            asyncio.run(_write(session, pipe, **options))
        except _Gone:
            return
        except BaseException as error:  # noqa: BLE001  # raised where the pieces are read
            pipe.put(error)
        else:
            pipe.put(None)

    # No thread of a pool: the interpreter would wait for it at its end.
    threading.Thread(target=write, name="reprise-export", daemon=True).start()
    try:
        while (item := await pipe.pieces.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            pipe.taken()
            yield item
    finally:
        pipe.leave()


async def _write(
    session: uuid.UUID, pipe: _Pipe, *, notices: bool, artifacts: bool, compress: bool
) -> None:
    log = await Log.connect()
    try:
        reader = await log.reader(session)
        taken = await log.artifacts(session) if artifacts else []
        with _packed(cast("BinaryIO", pipe), compress) as stream:
            await write_bundle(reader, stream, notices=notices, artifacts=taken)
        pipe.flush()
    finally:
        await log.close()


@contextlib.contextmanager
def _packed(sink: BinaryIO, compress: bool) -> Iterator[BinaryIO]:
    if not compress:
        yield sink
        return
    with compressed(sink) as stream:
        yield stream


ENDPOINTS: Final = (BundleEndpoint, BundlesEndpoint)
