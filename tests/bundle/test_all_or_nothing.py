"""An import that does not come to its end, for whatever reason, leaves nothing that can be seen."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import resource
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psycopg
import pytest

from reprise.bundle.load import check_bundle, load_bundle
from reprise.bundle.source import Spooled
from reprise.errors import BadBundle, UsageError
from reprise.log.postgres import Log
from tests.bundle.conftest import exported, imported
from tests.bundle.forge import Forge, cell_payload, one_cell
from tests.bundle.sample import LARGE, begin, cell, run, text


def rows(dsn: str) -> dict[str, str]:
    """A hash over all rows of each table."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'reprise' ORDER BY 1"
        ).fetchall()
        found = {}
        for (table,) in tables:
            name = f"reprise.{table}"
            values = connection.execute(f"SELECT t::text FROM {name} t ORDER BY 1").fetchall()  # type: ignore[arg-type]
            found[table] = hashlib.sha256(repr(values).encode()).hexdigest()
    return found


def files(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


#: Imports argv[1] into the database argv[2] with the home argv[3], as "importer".
IMPORT = """
import asyncio, sys
from pathlib import Path
from reprise.bundle.load import check_bundle, load_bundle
from reprise.bundle.source import opened
from reprise.errors import RepriseError
from reprise.log.postgres import Log
async def main():
    log = await Log.connect(sys.argv[2], owner="importer", home=Path(sys.argv[3]))
    try:
        with opened(Path(sys.argv[1]), sys.stdin.buffer, 1 << 30) as bundle:
            await load_bundle(log, bundle, check_bundle(bundle))
    finally:
        await log.close()
try:
    asyncio.run(main())
except RepriseError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


async def run_import(
    log: Log, path: Path, *, failpoint: str = "", file_bytes: int | None = None
) -> subprocess.CompletedProcess[str]:
    def bounded() -> None:
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    env = {**os.environ, "REPRISE_FAILPOINT": failpoint}
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", IMPORT, str(path), log._dsn, str(log.home)],
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=bounded,
    )


@pytest.fixture
async def bundle(log: Log, sample: uuid.UUID, tmp_path: Path) -> Path:
    path = tmp_path / "sample.reprise"
    data = await exported(log, sample, notices=True, artifacts=await log.artifacts(sample))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("point", ["import-page", "import-blob:kill:4", "import-before-commit"])
async def test_killed_before_its_end_it_was_never_there(
    other: Log, sample: uuid.UUID, bundle: Path, point: str
) -> None:
    before = rows(other._dsn)
    done = await run_import(other, bundle, failpoint=point if ":" in point else f"{point}:kill")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert rows(other._dsn) == before
    assert await other.sessions() == []
    # Whole files of blobs that nothing names may be left, which a collection takes.
    for name in files(other.home):
        assert hashlib.sha256((other.home / name).read_bytes()).hexdigest() == Path(name).name
    assert (await run_import(other, bundle)).returncode == 0
    assert (await other.check(sample, blobs=True)).ok


async def test_killed_right_after_its_end_it_is_there(
    other: Log, sample: uuid.UUID, bundle: Path
) -> None:
    done = await run_import(other, bundle, failpoint="import-after-commit:kill")
    assert done.returncode == -signal.SIGKILL
    assert (await other.check(sample, blobs=True)).ok


async def test_a_full_disk_is_said_and_leaves_no_file(other: Log, bundle: Path) -> None:
    before = rows(other._dsn)
    done = await run_import(other, bundle, file_bytes=len(LARGE) // 2)
    assert done.returncode == 1
    assert done.stderr.startswith("UnavailableError: A blob of"), done.stderr
    assert "Nothing was imported" in done.stderr
    assert rows(other._dsn) == before
    assert files(other.home) == set()


async def test_a_database_that_goes_away_leaves_nothing(other: Log, bundle: Path, dsn: str) -> None:
    before = rows(other._dsn)
    data = Spooled(io.BytesIO(bundle.read_bytes()))
    checked = check_bundle(data)

    def lose(text: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'reprise' AND state = 'idle in transaction'"
            )

    with pytest.raises(Exception, match="cannot be reached while importing"):
        await load_bundle(other, data, checked, progress=lose)
    assert rows(other._dsn) == before


async def test_a_refused_bundle_changes_nothing(other: Log, bundle: Path) -> None:
    before = rows(other._dsn)
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    bundle.write_bytes(data)
    done = await run_import(other, bundle)
    assert done.returncode == 1
    assert done.stderr.startswith("BadBundle: This is no bundle that is whole: the blob")
    assert rows(other._dsn) == before
    assert files(other.home) == set()


async def test_a_file_that_changes_between_the_two_readings_is_not_taken(
    other: Log, bundle: Path
) -> None:
    before = rows(other._dsn)
    data = bytearray(bundle.read_bytes())
    file = io.BytesIO(bytes(data))
    spooled = Spooled(file)
    checked = check_bundle(spooled)
    data[-3000] ^= 1
    file.getbuffer()[:] = data
    with pytest.raises(BadBundle, match=r"was changed while it was imported.*Nothing was imported"):
        await load_bundle(other, spooled, checked)
    assert rows(other._dsn) == before
    # A whole bundle, but not the one that was proven.
    another = Spooled(io.BytesIO(one_cell().bundle()))
    with pytest.raises(BadBundle, match="it is another one"):
        await load_bundle(other, another, checked)
    assert rows(other._dsn) == before


async def test_another_history_under_the_same_id_is_refused(log: Log, other: Log) -> None:
    writer = await begin(log)
    await run(writer, cell("first"), text("1"))
    early = await exported(log, writer.session)
    await run(writer, cell("second"), text("2"))
    late = await exported(log, writer.session)
    await writer.close()
    await imported(other, late)
    before = rows(other._dsn)
    with pytest.raises(UsageError, match=r"has 2 steps, the bundle has 1.*--as-new"):
        await imported(other, early)
    assert rows(other._dsn) == before
    third = await Log.connect(other._dsn, owner="third", home=other.home)
    with pytest.raises(UsageError, match="taken here"):
        await imported(third, late)  # the id belongs to another owner there
    await third.close()
    assert rows(other._dsn) == before


async def test_two_imports_of_one_bundle_at_once(
    other: Log, sample: uuid.UUID, bundle: Path
) -> None:
    done = await asyncio.gather(*(run_import(other, bundle) for _ in range(3)))
    assert any(each.returncode == 0 for each in done)
    for each in done:
        assert each.returncode == 0 or "taken here" in each.stderr, each.stderr
    assert (await other.check(sample, blobs=True)).ok
    assert len(await other.sessions()) == 1


async def test_an_export_beside_a_writer_is_a_prefix(log: Log, other: Log) -> None:
    writer = await begin(log)

    async def write() -> None:
        for number in range(150):
            shown = text(f"{number}\n" * 50)
            await run(writer, cell(f"cell {number}"), shown)
            if number % 10 == 0:
                await writer.append_outputs(number, text("late"), late=True)

    writing = asyncio.create_task(write())
    bundles = []
    while not writing.done():
        bundles.append(await exported(log, writer.session))
        await asyncio.sleep(0)
    await writing
    await writer.close()
    chains = {}
    async for record in (await log.reader(writer.session)).records(outputs=False):
        chains[record.step.digest.hex()] = record.step.seq
        if record.outcome is not None:
            chains[record.outcome.chain.hex()] = record.step.seq
    heads = [check_bundle(Spooled(io.BytesIO(data))).head for data in bundles]
    assert len({head.events for head in heads}) > 3
    assert all(head.chain in chains for head in heads if head.events)
    loaded = await imported(other, bundles[len(bundles) // 2], as_new=uuid.uuid4())
    assert (await other.check(loaded.session, blobs=True)).ok


async def test_an_import_is_written_in_time_that_grows_with_its_length_only(
    log: Log, other: Log
) -> None:
    """1,000 steps and 4,000 steps in one transaction each."""
    took = {}
    for steps in (1_000, 4_000):
        forge = forged(steps)
        data = Spooled(io.BytesIO(forge))
        checked = check_bundle(data)
        began = asyncio.get_running_loop().time()
        await load_bundle(other, data, checked, as_new=uuid.uuid4())
        took[steps] = asyncio.get_running_loop().time() - began
    assert took[4_000] < 10 * took[1_000]


def forged(steps: int) -> bytes:
    forge = Forge()
    for number in range(steps):
        forge.outcome(forge.step("cell", cell_payload(f"x = {number}")))
    return forge.bundle()
