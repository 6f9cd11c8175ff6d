"""Writes a whole session that was recorded elsewhere: in one transaction, by the log's rules.

The caller has proven the history (`reprise.bundle`); Postgres follows its chain once more, as it
does when a kernel appends.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import platform
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import psycopg

from reprise.errors import LogCorrupt, UnavailableError, UsageError
from reprise.failpoints import failpoint
from reprise.log.blobs import IN_POSTGRES_BYTES, OwnedBlobs
from reprise.log.connect import Connection, explained
from reprise.log.model import Json, NewOutcome, NewStep, canonical
from reprise.log.packing import pack
from reprise.log.postgres import Log, now_us
from reprise.log.recorded import INSERT as INSERT_RECORDED
from reprise.log.recorded import values_of
from reprise.log.store import Artifact, Notice, RecordedResponse, StateRecord

#: Batches of outputs are as large as a live writer makes them.
_ROW_BYTES = 4 << 20

#: Events and batches that are appended at once, and their bytes; one row may be larger.
_PAGE_ROWS = 1_000
_PAGE_BYTES = 8 << 20

#: Other statements that are on their way at once, and their bytes.
_IN_FLIGHT = 500
_IN_FLIGHT_BYTES = 16 << 20

_EPOCH = 1


@contextlib.asynccontextmanager
async def importing(
    log: Log, session: uuid.UUID, *, kernel: str, created_at: int
) -> AsyncIterator[Importing]:
    """A new session to fill. It is there when the block ends well, and not at all otherwise.

    Raises UsageError when the id is taken, DatabaseUnavailable, UnavailableError (a full disk).
    """
    connection = await log._open()
    try:
        async with connection.transaction():
            # Writing large files, and a slow reader of the bundle, take their time.
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            await _begin(connection, log.owner, session, kernel, created_at)
            filled = Importing(connection, log, session)
            yield filled
            await filled.finish()
            failpoint("import-before-commit")
        failpoint("import-after-commit")
    except psycopg.Error as error:
        if error.diag.constraint_name == "sessions_pkey":
            raise UsageError(
                f"The id {session} is taken here, by another owner or since a moment ago. Nothing"
                " was imported; --as-new imports the bundle under a new id."
            ) from error
        raise explained(error, f"importing session {session}", log._dsn) from error
    finally:
        await connection.close()


async def _begin(
    connection: Connection, owner: str, session: uuid.UUID, kernel: str, created_at: int
) -> None:
    await connection.execute(
        "INSERT INTO reprise.sessions (id, owner, created_at, kernel) VALUES (%s, %s, %s, %s)",
        [session, owner, created_at, kernel],
    )
    cursor = await connection.execute(
        "SELECT pg_try_advisory_xact_lock(reprise.lock_key(%s))", [session]
    )
    row = await cursor.fetchone()
    if row is None or not row[0]:
        raise UnavailableError(f"Somebody else is about to write session {session}.")
    holder = canonical({"import": True, "pid": os.getpid(), "host": platform.node()}).decode()
    await connection.execute(
        "SELECT epoch FROM reprise.take_lease(%s, %s, %s, %s, %s::bigint, NULL)",
        [session, owner, uuid.uuid4(), holder, now_us()],
    )


class Importing:
    """Takes the parts of a session in their order: events and outputs, what is beside, blobs."""

    def __init__(self, connection: Connection, log: Log, session: uuid.UUID) -> None:
        self._connection = connection
        self._owner = log.owner
        self._blobs = log._blobs
        self._session = session
        self._page: list[tuple[Any, ...]] = []
        self._page_bytes = 0
        self._batch: list[bytes] = []
        self._batch_of: tuple[int, int] = (0, 0)
        self._batch_size = 0
        self._flying: list[tuple[str, list[Any]]] = []
        self._flying_bytes = 0
        self._after_blobs: list[tuple[str, list[Any]]] = []

    async def step(self, seq: int, new: NewStep, body: bytes, digest: bytes) -> None:
        await self._close_batch()
        tree = new.payload.get("tree") if new.kind == "restart" else None
        row = ("step", seq, body.decode("ascii"), digest, new.kind, new.at)
        await self._append((*row, new.environment, tree, new.key, None, None), len(body))

    async def outcome(self, seq: int, new: NewOutcome, body: bytes, chain: bytes) -> None:
        await self._close_batch()
        row = ("outcome", seq, body.decode("ascii"), chain, new.status, new.at)
        ended = (new.duration_us, new.execution_count)
        await self._append((*row, None, None, None, *ended), len(body))

    async def output(self, seq: int, event: int, entry: bytes) -> None:
        """A canonical entry of a step that runs."""
        if self._batch_of != (seq, event) or self._batch_size + len(entry) > _ROW_BYTES:
            await self._close_batch()
        self._batch_of = (seq, event)
        self._batch.append(entry)
        self._batch_size += len(entry)

    async def late(self, seq: int, batch: bytes) -> None:
        """A batch of late outputs, as it is hashed."""
        await self._close_batch()
        await self._row("late", seq, batch)

    async def environment(self, digest: str, spec: Mapping[str, Json]) -> None:
        await self._send(
            "INSERT INTO reprise.environments (owner, digest, spec) VALUES (%s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            [self._owner, digest, canonical(dict(spec)).decode("ascii")],
        )

    async def record(self, record: Notice | StateRecord | Artifact | RecordedResponse) -> None:
        """What stands beside the history. It is written last, since it may name blobs."""
        if isinstance(record, RecordedResponse):
            values = values_of(self._session, self._owner, _EPOCH, record)
            self._after_blobs.append((INSERT_RECORDED, values))
            return
        if isinstance(record, Notice):
            table, names = "notices", "session, owner, epoch, seq, at, code, body"
            body = canonical([record.text, dict(record.detail)]).decode("ascii")
            values = [self._session, self._owner, _EPOCH, record.seq, record.at, record.code, body]
        elif isinstance(record, StateRecord):
            table, names = "states", "session, owner, epoch, seq, at, files, variables"
            files = None if record.files is None else bytes.fromhex(record.files)
            variables = record.variables
            shown = None if variables is None else canonical(dict(variables)).decode("ascii")
            values = [self._session, self._owner, _EPOCH, record.seq, record.at, files, shown]
        else:
            table, names = "artifacts", "session, owner, id, seq, sha256, size, mode, at, body"
            body = canonical([record.path, record.actor.to_json()]).decode("ascii")
            values = [self._session, self._owner, uuid.uuid4(), record.seq]
            values += [bytes.fromhex(record.sha256), record.size, record.mode, record.at, body]
        marks = ", ".join(["%s"] * len(values))
        statement = f"INSERT INTO reprise.{table} ({names}) VALUES ({marks})"  # noqa: S608
        self._after_blobs.append((statement, values))

    async def blob(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Bytes under their name; raises LogCorrupt when they are others."""
        data: bytes | None = None
        if size > IN_POSTGRES_BYTES:
            await asyncio.to_thread(_write_file, self._blobs, name, size, pieces)
        else:
            data = b"".join(pieces)
            if len(data) != size or hashlib.sha256(data).hexdigest() != name:
                raise LogCorrupt(f"The bytes of blob {name} are others than its name says.")
        # One that is there is touched, so that no collection takes it before this is committed.
        await self._send(
            "WITH there AS (SELECT sha256 FROM reprise.touch_blobs(%s, ARRAY[%b::bytea]))"
            " INSERT INTO reprise.blobs (owner, sha256, size, data) SELECT %s, %b, %s::bigint, %b"
            " WHERE NOT EXISTS (SELECT FROM there) ON CONFLICT DO NOTHING",
            [
                *(self._owner, bytes.fromhex(name)),
                *(self._owner, bytes.fromhex(name), size, data),
            ],
            len(data or b""),
        )
        failpoint("import-blob")

    async def finish(self) -> None:
        """Send what still waits."""
        await self._close_batch()
        await self._append_page()
        for statement, values in self._after_blobs:
            await self._send(statement, values)
        await self._flush()

    async def _close_batch(self) -> None:
        if self._batch:
            row = b"[" + b",".join(self._batch) + b"]"
            self._batch, self._batch_size = [], 0
            await self._row("output", self._batch_of[0], pack(row))

    async def _row(self, type_: str, seq: int, body: bytes) -> None:
        row = (type_, seq, body.decode("ascii"), *(None,) * 8)
        await self._append(row, len(body))

    async def _append(self, row: tuple[Any, ...], size: int) -> None:
        """An event or a batch of outputs, for the next page."""
        self._page.append(row)
        self._page_bytes += size
        if len(self._page) >= _PAGE_ROWS or self._page_bytes >= _PAGE_BYTES:
            await self._append_page()

    async def _append_page(self) -> None:
        page, self._page, self._page_bytes = self._page, [], 0
        if page:
            columns = [list(column) for column in zip(*page, strict=True)]
            await self._connection.execute(
                "SELECT reprise.append_page(%s, %s, %s, %b::text[], %s::bigint[], %b::text[],"
                " %b::bytea[], %b::text[], %s::bigint[], %b::text[], %b::text[], %b::text[],"
                " %s::bigint[], %s::bigint[])",
                [self._session, self._owner, _EPOCH, *columns],
            )
            failpoint("import-page")

    async def _send(self, statement: str, values: Sequence[Any], size: int = 0) -> None:
        self._flying.append((statement, list(values)))
        self._flying_bytes += size
        if len(self._flying) >= _IN_FLIGHT or self._flying_bytes >= _IN_FLIGHT_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        """Many statements in one round trip; the first that is refused ends the transaction."""
        flying, self._flying, self._flying_bytes = self._flying, [], 0
        if not flying:
            return
        async with self._connection.pipeline():
            for statement, values in flying:
                await self._connection.execute(statement, values, prepare=True)


def _write_file(blobs: OwnedBlobs, name: str, size: int, pieces: Iterable[bytes]) -> None:
    """Make a large blob durable under its name, piece by piece. Blocks.

    A file without a row is as good as none, and a collection takes it; so it is left where it is
    when the import fails later: another writer may have found it there meanwhile.
    """

    def write(file: BinaryIO) -> None:
        total, written = hashlib.sha256(), 0
        for piece in pieces:
            total.update(piece)
            written += len(piece)
            file.write(piece)
        if written != size or total.hexdigest() != name:
            raise LogCorrupt(f"The bytes of blob {name} are others than its name says.")

    try:
        blobs.files.fill(name, write)
    except OSError as error:
        raise UnavailableError(
            f"A blob of {size:,} bytes could not be written to {blobs.files.path(name)}:"
            f" {error.strerror}. Nothing was imported; free space there or set REPRISE_HOME, then"
            " try again."
        ) from error
