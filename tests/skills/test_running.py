"""A script of a skill runs in the session that it was asked for, from the very version that was."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from reprise.client import (
    Actor,
    AsyncKernel,
    Output,
    ProgramMissing,
    Progress,
    SkillResult,
    StepFailed,
)
from reprise.errors import RepriseError, SkillNotFound, SkillRevoked, UntrustedCode, UsageError
from tests.fixtures.commands import Reprise
from tests.fixtures.skill_runs import SkillBench, skill_of

WHERE = """
import json, os, sys
print(json.dumps({
    "cwd": os.getcwd(), "args": sys.argv[1:], "script": sys.argv[0],
    "workspace": os.environ["REPRISE_WORKSPACE"], "scratch": os.environ["REPRISE_SCRATCH"],
    "skill": os.environ["REPRISE_SKILL"], "digest": os.environ["REPRISE_SKILL_DIGEST"],
    "more": os.environ.get("MORE"), "stdin": sys.stdin.read(),
}))
"""


@pytest.fixture(params=["process", "bubblewrap"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def told(kernel: AsyncKernel, *args: object, **options: object) -> dict[str, object]:
    ran = await kernel.run_skill(*args, check=True, **options)  # type: ignore[arg-type]
    found: dict[str, object] = json.loads(ran.stdout)
    return found


async def test_a_script_finds_its_folder_its_data_and_a_place_to_write(
    skill_bench: SkillBench,
) -> None:
    files = {"scripts/where.py": WHERE, "lib/words.py": "SAID = 'hello'\n"}
    files["scripts/more.py"] = (
        "import os, sys\n"
        "sys.path.insert(0, 'lib')\nimport words\nprint(words.SAID)\n"
        "scratch, workspace = os.environ['REPRISE_SCRATCH'], os.environ['REPRISE_WORKSPACE']\n"
        "open(f'{scratch}/temporary', 'w').write('x')\n"
        "open(f'{workspace}/made.txt', 'w').write(open(sys.argv[1]).read().upper())\n"
    )
    (skill_bench.folder / "data.txt").write_text("rentals")
    version = await skill_bench.add(files)
    kernel = await skill_bench.client()
    said = await told(
        kernel,
        version.name,
        "where.py",
        ["--in={workspace}/a b.csv", "", "{{workspace}}", "it's", "$HOME", "{scratch}"],
        stdin="from outside",
        env={"MORE": "yes"},
    )
    root, scratch = said["workspace"], said["scratch"]
    expected = [f"--in={root}/a b.csv", "", "{workspace}", "it's", "$HOME", scratch]
    assert said["args"] == expected
    assert (said["skill"], said["digest"]) == (version.name, version.digest)
    assert (said["stdin"], said["more"], said["script"]) == (
        "from outside",
        "yes",
        "scripts/where.py",
    )
    assert root == (await kernel.run("import os; print(os.getcwd())")).stdout.strip()

    ran = await kernel.run_skill(version.name, "more.py", ["{workspace}/data.txt"], check=True)
    assert ran.stdout == "hello\n"
    assert await kernel.read("made.txt") == b"RENTALS"
    kinds = [(each.step.kind, each.step.seq) for each in await kernel.steps()]
    assert [kind for kind, _ in kinds if kind != "upload"] == [
        "mount",
        "command",
        "cell",
        "command",
    ]
    assert ran.version == version
    assert ran.mounted is None  # it lay there already


async def test_the_very_folder_is_mounted_and_nothing_can_change_it(
    skill_bench: SkillBench, backend: str
) -> None:
    files = {
        "scripts/try.sh": "touch scripts/new || echo refused; stat -c %a scripts/a scripts/b\n",
        "scripts/a": (0o755, "#!/bin/sh\necho a\n"),
        "scripts/b": "b",
    }
    version = await skill_bench.add(files)
    kernel = await skill_bench.client()
    mounted = await kernel.mount_skill(version.name)
    assert mounted.step is not None
    assert mounted.step.tree == version.digest == mounted.skill.digest
    if backend == "bubblewrap":  # on `process` root may write anywhere
        ran = await kernel.run_skill(version.name, "try.sh")
        assert ran.stdout == "refused\n755\n644\n"
    assert (await kernel.run_skill(version.name, "a")).stdout == "a\n"
    step = (await kernel.steps(mounted.step.seq, mounted.step.seq + 1))[0].step
    assert step.payload["skill"] == {"name": version.name, "scope": "personal", "version": "1"}
    assert (await kernel.mount_skill(version.name)).step is None


async def test_a_new_version_is_mounted_in_place_of_the_old_one_and_back(
    skill_bench: SkillBench,
) -> None:
    first = await skill_bench.add({"scripts/a.py": "print(1)"})
    second = await skill_bench.add({"scripts/a.py": "print(2)"}, first.name)
    kernel = await skill_bench.client()
    seen = []
    for ref in (f"{first.name}@1", first.name, f"sha256:{first.digest}", second, first.reference):
        ran = await kernel.run_skill(ref, "a.py")
        seen.append((ran.stdout.strip(), ran.version.number, ran.mounted is not None))
    assert seen == [("1", 1, True), ("2", 2, True), ("1", 1, True), ("2", 2, True), ("1", 1, True)]


async def test_a_script_of_another_version_is_never_taken_for_this_ones(
    skill_bench: SkillBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await skill_bench.add({"scripts/a.py": "print(1)"})
    second = await skill_bench.add({"scripts/a.py": "print(2)"}, first.name)
    kernel = await skill_bench.client()
    other = await skill_bench.client(kernel.session, start=False)
    kept = kernel._skills._mounted

    async def overtaken(*args: Any) -> Any:
        found = await kept(*args)
        await other.mount_skill(second)
        return found

    monkeypatch.setattr(kernel._skills, "_mounted", overtaken)
    with pytest.raises(RepriseError, match=f"did not run {first.reference}"):
        await kernel.run_skill(first, "a.py")
    assert (await skill_bench.used(first)).runs == 0
    assert (await other.run_skill(second, "a.py", check=True)).stdout == "2\n"


async def test_how_a_script_ends_is_how_its_step_ends(skill_bench: SkillBench) -> None:
    version = await skill_bench.add(
        {
            "scripts/seven": "#!/bin/sh\necho out; echo err >&2; exit 7\n",
            "scripts/killed": "#!/bin/sh\nkill -TERM $$\n",
            "scripts/slow": "#!/bin/sh\necho begun\nsleep 600\n",
        }
    )
    kernel = await skill_bench.client()
    heard: list[Output] = []
    ran = await kernel.run_skill(version.name, "seven", on_output=heard.append)
    assert (ran.status, ran.exit_code, ran.stdout, ran.stderr) == ("error", 7, "out\n", "err\n")
    assert sorted((o.stream or "", o.text) for o in heard) == [
        ("stderr", "err\n"),
        ("stdout", "out\n"),
    ]
    with pytest.raises(StepFailed, match="exit code 7"):
        await kernel.run_skill(version.name, "seven", check=True)
    ran = await kernel.run_skill(version.name, "killed")
    assert (ran.exit_code, ran.signal) == (None, signal.SIGTERM)
    ran = await kernel.run_skill(version.name, "slow", timeout=1)
    assert (ran.status, ran.timed_out, ran.stdout) == ("timeout", True, "begun\n")
    usage = await skill_bench.used(version)
    assert (usage.mounts, usage.runs, usage.failures, usage.sessions) == (1, 0, 4, 1)


async def test_a_script_is_interrupted_as_any_step(skill_bench: SkillBench) -> None:
    slow = "import sys, time\nprint('begun', flush=True)\ntry:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    sys.exit('stopped')\n"
    version = await skill_bench.add({"scripts/slow.py": slow, "scripts/ok.py": "print('ok')"})
    kernel = await skill_bench.client()
    begun = asyncio.Event()
    running = asyncio.ensure_future(
        kernel.run_skill(version.name, "slow.py", on_output=lambda _: begun.set())
    )
    await asyncio.wait_for(begun.wait(), 120)
    await kernel.interrupt()
    ran = await asyncio.wait_for(running, 120)
    assert ran.status == "interrupted"
    assert ran.stdout == "begun\n"
    assert (await kernel.run_skill(version.name, "ok.py")).stdout == "ok\n"
    usage = await skill_bench.used(version)
    assert (usage.runs, usage.failures) == (1, 0)


async def test_a_key_runs_a_script_once(skill_bench: SkillBench) -> None:
    count = "import os\npath = os.environ['REPRISE_WORKSPACE'] + '/n'\nwith open(path, 'a') as f: f.write('x')\nprint(len(open(path).read()))\n"
    version = await skill_bench.add({"scripts/count.py": count})
    kernel = await skill_bench.client()
    ran = [await kernel.run_skill(version.name, "count.py", key="once") for _ in range(2)]
    assert [(each.stdout, each.repeated) for each in ran] == [("1\n", False), ("1\n", True)]
    assert (await skill_bench.used(version)).runs == 1
    # Another version is another thing to ask for, whatever its script is called.
    await skill_bench.add({"scripts/count.py": f"{count}\n# more\n"}, version.name)
    with pytest.raises(UsageError, match="key"):
        await kernel.run_skill(version.name, "count.py", key="once")


async def test_what_is_not_there_is_said_before_anything_happens(
    skill_bench: SkillBench, backend: str
) -> None:
    files = {"scripts/a.nim": "#!/usr/bin/env no-such-program\n", "scripts/b.py": "1"}
    version = await skill_bench.add(files)
    kernel = await skill_bench.client()
    with pytest.raises(ProgramMissing, match=r"a\.nim is run by no-such-program"):
        await kernel.run_skill(version.name, "a.nim")
    with pytest.raises(UsageError, match=r"Its scripts: scripts/a\.nim, scripts/b\.py"):
        await kernel.run_skill(version.name, "c.py")
    with pytest.raises(SkillNotFound):
        await kernel.run_skill("no-such-skill", "c.py")
    with pytest.raises(UsageError, match="a list of words"):
        await kernel.run_skill(version.name, "b.py", "not a list")
    assert [each for each in await kernel.steps() if each.step.kind == "mount"] == []


async def test_trust_is_asked_of_the_catalog_and_kept_by_the_kernel(
    skill_bench: SkillBench, backend: str
) -> None:
    version = await skill_bench.add({"scripts/a.py": "print('ran')"}, trust=False)
    kernel = await skill_bench.client()
    if backend == "process":
        with pytest.raises(UntrustedCode, match="nobody here has vouched for"):
            await kernel.run_skill(version.name, "a.py")
        assert [each for each in await kernel.steps() if each.step.kind == "mount"] == []
        await skill_bench.catalog.trust(version.digest)
    # Without a network nothing can be carried out.
    assert (await kernel.run_skill(version.name, "a.py")).stdout == "ran\n"

    await skill_bench.catalog.revoke(version.digest, reason="it reads too much")
    before = len(await kernel.steps())
    for ref in (version.name, version.reference, version):  # the last one says that it is trusted
        with pytest.raises(SkillRevoked, match="was revoked"):
            await kernel.run_skill(ref, "a.py")
        with pytest.raises(SkillRevoked, match="reprise skills history"):
            await kernel.mount_skill(ref)
    assert len(await kernel.steps()) == before
    assert (await kernel.run("1 + 1")).value == "2"  # the session goes on


async def test_a_trust_that_was_taken_back_is_asked_for_again(
    skill_bench: SkillBench, backend: str
) -> None:
    version = await skill_bench.add({"scripts/a.py": "print('ran')"})
    kernel = await skill_bench.client()
    assert (await kernel.run_skill(version.name, "a.py")).mounted is not None
    await skill_bench.catalog.distrust(version.digest)
    if backend == "process":
        with pytest.raises(UntrustedCode):
            await kernel.run_skill(version.name, "a.py")
    else:
        assert (await kernel.run_skill(version.name, "a.py")).mounted is not None


async def test_who_asks_is_who_asked(skill_bench: SkillBench) -> None:
    version = await skill_bench.add({"scripts/a.py": "print(1)"})
    kernel = await skill_bench.client()
    agent = Actor("agent", "talk", 3)
    await kernel.run_skill(version.name, "a.py", actor=agent, check=True)
    await kernel.run_skill(version.name, "a.py", check=True)
    steps = [
        each.step.new for each in await kernel.steps() if each.step.kind in ("mount", "command")
    ]
    assert [step.actor.kind for step in steps] == ["agent", "agent", "user"]
    assert steps[0].actor == steps[1].actor == agent


async def test_what_it_says_of_itself_is_shown_and_checked(skill_bench: SkillBench) -> None:
    front = (
        "compatibility: Requires Python 3.99+, git, quarto and access to the internet\n"
        "allowed-tools: Bash(git:*) Read\n"
    )
    version = await skill_bench.add({"scripts/a.py": "print(1)"}, front=front)
    kernel = await skill_bench.client()
    heard: list[Progress] = []
    ran = await kernel.run_skill(version.name, "a.py", on_progress=heard.append, check=True)
    assert ran.allowed_tools == ("Bash(git:*)", "Read")
    assert ran.compatibility is not None
    said = " ".join(ran.warnings)
    assert "asks for Python >=3.99" in said
    assert "asks for quarto" in said
    kinds = [each.kind for each in heard]
    assert kinds[0] == "mount"
    assert kinds[-1] == "run"
    assert tuple(each.text for each in heard if each.kind == "warning") == ran.warnings


async def test_one_that_is_deprecated_is_warned_of(skill_bench: SkillBench) -> None:
    version = await skill_bench.add({"scripts/a.py": "print(1)"})
    await skill_bench.catalog.release(version.reference)
    await skill_bench.catalog.deprecate(version.reference, "use another")
    kernel = await skill_bench.client()
    ran = await kernel.run_skill(version.reference, "a.py", check=True)
    assert any("is deprecated" in each for each in ran.warnings)


async def test_a_skill_that_comes_with_reprise_runs_as_it_is_shipped(
    skill_bench: SkillBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reprise.skills import meant

    shipped = skill_of("comes-along", {"scripts/a.py": "print('first')"})
    monkeypatch.setattr(
        meant, "find_shipped", lambda name: shipped if name == shipped.name else None
    )
    kernel = await skill_bench.client()
    await skill_bench.catalog.trust(shipped.digest)  # as `shipped_digests` makes it
    ran = await kernel.run_skill("comes-along", "a.py", check=True)
    assert (ran.stdout, ran.version.origin.kind, ran.version.number) == ("first\n", "shipped", 1)
    assert (await kernel.run_skill("comes-along", "a.py")).version.number == 1
    # An upgrade brings another one; who named a version keeps that.
    again = skill_of("comes-along", {"scripts/a.py": "print('second')"})
    monkeypatch.setattr(meant, "find_shipped", lambda name: again)
    await skill_bench.catalog.trust(again.digest)
    assert (await kernel.run_skill("comes-along", "a.py")).stdout == "second\n"
    assert (await kernel.run_skill("comes-along@1", "a.py")).stdout == "first\n"


async def test_a_large_skill_comes_in_too(skill_bench: SkillBench) -> None:
    files: dict[str, str | bytes | tuple[int, str | bytes]] = {
        f"data/{n}.bin": bytes([n]) * (1 << 20) for n in range(6)
    }
    files["scripts/a.py"] = (
        "import os\nprint(sum(os.path.getsize(f'data/{n}.bin') for n in range(6)))"
    )
    version = await skill_bench.add(files)
    kernel = await skill_bench.client()
    assert (await kernel.run_skill(version.name, "a.py", check=True)).stdout == f"{6 << 20}\n"


# the session afterwards ---------------------------------------------------------------------------


async def test_a_session_plays_the_same_whatever_becomes_of_the_skill(
    skill_bench: SkillBench, backend: str, tmp_path: Path
) -> None:
    first = "import os\nprint('first')\nopen(os.environ['REPRISE_WORKSPACE'] + '/out', 'w').write('1')\n"
    version = await skill_bench.add({"scripts/a.py": first})
    kernel = await skill_bench.client()
    ran = await kernel.run_skill(version.name, "a.py", check=True)
    await kernel.run("seen = open('out').read()")

    await skill_bench.add({"scripts/a.py": "raise SystemExit('another one')"}, version.name)
    if backend == "bubblewrap":  # where no wall is, what was revoked stays out of replays, too
        await skill_bench.catalog.revoke(version.digest, reason="for this test")
    # The sandbox dies; the next one plays the steps again, mount and script included.
    died = await kernel.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert died.status == "died"
    assert (await kernel.run("seen")).value == "'1'"
    assert (await kernel.command(["cat", "out"])).stdout == "1"
    if backend == "bubblewrap":
        assert (
            "first"
            in (await kernel.command(["cat", f"/skills/{version.name}/scripts/a.py"])).stdout
        )
    session = kernel.session
    await kernel.close()

    reprise = Reprise(tmp_path / "home", skill_bench.environ)
    verified = reprise("verify", str(session), "--json", cwd=skill_bench.folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    # Nor does it matter to a kernel that is started later.
    again = await skill_bench.client(session)
    assert (await again.run("seen")).value == "'1'"
    fork = await again.fork(ran.seq)
    other = await skill_bench.client(fork)
    assert (await other.read("out")) == b"1"


async def test_a_fork_has_what_was_mounted_before(skill_bench: SkillBench) -> None:
    version = await skill_bench.add({"scripts/a.py": "print(1)"})
    kernel = await skill_bench.client()
    ran = await kernel.run_skill(version.name, "a.py", check=True)
    assert ran.mounted is not None
    before = await skill_bench.client(
        await kernel.fork(ran.mounted.seq - 1 if ran.mounted.seq else None)
    )
    after = await skill_bench.client(await kernel.fork(ran.seq))
    assert (await after.run_skill(version.name, "a.py")).mounted is None
    results: list[SkillResult] = [await before.run_skill(version.name, "a.py")]
    assert results[0].stdout == "1\n"


async def test_a_mount_that_did_not_end_well_is_made_again(skill_bench: SkillBench) -> None:
    version = await skill_bench.add({"scripts/a.py": "print(1)"})
    kernel = await skill_bench.client()
    await kernel.mount_skill(version.name)
    await kernel.restart()
    assert (await kernel.run_skill(version.name, "a.py")).mounted is None
    assert await kernel.reset() > 0
    assert (await kernel.run_skill(version.name, "a.py")).stdout == "1\n"
