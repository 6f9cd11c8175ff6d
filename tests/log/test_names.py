"""Titles and names: the newest counts, none is lost, and they go with what they name."""

from __future__ import annotations

import uuid

import psycopg
import pytest

from reprise.errors import SessionNotFound, UsageError
from reprise.log.conversations import ConversationNotFound, Conversations
from reprise.log.names import free_name, name_session
from reprise.log.postgres import Log
from tests.fixtures.postgres import TestServer


@pytest.fixture
async def session(log: Log) -> uuid.UUID:
    return await log.begin(kernel="python3")


async def title(log: Log, conversation: uuid.UUID) -> str:
    return (await Conversations(log).info(conversation)).title


async def test_a_conversation_is_renamed_while_somebody_writes_it(
    log: Log, session: uuid.UUID
) -> None:
    known = Conversations(log)
    conversation = await known.begin(session, title="first", body={"model": "m"})
    writer = await known.open(conversation, {"pid": 1})
    assert await known.rename(conversation, "two\nlines\0 and \ud800", by="ada") == (
        "two lines and ?"
    )
    await writer.append(1, "said", {"text": "x"})
    await writer.close()
    assert await title(log, conversation) == "two lines and ?"
    assert (await known.check(conversation)).broken is None
    await known.rename(conversation, "")
    assert await title(log, conversation) == ""
    rows = await log.query(
        "SELECT title, by FROM reprise.conversation_titles WHERE conversation = %s ORDER BY number",
        [conversation],
    )
    assert rows == [("two lines and ?", "ada"), ("", None)]
    with pytest.raises(ConversationNotFound):
        await known.rename(uuid.uuid4(), "x")


async def test_a_session_has_the_newest_of_its_names(log: Log, session: uuid.UUID) -> None:
    async def name() -> str | None:
        return (await (await log.reader(session)).info()).name

    assert await name() is None
    assert await name_session(log, session, " churn \n b ") == "churn b"
    assert await name() == "churn b"
    assert [info.name for info in await log.sessions() if info.id == session] == ["churn b"]
    await name_session(log, session, "")
    assert await name() is None
    with pytest.raises(SessionNotFound):
        await name_session(log, uuid.uuid4(), "x")


async def test_a_name_that_is_taken_gets_a_number(log: Log, session: uuid.UUID) -> None:
    other = await log.begin(kernel="python3")
    assert await free_name(log, "a_%") == "a_%"
    await name_session(log, session, "a_%")
    assert await free_name(log, "a_%") == "a_% 2"
    await name_session(log, other, "a_% 2")
    assert await free_name(log, "a_%") == "a_% 3"
    await name_session(log, session, "else")
    assert await free_name(log, "a_%") == "a_%"
    assert len(await free_name(log, "x" * 500)) == 200


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reprise.conversation_titles SET title = 'x'",
        "DELETE FROM reprise.conversation_titles",
        "TRUNCATE reprise.conversation_titles",
        "UPDATE reprise.session_names SET name = 'x'",
        "DELETE FROM reprise.session_names",
        "TRUNCATE reprise.session_names",
    ],
)
async def test_what_was_said_stays(
    log: Log, session: uuid.UUID, postgres: TestServer, dsn: str, statement: str
) -> None:
    conversation = await Conversations(log).begin(session, title="t", body={"model": "m"})
    await Conversations(log).rename(conversation, "new")
    await name_session(log, session, "new")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        with pytest.raises(psycopg.Error) as refused:
            await connection.execute(statement)  # as the owner of the database itself
        assert refused.value.sqlstate == "RP003"
        await connection.execute("SET ROLE reprise_kernel")
        with pytest.raises(psycopg.Error):
            await connection.execute(statement)


async def test_they_go_with_what_they_name(log: Log, session: uuid.UUID) -> None:
    known = Conversations(log)
    conversation = await known.begin(session, title="t", body={"model": "m"})
    other = await known.begin(session, title="t", body={"model": "m"})
    await known.rename(conversation, "new")
    await known.rename(other, "other")
    await name_session(log, session, "churn")
    await known.delete(conversation)
    assert await log.query("SELECT count(*) FROM reprise.conversation_titles") == [(1,)]
    await log.delete(session)
    assert await log.query("SELECT count(*) FROM reprise.conversation_titles") == [(0,)]
    assert await log.query("SELECT count(*) FROM reprise.session_names") == [(0,)]


async def test_words_are_found_in_titles_and_in_what_was_said(log: Log, session: uuid.UUID) -> None:
    known = Conversations(log)

    async def talk(title: str, *said: tuple[str, object]) -> uuid.UUID:
        made = await known.begin(session, title=title, body={"model": "haystack"})
        writer = await known.open(made, {"pid": 1})
        for kind, body in said:
            await writer.append(writer.turn + (kind == "said"), kind, body)  # type: ignore[arg-type]
        await writer.close()
        return made

    def answer(text: str) -> tuple[str, object]:
        return "answered", {"content": [{"type": "text", "text": text}], "stop_reason": "end"}

    recall = await talk("Why is Recall low?", ("said", {"text": "class 1 äh"}), answer("Few rows"))
    plots = await talk("Plots", ("said", {"text": 'a "quoted" \\ path\nand recall'}))
    tool = await talk(
        "Tools",
        ("said", {"text": "go"}),
        ("answered", {"content": [{"type": "tool_use", "input": {"code": "needle"}}]}),
    )

    async def found(text: str) -> set[uuid.UUID]:
        return {info.id for info in await known.list(text=text)}

    assert await found("recall") == {recall, plots}
    assert await found("RECALL rows") == {recall}, "one word in the title, one in an answer"
    assert await found("äh") == {recall}
    assert await found('"quoted" \\') == {plots}
    assert await found("needle") == set(), "what a tool was given was not said"
    assert await found("haystack") == set()
    assert await found("text") == set(), "the names of fields are no words"
    assert await found("%") == set()
    assert await found("tools") == {tool}
    assert await found("") == {recall, plots, tool}
    await known.rename(plots, "Figures")
    assert await found("plots") == set()
    assert await found("figures") == {plots}
    assert [info.id for info in await known.list(text="recall", most=1)] == [plots]
    with pytest.raises(UsageError):
        await known.list(text="a " * 9)
