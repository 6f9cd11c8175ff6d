"""A conversation is whole whatever dies: append-only, gapless, chained, one writer, never twice."""

from __future__ import annotations

import asyncio
import signal
import uuid
from typing import Any

import psycopg
import pytest

import reprise.log.collection
from reprise.errors import LeaseHeld, LeaseLost, SessionNotFound, TooLarge, UnavailableError
from reprise.log.connect import cut
from reprise.log.conversation import KINDS, MAX_BODY
from reprise.log.conversation_writer import ConversationWriter
from reprise.log.conversations import ConversationNotFound, Conversations
from reprise.log.postgres import Log
from tests.fixtures.postgres import TestServer


@pytest.fixture
async def session(log: Log) -> uuid.UUID:
    return await log.begin(kernel="python3")


async def begun(log: Log, session: uuid.UUID, title: str = "Why is recall low?") -> uuid.UUID:
    return await Conversations(log).begin(session, title=title, body={"model": "m"})


async def kinds(log: Log, conversation: uuid.UUID) -> list[str]:
    """In the log; and the chain must add up."""
    assert (await Conversations(log).check(conversation)).broken is None
    return [entry.kind for entry in await Conversations(log).entries(conversation)]


async def test_what_was_appended_is_there_in_order_for_every_reader(
    log: Log, session: uuid.UUID
) -> None:
    known = Conversations(log)
    conversation = await begun(log, session, "two\nlines\0and \ud800 more")
    writer = await known.open(conversation, {"pid": 1})
    body = {"text": "\0 \ud800 \U0001f600 </script>", "numbers": [1, 2.5, -(10**30)]}
    await writer.append(1, "said", body)
    for number in range(40):
        await writer.append(1, "running", {"id": f"call-{number}"})
    await writer.append(2, "said", {"text": "again"})
    assert [entry.seq for entry in writer.entries] == list(range(44))
    await writer.close()
    assert await known.entries(conversation) == list(writer.entries)
    assert (await known.entries(conversation, after=40, most=2))[0].seq == 41
    assert writer.entries[2].body == body
    [info] = await known.list()
    assert (info.id, info.session, info.entries, info.turns) == (conversation, session, 44, 2)
    assert info.title == "two lines and ? more"
    again = await known.open(conversation, {"pid": 2})
    assert again.entries == writer.entries
    assert again.turn == 2
    await again.close()


async def test_every_kind_is_one_that_postgres_takes(log: Log, session: uuid.UUID) -> None:
    writer = await Conversations(log).open(await begun(log, session), {})
    turn = 0
    for kind in KINDS:
        turn += kind == "said"
        await writer.append(turn, kind, {"session": str(session)})
    await writer.close()
    assert (await kinds(log, writer.id))[2:] == list(KINDS)


@pytest.mark.parametrize("role", ["reprise_kernel", "reprise_owner", "postgres"])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE reprise.conversation_entries SET turn = 9",
        "DELETE FROM reprise.conversation_entries",
        "TRUNCATE reprise.conversation_entries CASCADE",
    ],
)
async def test_postgres_refuses_to_change_an_entry(
    log: Log, session: uuid.UUID, dsn: str, role: str, change: str
) -> None:
    await begun(log, session)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET ROLE {role}")
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(change)
    assert refused.value.sqlstate == ("42501" if role == "reprise_kernel" else "RP003")


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({"seq": 7}, "RP002"),
        ({"seq": 1}, "RP002"),
        ({"turn": 5}, "RP002"),
        ({"kind": "said"}, "RP002"),
        ({"digest": b"\0" * 32}, "RP002"),
        ({"kind": "invented"}, "23514"),
        ({"epoch": 99}, "RP001"),
    ],
)
async def test_the_kernels_role_cannot_forge_an_entry(
    log: Log, session: uuid.UUID, change: dict[str, Any], state: str
) -> None:
    """Nor with the writer's own connection; and nobody else's connection appends at all."""
    writer = await Conversations(log).open(await begun(log, session), {})
    await writer.append(1, "said", {"text": "x"})
    assert writer._connection is not None
    [(chain, epoch)] = await log.query(
        "SELECT chain, epoch FROM reprise.conversation_heads WHERE conversation = %s", [writer.id]
    )
    # An empty digest of ours would be right for the true head only.
    row = {"seq": 3, "turn": 1, "kind": "running", "epoch": epoch, "at": 5, **change}
    values = [writer.id, row["seq"], row["turn"], "tester", row["epoch"], row["kind"], row["at"]]
    statement = (
        "INSERT INTO reprise.conversation_entries VALUES (%s, %s, %s, %s, %s, %s, %s, '{}',"
        " DEFAULT, coalesce(%b, sha256(%b || convert_to(format('%%s %%s %%s %%s ', %s::bigint,"
        " %s::bigint, %s::text, %s::bigint) || '{}', 'UTF8'))))"
    )
    places = [row["seq"], row["turn"], row["kind"], row["at"]]
    full = [*values, change.get("digest"), bytes(chain), *places]
    for connection, expected in ((writer._connection, state), (await log.connection(), "RP001")):
        with pytest.raises(psycopg.Error) as refused:
            await connection.execute(statement, full)
        if expected != "23514":
            assert refused.value.sqlstate in (expected, "23514")
        if connection is not writer._connection:
            await connection.close()
    await writer.append(1, "running", {"id": "a"})
    await writer.close()
    assert len(await kinds(log, writer.id)) == 4


async def test_one_process_writes_at_a_time_and_says_who(log: Log, session: uuid.UUID) -> None:
    known = Conversations(log)
    conversation = await begun(log, session)
    writer = await known.open(conversation, {"pid": 42, "host": "there"})
    with pytest.raises(LeaseHeld, match="host there, pid 42 since"):
        await known.open(conversation, {}, wait=0)
    await writer.close()
    await writer.close()
    with pytest.raises(LeaseLost, match="closed here"):
        await writer.append(1, "said", {"text": "late"})
    await (await known.open(conversation, {}, wait=0)).close()


class Breaking:
    """A connection that breaks at the next statement, after it was carried out or before."""

    def __init__(self, writer: ConversationWriter, stored: bool) -> None:
        assert writer._connection is not None
        self._real = writer._connection
        self._stored = stored
        writer._connection = self  # type: ignore[assignment]

    async def execute(self, *arguments: Any) -> None:
        if self._stored:
            await self._real.execute(*arguments)
        cut(self._real)
        await self._real.execute("SELECT 1")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


@pytest.mark.parametrize("stored", [True, False])
async def test_an_entry_whose_answer_was_lost_is_there_once(
    log: Log, session: uuid.UUID, stored: bool
) -> None:
    writer = await Conversations(log).open(await begun(log, session), {})
    await writer.append(1, "said", {"text": "x"})
    Breaking(writer, stored)
    entry = await writer.append(1, "running", {"id": "a"})
    assert entry.seq == 3
    await writer.append(1, "ended", {"status": "done"})
    await writer.close()
    assert await kinds(log, writer.id) == ["begun", "session", "said", "running", "ended"]
    assert len(writer.entries) == 5


async def test_a_crash_of_postgres_is_waited_out(
    log: Log, session: uuid.UUID, postgres: TestServer
) -> None:
    writer = await Conversations(log).open(await begun(log, session), {})
    await writer.append(1, "said", {"text": "x"})
    postgres.stop(signal.SIGKILL)
    waiting = asyncio.create_task(writer.append(1, "running", {"id": "a"}))
    await asyncio.to_thread(postgres.start)
    await waiting
    await writer.close()
    assert await kinds(log, writer.id) == ["begun", "session", "said", "running"]


async def test_a_writer_that_another_has_followed_is_told_and_writes_no_more(
    log: Log, session: uuid.UUID
) -> None:
    known = Conversations(log)
    first = await known.open(await begun(log, session), {})
    await first.append(1, "said", {"text": "x"})
    assert first._connection is not None
    cut(first._connection)
    second = await known.open(first.id, {}, wait=30)
    await second.append(1, "ended", {"status": "interrupted"})
    with pytest.raises(LeaseLost, match="Another process"):
        await first.append(1, "running", {"id": "a"})
    await first.close()
    await second.close()
    assert await kinds(log, first.id) == ["begun", "session", "said", "ended"]


async def test_a_cancelled_append_is_whole_and_the_next_follows_it(
    log: Log, session: uuid.UUID
) -> None:
    writer = await Conversations(log).open(await begun(log, session), {})
    await writer.append(1, "said", {"text": "x"})
    began = []
    for number in range(21):
        task = asyncio.create_task(writer.append(1, "running", {"id": number}))
        for _ in range(number % 7):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if number % 7:
            began.append(number)
    await writer.append(1, "ended", {"status": "cancelled"})
    await writer.close()
    found = (await Conversations(log).entries(writer.id))[3:]
    assert [entry.body.get("id") for entry in found] == [*began, None]
    assert (await Conversations(log).check(writer.id)).broken is None


async def test_what_cannot_be_stored_leaves_the_conversation_as_it_was(
    log: Log, session: uuid.UUID
) -> None:
    known = Conversations(log)
    with pytest.raises(SessionNotFound):
        await known.begin(uuid.uuid4(), body={})
    assert await known.list() == []
    writer = await known.open(await begun(log, session), {})
    with pytest.raises(TooLarge, match="not stored"):
        await writer.append(1, "said", {"text": "x" * MAX_BODY})
    await writer.append(1, "said", {"text": "x"})
    await writer.close()
    with pytest.raises(ConversationNotFound):
        await known.entries(uuid.uuid4())


async def test_a_changed_entry_is_found(log: Log, session: uuid.UUID, dsn: str) -> None:
    writer = await Conversations(log).open(await begun(log, session), {})
    for number in range(3):
        await writer.append(number + 1, "said", {"text": f"{number}"})
    await writer.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            'UPDATE reprise.conversation_entries SET body = \'{"text":"y"}\' WHERE seq = 3'
        )
    assert (await Conversations(log).check(writer.id)).broken == 3


async def test_it_goes_when_it_is_deleted_and_with_the_session_that_it_is_in(
    log: Log, session: uuid.UUID
) -> None:
    known = Conversations(log)
    other = await log.begin(kernel="python3")
    gone, moved, stays = [await begun(log, each) for each in (session, session, other)]
    writer = await known.open(moved, {})
    await writer.append(0, "session", {"session": str(other), "why": "undo"})
    with pytest.raises(LeaseHeld):
        await known.delete(moved)
    await writer.close()
    assert (await log.dependents(session)).conversations == 1
    assert [info.id for info in await known.list(session=session)] == [moved, gone]
    assert {info.id for info in await known.list(session=other)} == {moved, stays}
    await log.delete(session)
    assert {info.id for info in await known.list()} == {moved, stays}
    await known.delete(stays)
    with pytest.raises(ConversationNotFound):
        await known.info(gone)
    assert [info.id for info in await known.list()] == [moved]
    assert await kinds(log, moved) == ["begun", "session", "session"]


async def test_a_session_with_an_open_conversation_is_not_deleted(
    log: Log, session: uuid.UUID
) -> None:
    writer = await Conversations(log).open(await begun(log, session), {})
    with pytest.raises((LeaseHeld, UnavailableError)):
        await log.delete(session)
    await writer.append(1, "said", {"text": "x"})
    await writer.close()


async def test_a_notebook_that_an_entry_names_is_not_collected(
    log: Log, session: uuid.UUID, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    monkeypatch.setattr(reprise.log.collection, "_PAGE_ROWS", 2)
    kept, lost = await log.blobs.put_many([b'{"cells": []}', b"nobody's"])
    writer = await Conversations(log).open(await begun(log, session), {})
    for number in range(5):
        await writer.append(number + 1, "said", {"text": "x"})
    await writer.append(5, "notebook", {"path": "a.ipynb", "sha256": kept, "where": "file"})
    await writer.close()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("UPDATE reprise.blobs SET touched_at = touched_at - interval '3 days'")
    await log.collect()
    assert await log.blobs.missing([kept, lost]) == {lost}
