"""A whole session is deleted by its owner only, says what hangs on it, and takes nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psycopg
import pytest

from reprise.errors import LeaseHeld, SessionNeeded, SessionNotFound, UnavailableError
from reprise.log.model import USER
from reprise.log.postgres import Log
from reprise.log.store import NetworkRow, Notice, StateRecord
from tests.fixtures.postgres import TestServer
from tests.log.test_recorded import answer
from tests.log.words import cell, ok, text

OWN_TABLES = [
    *("steps", "outcomes", "outputs", "heads", "notices", "bindings", "artifacts", "states"),
    *("network", "recorded"),
]


async def filled(log: Log, session: uuid.UUID | None = None) -> uuid.UUID:
    """A session with rows in every table (or one more step in `session`)."""
    session = session or await log.begin(kernel="python3", notebook="/n/a.ipynb")
    writer = await log.acquire(session, {"pid": 1})
    step = await writer.append_step(cell("a"))
    shown = text("shown")
    await writer.record_outcome(step.seq, ok(*shown), shown)
    await writer.bind(f"notebook:{session}:/n/a.ipynb")
    await writer.note(Notice(0, 1, "code", "text", {}))
    await writer.record_state(StateRecord(0, 1, None, {}))
    await writer.append_network(
        [NetworkRow(0, 1, "example.org", 443, None, "connect", "refused", "no", 0, 0, 1)]
    )
    await writer.record_response(answer(0, pieces=(await writer.blobs.put(b"answered"),), size=8))
    taken = await writer.blobs.put(b"taken")
    await log.add_artifact(session, 0, "out.csv", taken, 5, 0o644, USER)
    await writer.close()
    return session


def rows_of(dsn: str, session: uuid.UUID) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        found = {}
        for table in OWN_TABLES:
            row = connection.execute(
                f"SELECT count(*) FROM reprise.{table} WHERE session = %s", [session]
            ).fetchone()
            assert row is not None
            found[table] = int(str(row[0]))
    return found


async def test_a_deletion_takes_every_row_of_the_session_and_no_other(log: Log, dsn: str) -> None:
    session, other = await filled(log), await filled(log)
    before = rows_of(dsn, other)
    assert all(before.values())
    assert await log.delete(session) == [session]
    assert not any(rows_of(dsn, session).values())
    assert rows_of(dsn, other) == before
    assert [info.id for info in await log.sessions()] == [other]
    assert [each.session for each in await log.artifacts()] == [other]
    assert (await log.check(other, blobs=True)).ok
    for gone in (session, uuid.uuid4()):
        with pytest.raises(SessionNotFound):
            await log.delete(gone)
        with pytest.raises(SessionNotFound):
            await log.acquire(gone, {})


async def test_forks_that_need_its_steps_are_named_and_waited_for(log: Log) -> None:
    root = await filled(log)
    child = await filled(log, await log.fork(root))
    grandchild = await filled(log, await log.fork(child))
    beside = await log.fork(root, -1)
    found = await log.dependents(root)
    assert [info.id for info in found.forks] == [grandchild, child]
    assert (found.steps, found.artifacts) == (1, 1)
    assert found.keys == (f"notebook:{root}:/n/a.ipynb",)
    for session in (root, child):
        with pytest.raises(SessionNeeded, match=r"forks that need its steps.*Nothing was deleted"):
            await log.delete(session)
    assert len(await log.sessions()) == 4
    for session in (grandchild, child, root):
        await log.delete(session)
    [left] = await log.sessions()
    assert (left.id, left.parent, left.fork_seq) == (beside, None, None)
    await filled(log, beside)
    assert (await log.check(beside)).ok


async def test_with_its_forks_a_session_goes_whole_or_not_at_all(log: Log) -> None:
    root = await filled(log)
    forks = [await filled(log, await log.fork(root)) for _ in range(3)]
    deepest = await filled(log, await log.fork(forks[0]))
    held = await log.acquire(forks[1], {"pid": 77})
    assert [info.id for info in (await log.dependents(root)).held] == [forks[1]]
    with pytest.raises(LeaseHeld, match=f"{forks[1]} is being written.*Nothing was deleted"):
        await log.delete(root, with_forks=True)
    assert len(await log.sessions()) == 5
    assert (await log.check(deepest)).ok
    await held.close()
    gone = await log.delete(root, with_forks=True)
    assert (gone[0], gone[-1]) == (deepest, root)
    assert set(gone) == {root, deepest, *forks}
    assert await log.sessions() == []


async def test_a_fork_goes_without_its_parent(log: Log) -> None:
    root = await filled(log)
    fork = await filled(log, await log.fork(root))
    await log.delete(fork)
    assert (await log.check(root)).ok
    assert (await log.dependents(root)).forks == ()


async def test_forks_and_a_deletion_of_their_parent_race_to_one_of_two_ends(log: Log) -> None:
    """Either the fork is there and whole, or the parent is gone and no fork is."""
    ends = set()
    for _ in range(40):
        root = await filled(log)
        forked, deleted = await asyncio.gather(
            log.fork(root), log.delete(root), return_exceptions=True
        )
        left = {info.id for info in await log.sessions()}
        if isinstance(deleted, SessionNeeded):
            assert isinstance(forked, uuid.UUID)
            assert left == {root, forked}
            assert (await log.check(forked)).ok
            await log.delete(root, with_forks=True)
        else:
            assert isinstance(forked, BaseException)
            assert left == set()
        ends.add(type(deleted).__name__)
    assert ends <= {"SessionNeeded", "list"}


async def test_who_waits_for_a_session_that_is_deleted_is_told_so(log: Log, dsn: str) -> None:
    session = await filled(log)
    with psycopg.connect(dsn) as owner:  # a transaction
        owner.execute("SELECT reprise.delete_session(%s)", [session])
        waiting = asyncio.create_task(log.acquire(session, {}, wait=30))
        with psycopg.connect(dsn, autocommit=True) as watcher:
            while not watcher.execute(
                "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            ).fetchall():
                await asyncio.sleep(0.01)
        await asyncio.to_thread(owner.commit)
        with pytest.raises(SessionNotFound):
            await waiting


async def test_a_login_without_the_owner_role_may_not_and_is_told_who_may(
    log: Log, dsn: str, home: Path, postgres: TestServer
) -> None:
    session = await filled(log)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("CREATE ROLE only_kernel LOGIN IN ROLE reprise_kernel")
    theirs = await Log.connect(
        dsn.replace("user=postgres", "user=only_kernel"), owner="tester", home=home
    )
    try:
        with pytest.raises(UnavailableError, match=r"member of reprise_owner.*Nothing was changed"):
            await theirs.delete(session)
        with pytest.raises(UnavailableError, match="reprise_owner"):
            await theirs.collect()
        assert len(await theirs.sessions()) == 1
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("GRANT reprise_owner TO only_kernel")
        await theirs.delete(session)
        assert await theirs.sessions() == []
    finally:
        await theirs.close()
        with psycopg.connect(dsn, autocommit=True) as admin:
            admin.execute("DROP ROLE only_kernel")


async def test_another_owners_session_is_not_deleted(log: Log, dsn: str) -> None:
    session = await filled(log)
    other = await Log.connect(dsn, owner="other", home=log.home)
    with pytest.raises(SessionNotFound):
        await other.delete(session)
    await other.close()
    assert len(await log.sessions()) == 1


ACT = """
import asyncio, sys, uuid
from reprise.log.postgres import Log
async def main():
    log = await Log.connect(sys.argv[1], owner="tester")
    session = uuid.UUID(sys.argv[3])
    if sys.argv[2] == "fork":
        await log.fork(session)
    else:
        await log.delete(session, with_forks=True)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("what", "point", "sessions"),
    [
        ("fork", "before-fork-commit", 2),
        ("fork", "after-fork-commit", 3),
        ("delete", "before-delete-commit", 2),
        ("delete", "after-delete-commit", 0),
    ],
)
async def test_a_death_in_a_fork_or_a_deletion_leaves_all_or_nothing(
    log: Log, dsn: str, what: str, point: str, sessions: int
) -> None:
    root = await filled(log)
    await filled(log, await log.fork(root))
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", ACT, dsn, what, str(root)],
        env={**os.environ, "REPRISE_FAILPOINT": f"{point}:kill", "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        timeout=60,
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    left = await log.sessions()
    assert len(left) == sessions
    for info in left:
        assert (await log.check(info.id)).ok
        await filled(log, info.id)
    if left:
        await log.delete(root, with_forks=True)
    assert await log.sessions() == []
