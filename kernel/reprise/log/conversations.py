"""The conversations of one owner: begun, listed, read, opened for writing, checked, deleted."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
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
from reprise.log.names import one_line
from reprise.log.postgres import Log, now_us

_INFO = (
    "SELECT c.id, c.owner, h.session, c.notebook, coalesce((SELECT t.title"
    " FROM reprise.conversation_titles t WHERE t.conversation = c.id"
    " ORDER BY t.number DESC LIMIT 1), c.title) AS title, c.began_at, h.last_at, h.next_seq,"
    " h.turn FROM reprise.conversations c"
    " JOIN reprise.conversation_heads h ON h.conversation = c.id WHERE c.owner = %s"
)
#: Of a search: conversations that are looked through, the newest first; entries of one that hold a
#: word, and of those at once.
_LOOKED = 2000
_HELD = 1000
_AT_ONCE = 50
#: Words of one search, and characters of all of them.
_WORDS = 8
_SEARCHED = 200


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
        words = one_line(title)
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

    async def rename(self, conversation: uuid.UUID, title: str, *, by: str | None = None) -> str:
        """Give it another title, also while a turn runs; the title as it is kept.

        Raises ConversationNotFound, DatabaseUnavailable.
        """
        await self.info(conversation)
        words = one_line(title)
        await self._log.query(
            "INSERT INTO reprise.conversation_titles (conversation, owner, title, by, at)"
            " VALUES (%s, %s, %s, %s, %s)",
            [conversation, self._log.owner, words, by, now_us()],
        )
        return words

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

    async def newest(self, info: ConversationInfo, count: int) -> list[Entry]:
        """The newest `count` entries as `info` knows them, and one that may have come since, in
        order. Raises ConversationNotFound."""
        after = max(-1, info.entries - 1 - count)
        return await self.entries(info.id, after=after, most=count + 1)

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
        text: str = "",
        most: int = 100,
    ) -> list[ConversationInfo]:
        """The newest first; of a session (that are or were in it) or a notebook only, if asked.

        An undo and a rewind lead a conversation on to another session.
        text: words that each stand in the title or in what was said in it, by a person or by the
          agent; case does not matter for ASCII. The newest conversations are looked through.
        Raises UsageError for a search of too many words.
        """
        words = text.split()
        if len(words) > _WORDS or len(text) > _SEARCHED:
            raise UsageError(
                f"A search takes up to {_WORDS} words of {_SEARCHED} characters together."
            )
        rows = await self._log.query(
            _INFO + " AND (%s::uuid IS NULL OR h.session = %s OR EXISTS ("
            # CASE, since Postgres' functions of json refuse texts with a NUL.
            "  SELECT FROM reprise.conversation_entries e WHERE e.conversation = c.id"
            "   AND CASE WHEN e.kind = 'session' THEN e.body ->> 'session' END = %s::text))"
            " AND (%s::text IS NULL OR c.notebook = %s) ORDER BY h.last_at DESC, c.id LIMIT %s",
            [
                *(self._log.owner, session, session, session, notebook, notebook),
                _LOOKED if words else most,
            ],
        )
        listed = [ConversationInfo(*row) for row in rows]
        if not words:
            return listed
        found: list[ConversationInfo] = []
        for info in listed:
            if len(found) == most:
                break
            if await self._holds(info, [word.lower() for word in words]):
                found.append(info)
        return found

    async def _holds(self, info: ConversationInfo, words: Sequence[str]) -> bool:
        """Whether all words stand in it somewhere."""
        missing = {word for word in words if word not in info.title.lower()}
        last, looked = -1, 0
        while missing and looked < _HELD:
            rows = await self._log.query(
                "SELECT seq, kind, body::text FROM reprise.conversation_entries"
                " WHERE conversation = %s AND seq > %s AND kind IN ('said', 'answered')"
                # As the canonical form spells it; what else stands in a body is told apart below.
                " AND EXISTS (SELECT FROM unnest(%s::text[]) AS w(word)"
                "  WHERE strpos(lower(body::text), lower(w.word)) > 0) ORDER BY seq LIMIT %s",
                [info.id, last, [json.dumps(word)[1:-1] for word in missing], _AT_ONCE],
            )
            for seq, kind, body in rows:
                told = spoken(kind, json.loads(body)).lower()
                missing = {word for word in missing if word not in told}
                last = seq
            looked += len(rows)
            if len(rows) < _AT_ONCE:
                break
        return not missing


def spoken(kind: str, body: Mapping[str, Any]) -> str:
    """What was said in an entry `said` or `answered`, as text; thinking is not."""
    if kind == "said":
        return str(body.get("text", ""))
    blocks = body.get("content")
    if not isinstance(blocks, list):
        return ""
    return "\n".join(
        str(block.get("text", ""))
        for block in blocks
        if isinstance(block, dict) and block.get("type") == "text"
    )
