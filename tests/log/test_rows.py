"""Rows by number are what a walk over all of a history finds, whatever is asked, while it grows."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest

from reprise.log import rows as rows_module
from reprise.log.model import NewOutcome, NewStep, OutputEntry, outputs_hash
from reprise.log.one_line import LINE, asked, first_line, shown
from reprise.log.postgres import Log
from reprise.log.reader import Reader
from reprise.log.rows import Row, RowFilter, Rows, RowSearches, find_forks
from reprise.log.search import StepFilter
from reprise.log.writer import Writer
from reprise.skills.command import in_a_line, script_command
from reprise.skills.script import Script
from tests.log.test_search import FILTERS, fits, history
from tests.log.words import ENVIRONMENT, cell, ok, text

__all__ = ["history"]


async def every(searches: RowSearches, reader: Reader, wanted: RowFilter, page: int) -> list[Row]:
    """All rows, page by page, asked for again until everything was looked through."""
    while not (await searches.rows(reader, wanted, 0, 1)).exact:
        pass
    found: list[Row] = []
    while True:
        told = await searches.rows(reader, wanted, len(found), page)
        found += told.rows
        if not told.rows:
            assert len(found) == told.found
            return found


@pytest.mark.parametrize("bounds", ["wide", "narrow"])
async def test_rows_are_what_a_walk_finds(
    history: Reader, bounds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bounds == "narrow":
        monkeypatch.setattr(rows_module, "SCANNED", 11)
        monkeypatch.setattr(rows_module, "_AT_ONCE", 4)
        monkeypatch.setattr(rows_module, "_BYTES", 500)
    records = [record async for record in history.records(outputs=False)]
    searches = RowSearches()
    for wanted in FILTERS:
        expected = [record for record in records if fits(record, wanted)]
        for page in (1, 7, 200):
            found = await every(searches, history, RowFilter(wanted), page)
            assert [row.seq for row in found] == [record.step.seq for record in expected], wanted
            assert [row.number for row in found] == list(range(len(expected)))
            for row, record in zip(found, expected, strict=True):
                outcome = record.outcome
                assert row.status == (None if outcome is None else outcome.status)
                assert row.duration_us == (None if outcome is None else outcome.new.duration_us)
                assert row.digest == record.step.digest.hex()
                assert row.asked.actor == record.step.new.actor.to_json()


async def test_what_ran_and_what_is_new_is_found_by_a_search_that_went_before(
    log: Log, writer: Writer
) -> None:
    reader = await log.reader(writer.session)
    searches = RowSearches()
    failed, running = (RowFilter(StepFilter(ended=[each])) for each in ("error", "running"))

    async def seqs(wanted: RowFilter) -> list[int]:
        return [row.seq for row in (await searches.rows(reader, wanted, 0, 100)).rows]

    first = await writer.append_step(cell("one"))
    assert (await seqs(failed), await seqs(running)) == ([], [first.seq])
    second = await writer.append_step(cell("two"))
    await writer.record_outcome(second.seq, ok())
    assert (await seqs(failed), await seqs(running)) == ([], [first.seq])
    third = await writer.append_step(cell("three"))
    await writer.record_outcome(third.seq, NewOutcome("error", ok().outputs, 7))
    assert await seqs(failed) == [third.seq]
    await writer.record_outcome(first.seq, NewOutcome("error", ok().outputs, 7))
    assert (await seqs(failed), await seqs(running)) == ([first.seq, third.seq], [])


async def test_a_search_whose_asker_goes_away_loses_nothing(
    log: Log, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = await log.reader(writer.session)
    searches, wanted = RowSearches(), RowFilter(StepFilter(ended=["running", "error"]))
    steps = [await writer.append_step(cell(name)) for name in ("one", "two")]
    told = await searches.rows(reader, wanted, 0, 10)
    assert [row.seq for row in told.rows] == [0, 1]
    await writer.record_outcome(steps[1].seq, NewOutcome("error", ok().outputs, 7))

    def gone(*_: object) -> list[int]:
        raise asyncio.CancelledError

    with monkeypatch.context() as patched:
        patched.setattr(rows_module._Search, "_fit", gone)
        with pytest.raises(asyncio.CancelledError):
            await searches.rows(reader, wanted, 0, 10)
    told = await searches.rows(reader, wanted, 0, 10)
    assert [(row.seq, row.status) for row in told.rows] == [(0, None), (1, "error")]


async def test_runs_of_one_cell(log: Log, writer: Writer) -> None:
    def of(cell_id: str, code: str) -> NewStep:
        content = {"code": code}
        return cell(payload={"header": {}, "metadata": {"cellId": cell_id}, "content": content})

    codes = ["x", 'print(\'"cellId":"b"\')', "# " + "y" * 20_000]
    for code in codes:
        for cell_id in ("a", "b"):
            step = await writer.append_step(of(cell_id, code))
            await writer.record_outcome(step.seq, ok())
    reader = await log.reader(writer.session)
    told = await RowSearches().rows(reader, RowFilter(cell="b"), 0, 100)
    assert [row.seq for row in told.rows] == [1, 3, 5]
    assert {row.asked.cell for row in told.rows} == {"b"}


async def test_a_row_costs_no_more_for_a_step_that_is_large(log: Log, writer: Writer) -> None:
    code = "# NUL \0 and Ä\n" + "x = 1\n" * 200_000
    entries = [
        OutputEntry("stream", {"name": "stdout", "text": "first line\n" + "z" * 9_000}),
        OutputEntry("display_data", {"data": {"image/png": "A" * 9_000, "text/plain": "<Figure>"}}),
    ]
    for each in ([entries[0]], [entries[1]], text("a", "b"), []):
        step = await writer.append_step(cell(code))
        await writer.record_outcome(step.seq, NewOutcome("ok", outputs_hash(each), 7), each)
    paths = [f"data/{n}.csv" for n in range(3_000)]
    rows = [[path, "file", 0o644, 1, "a" * 64] for path in paths]
    await writer.append_step(
        NewStep("upload", {"entries": rows, "removed": [], "root": ""}, ENVIRONMENT, 5)
    )
    told = await RowSearches().rows(await log.reader(writer.session), RowFilter(), 0, 10)
    assert {row.asked.text for row in told.rows[:4]} == {"# NUL \0 and Ä"}
    assert all(row.asked.lines > 1 for row in told.rows[:4])
    assert [row.shown for row in told.rows] == ["first line", "image", "a", None, None]
    assert told.rows[4].asked.text == "data/0.csv, …"


WHOLE = {
    "cell": {"content": {"code": "\n\n  df.head()\nmore"}, "metadata": {"cellId": "c"}},
    "command": {"argv": ["pip", "list"]},
    "upload": {"entries": [["a", "file"], ["b", "file"], ["c", "file"]], "removed": ["d"]},
    "mount": {"target": "/skills/x", "tree": "t", "skill": {"name": "profile-data"}},
    "comm": {"header": {"msg_type": "comm_open"}, "content": {"target_name": "jupyter.widget"}},
    "restart": {"emptied": True},
}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("cell", "df.head()"),
        ("command", "pip list"),
        ("upload", "a, b, c, and 1 more"),
        ("mount", "profile-data"),
        ("comm", "opens a widget (jupyter.widget)"),
        ("restart", "files removed"),
    ],
)
def test_a_step_in_a_line(kind: str, line: str) -> None:
    head = json.dumps({"actor": {"kind": "user"}, "payload": WHOLE[kind]})
    found = asked(kind, head, None)  # type: ignore[arg-type]
    assert (found.text, found.actor) == (line, {"kind": "user"})


def test_a_command_that_runs_a_script_of_a_skill_is_told_by_both() -> None:
    script = Script("scripts/sums.py", "python")
    text = script_command(script, ["a b"], name="sums", path="/skills/sums", program="python3")
    body = {"actor": {"kind": "user"}, "payload": {"shell": text}}
    head = json.dumps(body, separators=(",", ":"))
    assert asked("command", head, None, in_a_line).text == "python3 scripts/sums.py 'a b' · sums"
    assert asked("command", head, "", in_a_line).text == "python3 scripts/sums.py 'a b' · sums"
    hidden = text.replace("mkdir", "curl a.example; mkdir")
    head = json.dumps({"actor": {"kind": "user"}, "payload": {"shell": hidden}})
    assert asked("command", head, None, in_a_line).text.startswith("export REPRISE_WORKSPACE")


def test_a_text_that_is_cut_off_anywhere_is_no_fault() -> None:
    whole = json.dumps(
        {
            "actor": {"kind": "agent", "conversation": "t", "turn": 3},
            "payload": {"content": {"code": 'print("\\ \u0416 \U0001f600")\nx'}},
        },
        separators=(",", ":"),
    )
    batch = json.dumps(
        [["error", {"ename": "E", "evalue": "it is \u0416 bad", "traceback": []}, {}, []]],
        separators=(",", ":"),
    )
    for at in range(len(whole)):
        assert len(asked("cell", whole[:at], "").text) <= LINE
    for at in range(len(batch)):
        said = shown(batch[:at], batch[:at])
        assert said is None or "E: it is Ж bad".startswith(said.rstrip("?\ufffd")) or ":" in said
    assert shown(batch, None) == "E: it is Ж bad"


def test_a_line_is_one_line() -> None:
    assert first_line("\x1b[31mred\x1b[0m\nnext") == ("red", 2)
    assert first_line("y" * 500)[0] == "y" * (LINE - 1) + "…"
    assert first_line("") == ("", 1)


async def test_branches_stand_where_they_leave(log: Log, writer: Writer) -> None:
    async def steps(session: uuid.UUID, count: int) -> None:
        made = await log.acquire(session, {})
        for _ in range(count):
            step = await made.append_step(cell())
            await made.record_outcome(step.seq, ok())
        await made.close()

    first = writer.session
    for _ in range(10):
        step = await writer.append_step(cell())
        await writer.record_outcome(step.seq, ok())
    second = await log.fork(first, 6)
    await steps(second, 5)  # 7 to 11
    third = await log.fork(second, 3)  # leaves the first as well, at 3
    fourth = await log.fork(second, 9)  # a branch of the second alone
    fifth = await log.fork(first, 8)  # after the second has left
    sixth = await log.fork(third, 3)

    async def leaving(session: uuid.UUID) -> set[tuple[uuid.UUID, int | None]]:
        found = await find_forks(log, await log.reader(session))
        return {(info.id, info.fork_seq) for info in found}

    assert await leaving(first) == {(second, 6), (third, 3), (fifth, 8), (sixth, 3)}
    assert await leaving(second) == {(third, 3), (fourth, 9), (sixth, 3)}
    assert await leaving(third) == {(sixth, 3)}
    assert await leaving(fifth) == {(second, 6), (third, 3), (sixth, 3)}


async def test_a_search_that_is_not_over_says_so(
    history: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "SCANNED", 20)
    monkeypatch.setattr(rows_module, "_AT_ONCE", 10)
    searches, wanted = RowSearches(), RowFilter(StepFilter(kinds=["cell"]))
    told: list[Rows] = []
    while not told or not told[-1].exact:
        told.append(await searches.rows(history, wanted, 0, 5))
    assert [each.exact for each in told] == [False, False, False, True]
    assert [each.found for each in told] == sorted(each.found for each in told)
    assert {each.total for each in told} == {61}
