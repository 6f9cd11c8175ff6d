"""Disks run full under Postgres, REPRISE_HOME and a workspace: it is said, and nothing is lost.

Each request either succeeds or says what is to do; the kernel lives; what was acknowledged is there,
nothing is half there, and once there is room the same request works.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import psutil
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from reprise.bundle.load import Loaded, check_bundle, load_bundle
from reprise.bundle.source import Spooled
from reprise.bundle.write import write_bundle
from reprise.errors import UnavailableError
from reprise.log.postgres import Log
from reprise.sandbox.kept_trees import collect
from tests.faults.armed import Armed
from tests.faults.test_calls import Calls
from tests.fixtures.commands import Reprise
from tests.fixtures.kernel import PATIENCE, Client, Database, Kernel, Kernels, run_database
from tests.fixtures.postgres import TestServer

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mount") is None, reason="mounting a small disk needs root"
)

T = TypeVar("T")

MIB = 1 << 20

#: Seconds that a command sleeps for, until a test ends the sleep.
WAITS = 1234.75


@dataclass(frozen=True)
class Disk:
    """A small file system of its own."""

    folder: Path

    @classmethod
    @contextlib.contextmanager
    def mounted(cls, folder: Path, size: str) -> Iterator[Disk]:
        folder.mkdir(mode=0o711)
        options = f"size={size},mode=711"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "reprise-test", folder],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            pytest.skip(f"no mount here: {done.stderr}")
        try:
            yield cls(folder)
        finally:
            # Lazily: a process that still ends may have a file open.
            subprocess.run(["umount", "--lazy", folder], check=True)

    @property
    def _ballast(self) -> Path:
        return self.folder / "ballast"

    def fill(self, leave: int = 0) -> None:
        """To the last byte, or so that a few are left."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (MIB, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass
        assert os.statvfs(self.folder).f_bavail == 0
        os.truncate(self._ballast, self._ballast.stat().st_size - leave)

    def room(self) -> None:
        self._ballast.unlink(missing_ok=True)

    @contextlib.contextmanager
    def full(self, leave: int = 0) -> Iterator[None]:
        self.fill(leave)
        try:
            yield
        finally:
            self.room()


@dataclass(frozen=True)
class Disks:
    """Where the small disks are: the tables, Postgres' own log of writes, REPRISE_HOME."""

    data: Disk
    wal: Disk
    home: Disk


@pytest.fixture(scope="module")
def disks() -> Iterator[Disks]:
    # Postgres may run under another account, which cannot enter pytest's own folders.
    folder = Path(tempfile.mkdtemp(prefix="reprise-disks-"))
    folder.chmod(0o711)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        yield Disks(
            *(
                stack.enter_context(Disk.mounted(folder / name, size))
                for name, size in (("data", "160m"), ("wal", "128m"), ("home", "48m"))
            )
        )


@pytest.fixture(scope="module")
def database(disks: Disks) -> Iterator[Database]:
    server = TestServer()
    try:
        moved = disks.data.folder / "data"
        subprocess.run(["cp", "-a", server.data, moved], check=True)
        subprocess.run(["mv", moved / "pg_wal", disks.wal.folder / "wal"], check=True)
        (moved / "pg_wal").symlink_to(disks.wal.folder / "wal")
        server.data = moved
        with (moved / "postgresql.conf").open("a") as settings:
            settings.write("min_wal_size = 32MB\nmax_wal_size = 48MB\n")
        server.start()
        yield from run_database(server, disks.home.folder / "home")
    finally:
        server.remove()


@pytest.fixture(autouse=True)
def room(disks: Disks, database: Database) -> Iterator[None]:
    """Each test begins and ends with room everywhere and a server that runs."""
    yield
    for disk in (disks.data, disks.wal, disks.home):
        disk.room()
    back(database.server)


def back(server: TestServer) -> None:
    """Wait until it answers, started again if it had given up."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if server.process is None or server.process.poll() is not None:
            server.start()
        with contextlib.suppress(psycopg.OperationalError):
            server.admin().close()
            return
        assert time.monotonic() < deadline, (server.folder / "log").read_text()
        time.sleep(0.01)


def in_log(database: Database, work: Callable[[Log], Awaitable[T]]) -> T:
    async def run() -> T:
        log = await Log.connect(database.dsn, home=database.home)
        try:
            return await work(log)
        finally:
            await log.close()

    return asyncio.run(run())


def said(text: object) -> None:
    """It names the cause, and no traceback."""
    assert "No space left" in str(text), text
    assert "Traceback" not in str(text)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def file_entry(path: str, data: bytes) -> list[object]:
    return [path, "file", 0o644, len(data), sha256(data)]


class LargeCalls(Calls):
    """Calls that bring what does not fit beside what they are known by."""

    def request(self, token: int) -> tuple[str, dict[str, Any], list[bytes]]:
        kind, payload, buffers = super().request(token)
        if kind == "command":
            payload["shell"] += f"; sleep {WAITS}; head -c 3000000 /dev/urandom | base64"
            return kind, {**payload, "output_bytes": 8 * MIB, "output_lines": 100_000}, buffers
        large = [random.Random(f"{token} {n}").randbytes(700_000) for n in range(4)]
        entries = [file_entry(f"large-{token}-{n}", data) for n, data in enumerate(large)]
        return kind, {**payload, "entries": [*payload["entries"], *entries]}, [*buffers, *large]


@pytest.fixture(scope="module")
def calls(module_kernels: Kernels, tmp_path_factory: pytest.TempPathFactory) -> LargeCalls:
    calls = LargeCalls(Armed(module_kernels, tmp_path_factory.mktemp("calls") / "p", "bubblewrap"))
    calls.armed.history.client.shell("touch called; printf '' > up-")
    return calls


@pytest.fixture(scope="module")
def plain(module_kernels: Kernels) -> Kernel:
    """A kernel without isolation, with a large file in its workspace and a session of some size."""
    kernel = module_kernels("process")
    client = kernel.client()
    client.prints("import os; open('large', 'wb').write(os.urandom(2 << 20)); a = 1; print(a)")
    return kernel


def go_on(kernel: Kernel) -> None:
    """End the sleep of a command."""
    for process in kernel.descendants():
        with contextlib.suppress(psutil.Error):
            if process.cmdline() == ["sleep", str(WAITS)]:
                process.kill()
                return
    raise AssertionError("no command sleeps")


def lives(kernel: Kernel) -> None:
    assert kernel.alive
    assert kernel.clients[0].ask("kernel_info_request", channel="control")["status"] == "ok"


# Postgres' disk -----------------------------------------------------------------------------------


def test_a_command_whose_output_does_not_fit_waits_and_says_so(
    calls: LargeCalls, disks: Disks
) -> None:
    history = calls.armed.history
    token, msg_id = calls.send("command")
    history.client.shows(msg_id, f"ran {token}")
    with disks.data.full():
        go_on(history.kernel)
        said(history.client.notice("database-away")["text"])
        lives(history.kernel)
        assert not any(h.channel == "shell" for h in history.client.of(msg_id))
    ran = calls.finish(token, msg_id)
    assert ran.reply["outcome"] == "ok"
    assert len(ran.text()) > 4_000_000
    [record] = [
        record
        for record in history.kernels.read(history.kernel).steps
        if record.step.new.key == f"key-{token}"
    ]
    stored = "".join(e.content["text"] for e in record.outputs if e.content.get("name") == "stdout")
    assert stored == ran.text()
    calls.holds()


@pytest.mark.parametrize("kind", ["upload", "mount"])
def test_what_is_brought_and_does_not_fit_is_refused(
    calls: LargeCalls, disks: Disks, kind: str
) -> None:
    with disks.data.full():
        token, msg_id = calls.send(kind)
        reply = calls.finish(token, msg_id).reply
        assert reply["ename"] == "DatabaseUnavailable"
        said(reply["evalue"])
        lives(calls.armed.history.kernel)
        assert token not in calls.statuses()
    assert calls.repeat(token)["outcome"] == "ok"
    calls.holds()


def test_cells_are_refused_once_nothing_fits_and_run_again_afterwards(
    plain: Kernel, kernels: Kernels, disks: Disks
) -> None:
    """However small, at last one does not fit: it does not run, or its end waits and is told."""
    client = plain.client()
    assert client.run("ran = 0").status == "ok"
    with disks.data.full():
        told = 0
        while True:
            msg_id = client.execute(f"ran += 1; x = {os.urandom(2000).hex()!r}")
            start = len(client.heard)
            heard = client.wait(
                lambda h, sent=msg_id: (  # type: ignore[misc]
                    (h.parent == sent and h.channel == "shell")
                    or (h.type == "reprise_notice" and h.content["code"] == "database-away")
                ),
                start=start,
            )
            lives(plain)
            if heard.type == "reprise_notice":
                said(heard.content["text"])
                told += 1
                break
            if heard.content["status"] == "error":
                assert heard.content["ename"] == "DatabaseUnavailable"
                assert "was not run" in heard.content["evalue"]
                said(heard.content["evalue"])
                break
            told += 1
            assert told < 500
    client.finish(msg_id)
    assert client.prints("print(ran)") == str(told)
    read = kernels.read(plain)
    assert read.report.ok
    assert set(read.statuses()) == {"ok"}


def test_forks_are_made_whole_or_refused(plain: Kernel, database: Database, disks: Disks) -> None:
    async def fork(log: Log) -> uuid.UUID:
        return await log.fork(plain.session)

    made: list[uuid.UUID] = []
    with disks.data.full(), pytest.raises(UnavailableError) as refused:
        while len(made) < 1000:
            made.append(in_log(database, fork))
    said(refused.value)
    after = in_log(database, fork)

    async def sessions(log: Log) -> set[uuid.UUID]:
        found = [info.id for info in await log.sessions() if info.parent == plain.session]
        assert all([(await log.check(each)).ok for each in found[-3:]])
        return set(found)

    assert in_log(database, sessions) == {*made, after}


async def bundle_of(log: Log, session: uuid.UUID) -> io.BytesIO:
    data = io.BytesIO()
    await write_bundle(await log.reader(session), data, artifacts=await log.artifacts(session))
    return data


async def load(log: Log, data: io.BytesIO, session: uuid.UUID) -> Loaded:
    bundle = Spooled(data)
    return await load_bundle(log, bundle, check_bundle(bundle), as_new=session)


async def ids(log: Log) -> set[uuid.UUID]:
    return {info.id for info in await log.sessions()}


async def is_whole(log: Log, session: uuid.UUID) -> bool:
    return (await log.check(session, blobs=True)).ok


def test_an_import_that_does_not_fit_leaves_nothing(
    calls: LargeCalls, database: Database, disks: Disks
) -> None:
    source, copy = calls.armed.history.kernel.session, uuid.uuid4()
    token, msg_id = calls.send("upload")
    assert calls.finish(token, msg_id).reply["outcome"] == "ok"
    bundle = in_log(database, lambda log: bundle_of(log, source))
    assert len(bundle.getvalue()) > MIB
    with disks.data.full():
        with pytest.raises(UnavailableError) as refused:
            in_log(database, lambda log: load(log, bundle, copy))
        said(refused.value)
        assert copy not in in_log(database, ids)
    assert in_log(database, lambda log: load(log, bundle, copy)).outcome == "imported"
    assert in_log(database, lambda log: is_whole(log, copy))
    assert in_log(database, lambda log: is_whole(log, source))


def test_a_deletion_is_done_or_refused(plain: Kernel, database: Database, disks: Disks) -> None:
    async def three(log: Log) -> list[uuid.UUID]:
        return [await log.fork(plain.session) for _ in range(3)]

    doomed = in_log(database, three)
    with disks.data.full():
        try:
            in_log(database, lambda log: log.delete(doomed[0]))
        except UnavailableError as error:
            said(error)
            assert in_log(database, lambda log: is_whole(log, doomed[0]))
            gone = set()
        else:
            gone = {doomed[0]}
        assert set(doomed) - in_log(database, ids) == gone
    for session in set(doomed) - gone:
        in_log(database, lambda log, session=session: log.delete(session))  # type: ignore[misc]
    assert in_log(database, ids).isdisjoint(doomed)
    assert in_log(database, lambda log: is_whole(log, plain.session))


def test_a_collection_without_room_deletes_nothing(
    plain: Kernel, database: Database, disks: Disks
) -> None:
    unnamed = [os.urandom(1000), os.urandom(2 * MIB)]

    async def store(log: Log) -> list[str]:
        return await (await log.reader(plain.session)).blobs.put_many(unnamed)

    async def missing(log: Log) -> set[str]:
        rows = await log._ask(
            "SELECT sha256 FROM reprise.blobs WHERE sha256 = ANY(%b::bytea[])",
            [[bytes.fromhex(name) for name in names]],
        )
        return set(names) - {bytes(row[0]).hex() for row in rows}

    names = in_log(database, store)
    with database.server.admin(str(conninfo_to_dict(database.dsn)["dbname"])) as admin:
        admin.execute("UPDATE reprise.blobs SET touched_at = '-infinity'")
    for path in (database.home / "blobs").rglob("*"):
        os.utime(path, (0, 0))
    with disks.data.full():
        with pytest.raises(UnavailableError) as refused:
            in_log(database, lambda log: log.collect())
        said(refused.value)
        assert in_log(database, missing) == set()
    assert in_log(database, lambda log: log.collect()).blobs >= 2
    assert in_log(database, missing) == set(names)
    for session in in_log(database, ids):
        assert in_log(database, lambda log, session=session: is_whole(log, session))  # type: ignore[misc]


def almost_use_up(wal: Disk, database: Database) -> None:
    """What Postgres may write on a full disk goes to files that are there: leave it 2 MiB of them."""
    with database.server.admin() as admin:
        while True:
            row = admin.execute(
                "SELECT * FROM pg_walfile_name_offset(pg_current_wal_insert_lsn())"
            ).fetchone()
            name, offset = cast(tuple[str, int], row)
            there = [each for each in os.listdir(wal.folder / "wal") if len(each) == len(name)]
            if max(there) == name and offset > 14 * MIB:
                return
            admin.execute("SELECT pg_logical_emit_message(false, '', repeat('x', 1 << 20))")


def test_postgres_that_stops_for_want_of_room_loses_nothing(
    calls: LargeCalls, database: Database, disks: Disks
) -> None:
    """Its own log of writes does not fit: it stops, and may not come back before there is room."""
    history = calls.armed.history
    token, msg_id = calls.send("command")
    history.client.shows(msg_id, f"ran {token}")
    start = len(history.client.heard)
    disks.wal.fill()
    almost_use_up(disks.wal, database)
    go_on(history.kernel)
    heard = history.client.wait(
        lambda h: (
            (h.type == "reprise_notice" and h.content["code"] == "database-away")
            or (h.parent == msg_id and h.channel == "shell")
        ),
        start=start,
    )
    assert heard.type == "reprise_notice", heard
    assert "Postgres" in heard.content["text"]
    assert "PANIC" in (database.server.folder / "log").read_text()
    lives(history.kernel)
    refused, second = calls.send("upload")
    disks.wal.room()
    back(database.server)
    assert calls.finish(token, msg_id).reply["outcome"] == "ok"
    calls.finish(refused, second)
    calls.holds()


# REPRISE_HOME -------------------------------------------------------------------------------------


def blob_files(database: Database) -> set[str]:
    return {path.name for path in (database.home / "blobs").rglob("*") if path.is_file()}


def keep(client: Client, path: str) -> dict[str, Any]:
    content = {"op": "keep", "path": path}
    found: dict[str, Any] = client.ask("workspace_request", content, channel="control")
    return found


def test_a_large_file_that_does_not_fit_is_refused(
    calls: LargeCalls, database: Database, disks: Disks
) -> None:
    client = calls.armed.history.client
    data = os.urandom(2 * MIB)
    for kind, payload in (("upload", {}), ("mount", {"target": "/skills/large"})):
        request = {**payload, "entries": [file_entry("large", data)]}
        before = blob_files(database), len(calls.statuses())
        with disks.home.full():
            ran = client.step(kind, request, buffers=[data])
            assert ran.error == "UnavailableError"
            said(ran.reply["evalue"])
            assert "REPRISE_HOME" in ran.reply["evalue"]
        assert (blob_files(database), len(calls.statuses())) == before
        ran = client.step(kind, request, buffers=[data])
        assert ran.reply["outcome"] == "ok"
        assert blob_files(database) - before[0] == {sha256(data)}
        data = os.urandom(2 * MIB)
    calls.holds()


def test_a_tree_that_cannot_be_kept_is_not_mounted(
    plain: Kernel, kernels: Kernels, database: Database, disks: Disks
) -> None:
    client, data = plain.client(), os.urandom(500_000)
    request = {"target": "/skills/s", "entries": [file_entry("d/f", data)]}
    with disks.home.full():
        ran = client.step("mount", request, buffers=[data])
        assert ran.reply["outcome"] == "error"
        said(ran.reply["evalue"])
        assert "Nothing was mounted" in ran.reply["evalue"]
        assert client.prints("print(a)") == "1"
    mounts = database.home / "mounts"
    assert set(os.listdir(mounts)) <= {".marks"}
    ran = client.step("mount", request, buffers=[data])
    path = ran.reply["result"]["path"]
    assert client.prints(f"print(len(open({path + '/d/f'!r}, 'rb').read()))") == "500000"
    assert kernels.read(plain).statuses("mount") == ["error", "ok"]
    with disks.home.full():
        # A collection needs no room; of the kernel's own process it knows that it uses the tree.
        assert collect(mounts, grace_s=-60, dry_run=False).trees == 0
    assert client.prints(f"print(len(open({path + '/d/f'!r}, 'rb').read()))") == "500000"


def test_an_artifact_that_does_not_fit_is_not_kept(
    plain: Kernel, database: Database, disks: Disks
) -> None:
    async def artifacts(log: Log) -> list[str]:
        return [each.path for each in await log.artifacts(plain.session)]

    client = plain.client()
    client.prints("import os; _ = open('kept', 'wb').write(os.urandom(2 << 20))")
    with disks.home.full():
        before = in_log(database, artifacts), blob_files(database)
        reply = keep(client, "kept")
        assert reply["ename"] == "UnavailableError"
        said(reply["evalue"])
        assert (in_log(database, artifacts), blob_files(database)) == before
    assert keep(client, "kept")["status"] == "ok"
    assert in_log(database, artifacts) == [*before[0], "kept"]


def test_a_large_output_waits_until_it_can_be_stored(
    plain: Kernel, kernels: Kernels, disks: Disks
) -> None:
    """A widget's buffer lies in REPRISE_HOME, and its step has run: the record has to come."""
    client = plain.client()
    code = (
        "from comm import create_comm\n"
        "c = create_comm(target_name='t', data={}, buffers=[b'c' * (2 << 20)])\nprint('made')"
    )
    start = len(client.heard)
    with disks.home.full():
        msg_id = client.execute(code)
        heard = client.wait(
            lambda h: (
                h.type == "reprise_notice"
                or (h.parent == msg_id and (h.channel == "shell" or h.type == "error"))
            ),
            start=start,
        )
        assert heard.type == "reprise_notice", heard
        said(heard.content["text"])
        lives(plain)
    ran = client.finish(msg_id)
    assert ran.status == "ok", ran.reply
    assert ran.text() == "made\n"
    read = kernels.read(plain)
    assert read.report.ok
    assert read.statuses()[-1] == "ok"
    assert any(entry.blobs for entry in read.cells[-1].outputs)


def test_an_import_whose_large_blob_does_not_fit_leaves_nothing(
    plain: Kernel, database: Database, disks: Disks
) -> None:
    """Into another home, where that blob is not yet."""
    bundle = in_log(database, lambda log: bundle_of(log, plain.session))
    other = Database(database.server, database.dsn, disks.home.folder / "other")
    other.home.mkdir()
    copy = uuid.uuid4()
    with disks.home.full():
        with pytest.raises(UnavailableError) as refused:
            in_log(other, lambda log: load(log, bundle, copy))
        said(refused.value)
        assert copy not in in_log(other, ids)
        assert blob_files(other) == set()
    assert in_log(other, lambda log: load(log, bundle, copy)).outcome == "imported"
    assert in_log(other, lambda log: is_whole(log, copy))
    shutil.rmtree(other.home)


# what commands write -----------------------------------------------------------------------------


@pytest.fixture
def reprise(database: Database) -> Reprise:
    return Reprise(database.home, {"REPRISE_DSN": database.dsn, "REPRISE_BACKEND": "process"})


@pytest.mark.parametrize(
    "command",
    [
        ("export", "-o"),
        ("export", "--compress", "-o"),
        ("export", "--to-notebook"),
        ("export", "--to-script"),
        ("verify", "--once", "--html"),
        ("get", "large", "--force", "-o"),
    ],
    ids=" ".join,
)
def test_what_a_command_cannot_write_whole_is_not_there(
    plain: Kernel, reprise: Reprise, disks: Disks, command: tuple[str, ...]
) -> None:
    folder = disks.home.folder / "out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    name, *options = command
    line = [name, str(plain.session), *options, str(folder / "written")]
    with disks.home.full():
        done = reprise(*line)
        assert done.returncode == 3, done.stderr
        said(done.stderr)
        assert os.listdir(folder) == []
    assert reprise(*line).returncode == 0
    assert "written" in os.listdir(folder)


@pytest.mark.parametrize(
    "command", [("log",), ("export", "-o", "-"), ("get", "large", "-o", "-")], ids=" ".join
)
def test_what_a_command_cannot_print_is_said(
    plain: Kernel, reprise: Reprise, disks: Disks, command: tuple[str, ...]
) -> None:
    name, *options = command
    with disks.home.full(), (disks.home.folder / "printed").open("wb") as printed:
        done = subprocess.run(
            [sys.executable, "-m", "reprise.cli", name, str(plain.session), *options],
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
            env=reprise.environ,
            timeout=60,
        )
    assert done.returncode == 3, done.stderr
    said(done.stderr)


def test_half_a_key_is_not_left_in_the_way(reprise: Reprise, disks: Disks) -> None:
    folder = disks.home.folder / "keys"
    folder.mkdir()
    with disks.home.full():
        done = reprise("export", "--make-key", str(folder / "key"))
        assert done.returncode == 3
        said(done.stderr)
        assert os.listdir(folder) == []
    assert reprise("export", "--make-key", str(folder / "key")).returncode == 0
    assert set(os.listdir(folder)) == {"key", "key.pub"}


def test_a_folder_that_cannot_be_copied_for_a_replay_is_said(
    plain: Kernel, reprise: Reprise, disks: Disks
) -> None:
    temporary = disks.home.folder / "tmp"
    temporary.mkdir()
    line = ("verify", str(plain.session), "--once")
    # Where nothing at all can be written Python looks for another place by itself.
    with disks.home.full(leave=MIB):
        done = reprise(*line, cwd=plain.folder, TMPDIR=str(temporary))
        assert done.returncode == 3, done.stderr
        said(done.stderr)
        assert "TMPDIR" in done.stderr
    assert os.listdir(temporary) == []


# the workspace -----------------------------------------------------------------------------------


def test_output_that_spills_over_a_full_workspace_does_not_hang(
    kernels: Kernels, disks: Disks
) -> None:
    """Without isolation that is the disk of the notebook's folder, with isolation a limit."""
    notebooks = disks.home.folder / "notebooks"
    kernel = kernels("process", folder=notebooks)
    client = kernel.client()
    with disks.home.full():
        ran = client.shell("head -c 3000000 /dev/zero | tr '\\0' a; echo end >&2")
        assert ran.reply["outcome"] == "ok"
        shown = ran.reply["result"]["stdout"]
        assert (shown["bytes"], shown["cut"], shown["file"]) == (3_000_000, True, None)
        assert ran.text("stderr") == "end\n"
        assert client.shell("echo x > f").reply["outcome"] == "error"
    assert client.shell("echo x > f && cat f").text() == "x\n"
    assert kernels.read(kernel).report.ok


def test_an_isolated_workspace_that_is_full_does_not_hang_a_command(
    kernels: Kernels, database: Database
) -> None:
    environments = database.home / "environments"
    environments.mkdir(exist_ok=True)
    (environments / "narrow.json").write_text(json.dumps({"limits": {"workspace": 4 * MIB}}))
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT="narrow")
    client = kernel.client()
    client.shell("head -c 8000000 /dev/zero > ballast")
    ran = client.shell("head -c 3000000 /dev/zero | tr '\\0' a; echo end >&2")
    assert ran.reply["outcome"] == "ok"
    shown = ran.reply["result"]["stdout"]
    assert (shown["bytes"], shown["cut"], shown["file"]) == (3_000_000, True, None)
    assert ran.text("stderr") == "end\n"
    assert client.shell("rm ballast; echo x > f && cat f").text() == "x\n"
    assert kernels.read(kernel).report.ok
