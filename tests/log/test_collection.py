"""A collection deletes what nothing names, and never what a committed step does."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from reprise.errors import LogCorrupt, RepriseError, UnavailableError, UsageError
from reprise.log import collection
from reprise.log.blobs import IN_POSTGRES_BYTES
from reprise.log.model import USER, OutputEntry, canonical
from reprise.log.postgres import Log
from reprise.log.store import Notice, StateRecord
from reprise.log.writer import Writer
from tests.log.aging import age_blobs, blob_files, blob_rows
from tests.log.words import cell, ok

LARGE = IN_POSTGRES_BYTES + 1

#: The long form runs with REPRISE_LONG=1.
ROUNDS = 400 if os.environ.get("REPRISE_LONG") else 12

_numbers = count()


def fresh(size: int = 30) -> bytes:
    return b"%030d" % next(_numbers) + b"x" * (size - 30)


@pytest.fixture(params=[30, LARGE], ids=["in Postgres", "in a file"])
def size(request: pytest.FixtureRequest) -> int:
    return int(request.param)


async def name_in_a_step(writer: Writer, *names: str) -> None:
    step = await writer.append_step(cell(blobs=names))
    await writer.record_outcome(step.seq, ok())


async def named_everywhere(log: Log, writer: Writer, size: int) -> set[str]:
    """One blob for each way to name one."""
    put = writer.blobs.put
    found = [await put(fresh(size)) for _ in range(5)]
    buffer, shown, packed, taken, files = found
    await name_in_a_step(writer, buffer)
    step = await writer.append_step(cell("shows"))
    entries = [OutputEntry("comm_msg", {"n": 1}, blobs=(shown,))]
    await writer.append_outputs(step.seq, entries)
    long = [OutputEntry("display_data", {"text": "y" * 40_000}, blobs=(packed,))]
    await writer.record_outcome(step.seq, ok(*entries, *long), long)
    late = await put(fresh(size))
    await writer.append_outputs(step.seq, [OutputEntry("comm_msg", {}, blobs=(late,))], late=True)
    await log.add_artifact(writer.session, 0, "a", taken, size, 0o644, USER)
    await writer.record_state(StateRecord(0, 1, files, None))
    found.append(late)
    uploaded = await put(fresh(size))
    payload = {"root": "", "entries": [["a", "file", 0o644, size, uploaded]], "removed": []}
    step = await writer.append_step(cell(kind="upload", payload=payload, blobs=(uploaded,)))
    await writer.record_outcome(step.seq, ok())
    found.append(uploaded)
    for kind in ("restart", "mount"):
        inside = [await put(fresh(size)) for _ in range(3)]
        listed = [[f"f{n}", "file", 0o644, size, name] for n, name in enumerate(inside)]
        tree = await put(canonical({"entries": listed}))
        step = await writer.append_step(cell(kind=kind, payload={"target": "/x", "tree": tree}))
        await writer.record_outcome(step.seq, ok())
        found += [*inside, tree]
    stdin = await put(fresh(size))
    step = await writer.append_step(
        cell(kind="command", payload={"shell": "cat", "stdin": stdin}, blobs=(stdin,))
    )
    await writer.record_outcome(step.seq, ok())
    noted = await put(fresh(size))
    await writer.note(Notice(0, 1, "code", "text", {"blob": noted}))
    return {*found, stdin, noted}


async def test_all_that_is_named_stays_and_the_rest_goes(
    log: Log, writer: Writer, dsn: str, size: int
) -> None:
    named = await named_everywhere(log, writer, size)
    unnamed = {await writer.blobs.put(fresh(size)) for _ in range(3)}
    assert blob_rows(dsn) == named | unnamed
    assert (await log.collect()).blobs == 0  # all is fresh
    age_blobs(dsn, log.home)
    dry = await log.collect(dry_run=True)
    assert (dry.blobs, dry.bytes, dry.dry_run) == (3, 3 * size, True)
    assert blob_rows(dsn) == named | unnamed
    done = await log.collect()
    assert (done.blobs, done.files, done.bytes) == (3, 0, 3 * size)
    assert blob_rows(dsn) == named
    assert not unnamed & blob_files(log.home)
    assert (await log.check(writer.session, blobs=True)).fault is None
    assert (await log.collect()).blobs == 0


async def test_what_a_deleted_session_named_goes_unless_a_fork_or_another_names_it(
    log: Log, writer: Writer, dsn: str, size: int
) -> None:
    shared, own, both = [await writer.blobs.put(fresh(size)) for _ in range(3)]
    await name_in_a_step(writer, shared)
    fork = await log.acquire(await log.fork(writer.session), {})
    await name_in_a_step(fork, own, both)
    await name_in_a_step(writer, both)
    await fork.close()
    await log.delete(fork.session)
    age_blobs(dsn, log.home)
    assert (await log.collect()).blobs == 1
    assert blob_rows(dsn) == {shared, both}
    await writer.close()
    await log.delete(writer.session)
    age_blobs(dsn, log.home)
    assert (await log.collect()).blobs == 2
    assert blob_rows(dsn) == blob_files(log.home) == set()


async def test_another_owners_blobs_are_left_alone(log: Log, writer: Writer, dsn: str) -> None:
    other = await Log.connect(dsn, owner="other", home=log.home)
    theirs = (await other.reader(await other.begin(kernel="python3"))).blobs
    data = fresh(LARGE)
    mine = await writer.blobs.put(data)
    assert await theirs.put(data) == mine
    age_blobs(dsn, log.home)
    assert (await log.collect()).blobs == 1
    assert await theirs.get(mine) == data
    with pytest.raises(LogCorrupt):
        await writer.blobs.get(mine)
    await other.close()


async def test_files_without_a_row_and_leftovers_go_when_they_are_old(
    log: Log, writer: Writer, dsn: str
) -> None:
    kept = await writer.blobs.put(fresh(LARGE))
    await name_in_a_step(writer, kept)
    lost = await writer.blobs.put(fresh(LARGE))
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("DELETE FROM reprise.blobs WHERE sha256 = %s", [bytes.fromhex(lost)])
    folder = next(log.home.rglob(lost)).parent
    (folder / ".leftover").write_bytes(b"half")
    (folder / "not-ours").write_bytes(b"somebody's")
    assert (await log.collect()).files == 0
    assert lost in blob_files(log.home)
    age_blobs(dsn, log.home)
    dry = await log.collect(dry_run=True)
    assert (dry.files, dry.bytes) == (1, LARGE)
    done = await log.collect()
    assert (done.blobs, done.files, done.bytes) == (0, 1, LARGE)
    assert blob_files(log.home) == {kept, "not-ours"}
    assert blob_rows(dsn) == {kept}


async def test_a_grace_below_an_hour_is_refused(log: Log) -> None:
    with pytest.raises(UsageError, match=r"an hour.*Nothing was deleted"):
        await log.collect(grace_s=60)


@pytest.mark.parametrize("touch", ["put", "missing", "name"])
async def test_what_is_stored_asked_for_or_named_again_is_young_again(
    log: Log, writer: Writer, dsn: str, size: int, touch: str
) -> None:
    data = fresh(size)
    name = await writer.blobs.put(data)
    age_blobs(dsn, log.home)
    if touch == "put":
        await writer.blobs.put(data)
    elif touch == "missing":
        assert await writer.blobs.missing([name]) == set()
    else:
        await name_in_a_step(writer, name)
        with psycopg.connect(dsn, autocommit=True) as superuser:  # as if its name were not seen
            superuser.execute("SET session_replication_role = replica")
            superuser.execute("DELETE FROM reprise.steps")
    assert (await log.collect()).blobs == 0
    assert await writer.blobs.get(name) == data


async def test_a_step_or_output_that_names_what_is_not_stored_is_refused(
    log: Log, writer: Writer
) -> None:
    nowhere = "0" * 64
    with pytest.raises(RepriseError, match="not stored"):
        await writer.append_step(cell(blobs=(nowhere,)))
    with pytest.raises(RepriseError, match="not stored"):
        await writer.append_step(cell(kind="mount", payload={"target": "/x", "tree": nowhere}))
    tree = await writer.blobs.put(canonical({"entries": [["a", "file", 0, 1, nowhere]]}))
    with pytest.raises(RepriseError, match=f"{nowhere} among them"):
        await writer.append_step(cell(kind="restart", payload={"tree": tree}))
    with pytest.raises(RepriseError, match="not stored"):
        await log.add_artifact(writer.session, 0, "a", nowhere, 1, 0, USER)
    step = await writer.append_step(cell())
    entry = OutputEntry("comm_msg", {}, blobs=(nowhere,))
    for refused in (
        writer.append_outputs(step.seq, [entry]),
        writer.record_outcome(step.seq, ok(entry), [entry]),
        writer.record_state(StateRecord(0, 1, nowhere, None)),
    ):
        with pytest.raises(RepriseError, match="not stored"):
            await refused
    await writer.record_outcome(step.seq, ok())
    assert writer.next_seq == 1
    assert (await log.check(writer.session)).ok


async def test_a_large_blob_whose_file_is_gone_counts_as_not_stored(
    log: Log, writer: Writer
) -> None:
    data = fresh(LARGE)
    name = await writer.blobs.put(data)
    next(log.home.rglob(name)).unlink()
    assert await writer.blobs.missing([name]) == {name}
    with pytest.raises(RepriseError, match="not stored"):
        await name_in_a_step(writer, name)
    await writer.blobs.put(data)
    await name_in_a_step(writer, name)
    assert (await log.check(writer.session, blobs=True)).ok


# -- races ----------------------------------------------------------------------------------------


async def test_no_timing_of_writers_and_collections_costs_a_named_blob(
    log: Log, dsn: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Old blobs without a name are stored, or asked for, and named while they are collected.

    The writers begin when the collection has come to its n-th question, another one each time.
    """
    items = [fresh(size) for _ in range(12 if size < LARGE else 4)]
    began = asyncio.Event()
    left = 0
    asking = collection._Collection._ask

    async def ask(self: object, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        nonlocal left
        left -= 1
        if left == 0:
            began.set()
        return await asking(self, statement, values)  # type: ignore[arg-type]

    monkeypatch.setattr(collection._Collection, "_ask", ask)

    async def write(writer: Writer, start: int) -> None:
        await began.wait()
        for data in items[start:] + items[:start]:
            name = hashlib.sha256(data).hexdigest()
            if await writer.blobs.missing([name]):  # as an upload does
                await writer.blobs.put(data)
            await name_in_a_step(writer, name)
            assert await writer.blobs.get(name) == data

    async def go_on_collecting() -> None:
        for _ in range(2):
            await log.collect()
        began.set()

    for number in range(ROUNDS):
        sessions = [await log.begin(kernel="python3") for _ in range(2)]
        writers = [await log.acquire(session, {}) for session in sessions]
        await writers[0].blobs.put_many(items)
        age_blobs(dsn, log.home)
        began.clear()
        left = 1 + number % 24
        await asyncio.gather(
            go_on_collecting(), *(write(each, 3 * n) for n, each in enumerate(writers))
        )
        for each in writers:
            report = await log.check(each.session, blobs=True)
            assert report.fault is None
            await each.close()
            await log.delete(each.session)
    # What nobody names any more does go: how much went meanwhile, the timing decided.
    age_blobs(dsn, log.home)
    assert (await log.collect()).blobs == len(items)


class Meeting:
    """Whoever reaches `point` stores and names `DATA` in another thread, up to its first wait."""

    def __init__(self, dsn: str, home: Path) -> None:
        self.point = ""
        self._dsn, self._home = dsn, home
        self._session: uuid.UUID | None = None
        self._failure: RepriseError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            asyncio.run(self._put())
        except RepriseError as error:
            self._failure = error

    async def _put(self) -> None:
        log = await Log.connect(self._dsn, owner="tester", home=self._home)
        try:
            writer = await log.acquire(await log.begin(kernel="python3"), {})
            await name_in_a_step(writer, await writer.blobs.put(DATA))
            await writer.close()
            self._session = writer.session
        finally:
            await log.close()

    def at(self, point: str) -> None:
        if point != self.point:
            return
        self.point = ""
        self._thread.start()
        with psycopg.connect(self._dsn, autocommit=True) as watcher:
            while (
                self._thread.is_alive()
                and not watcher.execute(
                    "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                ).fetchall()
            ):
                self._thread.join(0.005)

    async def session(self) -> uuid.UUID:
        """The session that the other thread wrote, once it is through."""
        await asyncio.to_thread(self._thread.join, 60)
        if self._failure is not None:
            raise self._failure
        assert self._session is not None
        return self._session


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch, dsn: str, home: Path) -> Meeting:
    made = Meeting(dsn, home)
    monkeypatch.setattr(collection, "failpoint", made.at)
    return made


DATA = b"d" * LARGE


@pytest.mark.parametrize(
    "point", ["before-collected-files", "before-collection-commit", "after-collection-commit"]
)
async def test_a_writer_that_meets_a_deletion_waits_and_stores_anew(
    log: Log, writer: Writer, dsn: str, meeting: Meeting, point: str
) -> None:
    name = await writer.blobs.put(DATA)
    age_blobs(dsn, log.home)
    meeting.point = point
    assert (await log.collect()).blobs == 1
    report = await log.check(await meeting.session(), blobs=True)
    assert report.fault is None
    assert await writer.blobs.get(name) == DATA


@pytest.mark.parametrize("point", ["before-left-file", "before-left-file-commit"])
async def test_a_writer_that_meets_the_deletion_of_a_file_without_a_row_stores_it_anew(
    log: Log, writer: Writer, dsn: str, meeting: Meeting, point: str
) -> None:
    name = await writer.blobs.put(DATA)
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("DELETE FROM reprise.blobs")
    age_blobs(dsn, log.home)
    meeting.point = point
    assert (await log.collect()).files == 1
    report = await log.check(await meeting.session(), blobs=True)
    assert report.fault is None
    assert await writer.blobs.get(name) == DATA


async def test_a_file_that_is_written_anew_is_not_the_one_that_goes(
    log: Log, writer: Writer, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import writes its file before it looks at the row."""
    name = await writer.blobs.put(DATA)
    path = next(log.home.rglob(name))
    age_blobs(dsn, log.home)

    def rewrite(point: str) -> None:
        if point == "before-collected-files":
            os.utime(path)

    monkeypatch.setattr(collection, "failpoint", rewrite)
    assert (await log.collect()).blobs == 1
    assert path.read_bytes() == DATA
    await name_in_a_step(writer, await writer.blobs.put(DATA))
    assert (await log.check(writer.session, blobs=True)).ok


COLLECT = """
import asyncio, sys
from pathlib import Path
from reprise.log.postgres import Log
async def main():
    log = await Log.connect(sys.argv[1], owner="tester", home=Path(sys.argv[2]))
    await log.collect()
asyncio.run(main())
"""


@pytest.mark.parametrize(
    "point",
    [
        "before-collected-files",
        "before-collection-commit",
        "after-collection-commit",
        "before-left-file-commit",
    ],
)
async def test_a_death_in_a_collection_costs_nothing_and_the_next_one_finishes(
    log: Log, writer: Writer, dsn: str, point: str
) -> None:
    named = await named_everywhere(log, writer, LARGE)
    lost = [await writer.blobs.put(fresh(LARGE)) for _ in range(2)]
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("DELETE FROM reprise.blobs WHERE sha256 = %s", [bytes.fromhex(lost[0])])
    age_blobs(dsn, log.home)
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", COLLECT, dsn, str(log.home)],
        env={**os.environ, "REPRISE_FAILPOINT": f"{point}:kill"},
        capture_output=True,
        timeout=60,
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    report = await log.check(writer.session, blobs=True)
    assert report.fault is None
    gone = {name for name in lost if name not in blob_files(log.home)}
    assert await writer.blobs.missing(lost) >= gone  # never said to be there
    age_blobs(dsn, log.home)
    await log.collect()
    assert blob_rows(dsn) == named
    assert not set(lost) & blob_files(log.home)
    assert (await log.check(writer.session, blobs=True)).fault is None


async def test_a_file_that_cannot_be_deleted_leaves_its_blob_as_it_was(
    log: Log, writer: Writer, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = fresh(LARGE)
    name = await writer.blobs.put(data)
    age_blobs(dsn, log.home)

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(UnavailableError, match="Permission denied"):
            await log.collect()
    assert await writer.blobs.get(name) == data
    assert (await log.collect()).blobs == 1


async def test_memory_is_bounded_by_pages_and_not_by_the_log(
    log: Log, writer: Writer, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many pages of steps and outputs, the name in the last row of each kind."""
    monkeypatch.setattr(collection, "_PAGE_ROWS", 7)
    monkeypatch.setattr(collection, "_PAGE_BYTES", 2_000)
    monkeypatch.setattr(collection, "_BATCH", 3)
    monkeypatch.setattr(collection, "_NAMES", 5)
    names = [await writer.blobs.put(fresh()) for _ in range(40)]
    unnamed = [await writer.blobs.put(fresh()) for _ in range(10)]
    for name in names:
        step = await writer.append_step(cell("z" * 300, blobs=(name,)))
        entry = OutputEntry("comm_msg", {"text": "y" * 900}, blobs=(name,))
        await writer.record_outcome(step.seq, ok(entry), [entry])
    for _ in range(8):
        await log.begin(session=uuid.uuid4(), kernel="python3")
    age_blobs(dsn, log.home)
    assert (await log.collect()).blobs == len(unnamed)
    assert blob_rows(dsn) == set(names)
