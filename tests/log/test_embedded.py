"""The embedded server: one for all processes, always there when needed, gone when unused."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from reprise.errors import UnavailableError
from reprise.log import watcher
from reprise.log.embedded import Server
from reprise.log.model import NewStep
from reprise.log.postgres import Log
from tests.log.words import cell, ok

#: Begins a session with one step in a process of its own and prints the server it found.
USE = """
import asyncio, json, sys
from reprise.log.postgres import Log
from reprise.log.model import NewStep
async def main():
    said = []
    log = await Log.connect(progress=said.append)
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {})
    await writer.append_step(NewStep("cell", {}, "e", 1))
    rows = await log._ask("SELECT pg_postmaster_start_time()::text, current_user", [])
    await writer.close()
    print(json.dumps({"server": rows[0][0], "user": rows[0][1], "said": said}), flush=True)
    if sys.argv[1:] == ["stay"]:
        sys.stdin.read()
    await log.close()
asyncio.run(main())
"""


@pytest.fixture(scope="session")
def postgres() -> None:
    """Not here: these tests start their own servers, with the wheel's binaries."""


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        time.sleep(0.01)


def folder_of(home: Path) -> Path:
    [folder] = (home / "postgres").glob("[0-9]*")
    return folder


def alive(home: Path) -> bool:
    descriptor = os.open(folder_of(home) / "alive", os.O_RDWR)
    try:
        return watcher.is_alive(descriptor)
    finally:
        os.close(descriptor)


def postmaster(home: Path) -> int:
    descriptor = os.open(folder_of(home) / "alive", os.O_RDONLY)
    try:
        pid = watcher.postmaster(descriptor)
    finally:
        os.close(descriptor)
    assert pid is not None
    return pid


def kill_lock_holder(inode: int) -> None:
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[5].endswith(f":{inode}"):
            os.kill(int(fields[4]), signal.SIGKILL)


async def test_ten_racing_first_starts_yield_one_server(home: Path) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", USE, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(10)
    ]
    answers = [json.loads((await process.communicate())[0]) for process in processes]
    assert len({answer["server"] for answer in answers}) == 1
    assert {answer["user"] for answer in answers} == {"reprise_kernel"}
    assert sum("first use" in " ".join(answer["said"]) for answer in answers) == 1
    log = await Log.connect(home=home)
    assert len(await log.sessions()) == 10
    await log.close()


async def test_connecting_to_a_running_server_is_fast(home: Path) -> None:
    first = await Log.connect(home=home)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        log = await Log.connect(home=home)
        times.append(time.perf_counter() - began)
        await log.close()
    await first.close()
    assert min(times) < 0.04


async def test_a_server_killed_with_sigkill_starts_again_on_next_use(home: Path) -> None:
    log = await Log.connect(home=home)
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {})
    step = await writer.append_step(cell())
    for _ in range(3):
        os.kill(postmaster(home), signal.SIGKILL)
        # Its children answer until they notice; then they are gone too.
        until(lambda: not alive(home))
        # Reading and writing bring it back, each by itself.
        assert len(await log.sessions()) == 1
        try:
            await writer.record_outcome(step.seq, ok())
        except UnavailableError:
            await writer.recover()
            await writer.record_outcome(step.seq, ok())
        step = await writer.append_step(cell())
    assert (await log.check(session)).ok
    await writer.close()
    await log.close()


async def test_a_stale_pid_file_that_names_a_living_process_does_not_matter(home: Path) -> None:
    log = await Log.connect(home=home)
    session = await log.begin(kernel="python3")
    await log.close()
    os.kill(postmaster(home), signal.SIGKILL)
    until(lambda: not alive(home))
    pid_file = folder_of(home) / "data" / "postmaster.pid"
    owner = pid_file.stat()
    lines = pid_file.read_text().splitlines()
    # As after a reboot: the number now belongs to another process of the same account.
    credentials = {"user": owner.st_uid} if os.geteuid() == 0 else {}
    other = await asyncio.create_subprocess_exec("sleep", "60", **credentials)  # type: ignore[arg-type]
    pid_file.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
    log = await Log.connect(home=home)
    assert [info.id for info in await log.sessions()] == [session]
    await log.close()
    other.kill()
    await other.wait()


async def test_it_outlives_the_process_that_started_it(home: Path) -> None:
    starter = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", USE, "stay"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert starter.stdout is not None
    answer = json.loads(await starter.stdout.readline())
    os.killpg(starter.pid, signal.SIGKILL)
    await starter.wait()
    log = await Log.connect(home=home)
    rows = await log._ask("SELECT pg_postmaster_start_time()::text", [])
    assert rows[0][0] == answer["server"]
    await log.close()


async def test_it_stops_when_unused_and_not_before(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_DATABASE_IDLE", "0.5")
    log = await Log.connect(home=home)
    session = await log.begin(kernel="python3")
    began = time.monotonic()
    pid = postmaster(home)
    with pytest.raises(AssertionError):
        until(lambda: not alive(home), seconds=2)
    assert postmaster(home) == pid
    await log.close()
    until(lambda: not alive(home))
    assert time.monotonic() - began > 2
    log = await Log.connect(home=home)
    assert [info.id for info in await log.sessions()] == [session]
    await log.close()


async def test_starts_racing_with_idle_stops_always_get_a_server(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_DATABASE_IDLE", "0.05")
    for _ in range(8):
        log = await Log.connect(home=home)
        await log.begin(kernel="python3")
        await log.close()
        # Meet the watcher at different moments of its stop.
        await asyncio.sleep(0.02 * (_ + 1))
    log = await Log.connect(home=home)
    assert len(await log.sessions()) == 8
    await log.close()


async def test_a_watcher_that_was_killed_is_replaced_at_the_next_use(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_DATABASE_IDLE", "0.5")
    first = await Log.connect(home=home)
    lock = os.open(folder_of(home) / "watcher", os.O_RDWR)
    inode = os.fstat(lock).st_ino

    def locked() -> bool:
        if watcher.try_lock(lock):
            watcher.unlock(lock)
            return False
        return True

    until(locked)
    kill_lock_holder(inode)
    until(lambda: not locked())
    second = await Log.connect(home=home)
    until(locked)
    os.close(lock)
    await first.close()
    await second.close()
    until(lambda: not alive(home))


async def test_never_two_servers_on_one_data_directory(home: Path) -> None:
    """A starter that believes that none runs finds the lock that the server itself holds."""
    log = await Log.connect(home=home)
    folder = folder_of(home)
    (folder / "run" / ".s.PGSQL.5432").rename(folder / "run" / "hidden")
    second = Server(home)
    start = asyncio.create_task(second.ensure_running(None))
    done, _ = await asyncio.wait([start], timeout=0.5)
    assert not done
    (folder / "run" / "hidden").rename(folder / "run" / ".s.PGSQL.5432")
    await start
    second.release()
    await log.begin(kernel="python3")
    await log.close()


async def test_only_its_user_can_reach_the_socket_and_the_files(home: Path) -> None:
    log = await Log.connect(home=home)
    folder = folder_of(home)
    for name in ("run", "data"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o700
    assert await log._ask("SHOW listen_addresses", []) == [("",)]
    if os.geteuid() == 0:
        assert (folder / "data").stat().st_uid != 0
        nobody = pwd.getpwnam("nobody")
        tried = await asyncio.to_thread(
            subprocess.run,
            ["/usr/bin/env", "ls", folder / "run"],
            user=nobody.pw_uid,
            group=nobody.pw_gid,
            extra_groups=[],
            capture_output=True,
            text=True,
        )
        assert tried.returncode != 0
        assert "Permission denied" in tried.stderr
    await log.close()


async def test_a_home_with_a_very_long_path_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ("long'name " * 8) / ("x" * 120)
    home.parent.mkdir(parents=True)
    log = await Log.connect(home=home)
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {})
    await writer.append_step(NewStep("cell", {}, "e", 1))
    await writer.close()
    await log.close()
    await Server(home).stop()


async def test_a_data_directory_of_another_major_version_is_left_alone(home: Path) -> None:
    data = home / "postgres" / "18" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("9\n")
    if os.geteuid() == 0:
        os.chown(data, 12345, 12345)
    with pytest.raises(UnavailableError, match=r"PostgreSQL 9.*Nothing was changed"):
        await Log.connect(home=home)
    assert list(data.iterdir()) == [data / "PG_VERSION"]


async def test_data_of_a_major_version_without_binaries_says_what_is_missing(home: Path) -> None:
    data = home / "postgres" / "14" / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("14\n")
    with pytest.raises(UnavailableError, match="PostgreSQL 14 is needed"):
        await Log.connect(home=home)


async def test_a_folder_that_is_not_a_data_directory_is_left_alone(home: Path) -> None:
    data = home / "postgres" / "18" / "data"
    data.mkdir(parents=True)
    (data / "thesis.tex").write_text("precious")
    if os.geteuid() == 0:
        os.chown(data, 12345, 12345)
    with pytest.raises(UnavailableError, match="not a Postgres data directory"):
        await Log.connect(home=home)
    assert (data / "thesis.tex").read_text() == "precious"


async def test_a_first_start_that_was_killed_halfway_is_begun_anew(home: Path) -> None:
    half = home / "postgres" / "18" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    log = await Log.connect(home=home)
    await log.begin(kernel="python3")
    await log.close()


async def test_a_broken_configuration_is_reported_with_what_the_server_said(home: Path) -> None:
    log = await Log.connect(home=home)
    await log.close()
    await Server(home).stop()
    (folder_of(home) / "data" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(UnavailableError, match="no_such_setting"):
        await Log.connect(home=home)


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a small disk needs root"
)
@pytest.mark.parametrize("size", ["8m", "100m"], ids=["at initdb", "while it runs"])
async def test_a_full_disk_is_said_so_and_loses_nothing(tmp_path: Path, size: str) -> None:
    """On a small tmpfs in a mount namespace of its own."""
    home = tmp_path / "small"
    home.mkdir()
    script = f"""
import asyncio, os, sys
from pathlib import Path
from reprise.errors import UnavailableError
from reprise.log.embedded import Server
from reprise.log.postgres import Log
from tests.log.words import cell, ok, text
home = Path({str(home)!r})
async def main():
    try:
        log = await Log.connect(home=home)
    except UnavailableError as error:
        print("start:", error)
        return
    session = await log.begin(kernel="python3")
    writer = await log.acquire(session, {{}})
    acknowledged = 0
    try:
        while True:
            step = await writer.append_step(cell(os.urandom(400_000).hex()))
            acknowledged += 1
            await writer.record_outcome(step.seq, ok())
    except UnavailableError as error:
        print("write:", error)
    free = home / "ballast"
    free.unlink()
    await writer.recover()
    step = await writer.append_step(cell("after"))
    report = await log.check(session)
    assert report.fault is None, report
    assert report.steps in (acknowledged + 1, acknowledged + 2), (report, acknowledged)
    print("stored:", acknowledged > 0)
    await writer.close()
    await log.close()
(home / "ballast").write_bytes(b"x" * (12 << 20)) if {size!r} != "8m" else None
try:
    asyncio.run(main())
finally:
    if (home / "postgres").exists():
        asyncio.run(Server(home).stop())
"""
    result = await asyncio.to_thread(
        subprocess.run,
        [
            *("unshare", "--mount", "--propagation", "private", "sh", "-c"),
            f'mount -t tmpfs -o size={size} small "$1" && exec "$2" -c "$3"',
            *("sh", str(home), sys.executable, script),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    if "mount:" in result.stderr or "unshare:" in result.stderr:
        pytest.skip(f"no mount here: {result.stderr}")
    assert result.returncode == 0, result.stderr
    if size == "8m":
        assert "start:" in result.stdout
        assert "Free" in result.stdout
    else:
        assert "write:" in result.stdout
        assert "stored: True" in result.stdout


def test_use_is_a_lock_that_ends_with_its_process(tmp_path: Path) -> None:
    lock = os.open(tmp_path / "use", os.O_RDWR | os.O_CREAT)
    with subprocess.Popen(["sleep", "60"], pass_fds=[lock]) as holder:
        fcntl.flock(lock, fcntl.LOCK_SH)
        os.close(lock)
        probe = os.open(tmp_path / "use", os.O_RDWR)
        assert not watcher.try_lock(probe)
        holder.kill()
        holder.wait()
        assert watcher.try_lock(probe)
        os.close(probe)
