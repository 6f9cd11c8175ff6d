"""The log of one owner in Postgres: finds, begins, reads, checks and acquires sessions."""

from __future__ import annotations

import asyncio
import getpass
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from reprise.errors import (
    DatabaseUnavailable,
    RepriseError,
    UnavailableError,
    UsageError,
)
from reprise.failpoints import failpoint
from reprise.log import embedded, schema
from reprise.log.artifacts import insert_artifact, select_artifacts
from reprise.log.blobs import BlobFiles, OwnedBlobs
from reprise.log.check import CheckReport, check_session
from reprise.log.collection import GRACE_S, Collected, collect
from reprise.log.connect import (
    KERNEL_ROLE,
    OWNER_ROLE,
    Connection,
    described,
    explained,
    is_connection_loss,
    open_connection,
    watched,
)
from reprise.log.deletion import Dependents, delete, dependents
from reprise.log.fork import fork_point
from reprise.log.lease import Lease
from reprise.log.model import Actor, Json
from reprise.log.mounted import select_standings, select_uses
from reprise.log.reader import SESSION_QUERY, Reader, session_info
from reprise.log.store import Artifact, SessionInfo, SkillMount
from reprise.log.writer import Writer
from reprise.settings import DSN, home_path


def now_us() -> int:
    """Microseconds since the epoch, UTC. For people to read; nothing is decided by it."""
    return time.time_ns() // 1000


class Log:
    """All sessions of one owner.

    With a DSN, Reprise uses that database: its login must be a member of `reprise_kernel`, as
    which all work is done (SET ROLE). If the login may also set up the schema (it owns the
    database and may create roles, or is a member of `reprise_owner`), missing migrations are
    applied; a login that is a member of `reprise_kernel` only works on a database that is
    migrated already, which is the setting for operators. Without a DSN the embedded server in
    `home` is used and started when needed.
    """

    def __init__(
        self,
        dsn: str,
        owner: str,
        home: Path,
        connection: Connection,
        server: embedded.Server | None,
    ) -> None:
        self.owner = owner
        self.home = home
        self._dsn = dsn
        self._server = server
        self._connection: Connection | None = connection
        self._lock = asyncio.Lock()
        self._closed = False
        self._blobs = OwnedBlobs(self._ask, owner, home)

    @classmethod
    async def connect(
        cls,
        dsn: str | None = None,
        *,
        owner: str | None = None,
        home: Path | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Log:
        """Connect, and start the embedded server and migrate if that is needed.

        dsn: default REPRISE_DSN, else the embedded server. owner: default the OS user's name.
        Raises UnavailableError or DatabaseUnavailable.
        """
        folder = (home or home_path()).absolute()
        name = owner or getpass.getuser()
        given = dsn or os.environ.get(DSN)
        server = None
        if given:
            kernel_dsn = owner_dsn = given
        else:
            server = embedded.Server(folder)
            await server.ensure_running(progress)
            kernel_dsn, owner_dsn = server.kernel_dsn, server.owner_dsn
        try:
            connection = await _connect_migrated(kernel_dsn, owner_dsn, progress)
        except DatabaseUnavailable:
            if server is None:
                raise
            await server.ensure_answering(progress)  # it listens but is starting or stopping
            connection = await _connect_migrated(kernel_dsn, owner_dsn, progress)
        return cls(kernel_dsn, name, folder, connection, server)

    async def find(self, key: str) -> uuid.UUID | None:
        """The session that `key` was bound to last."""
        rows = await self._ask(
            "SELECT session FROM reprise.bindings WHERE owner = %s AND key = %s"
            " ORDER BY number DESC LIMIT 1",
            [self.owner, key],
        )
        return rows[0][0] if rows else None

    async def bound(self) -> set[uuid.UUID]:
        """The sessions that some key leads to now."""
        rows = await self._ask(
            "SELECT DISTINCT session FROM (SELECT DISTINCT ON (key) session"
            " FROM reprise.bindings WHERE owner = %s ORDER BY key, number DESC) AS latest",
            [self.owner],
        )
        return {row[0] for row in rows}

    async def sessions(self) -> list[SessionInfo]:
        """All sessions of this owner, the one used last first."""
        rows = await self._ask(SESSION_QUERY + " ORDER BY h.last_at DESC, s.id", [self.owner])
        return [session_info(row) for row in rows]

    async def begin(
        self, *, session: uuid.UUID | None = None, notebook: str | None = None, kernel: str
    ) -> uuid.UUID:
        """Create a session; with an id of this owner that exists, nothing changes."""
        identity = session or uuid.uuid4()
        await self._ask(
            "INSERT INTO reprise.sessions (id, owner, created_at, notebook, kernel)"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            [identity, self.owner, now_us(), notebook, kernel],
        )
        rows = await self._ask("SELECT owner FROM reprise.sessions WHERE id = %s", [identity])
        if not rows or rows[0][0] != self.owner:
            raise UsageError(
                f"The session id {identity} belongs to another owner. Nothing was changed; begin"
                " the session under a new id."
            )
        return identity

    async def revoked_skills(
        self, sessions: Sequence[SessionInfo]
    ) -> dict[uuid.UUID, list[SkillMount]]:
        """Which of these sessions have used skills that are revoked now, and which skills.

        sessions: all of this owner (`sessions`), so that what forks share is found too.
        """
        used = await select_uses(self._ask, self.owner, sessions)
        trees = {mount.tree for mounts in used.values() for mount in mounts}
        standings = await select_standings(self._ask, trees)
        marked = {
            session: [mount for mount in mounts if standings.get(mount.tree) == "revoked"]
            for session, mounts in used.items()
        }
        return {session: mounts for session, mounts in marked.items() if mounts}

    async def fork(
        self, session: uuid.UUID, at: int | None = None, *, identity: uuid.UUID | None = None
    ) -> uuid.UUID:
        """A new session that shares this one's history up to and with step `at`; returns its id.

        at: default the step before the first that has not ended, else the last; -1 shares
          nothing. What ran beside that step is shared as far as it had come.
        identity: the new session's id; when it is there already, nothing changes.
        Nothing is copied, and no lease is needed: it works while the session is written.
        Raises SessionNotFound and UsageError.
        """
        point = await fork_point(self._ask, session, self.owner, at)
        fork = identity or uuid.uuid4()
        failpoint("before-fork-commit")
        await self._ask(
            "INSERT INTO reprise.sessions"
            " (id, owner, created_at, notebook, kernel, parent, fork_event, fork_seq)"
            " SELECT %s, owner, %s, notebook, kernel, %s, %s, %s FROM reprise.sessions"
            " WHERE id = %s AND owner = %s ON CONFLICT DO NOTHING",
            [fork, now_us(), point.parent, point.event, point.seq, session, self.owner],
        )
        failpoint("after-fork-commit")
        await self.reader(fork)
        return fork

    async def rebind(self, old: uuid.UUID, new: uuid.UUID) -> list[str]:
        """Make every key that leads to `old` lead to `new` from now on; returns those keys."""
        await self.reader(new)
        rows = await self._ask(
            "INSERT INTO reprise.bindings (owner, key, session, at)"
            " SELECT b.owner, b.key, %s, %s FROM ("
            "  SELECT DISTINCT ON (key) owner, key, session FROM reprise.bindings"
            "   WHERE owner = %s AND key IN ("
            "    SELECT key FROM reprise.bindings WHERE owner = %s AND session = %s)"
            "   ORDER BY key, number DESC) AS b"
            " WHERE b.session = %s RETURNING key",
            [new, now_us(), self.owner, self.owner, old, old],
        )
        return sorted(row[0] for row in rows)

    async def add_artifact(
        self,
        session: uuid.UUID,
        seq: int,
        path: str,
        sha256: str,
        size: int,
        mode: int,
        actor: Actor,
    ) -> Artifact:
        """Record a file taken out of a workspace, whose bytes are stored; see `Artifact`."""
        await self.reader(session)
        absent = await self._blobs.missing([sha256])
        if absent:
            raise RepriseError(
                f"The bytes of {path!r} (sha256 {sha256}) are not stored, so no artifact of session"
                f" {session} was recorded. Store them, then try again."
            )
        artifact = Artifact(uuid.uuid4(), session, seq, path, sha256, size, mode, actor, now_us())
        await insert_artifact(self._ask, self.owner, artifact)
        return artifact

    async def artifacts(self, session: uuid.UUID | None = None) -> list[Artifact]:
        """The artifacts of one session, or of all of this owner, in the order they were taken."""
        if session is not None:
            await self.reader(session)
        return await select_artifacts(self._ask, self.owner, session)

    async def dependents(self, session: uuid.UUID) -> Dependents:
        """What hangs on a session, to be known before it is deleted. Raises SessionNotFound."""
        return await dependents(self._ask, self.owner, session, await self.sessions())

    async def delete(self, session: uuid.UUID, *, with_forks: bool = False) -> list[uuid.UUID]:
        """Delete a whole session, for good; returns the ids deleted, the last is `session`.

        with_forks: the forks that need its steps as well, all or nothing. Needs the owner role.
        Raises SessionNotFound, SessionNeeded, LeaseHeld and UnavailableError.
        """
        found = await self.dependents(session)
        doomed = [info.id for info in found.forks] if with_forks else []
        connection = await self._open_as_owner("delete sessions")
        try:
            await delete(connection, [*doomed, session])
        except psycopg.Error as error:
            raise explained(error, f"deleting session {session}", self._dsn) from error
        finally:
            await connection.close()
        return [*doomed, session]

    async def collect(self, *, grace_s: float = GRACE_S, dry_run: bool = False) -> Collected:
        """Delete the blobs of this owner that nothing names. Needs the owner role.

        grace_s: what was stored or asked for within this time stays, named or not.
        Raises UsageError and UnavailableError.
        """
        connection = await self._open_as_owner("collect blobs")
        try:
            files = BlobFiles(self.home, self.owner)
            return await collect(connection, self.owner, files, grace_s=grace_s, dry_run=dry_run)
        except psycopg.Error as error:
            raise explained(error, "collecting blobs", self._dsn) from error
        finally:
            await connection.close()

    async def reader(self, session: uuid.UUID) -> Reader:
        """Raises SessionNotFound."""
        reader = Reader(self._ask, session, self.owner, self._blobs)
        await reader.info()
        return reader

    async def acquire(
        self, session: uuid.UUID, holder: Mapping[str, Json], *, wait: float = 10.0
    ) -> Writer:
        """Become the session's writer; steps an earlier writer left open end as `lost`.

        holder: who we are, for people: {"pid": …, "host": …}.
        Raises LeaseHeld after `wait` seconds, SessionNotFound, DatabaseUnavailable.
        """
        await self.reader(session)
        lease = Lease(session, self.owner, holder, now_us())
        connection = await self._open()
        try:
            head = await lease.take(connection, wait)
            writer = Writer(
                connection=connection,
                lease=lease,
                head=head,
                owner=self.owner,
                ask=self._ask,
                blobs=self._blobs,
                reconnect=self._open,
                now=now_us,
            )
            await writer.settle()
        except psycopg.Error as error:
            await connection.close()
            await self.reader(session)  # or it was deleted while its lock was waited for
            raise explained(error, f"taking session {session}", self._dsn) from error
        except BaseException:
            await connection.close()
            raise
        return writer

    async def check(self, session: uuid.UUID, *, blobs: bool = False) -> CheckReport:
        """Recompute the session's digests, chain and hashes; with `blobs`, those of blobs too."""
        reader = await self.reader(session)
        return await check_session(self._ask, reader, blobs=blobs)

    @property
    def dsn(self) -> str:
        """How the database is reached, for `connect.explained`; it may hold a password."""
        return self._dsn

    @property
    def blobs(self) -> OwnedBlobs:
        return self._blobs

    async def connection(self) -> Connection:
        """A connection of the caller's own, as the kernel role. Raises DatabaseUnavailable."""
        return await self._open()

    async def as_owner(self, doing: str, statement: str, values: Sequence[Any]) -> None:
        """Run one statement as the owner role, once. doing: for the refusal, in words.

        Raises UnavailableError when this login may not; psycopg.Error as it comes.
        """
        connection = await self._open_as_owner(doing)
        try:
            await connection.execute(statement, values)
        finally:
            await connection.close()

    async def close(self) -> None:
        """End the use of the database; sessions that were acquired are closed before."""
        self._closed = True
        async with self._lock:
            if self._connection is not None:
                connection, self._connection = self._connection, None
                await connection.close()
        if self._server is not None:
            self._server.release()

    async def _open(self) -> Connection:
        """A new connection as the kernel role. Raises DatabaseUnavailable."""
        try:
            if self._server is not None:
                await self._server.ensure_running(None)
            try:
                return await open_connection(self._dsn, role=KERNEL_ROLE)
            except psycopg.OperationalError:
                if self._server is None:
                    raise
                # It listens but is starting or stopping.
                await self._server.ensure_answering(None)
                return await open_connection(self._dsn, role=KERNEL_ROLE)
        except psycopg.Error as error:
            raise DatabaseUnavailable(
                f"{described(self._dsn)} cannot be reached: {' '.join(str(error).split())}."
                " What was acknowledged is stored."
            ) from error
        except UnavailableError as error:
            raise DatabaseUnavailable(str(error)) from error

    async def _open_as_owner(self, doing: str) -> Connection:
        """A new connection as the owner role. Raises UnavailableError when this login may not."""
        dsn = self._dsn
        if self._server is not None:
            await self._server.ensure_answering(None)
            dsn = self._server.owner_dsn
        try:
            return await open_connection(dsn, role=OWNER_ROLE)
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.InvalidParameterValue,
            psycopg.errors.UndefinedObject,
        ) as error:
            raise UnavailableError(
                f"{described(dsn)}: this login may not {doing}; only a member of {OWNER_ROLE} may."
                f" Nothing was changed. Ask the operator of the database, or set {DSN} to such a"
                " login."
            ) from error
        except psycopg.Error as error:
            raise explained(error, "connecting", dsn) from error

    async def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of another part's tables, as the kernel role, and return its rows.

        It may run twice when a connection is lost, so it only reads or does no harm the second
        time. Raises DatabaseUnavailable, and RepriseError from the psycopg.Error that was raised.
        """
        return await self._ask(statement, values)

    async def _ask(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Run one statement on the reading connection; once more when that was stale.

        Only reads and idempotent inserts come here, so running one twice does no harm.
        """
        async with self._lock:
            if self._closed:
                raise RepriseError("This log was closed.")
            for last_try in (False, True):
                connection = self._connection or await self._open()
                self._connection = None
                try:
                    with watched(connection):
                        cursor = await connection.execute(statement, values)
                        rows = await cursor.fetchall() if cursor.description else []
                    self._connection = connection
                except psycopg.Error as error:
                    if not is_connection_loss(error, connection):
                        self._connection = connection
                        raise explained(error, "reading or storing", self._dsn) from error
                    if last_try:
                        raise explained(error, "reading or storing", self._dsn) from error
                else:
                    return rows
                finally:
                    if self._connection is None:
                        await connection.close()
        raise AssertionError("not reached")


async def _connect_migrated(
    kernel_dsn: str, owner_dsn: str, progress: Callable[[str], None] | None
) -> Connection:
    for migrated in (False, True):
        try:
            connection, version = await schema.connect_as_kernel(kernel_dsn)
        except psycopg.Error as error:
            raise explained(error, "connecting", kernel_dsn) from error
        if connection is not None and version == schema.VERSION:
            return connection
        if connection is not None:
            await connection.close()
        if version > schema.VERSION:
            raise UnavailableError(
                f"{described(kernel_dsn)} has Reprise's schema in version {version}, made by a"
                f" newer Reprise; this one knows version {schema.VERSION}. Nothing was changed."
                " Upgrade Reprise here, or use another database."
            )
        if migrated:
            break
        if progress is not None:
            progress("Setting up Reprise's tables in Postgres …")
        await schema.migrate(owner_dsn, kernel_may_log_in=owner_dsn != kernel_dsn)
    raise UnavailableError(
        f"{described(kernel_dsn)} was migrated, but this login may not act as {KERNEL_ROLE}. An"
        f" administrator of the database can run: GRANT {KERNEL_ROLE} TO the login."
    )
