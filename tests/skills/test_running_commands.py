"""`reprise skills run` passes words, bytes and exit codes through, and so does the plain client."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reprise.client import DependenciesMissing, Output, Progress, connect
from tests.fixtures.commands import Reprise
from tests.fixtures.skill_runs import SkillBench

FILES = {
    "scripts/args.py": "import json, sys\nprint(json.dumps(sys.argv[1:]))\nprint('to err', file=sys.stderr)\n",
    "scripts/copy.sh": "cat; echo >&2 done; exit 9\n",
    "scripts/kill.sh": "kill -USR1 $$\n",
    "scripts/slow.sh": "sleep 600\n",
    "scripts/read.py": "import sys\nprint(open(sys.argv[1]).read())\n",
    "scripts/needs.py": "# /// script\n# dependencies = ['no-such-thing']\n# ///\n",
}
FRONT = "compatibility: Requires Python 3.99+\nallowed-tools: Bash(git:*) Read\n"


@pytest.fixture
async def session(skill_bench: SkillBench) -> str:
    (skill_bench.folder / "a b.txt").write_text("rentals")
    kernel = await skill_bench.client()
    await kernel.run("begun = True")
    session = str(kernel.session)
    await kernel.close()
    return session


async def test_the_command_is_as_the_script_is(
    skill_bench: SkillBench, session: str, tmp_path: Path
) -> None:
    version = await skill_bench.add(FILES, front=FRONT)
    command = Reprise(tmp_path / "home", skill_bench.environ)

    async def run(*words: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        return await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "reprise.cli", "skills", "run", *words],
            capture_output=True,
            input=stdin,
            timeout=300,
            cwd=skill_bench.folder,
            env=command.environ,
        )

    # A kernel that runs meanwhile serves them all.
    await skill_bench.client(session)
    words = ["--in={workspace}", "--", "a b", "--json", "$(id)", "*"]
    done = await run(session[:8], version.name, "--", "args.py", *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["--in=/workspace", *words[1:]]
    said = done.stderr.decode()
    assert f"mounting {version.reference} at /skills/{version.name}" in said
    assert "to err\n" in said
    assert "warning: It asks for Python >=3.99" in said
    assert "asks for these tools of an agent, which grants nothing: Bash(git:*) Read" in said
    assert re.search(rf"step \d+: {version.reference} scripts/args\.py: exit code 0, ", said)

    done = await run(session, version.name, "--stdin", "--", "copy.sh", stdin=b"\x00\xffbytes\n")
    assert done.returncode == 9
    assert done.stdout == "\x00\ufffdbytes\n".encode()
    assert (await run(session, version.name, "--", "kill.sh")).returncode == 128 + signal.SIGUSR1
    done = await run(session, version.name, "--timeout", "1s", "--", "slow.sh")
    assert done.returncode == 124
    assert b"ran over its time" in done.stderr
    done = await run(session, version.name, "--", "read.py", "{workspace}/a b.txt")
    assert done.stdout == b"rentals\n"

    done = await run(session, version.reference, "--json", "--key", "k", "--", "copy.sh")
    told = json.loads(done.stdout)
    assert done.returncode == told["exit"] == told["exit_code"] == 9
    assert told["skill"]["digest"] == version.digest
    assert (told["script"], told["outcome"]) == ("scripts/copy.sh", "error")
    assert (told["stderr"], told["mounted"]) == ("done\n", None)
    assert (told["allowed_tools"], told["installed"]) == (["Bash(git:*)", "Read"], [])
    done = await run(session, version.reference, "--json", "--key", "k", "--", "copy.sh")
    assert json.loads(done.stdout)["repeated"] is True

    done = await run(session, version.name, "--", "needs.py")
    assert done.returncode == 3
    assert b"scripts/needs.py needs no-such-thing" in done.stderr
    assert done.stdout == b""
    for words, text in (
        ([session, version.name], "Name the script to run, after --"),
        ([session, version.name, "--", "nope"], "Its scripts: scripts/args.py"),
        ([session, "no-such-skill", "--", "x"], "No skill that you may see is no-such-skill"),
        ([session, "No Skill", "--", "x"], "names no skill"),
        (["0000ffff", version.name, "--", "x"], "No session"),
        ([session, version.name, "--env", "X", "--", "args.py"], "--env takes NAME=VALUE"),
    ):
        done = await run(*words)
        assert done.returncode == 2, words
        assert text in done.stderr.decode(), words
    await skill_bench.catalog.revoke(version.digest, reason="for this test")
    done = await run(session, version.name, "--", "args.py")
    assert done.returncode == 2
    assert b"was revoked" in done.stderr


async def test_ctrl_c_interrupts_the_script_and_nothing_else(
    skill_bench: SkillBench, session: str, tmp_path: Path
) -> None:
    slow = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"
    version = await skill_bench.add({"scripts/slow.py": slow})
    kernel = await skill_bench.client(session)
    command = Reprise(tmp_path / "home", skill_bench.environ)
    words = ["skills", "run", session, version.name, "--", "slow.py"]
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "reprise.cli", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=command.environ,
    )
    assert running.stdout is not None
    async with asyncio.timeout(120):
        assert await running.stdout.readline() == b"begun\n"
        running.send_signal(signal.SIGINT)
        await running.communicate()
    assert running.returncode == 130
    last = (await kernel.steps())[-1]
    assert last.outcome is not None
    assert (last.step.kind, last.outcome.status) == ("command", "interrupted")
    assert (await kernel.run("begun")).value == "True"
    usage = await skill_bench.used(version)
    assert (usage.mounts, usage.runs, usage.failures) == (1, 0, 0)


async def test_the_plain_client_runs_them_too(skill_bench: SkillBench) -> None:
    version = await skill_bench.add(FILES)
    threads: set[int] = set()
    heard: list[str] = []

    def output(each: Output) -> None:
        threads.add(threading.get_ident())
        heard.append(each.text)

    def progress(each: Progress) -> None:
        threads.add(threading.get_ident())
        heard.append(each.kind)

    def plainly() -> int:
        with connect(folder=skill_bench.folder, env=skill_bench.environ) as kernel:
            mounted = kernel.mount_skill(version.name, on_progress=progress)
            assert mounted.path == f"/skills/{version.name}"
            ran = kernel.run_skill(
                version, "copy.sh", stdin=b"x", on_output=output, on_progress=progress
            )
            assert (ran.stdout, ran.exit_code, ran.mounted) == ("x", 9, None)
            with pytest.raises(DependenciesMissing):
                kernel.run_skill(version.name, "needs.py")
        return threading.get_ident()

    assert {await asyncio.to_thread(plainly)} == threads
    assert heard[:2] == ["mount", "run"]
    assert sorted(heard[2:4]) == ["done\n", "x"]
