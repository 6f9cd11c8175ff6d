"""The conversations of one owner: begun, listed, read, opened for writing, checked, deleted."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from reprise.errors import LeaseHeld, RepriseError, SessionNotFound, UsageError
from reprise.log.conversation import FIRST, ConversationInfo, Entry, next_digest
from reprise.log.conversation_writer import (
    ENTRIES,
    PAGE,
    ConversationWriter,
    Opening,
    entry_of,
)
from reprise.log.model import Json
from reprise.log.postgres import Log, now_us

_INFO = (
    "SELECT c.id, c.owner, h.session, c.notebook, c.title, c.began_at, h.last_at, h.next_seq,"
    " h.turn FROM reprise.conversations c"
    " JOIN reprise.conversation_heads h ON h.conversation = c.id WHERE c.owner = %s"
)
#: Characters of a title.
TITLE = 200


class ConversationNotFound(UsageError):
    """There is no such conversation of this owner."""


@dataclass(frozen=True)
class Checked:
    """What a check found. broken: the first entry that is not as it was chained, if any."""

    entries: int
    broken: int | None


class Conversations:
    """All conversations of the log's owner."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def begin(
        self,
        session: uuid.UUID,
        *,
        notebook: str | None = None,
        title: str = "",
        body: Mapping[str, Any],
    ) -> uuid.UUID:
        """Begin a conversation in a session, with its entries `begun` (body) and `session`.

        Raises SessionNotFound, DatabaseUnavailable.
        """
        found = uuid.uuid4()
        # One line, of what Postgres can hold.
        words = " ".join(title.replace("\0", " ").split())[:TITLE]
        words = words.encode("utf-8", "replace").decode()
        try:
            await self._log.query(
                "INSERT INTO reprise.conversations (id, owner, session, notebook, title, began_at)"
                " VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING",
                [found, self._log.owner, session, notebook, words, now_us()],
            )
        except RepriseError as error:
            if isinstance(error.__cause__, psycopg.Error) and error.__cause__.sqlstate == "RP002":
                raise SessionNotFound(
                    f"There is no session {session} of {self._log.owner}."
                ) from error
            raise
        writer = await self.open(found, {})
        try:
            await writer.append(0, "begun", body)
            await writer.append(0, "session", {"session": str(session), "why": "begun"})
        finally:
            await writer.close()
        return found

    async def info(self, conversation: uuid.UUID) -> ConversationInfo:
        """Raises ConversationNotFound."""
        rows = await self._log.query(_INFO + " AND c.id = %s", [self._log.owner, conversation])
        if not rows:
            raise ConversationNotFound(
                f"There is no conversation {conversation} of {self._log.owner}."
            )
        return ConversationInfo(*rows[0])

    async def entries(
        self, conversation: uuid.UUID, *, after: int = -1, most: int = 1000
    ) -> list[Entry]:
        """Entries after that one, in order, at most so many. Raises ConversationNotFound."""
        await self.info(conversation)
        found: list[Entry] = []
        while len(found) < most:
            last = found[-1].seq if found else after
            size = min(PAGE, most - len(found))
            rows = await self._log.query(ENTRIES, [conversation, last, size])
            found.extend(entry_of(row) for row in rows)
            if len(rows) < size:
                break
        return found

    async def open(
        self, conversation: uuid.UUID, holder: Mapping[str, Json], *, wait: float = 5.0
    ) -> ConversationWriter:
        """Become its writer. holder: who we are, for people: {"pid": …, "host": …}.

        Raises LeaseHeld after `wait` seconds, ConversationNotFound, DatabaseUnavailable.
        """
        await self.info(conversation)
        writer = ConversationWriter(
            Opening(
                conversation,
                self._log.owner,
                self._log.dsn,
                holder,
                self._log.blobs,
                self._log.connection,
                now_us,
            )
        )
        await writer.take(wait)
        return writer

    async def check(self, conversation: uuid.UUID) -> Checked:
        """Compute its chain again. Raises ConversationNotFound."""
        await self.info(conversation)
        chain, count = FIRST, 0
        while True:
            rows = await self._log.query(
                "SELECT seq, turn, kind, body::text, at, digest"
                " FROM reprise.conversation_entries WHERE conversation = %s AND seq > %s"
                " ORDER BY seq LIMIT %s",
                [conversation, count - 1, PAGE],
            )
            for *row, digest in rows:
                chain = next_digest(chain, entry_of(row), row[3].encode())
                if row[0] != count or chain != bytes(digest):
                    return Checked(count, count)
                count += 1
            if not rows:
                return Checked(count, None)

    async def delete(self, conversation: uuid.UUID) -> None:
        """Delete all of it, for good; its steps stay in their session.

        Raises ConversationNotFound, LeaseHeld while its turn runs, UnavailableError where this
        login may not.
        """
        await self.info(conversation)
        try:
            await self._log.as_owner(
                "delete conversations", "SELECT reprise.delete_conversation(%s)", [conversation]
            )
        except psycopg.errors.ObjectInUse as error:
            raise LeaseHeld(
                f"Conversation {conversation} is open; end its turn first. Nothing was deleted."
            ) from error
        except psycopg.errors.NoDataFound as error:
            raise ConversationNotFound(f"Conversation {conversation} is gone already.") from error

    async def list(
        self,
        *,
        session: uuid.UUID | None = None,
        notebook: str | None = None,
        most: int = 100,
    ) -> list[ConversationInfo]:
        """The newest first; of a session (that are or were in it) or a notebook only, if asked.

        An undo and a rewind lead a conversation on to another session.
        """
        rows = await self._log.query(
            _INFO + " AND (%s::uuid IS NULL OR h.session = %s OR EXISTS ("
            # CASE, since Postgres' functions of json refuse texts with a NUL.
            "  SELECT FROM reprise.conversation_entries e WHERE e.conversation = c.id"
            "   AND CASE WHEN e.kind = 'session' THEN e.body ->> 'session' END = %s::text))"
            " AND (%s::text IS NULL OR c.notebook = %s) ORDER BY h.last_at DESC, c.id LIMIT %s",
            [self._log.owner, session, session, session, notebook, notebook, most],
        )
        return [ConversationInfo(*row) for row in rows]
