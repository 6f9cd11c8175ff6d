"""The script of a session runs its history again, without Reprise."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from reprise.bundle.script import write_script
from reprise.errors import UsageError
from reprise.log.model import NewStep, canonical, sha256_hex
from reprise.log.postgres import Log
from reprise.workspace.manifest import Entry
from tests.bundle.sample import SPEC, begin, cell, run, step


async def session_of(log: Log, steps: Sequence[tuple[NewStep, dict[str, object]]]) -> uuid.UUID:
    writer = await begin(log)
    for new, end in steps:
        await run(writer, new, **end)
    await writer.close()
    return writer.session


async def script(log: Log, session: uuid.UUID, tmp_path: Path) -> tuple[Path, str]:
    target = tmp_path / "again.py"
    told = await write_script(await log.reader(session), target)
    compile(target.read_text(), str(target), "exec")
    return target, told


def ran(target: Path, program: str = "python") -> subprocess.CompletedProcess[str]:
    """Run it with an interpreter that cannot import Reprise."""
    line = [sys.executable, "-I"] if program == "python" else [sys.executable, "-m", "IPython"]
    guard = target.with_name("workspace")
    return subprocess.run(
        [*line, str(target), str(guard)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=target.parent,
        env={"PATH": "/usr/bin:/bin", "HOME": str(target.parent)},
        stdin=subprocess.DEVNULL,
    )


def command(**payload: object) -> NewStep:
    return step("command", {"output_bytes": 1, "output_lines": 1, **payload})


async def test_plain_cells_run_in_plain_python(log: Log, tmp_path: Path) -> None:
    blobs = (await log.reader(await log.begin(kernel="python3"))).blobs
    given = await blobs.put(b"given\n")
    entries = [
        Entry("d", "dir", 0o755).to_json(),
        Entry("d/file", "file", 0o644, 6, given).to_json(),
        Entry("link", "link", 0o777, target="d/file").to_json(),
    ]
    session = await session_of(
        log,
        [
            (step("upload", {"entries": entries, "removed": []}, blobs=(given,)), {}),
            (cell("text = '''of\nlines \\\\ '''\nprint(open('link').read(), text, sep='|')"), {}),
            (cell("name = input('Who? ')\nprint('hello', name)"), {"inputs": ("Ada",)}),
            (cell("x = 1\nx += 1\nraise ValueError('as before')"), {"status": "error"}),
            (cell("print('x is', x)"), {}),
            (cell("import time; time.sleep(600)"), {"status": "interrupted"}),
            (cell("getpass.getpass()"), {"inputs": (None,)}),
            (cell("import os; os.kill(os.getpid(), 9)"), {"status": "died"}),
            (command(shell="cat; echo $V > made", env={"V": "v"}, stdin=given), {}),
            (command(argv=["sh", "-c", "exit 3"]), {"status": "error"}),
            (command(shell="sleep 600", background=True), {}),
            (command(stop=10), {}),
            (cell("print(open('made').read().strip())"), {}),
            (step("restart", {"tree": None}), {}),
            (cell("print('x' in globals(), os is None if 'os' in globals() else 'clean')"), {}),
            (step("upload", {"entries": [], "removed": ["d", "link", "absent"]}), {}),
            (cell("import os\nprint(sorted(os.listdir()))"), {}),
        ],
    )
    target, told = await script(log, session, tmp_path)
    assert told.startswith("17 steps, 3 left out as comments, its files in")
    assert "run it with `python again.py`" in told
    done = ran(target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "given",
        "|of",
        "lines \\ ",
        "Who? Ada",
        "hello Ada",
        "x is 2",
        "given",
        "v",
        "False clean",
        "['made']",
    ]
    assert "ValueError: as before" in done.stderr
    source = target.read_text()
    assert "left out: it was interrupted" in source
    assert "left out: it asked for a password" in source
    assert "# import os; os.kill(os.getpid(), 9)" in source


async def test_words_of_ipython_run_in_ipython(log: Log, tmp_path: Path) -> None:
    session = await session_of(
        log,
        [
            (cell("import asyncio"), {}),
            (cell("await asyncio.sleep(0)\nx = 20"), {}),
            (cell("y = !echo $x"), {}),
            (cell("%%bash\necho from bash"), {}),
            (cell("print(x + 1, y)\nquote = '\\''"), {}),
            (cell("%nonsense"), {"status": "error"}),
            (cell("print('still here')"), {}),
        ],
    )
    target, told = await script(log, session, tmp_path)
    assert "run it with `ipython again.py`" in told
    done = ran(target, "ipython")
    assert done.returncode == 0, done.stderr
    for line in ("from bash", "21 ['20']", "still here"):
        assert line in done.stdout
    assert "run the script with `ipython`" in ran(target).stderr


async def test_what_cannot_be_run_again_says_why(
    log: Log, sample: uuid.UUID, tmp_path: Path
) -> None:
    target, _ = await script(log, sample, tmp_path)
    source = target.read_text()
    assert "step 4: comm, left out: a page's widget sent it" in source
    assert "mount, left out: only a sandbox has a place /skills/x" in source
    assert (tmp_path / "again.files" / "step-000002" / "small").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "again.files" / "step-000002" / "data" / "large").stat().st_size > 1 << 20


async def test_nothing_that_is_there_is_replaced_unasked(
    log: Log, sample: uuid.UUID, tmp_path: Path
) -> None:
    (tmp_path / "again.files").mkdir()
    reader = await log.reader(sample)
    with pytest.raises(UsageError, match="is there already"):
        await write_script(reader, tmp_path / "again.py")
    await write_script(reader, tmp_path / "again.py", force=True)
    assert (tmp_path / "again.files" / "step-000002").is_dir()


async def test_another_language_makes_no_script(log: Log, tmp_path: Path) -> None:
    spec = {**SPEC, "kernel": {"name": "bash", "language": "bash", "argv": ["bash"]}}
    digest = sha256_hex(canonical(spec))
    writer = await log.acquire(await log.begin(kernel="bash"), {})
    await writer.record_environment(digest, spec)
    await run(writer, cell("echo", environment=digest))
    await writer.close()
    with pytest.raises(UsageError, match="speaks bash"):
        await write_script(await log.reader(writer.session), tmp_path / "x.py")
    assert list(tmp_path.glob("x*")) == []


@pytest.mark.parametrize(
    "code",
    [
        "'''",
        '"""',
        "a = '\\\\'",
        "x = '",
        "é = 1",
        "# \u2028 line",
        "\x0c",
        "from __future__ import x",
        "",
    ],
)
async def test_any_code_stands_in_a_script_that_can_be_read(
    log: Log, tmp_path: Path, code: str
) -> None:
    session = await session_of(
        log, [(cell(code), {}), (cell(code), {"status": "error"}), (cell(code), {"status": "died"})]
    )
    await script(log, session, tmp_path)
