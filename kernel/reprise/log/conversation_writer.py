"""Writes one conversation under its lease: durable appends, and the way back after a cut."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import psycopg

from reprise.errors import DatabaseUnavailable, LeaseHeld, LeaseLost, TooLarge
from reprise.failpoints import failpoint
from reprise.log.blobs import OwnedBlobs
from reprise.log.connect import Connection, explained, is_connection_loss, watched
from reprise.log.conversation import MAX_BODY, Entry, Kind, next_digest
from reprise.log.lease import held_by, lock
from reprise.log.model import Json, canonical

#: Seconds that an append waits for Postgres to come back before it is given up.
PATIENCE_S: Final = 60.0
#: First and longest pause between two attempts, in seconds.
_BACK_OFF: Final = (0.05, 2.0)
#: Seconds that the lock of our own dead connection may linger.
_RELOCK_S: Final = 5.0

_APPEND: Final = (
    "INSERT INTO reprise.conversation_entries"
    " (conversation, seq, turn, owner, epoch, kind, at, body, digest)"
    " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %b)"
)
ENTRIES: Final = (
    "SELECT seq, turn, kind, body::text, at FROM reprise.conversation_entries"
    " WHERE conversation = %s AND seq > %s ORDER BY seq LIMIT %s"
)
#: Entries that are read at once.
PAGE: Final = 500


@dataclass(frozen=True)
class Opening:
    """What a writer needs: whose conversation, how to reach the database, what time it is."""

    conversation: uuid.UUID
    owner: str
    dsn: str
    holder: Mapping[str, Json]
    blobs: OwnedBlobs
    connect: Callable[[], Awaitable[Connection]]
    now: Callable[[], int]


def entry_of(row: Sequence[Any]) -> Entry:
    seq, turn, kind, body, at = row
    return Entry(seq, turn, kind, json.loads(body), at)


class ConversationWriter:
    """The one writer of a conversation. Made by `Conversations.open`.

    An append whose connection is lost finds out, once Postgres is there again, whether it was
    stored, and stores it if not: so it is there once when `append` returns. A cancelled append is
    carried to its end in the background; the next one comes after it.
    """

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._writer = uuid.uuid4()
        self._connection: Connection | None = None
        self._epoch = 0
        self._turn = 0
        self._chain = b""
        self._entries: list[Entry] = []
        self._lock = asyncio.Lock()
        self._appending: set[asyncio.Task[Entry]] = set()
        self._gone: str | None = None

    @property
    def id(self) -> uuid.UUID:
        return self._opening.conversation

    @property
    def entries(self) -> Sequence[Entry]:
        """All of them so far. It grows; what stands in it never changes."""
        return self._entries

    @property
    def turn(self) -> int:
        """The number of the turn at hand; 0 before the first."""
        return self._turn

    @property
    def blobs(self) -> OwnedBlobs:
        return self._opening.blobs

    async def take(self, wait: float) -> None:
        """Become the writer. Raises LeaseHeld after `wait` seconds, DatabaseUnavailable."""
        connection = await self._opening.connect()
        try:
            if not await lock(connection, self.id, wait):
                raise LeaseHeld(await self._held_by(connection))
            await self._begin(connection, None)
        except psycopg.Error as error:
            await connection.close()
            raise explained(error, f"opening conversation {self.id}", self._opening.dsn) from error
        except BaseException:
            await connection.close()
            raise

    async def append(self, turn: int, kind: Kind, body: Mapping[str, Any]) -> Entry:
        """Append one entry; it is durable when this returns.

        turn: the turn at hand; of a `said` the next.  Raises TooLarge (nothing was stored),
        LeaseLost, DatabaseUnavailable (after a minute without the database; it may be stored, and
        stands in `entries` then once the database is back).
        """
        task = asyncio.get_running_loop().create_task(self._append(turn, kind, body))
        self._appending.add(task)
        task.add_done_callback(self._appended)
        return await asyncio.shield(task)

    def _appended(self, task: asyncio.Task[Entry]) -> None:
        self._appending.discard(task)
        if not task.cancelled():
            # Whoever waited has it as well; nobody else is to be told of it twice.
            task.exception()

    async def close(self) -> None:
        """Give the conversation back, after what is being appended. Idempotent."""
        if self._appending:
            await asyncio.wait(set(self._appending))
        async with self._lock:
            self._gone = self._gone or f"Conversation {self.id} was closed here; open it again."
            if self._connection is not None:
                connection, self._connection = self._connection, None
                await connection.close()

    # -- appending ------------------------------------------------------------------------------

    async def _append(self, turn: int, kind: Kind, body: Mapping[str, Any]) -> Entry:
        text = canonical(dict(body))
        if len(text) > MAX_BODY:
            raise TooLarge(
                f"An entry ({kind}) of {len(text)} bytes is over the bound of {MAX_BODY} bytes of"
                f" conversation {self.id}. It was not stored."
            )
        async with self._lock:
            if self._connection is None:
                await self._recover(None)
            # Read back, so that it is the same whether it was appended here or loaded.
            entry = Entry(len(self._entries), turn, kind, json.loads(text), self._opening.now())
            digest = next_digest(self._chain, entry, text)
            values = [
                self.id,
                entry.seq,
                turn,
                self._opening.owner,
                None,
                kind,
                entry.at_us,
                text.decode("ascii"),
                digest,
            ]
            failpoint(f"before-entry-{kind}")
            while not await self._stored(entry, values):
                pass
            failpoint(f"after-entry-{kind}")
            return entry

    async def _stored(self, entry: Entry, values: list[Any]) -> bool:
        """Whether the entry is in the log now; False asks for another try."""
        connection = self._connection
        assert connection is not None  # noqa: S101 - recovered before
        values[4] = self._epoch
        try:
            with watched(connection):
                await connection.execute(_APPEND, values)
        except psycopg.Error as error:
            if is_connection_loss(error, connection):
                self._connection = None
                await connection.close()
                await self._recover(entry)
                return len(self._entries) > entry.seq
            if error.sqlstate == "RP001":
                self._gone = self._lost()
                raise LeaseLost(self._gone) from error
            doing = f"appending to conversation {self.id}"
            raise explained(error, doing, self._opening.dsn) from error
        self._take_in(entry, values[-1])
        return True

    def _take_in(self, entry: Entry, digest: bytes) -> None:
        self._entries.append(entry)
        self._chain = digest
        self._turn = entry.turn

    # -- the way back ---------------------------------------------------------------------------

    async def _recover(self, waiting: Entry | None) -> None:
        """Lock again, unless somebody else came meanwhile; take in what was stored after all."""
        pause, longest = _BACK_OFF
        until = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            if self._gone is not None:
                raise LeaseLost(self._gone)
            try:
                connection = await self._opening.connect()
                try:
                    await self._take_again(connection)
                except BaseException:
                    await connection.close()
                    raise
            except LeaseLost as error:
                self._gone = str(error)
                raise
            except (DatabaseUnavailable, psycopg.Error) as error:
                if asyncio.get_running_loop().time() > until:
                    what = "nothing" if waiting is None else f"its entry {waiting.seq} perhaps"
                    raise DatabaseUnavailable(
                        f"Postgres is not reachable, so conversation {self.id} cannot go on; what"
                        f" was told is stored, and {what} besides. ({error})"
                    ) from error
                await asyncio.sleep(pause)
                pause = min(pause * 2, longest)
            else:
                return

    async def _take_again(self, connection: Connection) -> None:
        cursor = await connection.execute(
            "SELECT writer FROM reprise.conversation_heads WHERE conversation = %s", [self.id]
        )
        row = await cursor.fetchone()
        if row is None or row[0] != self._writer:
            raise LeaseLost(self._lost())
        if not await lock(connection, self.id, _RELOCK_S):
            raise DatabaseUnavailable(f"Another connection holds the lock of {self.id}.")
        try:
            await self._begin(connection, self._writer)
        except psycopg.Error as error:
            if error.sqlstate == "RP001":
                raise LeaseLost(self._lost()) from error
            raise

    async def _begin(self, connection: Connection, previous: uuid.UUID | None) -> None:
        """Begin an epoch on this connection and read what is there that we have not."""
        opening = self._opening
        cursor = await connection.execute(
            "SELECT epoch, turn, chain, next_seq"
            " FROM reprise.take_conversation(%s, %s, %s, %s, %s::bigint, %s)",
            [
                self.id,
                opening.owner,
                self._writer,
                canonical(dict(opening.holder)).decode("ascii"),
                opening.now(),
                previous,
            ],
        )
        row = await cursor.fetchone()
        assert row is not None  # noqa: S101 - the function gives one row or raises
        epoch, turn, chain, next_seq = row
        while len(self._entries) < next_seq:
            cursor = await connection.execute(ENTRIES, [self.id, len(self._entries) - 1, PAGE])
            self._entries.extend(entry_of(each) for each in await cursor.fetchall())
        self._epoch, self._turn, self._chain = epoch, turn, bytes(chain)
        self._connection = connection

    async def _held_by(self, connection: Connection) -> str:
        cursor = await connection.execute(
            "SELECT holder::text, since FROM reprise.conversation_heads WHERE conversation = %s",
            [self.id],
        )
        who = held_by(*(await cursor.fetchone() or (None, None)))
        return (
            f"Conversation {self.id} is open in {who}. Only one process goes on with a"
            " conversation at a time; end it there first. Nothing was changed."
        )

    def _lost(self) -> str:
        return (
            f"Another process went on with conversation {self.id} meanwhile, so it is written here"
            " no more. What was told is stored; open it again to see it."
        )
