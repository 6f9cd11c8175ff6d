"""A failpoint fires at its pass and only there; an acknowledged write survives the kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reprise.failpoints import FailpointReached, arm
from reprise.log.postgres import Log


def test_unset_means_nothing_happens() -> None:
    for value in (None, ""):
        arm(value)("anything")


def test_raise_at_the_third_pass_only() -> None:
    check = arm("here:raise:3, there:raise")
    check("here")
    check("elsewhere")
    check("here")
    with pytest.raises(FailpointReached, match="here"):
        check("here")
    check("here")
    with pytest.raises(FailpointReached, match="there"):
        check("there")


@pytest.mark.parametrize("spec", ["name", "name:explode", "name:kill:soon"])
def test_a_misspelt_failpoint_is_not_ignored(spec: str) -> None:
    with pytest.raises(ValueError, match="REPRISE_FAILPOINT"):
        arm(spec)


def test_pause_stops_the_process_until_it_is_continued() -> None:
    script = "from reprise.failpoints import failpoint; failpoint('x'); print('went on')"
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "REPRISE_FAILPOINT": "x:pause"},
        stdout=subprocess.PIPE,
    )
    with process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        os.kill(process.pid, signal.SIGCONT)
        assert process.communicate()[0] == b"went on\n"


WRITE = """
import asyncio, sys
from reprise.log.postgres import Log
from tests.log.words import cell, ok, text
async def main():
    log = await Log.connect(sys.argv[1], owner="tester")
    writer = await log.acquire((await log.sessions())[0].id, {})
    for number in range(3):
        entries = text(f"out {number}")
        step = await writer.append_step(cell(f"code {number}"))
        await writer.record_outcome(step.seq, ok(*entries), entries)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("point", "steps", "statuses"),
    [
        ("before-step-commit", 1, ["ok"]),
        ("after-step-commit", 2, ["ok", "lost"]),
        ("before-outcome-commit", 2, ["ok", "lost"]),
        ("after-outcome-commit", 2, ["ok", "ok"]),
    ],
)
async def test_a_writer_killed_at_any_point_leaves_what_it_committed(
    log: Log, dsn: str, point: str, steps: int, statuses: list[str]
) -> None:
    session = await log.begin(kernel="python3")
    result = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", WRITE, dsn],
        env={**os.environ, "REPRISE_FAILPOINT": f"{point}:kill:2", "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        timeout=60,
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    writer = await log.acquire(session, {})
    records = [record async for record in writer.records()]
    assert writer.next_seq == steps == len(records)
    assert [record.outcome.status for record in records if record.outcome] == statuses
    assert (await log.check(session)).ok
    await writer.close()
