"""What steps asked of the network: stored once, in order, append only, seen through forks."""

from __future__ import annotations

import dataclasses
import uuid

import psycopg
import pytest

from reprise.errors import RepriseError
from reprise.log import reader as reading
from reprise.log.postgres import Log
from reprise.log.reader import Reader
from reprise.log.store import NetworkRow
from reprise.log.writer import Writer
from tests.log.words import cell, ok


def asked(seq: int | None, host: str = "example.org", **more: object) -> NetworkRow:
    row = NetworkRow(seq, 1_000, host, 443, "192.0.2.1", "connect", "allowed", "", 10, 20, 30)
    return dataclasses.replace(row, **more)  # type: ignore[arg-type]


async def step(writer: Writer, name: str = "a") -> int:
    appended = await writer.append_step(cell(name))
    await writer.record_outcome(appended.seq, ok())
    return appended.seq


async def hosts(reader: Reader, start: int = 0, stop: int | None = None) -> list[str]:
    return [row.host async for row in reader.network(start, stop)]


async def test_a_row_comes_back_as_it_was_stored(writer: Writer) -> None:
    await step(writer)
    rows = [
        asked(0),
        asked(0, "näme\0\ud800", address=None, verdict="refused", reason="no \0", via="socks"),
        asked(None, verdict="served", replay=True, detail={"url": "https://example.org/ä", "n": 1}),
        asked(0, verdict="failed", reason="nobody answers", bytes_up=1 << 60, via="http"),
    ]
    await writer.append_network(rows)
    assert [row async for row in writer.network()] == rows


async def test_a_repeated_write_stores_each_row_once(writer: Writer) -> None:
    await step(writer)
    first, second = asked(0, "a.org"), asked(0, "b.org")
    await writer.append_network([first])
    await writer.append_network([first, second])
    assert await hosts(writer) == ["a.org", "b.org"]


async def test_many_rows_are_read_in_pages(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE_ROWS", 3)
    await step(writer)
    names = [f"h{number}.org" for number in range(10)]
    await writer.append_network([asked(0, name) for name in names])
    assert await hosts(writer) == names


async def test_rows_between_steps_stand_behind_the_step_before(writer: Writer) -> None:
    await writer.append_network([asked(None, "before.org")])
    await step(writer)
    await writer.append_network([asked(None, "between.org")])
    await step(writer)
    await writer.append_network([asked(1, "second.org"), asked(None, "after.org")])
    assert await hosts(writer, 0, 1) == ["before.org", "between.org"]
    assert await hosts(writer, 1) == ["second.org", "after.org"]


async def test_a_fork_sees_what_was_recorded_before_it_and_its_own(log: Log) -> None:
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {"pid": 1})
    appended = await writer.append_step(cell("a"))
    await writer.append_network([asked(0, "shared.org")])
    await writer.record_outcome(appended.seq, ok())
    fork = await log.fork(session, 0)
    appended = await writer.append_step(cell("b"))
    await writer.append_network([asked(1, "parent.org")])
    await writer.record_outcome(appended.seq, ok())
    await writer.close()
    own = await log.acquire(fork, {"pid": 1})
    await own.append_network([asked(0, "again.org", replay=True)])
    assert await hosts(own) == ["shared.org", "again.org"]
    assert await hosts(await log.reader(session)) == ["shared.org", "parent.org"]
    await own.close()


async def test_a_row_of_a_step_that_is_not_there_is_refused(writer: Writer) -> None:
    with pytest.raises(RepriseError):
        await writer.append_network([asked(0)])
    assert await hosts(writer) == []


async def test_a_writer_that_lost_its_lease_appends_nothing(log: Log, dsn: str) -> None:
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {"pid": 1})
    await step(writer)
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("SET ROLE reprise_kernel")
        with pytest.raises(psycopg.Error) as refused:
            other.execute(
                "INSERT INTO reprise.network (id, session, owner, epoch, seq, event, place, at,"
                " verdict, replay, bytes_up, bytes_down, body)"
                " VALUES (%s, %s, %s, %s, 0, 0, 0, 0, 'allowed', false, 0, 0, '[]')",
                [uuid.uuid4(), session, log.owner, writer.epoch],
            )
    assert refused.value.sqlstate == "RP001"
    await writer.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE reprise.network SET at = 0",
        "DELETE FROM reprise.network",
        "TRUNCATE reprise.network",
    ],
)
@pytest.mark.parametrize(
    ("role", "state"),
    [("reprise_kernel", "42501"), ("reprise_owner", "RP003"), ("postgres", "RP003")],
)
async def test_rows_are_append_only(
    writer: Writer, dsn: str, change: str, role: str, state: str
) -> None:
    await step(writer)
    await writer.append_network([asked(0)])
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"SET ROLE {role}")
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(change)
    assert refused.value.sqlstate == state
