"""A changed past cannot hide: who edits stored rows is found by `check`, with the step's number."""

from __future__ import annotations

import psycopg
import pytest

from reprise.errors import LogCorrupt
from reprise.log.model import OutputEntry
from reprise.log.postgres import Log
from reprise.log.writer import Writer
from tests.log.words import cell, ok, text


def changed(old: str, new: str) -> str:
    return f"replace(body::text, '{old}', '{new}')::json"


EDITS = {
    "a cell's code": (
        f"UPDATE reprise.steps SET body = {changed('code-2', 'code-9')} WHERE seq = 2",
        2,
    ),
    "a step's kind column": ("UPDATE reprise.steps SET kind = 'command' WHERE seq = 1", 1),
    "a step's owner": ("UPDATE reprise.steps SET owner = 'other' WHERE seq = 1", 1),
    "an outcome's duration": (
        f"UPDATE reprise.outcomes SET body = {changed(':7,', ':8,')} WHERE seq = 3",
        3,
    ),
    "an outcome's status column": ("UPDATE reprise.outcomes SET status = 'died' WHERE seq = 3", 3),
    "an output": (
        f"UPDATE reprise.outputs SET body = {changed('out-1', 'out-7')} WHERE seq = 1 AND NOT late",
        1,
    ),
    # The event that closes over a late output is the next one: step 3.
    "a late output": (
        f"UPDATE reprise.outputs SET body = {changed('late-2', 'late-7')} WHERE late AND seq = 2",
        3,
    ),
    "an output that is gone": ("DELETE FROM reprise.outputs WHERE seq = 0 AND NOT late", 0),
    "a step that is gone": ("DELETE FROM reprise.steps WHERE seq = 1", 1),
    "the last outcome, gone": ("DELETE FROM reprise.outcomes WHERE seq = 4", 4),
    "a digest": ("UPDATE reprise.steps SET digest = sha256('x') WHERE seq = 2", 2),
}


async def _five_steps(writer: Writer) -> None:
    for number in range(5):
        step = await writer.append_step(cell(f"code-{number}"))
        shown = text(f"out-{number}")
        await writer.append_outputs(step.seq, shown)
        await writer.record_outcome(step.seq, ok(*shown))
        await writer.append_outputs(step.seq, text(f"late-{number}"), late=True)


@pytest.mark.parametrize("edit", EDITS)
async def test_a_superusers_edit_with_triggers_off_is_found_at_its_step(
    log: Log, writer: Writer, dsn: str, edit: str
) -> None:
    await _five_steps(writer)
    assert (await log.check(writer.session)).fault is None
    statement, seq = EDITS[edit]
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("SET session_replication_role = replica")
        assert superuser.execute(statement.encode()).rowcount == 1
    report = await log.check(writer.session)
    assert report.fault is not None
    assert report.fault.seq == seq, report.fault


async def test_a_check_counts_what_it_recomputed(log: Log, writer: Writer) -> None:
    await _five_steps(writer)
    report = await log.check(writer.session)
    assert (report.ok, report.steps, report.outcomes) == (True, 5, 5)


@pytest.mark.parametrize("size", [10, 2_000_000], ids=["in Postgres", "in a file"])
async def test_a_blob_that_changed_is_found_when_asked_for(
    log: Log, writer: Writer, dsn: str, size: int
) -> None:
    name = await writer.blobs.put(b"x" * size)
    step = await writer.append_step(cell(blobs=(name,)))
    await writer.record_outcome(step.seq, ok())
    assert (await log.check(writer.session, blobs=True)).ok
    if size > 1 << 20:
        next(path for path in log.home.rglob(name)).write_bytes(b"y" * size)
    else:
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute("ALTER TABLE reprise.blobs DROP CONSTRAINT blobs_check1")
            superuser.execute("UPDATE reprise.blobs SET data = %s", [b"y" * size])
    report = await log.check(writer.session, blobs=True)
    assert report.fault is not None
    assert report.fault.seq == 0
    with pytest.raises(LogCorrupt):
        await writer.blobs.get(name)


async def test_what_json_and_utf8_disagree_on_comes_back_exactly(log: Log, writer: Writer) -> None:
    odd = "nul \x00, lone \ud800 surrogate, \U0001f600, ﷽, \x7f"
    entry = OutputEntry("display_data", {"data": {odd: 1e300, "n": 2**70}}, {"x": [None, True]})
    step = await writer.append_step(cell(odd))
    await writer.record_outcome(step.seq, ok(entry, inputs=(odd, None)), [entry])
    [record] = [record async for record in (await log.reader(writer.session)).records()]
    assert record.step == step
    assert record.outputs == (entry,)
    assert record.outcome is not None
    assert record.outcome.new.inputs == (odd, None)
    assert (await log.check(writer.session)).ok
