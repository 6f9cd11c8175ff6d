"""Collects the blobs of one owner that nothing names, while others store and name blobs.

Writers store bytes first and name them later, so a blob without a name may be about to get one.
Four rules make that safe, whatever the timing (docs/retention.md):

1. Storing a blob, asking whether it is there, and naming it each touch it (`touch_blobs`), with
   the clock of the database; what was touched within the grace is left alone.
2. Candidates are chosen before names are read. A name that the reading misses was therefore
   committed after the choice, so its blob was touched after it too.
3. A row is deleted only if it is still as old as when it was chosen, under its lock; who stores
   the same blob meanwhile waits for that and then stores it anew.
4. A file goes under the lock of its row (one without a row gets a row for that long), and only
   if it is itself old. A death in between leaves a row without a file, which counts as not
   stored and goes with the next collection.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reprise.errors import UsageError
from reprise.failpoints import failpoint
from reprise.log.blobs import BlobFiles, named_in
from reprise.log.connect import Connection
from reprise.log.packing import unpack

#: Seconds in which a blob may stay without a name; a day for an upload that waits for its
#: database over night.
GRACE_S = 24 * 3600.0

#: The least grace. `touch_blobs` renews after ten minutes, and the statement that names a blob
#: runs for a minute at most after it was touched, so that an hour is far on the safe side.
LEAST_GRACE_S = 3600.0

#: A page of the log: so many rows and bytes at most (one row may be larger).
_PAGE_ROWS = 500
_PAGE_BYTES = 8 << 20

#: Rows that are deleted, and sessions that are listed, at once.
_BATCH = 500

#: Names that are looked for at once (those of one tree may be more).
_NAMES = 5_000

#: The tree of a restart or mount step, as canonical JSON has it. In text it would be escaped.
_TREE = re.compile(rb'"tree":"([0-9a-f]{64})"')


@dataclass(frozen=True)
class _Table:
    """How a table's bodies are read: where a session's rows end now, and a page of them.

    keys: how many numbers a row's place is made of, in the order of an index.
    """

    keys: int
    end: str
    page: str


_STEPS = _Table(
    1,
    "SELECT max(next_seq) FROM reprise.heads WHERE session = %s",
    "SELECT seq, body FROM (SELECT seq, body::text, size,"
    "  sum(size) OVER (ORDER BY seq) AS total FROM reprise.steps"
    "  WHERE session = %s AND seq > %s AND seq < %s ORDER BY seq LIMIT %s) AS page"
    " WHERE total - size < %s ORDER BY seq",
)
_OUTPUTS = _Table(
    2,
    "SELECT max(next_output) FROM reprise.heads WHERE session = %s",
    "SELECT seq, number, body FROM (SELECT seq, number, body::text, size,"
    "  sum(size) OVER (ORDER BY seq, number) AS total FROM reprise.outputs"
    "  WHERE session = %s AND (seq, number) > (%s::bigint, %s::bigint) AND number < %s"
    "  ORDER BY seq, number LIMIT %s) AS page WHERE total - size < %s ORDER BY seq, number",
)
_NOTICES = _Table(
    1,
    "SELECT max(number) + 1 FROM reprise.notices WHERE session = %s",
    "SELECT number, body FROM (SELECT number, body::text, octet_length(body::text) AS size,"
    "  sum(octet_length(body::text)) OVER (ORDER BY number) AS total FROM reprise.notices"
    "  WHERE session = %s AND number > %s AND number < %s ORDER BY number LIMIT %s) AS page"
    " WHERE total - size < %s ORDER BY number",
)


@dataclass(frozen=True)
class Collected:
    """What was deleted (with `dry_run`: what would be).

    files: stored in files without a row, left by writers that died; `bytes` counts them too.
    """

    blobs: int
    files: int
    bytes: int
    dry_run: bool


async def collect(
    connection: Connection, owner: str, files: BlobFiles, *, grace_s: float, dry_run: bool
) -> Collected:
    """One collection. `connection` acts as the owner role and is used for nothing else.

    Raises UsageError when the grace is below LEAST_GRACE_S.
    """
    if grace_s < LEAST_GRACE_S:
        raise UsageError(
            f"A grace of {grace_s:g} s is too short: a step that is being recorded could lose its"
            f" files. It is {LEAST_GRACE_S:g} s (an hour) at least. Nothing was deleted."
        )
    run = _Collection(connection, owner, files, grace_s)
    if await run.choose():
        await run.strike_named()
    if dry_run:
        return Collected(*await run.count(), dry_run=True)
    return Collected(*await run.delete(), dry_run=False)


class _Collection:
    """The temporary table `unnamed` holds the candidates of which no name was seen so far."""

    def __init__(
        self, connection: Connection, owner: str, files: BlobFiles, grace_s: float
    ) -> None:
        self._connection = connection
        self._owner = owner
        self._files = files
        self._grace_s = grace_s
        self._before: datetime | None = None
        self._seen: set[str] = set()
        # Files have the clock of their machine; it only says which are worth a look.
        self._files_before = time.time() - grace_s

    async def _ask(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        cursor = await self._connection.execute(statement, values)
        return await cursor.fetchall() if cursor.description else []

    async def choose(self) -> int:
        """Take all old blobs as candidates; returns how many there are."""
        [(self._before,)] = await self._ask(
            "SELECT clock_timestamp() - make_interval(secs => %s::double precision)",
            [self._grace_s],
        )
        await self._ask("CREATE TEMP TABLE unnamed (sha256 bytea PRIMARY KEY, size bigint)", [])
        await self._ask("CREATE TEMP TABLE trees (sha256 bytea PRIMARY KEY)", [])
        await self._ask(
            "INSERT INTO unnamed SELECT sha256, size FROM reprise.blobs"
            " WHERE owner = %s AND touched_at < %s",
            [self._owner, self._before],
        )
        await self._ask("ANALYZE unnamed", [])
        [(count,)] = await self._ask("SELECT count(*) FROM unnamed", [])
        return int(count)

    # -- names ----------------------------------------------------------------------------------

    async def strike_named(self) -> None:
        """Take from the candidates whatever is named, however indirectly."""
        async for body in self._bodies(_STEPS):
            await self._strike(named_in(body))
            trees = {bytes.fromhex(found.decode()) for found in _TREE.findall(body)}
            if trees:
                await self._ask(
                    "INSERT INTO trees SELECT unnest(%b::bytea[]) ON CONFLICT DO NOTHING",
                    [list(trees)],
                )
        async for body in self._bodies(_OUTPUTS):
            await self._strike(named_in(_as_bytes(unpack(body.decode("utf-8")))))
        async for body in self._bodies(_NOTICES):
            await self._strike(named_in(body))
        for (spec,) in await self._ask(
            "SELECT spec::text FROM reprise.environments WHERE owner = %s", [self._owner]
        ):
            await self._strike(named_in(spec.encode()))
        await self._ask(
            "DELETE FROM unnamed u USING reprise.artifacts a"
            " WHERE a.owner = %s AND a.sha256 = u.sha256",
            [self._owner],
        )
        await self._ask(
            "DELETE FROM unnamed u USING reprise.states s"
            " WHERE s.owner = %s AND s.files = u.sha256",
            [self._owner],
        )
        await self._ask(
            "DELETE FROM unnamed u USING (SELECT DISTINCT unnest(pieces) AS sha256"
            " FROM reprise.recorded WHERE owner = %s) AS r WHERE r.sha256 = u.sha256",
            [self._owner],
        )
        await self._strike_conversations()
        await self._strike_trees()
        await self._strike_seen()

    async def _strike_conversations(self) -> None:
        """Notebooks as they were before a turn, and whatever else an entry names."""
        place = (uuid.UUID(int=0), -1)
        while True:
            rows = await self._ask(
                "SELECT conversation, seq, body FROM (SELECT conversation, seq, body::text, size,"
                "  sum(size) OVER (ORDER BY conversation, seq) AS total"
                "  FROM reprise.conversation_entries WHERE owner = %s"
                "  AND (conversation, seq) > (%s::uuid, %s::bigint)"
                "  ORDER BY conversation, seq LIMIT %s) AS page WHERE total - size < %s"
                " ORDER BY conversation, seq",
                [self._owner, *place, _PAGE_ROWS, _PAGE_BYTES],
            )
            if not rows:
                return
            for conversation, seq, body in rows:
                await self._strike(named_in(body.encode("utf-8")))
                place = (conversation, seq)

    async def _strike(self, names: Collection[str]) -> None:
        """Many at a time: each step names something, and a log is long."""
        self._seen.update(names)
        if len(self._seen) >= _NAMES:
            await self._strike_seen()

    async def _strike_seen(self) -> None:
        seen, self._seen = self._seen, set()
        await self._ask(
            "DELETE FROM unnamed WHERE sha256 = ANY(%b::bytea[])",
            [[bytes.fromhex(name) for name in seen]],
        )

    async def _strike_trees(self) -> None:
        """The files of the trees that restarts and mounts name."""
        after = b""
        while True:
            rows = await self._ask(
                "SELECT t.sha256, b.size, b.data FROM trees t JOIN reprise.blobs b"
                " ON b.owner = %s AND b.sha256 = t.sha256 WHERE t.sha256 > %b"
                " ORDER BY t.sha256 LIMIT 1",
                [self._owner, after],
            )
            if not rows:
                return
            after, size, data = rows[0]
            if data is None:
                data = await asyncio.to_thread(self._files.read, after.hex(), size)
            await self._strike(named_in(bytes(data or b"")))

    async def _bodies(self, table: _Table) -> AsyncIterator[bytes]:
        """The bodies of all the owner's rows, in bounded pages."""
        last = uuid.UUID(int=0)
        while True:
            sessions = await self._ask(
                "SELECT session FROM reprise.heads WHERE owner = %s AND session > %s"
                " ORDER BY session LIMIT %s",
                [self._owner, last, _BATCH],
            )
            if not sessions:
                return
            for (session,) in sessions:
                async for body in self._bodies_of(session, table):
                    yield body
            last = sessions[-1][0]

    async def _bodies_of(self, session: uuid.UUID, table: _Table) -> AsyncIterator[bytes]:
        # Up to where the log stands now (rule 2): a busy writer is not chased for ever.
        [(end,)] = await self._ask(table.end, [session])
        after: tuple[int, ...] = (-1,) * table.keys
        while True:
            rows = await self._ask(table.page, [session, *after, end, _PAGE_ROWS, _PAGE_BYTES])
            if not rows:
                return
            for *_, body in rows:
                yield body.encode("utf-8")
            after = tuple(rows[-1][:-1])

    # -- deleting -------------------------------------------------------------------------------

    async def count(self) -> tuple[int, int, int]:
        [(blobs, total)] = await self._ask(
            "SELECT count(*), coalesce(sum(size), 0)::bigint FROM unnamed", []
        )
        files = 0
        async for name, size in self._left_files():
            if not await self._has_row(name):
                files, total = files + 1, total + size
        return blobs, files, total

    async def delete(self) -> tuple[int, int, int]:
        blobs = total = 0
        while True:
            batch = [
                row[0] for row in await self._ask("SELECT sha256 FROM unnamed LIMIT %s", [_BATCH])
            ]
            if not batch:
                break
            for size in await self._delete(batch):
                blobs, total = blobs + 1, total + size
            await self._ask("DELETE FROM unnamed WHERE sha256 = ANY(%b::bytea[])", [batch])
        files = 0
        async for name, _ in self._left_files():
            gone = await self._delete_left(name)
            if gone is not None:
                files, total = files + 1, total + gone
        return blobs, files, total

    async def _delete(self, batch: list[bytes]) -> list[int]:
        """Those of a batch that nobody has touched since they were chosen; returns their sizes."""
        async with self._connection.transaction():
            rows = await self._ask(
                # One that is locked is being touched right now, so it is skipped, not waited for.
                "WITH old AS (SELECT sha256 FROM reprise.blobs WHERE owner = %s"
                "  AND sha256 = ANY(%b::bytea[]) AND touched_at < %s FOR UPDATE SKIP LOCKED)"
                " DELETE FROM reprise.blobs b USING old"
                " WHERE b.owner = %s AND b.sha256 = old.sha256"
                " RETURNING b.sha256, b.size, b.data IS NULL",
                [self._owner, batch, self._before, self._owner],
            )
            failpoint("before-collected-files")
            for name, _, in_file in rows:
                if in_file:
                    await asyncio.to_thread(self._files.take, name.hex(), self._files_before)
            failpoint("before-collection-commit")
        failpoint("after-collection-commit")
        return [size for _, size, _ in rows]

    async def _left_files(self) -> AsyncIterator[tuple[str, int]]:
        """Old files, by their blob's name, with their sizes."""
        folders = await asyncio.to_thread(self._files.folders)
        for folder in folders:
            for found in await asyncio.to_thread(self._files.old, folder, self._files_before):
                yield found

    async def _has_row(self, name: str) -> bool:
        return bool(
            await self._ask(
                "SELECT 1 FROM reprise.blobs WHERE owner = %s AND sha256 = %b",
                [self._owner, bytes.fromhex(name)],
            )
        )

    async def _delete_left(self, name: str) -> int | None:
        """A file without a row; its size, or None when it has one or is being stored again."""
        if await self._has_row(name):
            return None
        digest = bytes.fromhex(name)
        async with self._connection.transaction():
            # Whoever stores this blob now waits for our row, and then looks after its file.
            made = await self._ask(
                "INSERT INTO reprise.blobs (owner, sha256, size, touched_at)"
                " VALUES (%s, %b, 0, '-infinity') ON CONFLICT DO NOTHING RETURNING size",
                [self._owner, digest],
            )
            if not made:
                return None
            failpoint("before-left-file")
            size = await asyncio.to_thread(self._files.take, name, self._files_before)
            failpoint("before-left-file-commit")
            await self._ask(
                "DELETE FROM reprise.blobs WHERE owner = %s AND sha256 = %b", [self._owner, digest]
            )
        return size


def _as_bytes(batch: str | bytes) -> bytes:
    return batch.encode("utf-8") if isinstance(batch, str) else batch
