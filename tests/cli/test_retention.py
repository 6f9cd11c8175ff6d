"""`reprise delete` and `gc` as a person runs them: told before, asked once, nothing by surprise."""

import asyncio
import json
import os
import pty
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from reprise.log.embedded import Server
from reprise.log.model import USER
from reprise.log.postgres import Log
from tests.fixtures.commands import Reprise, write_sample

Sample = Callable[[str | None], uuid.UUID]


def exists(reprise: Reprise, session: str) -> bool:
    return reprise("log", session, "--json").returncode == 0


def fork(reprise: Reprise, session: str) -> str:
    return reprise("fork", session).stdout.strip()


async def keep_artifact(home: Path, session: uuid.UUID) -> str:
    log = await Log.connect(home=home)
    try:
        blobs = (await log.reader(session)).blobs
        data = os.urandom(2 << 20)
        name = await blobs.put(data)
        await log.add_artifact(session, 3, "out.bin", name, len(data), 0o644, USER)
        return name
    finally:
        await log.close()


def test_yes_deletes_and_says_what_went(reprise: Reprise, sample_session: Sample) -> None:
    session, other = sample_session("/n/gone.ipynb"), str(sample_session(None))
    asyncio.run(keep_artifact(reprise.home, session))
    shown = reprise("delete", str(session), "--yes")
    assert shown.returncode == 0, shown.stderr
    assert "4 steps of its own" in shown.stdout
    assert "1 artifacts" in shown.stdout
    assert "/n/gone.ipynb" in shown.stdout
    assert not exists(reprise, str(session))
    assert exists(reprise, other)
    assert reprise("delete", str(session), "--yes").returncode == 2


def test_without_a_terminal_it_does_not_guess(reprise: Reprise, sample_session: Sample) -> None:
    session = str(sample_session(None))
    shown = reprise("delete", session)
    assert shown.returncode == 2
    assert "--yes" in shown.stderr
    told = json.loads(reprise("delete", session, "--json").stdout)
    assert (told["steps"], told["deleted"]) == (4, [])
    assert exists(reprise, session)


@pytest.mark.parametrize(("answer", "stays"), [("y\n", False), ("\n", True), ("no\n", True)])
def test_on_a_terminal_it_asks(
    reprise: Reprise, sample_session: Sample, answer: str, stays: bool
) -> None:
    session = str(sample_session(None))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "reprise.cli", "delete", session],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=reprise.environ,
    )
    os.close(theirs)
    asked = b""
    while b"[y/N]" not in asked:
        asked += os.read(ours, 1000)
    os.write(ours, answer.encode())
    stdout, _ = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == (1 if stays else 0)
    assert (b"Nothing was deleted" in stdout) == stays
    assert exists(reprise, session) == stays


def test_forks_are_named_and_go_first_or_together(reprise: Reprise, sample_session: Sample) -> None:
    session = str(sample_session(None))
    child = fork(reprise, session)
    other = fork(reprise, session)
    shown = reprise("delete", session, "--yes")
    assert shown.returncode == 1
    assert "waits while forks need its steps" in shown.stderr
    assert child in shown.stderr
    assert other in shown.stderr
    assert reprise("delete", child, "--yes").returncode == 0
    together = json.loads(reprise("delete", session, "--with-forks", "--yes", "--json").stdout)
    assert together["deleted"] == [other, session]
    assert not any(exists(reprise, each) for each in (session, child, other))


def test_gc_frees_what_a_deleted_session_held(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = tmp_path_factory.mktemp("gc")
    home.chmod(0o700)
    reprise = Reprise(home, {"REPRISE_DATABASE_IDLE": "5"})
    session = asyncio.run(write_sample(home, None))
    name = asyncio.run(keep_artifact(home, session))
    assert json.loads(reprise("gc", "--json").stdout)["blobs"] == 0
    assert reprise("delete", str(session), "--yes").returncode == 0
    assert json.loads(reprise("gc", "--json").stdout)["blobs"] == 0  # a day has not passed

    async def age() -> None:
        server = Server(home)
        await server.ensure_running(None)
        async with await psycopg.AsyncConnection.connect(server.owner_dsn) as connection:
            await connection.execute("UPDATE reprise.blobs SET touched_at = '-infinity'")
        server.release()

    asyncio.run(age())
    path = next(home.rglob(name))
    os.utime(path, (0, 0))
    dry = reprise("gc", "--dry-run")
    assert dry.stdout == "1 blobs that nothing names would go: 2 MiB.\n"
    assert path.exists()
    done = json.loads(reprise("gc", "--grace", "1h", "--json").stdout)
    nothing = {"trees": 0, "left": 0, "bytes": 0}
    assert done == {
        "blobs": 1,
        "files": 0,
        "bytes": 2 << 20,
        "dry_run": False,
        "mounts": nothing,
        "environments": {"built": 0, "left": 0, "bytes": 0},
    }
    assert not path.exists()


def test_gc_removes_trees_that_no_sandbox_has_used_for_a_day(reprise: Reprise) -> None:
    mounts = reprise.home / "mounts"
    tree = mounts / ("ab" * 32)
    (tree / "d").mkdir(parents=True)
    (tree / "d/f").write_bytes(b"x" * 2048)
    tree.chmod(0o555)
    assert json.loads(reprise("gc", "--json").stdout)["mounts"]["trees"] == 0
    mark = mounts / ".marks" / tree.name
    mark.touch()
    os.utime(mark, (0, 0))
    dry = reprise("gc", "--dry-run")
    assert dry.stdout.endswith("1 kept trees that nobody mounts would go: 2 KiB.\n")
    assert tree.exists()
    gone = json.loads(reprise("gc", "--json").stdout)["mounts"]
    assert gone == {"trees": 1, "left": 0, "bytes": 2048}
    assert os.listdir(mounts) == [".marks"]


@pytest.mark.parametrize("grace", ["59min", "soon", "-1h"])
def test_gc_refuses_a_grace_in_which_a_step_could_lose_its_files(
    reprise: Reprise, grace: str
) -> None:
    shown = reprise("gc", f"--grace={grace}")
    assert shown.returncode == 2
    assert shown.stdout == ""
