"""Cells, commands, uploads and mounts of one session share order, files and history."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import uuid
from pathlib import Path

import pytest

from reprise.client import (
    AsyncKernel,
    Bound,
    KernelGone,
    NoAnswer,
    Output,
    Patience,
    Refused,
    StepFailed,
)
from reprise.errors import GuestCallFailed, RepriseError, TooLarge, UsageError
from tests.client.conftest import Connect


async def kinds(kernel: AsyncKernel) -> list[str]:
    """The kinds of the steps that were asked for."""
    return [s.step.kind for s in await kernel.steps() if s.step.new.actor.kind != "system"]


async def test_cells_and_commands_share_files_and_one_order(kernel: AsyncKernel) -> None:
    first = await kernel.run("open('from_cell.txt', 'w').write('cell\\n'); print('made')")
    assert (first.status, first.text) == ("ok", "made\n")
    second = await kernel.command("cat from_cell.txt; echo command > from_command.txt")
    assert (second.exit_code, second.stdout) == (0, "cell\n")
    third = await kernel.run("print(open('from_command.txt').read(), end='')", check=True)
    assert third.stdout == "command\n"
    await kernel.upload(b"uploaded\n", "from_upload.txt")
    fourth = await kernel.command(["cat", "from_upload.txt", "from_command.txt"])
    assert fourth.stdout == "uploaded\ncommand\n"
    assert await kernel.read("from_command.txt") == b"command\n"
    assert await kinds(kernel) == ["cell", "command", "cell", "upload", "command"]
    seqs = [first.seq, second.seq, third.seq, fourth.seq]
    assert seqs == sorted(seqs)


async def test_steps_asked_at_once_run_in_the_order_asked(kernel: AsyncKernel) -> None:
    await kernel.run("import os")
    asked: list[asyncio.Future[object]] = []
    for number in range(6):
        code = f"open('log.txt', 'a').write('{number} ')"
        text = f"printf '{number} ' >> log.txt"
        running = kernel.stream(code) if number % 2 else kernel.stream_command(text)
        asked.append(asyncio.ensure_future(_wait(running)))
    await asyncio.gather(*asked)
    assert await kernel.read("log.txt") == b"0 1 2 3 4 5 "


async def _wait(running: object) -> object:
    return await running  # type: ignore[misc]


async def test_outputs_come_while_the_step_runs(kernel: AsyncKernel) -> None:
    seen = asyncio.Event()

    async def answer(prompt: str, password: bool) -> str:
        # The cell goes on only after its first output was seen.
        await asyncio.wait_for(seen.wait(), 60)
        return ""

    running = kernel.stream("print('first', flush=True); input(); print('second')", on_input=answer)
    text = ""
    async for output in running:
        text += output.text
        if "first" in text:
            assert seen.is_set() or not running.done
            seen.set()
    assert text == "first\nsecond\n"
    assert (await running).stdout == "first\nsecond\n"
    assert [o async for o in running] == []  # over; and no second iteration hangs


async def test_a_callback_gets_each_output(kernel: AsyncKernel) -> None:
    heard: list[Output] = []
    result = await kernel.command("echo out; echo err >&2", on_output=heard.append)
    assert sorted((o.stream, o.text) for o in heard) == [("stderr", "err\n"), ("stdout", "out\n")]
    assert (result.stdout, result.stderr) == ("out\n", "err\n")


async def test_errors_are_results_unless_checked(kernel: AsyncKernel) -> None:
    result = await kernel.run("1/0")
    assert result.status == "error"
    assert result.error is not None
    assert (result.error.name, result.error.text) == ("ZeroDivisionError", "division by zero")
    assert any("ZeroDivisionError" in line for line in result.error.traceback)
    with pytest.raises(StepFailed, match="ZeroDivisionError"):
        await kernel.run("1/0", check=True)
    failed = await kernel.command("exit 7")
    assert (failed.status, failed.exit_code) == ("error", 7)
    with pytest.raises(StepFailed):
        await kernel.command("exit 7", check=True)
    # Unlike cells queued behind a failing cell, nothing here is aborted.
    assert (await kernel.run("6 * 7")).value == "42"


async def test_a_command_is_given_its_place_variables_and_input(kernel: AsyncKernel) -> None:
    await kernel.upload(b"x", "deep/er/x")
    result = await kernel.command(
        'pwd; echo "$ONE"; cat', cwd="deep/er", env={"ONE": "é 1"}, stdin="first\nlast"
    )
    lines = result.stdout.splitlines()
    assert lines[0].endswith("deep/er")
    assert lines[1:] == ["é 1", "first", "last"]
    large = bytes(range(256)) * 4096
    counted = await kernel.command(["sha256sum"], stdin=large)
    assert counted.stdout.split()[0] == __import__("hashlib").sha256(large).hexdigest()


async def test_a_command_over_its_time_is_ended(kernel: AsyncKernel) -> None:
    result = await kernel.command("echo begun; sleep 600", timeout=1.0)
    assert (result.status, result.timed_out, result.stdout) == ("timeout", True, "begun\n")
    assert (await kernel.command("echo still here")).stdout == "still here\n"


async def test_a_command_ended_by_a_signal_says_which(kernel: AsyncKernel) -> None:
    result = await kernel.command("kill -TERM $$")
    assert (result.exit_code, result.signal) == (None, signal.SIGTERM)


async def test_output_past_its_bound_is_cut_and_whole_in_a_file(kernel: AsyncKernel) -> None:
    result = await kernel.command("seq 1 30000", output_bytes=1000)
    assert result.ok
    assert result.stdout_end.cut
    assert len(result.stdout) <= 1000
    assert result.stdout_end.file is not None
    whole = await kernel.read(result.stdout_end.file)
    assert whole.splitlines()[-1] == b"30000"
    assert len(whole) == result.stdout_end.bytes
    by_lines = await kernel.command("seq 1 30000", output_lines=10)
    assert by_lines.stdout == "".join(f"{n}\n" for n in range(1, 11))
    assert by_lines.stdout_end.lines == 30000


async def test_huge_output_of_a_cell_leaves_the_client_alive(kernel: AsyncKernel) -> None:
    result = await kernel.run("for n in range(200_000): print('x' * 100)")
    assert result.status == "ok"
    assert 0 < len(result.stdout) <= 17 << 20  # the kernel's bound on one step, and its mark
    assert (await kernel.run("6 * 7")).value == "42"


async def test_a_background_command_is_listed_read_and_stopped(kernel: AsyncKernel) -> None:
    background = await kernel.background("echo begun; echo oh >&2; exec sleep 600")
    while await background.read() != b"begun\n":
        assert (await background.status()).running
    assert (await kernel.command("echo beside it")).stdout == "beside it\n"
    (listed,) = await kernel.background_commands()
    assert (listed.command, listed.running) == (background.command, True)
    assert await background.read("stderr") == b"oh\n"
    assert await background.read(offset=3) == b"un\n"
    with pytest.raises(NoAnswer):
        await background.wait(0.3)
    stopped = await background.stop()
    assert stopped.ok
    status = await background.wait(30)
    assert (status.running, status.signal) == (False, signal.SIGTERM)
    ends = await kernel.background("exit 3")
    assert (await ends.wait(30)).exit_code == 3
    with pytest.raises(UsageError, match="no background command"):
        await kernel.background_command(99_999).status()


async def test_a_folder_is_uploaded_with_modes_and_any_names(
    kernel: AsyncKernel, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    names = ["plain.txt", "with space", "ünïcödé-日本", "new\nline", "-n"]
    for name in names:
        (source / name).write_text(name)
    raw = Path(os.fsdecode(os.fsencode(source) + b"/\xff\xfe raw"))
    raw.write_bytes(b"\xff")
    (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o755)
    (source / "empty").mkdir()
    done = await kernel.upload(source, "in/folder")
    assert (done.files, done.bytes) == (7, sum(len(n.encode()) for n in names) + 1 + 19)
    assert (await kernel.command("in/folder/run.sh")).stdout == "ran\n"
    listed = await kernel.run("import os; print(sorted(os.listdir(b'in/folder')))", check=True)
    there = sorted([*(n.encode() for n in names), b"\xff\xfe raw", b"run.sh", b"empty"])
    assert listed.stdout.strip() == repr(there)
    entries = {entry.path: entry for entry in await kernel.files()}
    assert entries["in/folder/\udcff\udcfe raw"].size == 1
    assert entries["in/folder/run.sh"].mode == 0o755
    assert await kernel.read("in/folder/\udcff\udcfe raw") == b"\xff"
    artifact = await kernel.get("in/folder/\udcff\udcfe raw", tmp_path / "out.bin")
    assert (tmp_path / "out.bin").read_bytes() == b"\xff"
    assert [each.path for each in await kernel.artifacts()] == [artifact.path]


async def test_a_large_upload_goes_through_the_log(kernel: AsyncKernel, tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.mkdir()
    for number in range(5):
        (source / f"{number}.bin").write_bytes(bytes([number]) * (9 << 20))
    done = await kernel.upload(source, "big")
    assert (done.files, done.bytes) == (5, 45 << 20)
    assert (await kernel.command("cat big/*.bin | wc -c")).stdout.strip() == str(45 << 20)
    with pytest.raises(TooLarge):
        await kernel.upload(source, "again", bound=Bound(bytes=1 << 20))


async def test_what_leads_out_of_the_workspace_is_refused(
    kernel: AsyncKernel, tmp_path: Path
) -> None:
    for place in ("../x", "/etc/x", "a/../../x"):
        with pytest.raises(UsageError):
            await kernel.upload(b"x", place)
        with pytest.raises(UsageError):
            await kernel.read(place)
    await kernel.command(f"ln -s {tmp_path} out")
    (tmp_path / "secret").write_text("host")
    with pytest.raises((GuestCallFailed, UsageError)):
        await kernel.read("out/secret")
    await kernel.upload(b"x", "out/planted", check=False)
    assert not (tmp_path / "planted").exists()


async def test_a_mount_is_named_by_its_digest_and_read_only(
    kernel: AsyncKernel, tmp_path: Path, backend: str
) -> None:
    skill = tmp_path / "greet"
    skill.mkdir()
    (skill / "SKILL.md").write_text("# greet\n")
    (skill / "go").write_text("#!/bin/sh\necho hello\n")
    (skill / "go").chmod(0o755)
    mounted = await kernel.mount(skill)
    assert mounted.files == 2
    assert (await kernel.command([f"{mounted.path}/go"])).stdout == "hello\n"
    shown = await kernel.command(f"cat {mounted.path}/SKILL.md")
    assert shown.stdout == "# greet\n"
    (skill / "SKILL.md").write_text("# changed\n")
    assert (await kernel.command(f"cat {mounted.path}/SKILL.md")).stdout == "# greet\n"
    written = await kernel.command(f"echo x > {mounted.path}/SKILL.md")
    # Without isolation its files have no write permission, which root does not need.
    assert not written.ok or (backend == "process" and os.geteuid() == 0)
    again = await kernel.mount(skill)
    assert again.tree != mounted.tree
    assert (await kernel.command(f"cat {again.path}/SKILL.md")).stdout == "# changed\n"
    for wrong in ("skills/x", "/etc/x"):
        with pytest.raises(RepriseError):
            await kernel.mount(skill, wrong)


async def test_input_is_asked_of_the_caller(kernel: AsyncKernel) -> None:
    asked: list[tuple[str, bool]] = []

    async def answer(prompt: str, password: bool) -> str:
        asked.append((prompt, password))
        return "Ada"

    result = await kernel.run("name = input('who? '); print('hello', name)", on_input=answer)
    assert result.stdout == "hello Ada\n"
    assert asked == [("who? ", False)]
    refused = await kernel.run("input('who? ')")
    assert refused.error is not None
    assert refused.error.name == "StdinNotImplementedError"


async def test_interrupts_and_times_end_a_step(kernel: AsyncKernel) -> None:
    running = kernel.stream("import time\nx = 1\nprint('on', flush=True)\ntime.sleep(600)")
    async for output in running:
        assert output.text == "on\n"
        break
    await running.interrupt()
    result = await running
    assert result.status == "interrupted"
    assert (await kernel.run("x")).value == "1"  # what was done before the cut is kept
    timed = await kernel.run("time.sleep(600)", timeout=0.5)
    assert timed.status == "interrupted"
    command = kernel.stream_command("echo on; sleep 600")
    async for output in command:
        assert output.text == "on\n"
        break
    await kernel.interrupt()
    assert (await command).status == "interrupted"


async def test_requests_that_are_wrong_run_nothing(kernel: AsyncKernel) -> None:
    with pytest.raises(UsageError):
        await kernel.command("true", timeout=-1)
    with pytest.raises(UsageError):
        await kernel.run("1", key="")
    with pytest.raises(UsageError):
        await kernel.upload(b"x")
    with pytest.raises(RepriseError):
        await kernel.mount(Path("/nowhere"))
    assert await kinds(kernel) == []


async def test_files_are_read_and_compared_as_of_a_past_step(
    kernel: AsyncKernel, backend: str
) -> None:
    await kernel.run("open('a.txt', 'w').write('one\\n')")
    first = (await kernel.steps())[-1].step.seq
    await kernel.command("echo two >> a.txt; echo new > b.txt; printf '\\0\\1' > c.bin")
    assert await kernel.read("a.txt") == b"one\ntwo\n"
    changed = {change.path: change for change in await kernel.changes(first)}
    diff = changed["a.txt"].diff
    assert diff is not None
    assert "+two" in diff
    if backend == "bubblewrap":  # else the past is built on a copy of today's folder
        assert (changed["b.txt"].kind, changed["c.bin"].diff) == ("added", None)
    # The live workspace was not touched, and goes on.
    assert (await kernel.command("cat a.txt")).stdout == "one\ntwo\n"
    with pytest.raises(UsageError, match="no step"):
        await kernel.files(at=99)


async def test_a_past_state_is_built_beside(connect: Connect, backend: str) -> None:
    if backend == "process":
        pytest.skip("without a workspace of its own, the past is built on today's folder")
    kernel = await connect()
    await kernel.run("open('a.txt', 'w').write('one')")
    seq = (await kernel.steps())[-1].step.seq
    await kernel.command("rm a.txt; echo > b.txt")
    assert await kernel.read("a.txt", at=seq) == b"one"
    assert [e.path for e in await kernel.files(at=seq) if not e.path.startswith(".")] == ["a.txt"]
    async with kernel.at(seq) as past:
        assert await past.read("a.txt") == b"one"
        assert [e.path for e in await past.manifest(hashes=True)] == [
            e.path for e in await kernel.files(at=seq)
        ]
    with pytest.raises(RepriseError):
        await kernel.read("a.txt")


async def test_a_fork_goes_its_own_way_and_a_rewind_moves_the_kernel(kernel: AsyncKernel) -> None:
    await kernel.run("x = 1")
    at = (await kernel.steps())[-1].step.seq
    await kernel.run("x = 2")
    begun = kernel.session
    fork = await kernel.fork(at)
    assert fork != begun
    assert (await kernel.run("x")).value == "2"
    rewound = await kernel.rewind(at)
    assert kernel.session == rewound
    assert (await kernel.run("x")).value == "1"
    await kernel.run("x = 10")
    await kernel.attach(begun)
    assert (await kernel.run("x")).value == "2"
    await kernel.attach(str(rewound))
    assert (await kernel.run("x")).value == "10"
    with pytest.raises(RepriseError):
        await kernel.attach(uuid.uuid4())
    assert (await kernel.run("x")).value == "10"


async def test_artifacts_are_kept_with_who_and_when(kernel: AsyncKernel, tmp_path: Path) -> None:
    await kernel.run("open('r.csv', 'w').write('1,2\\n')")
    artifact = await kernel.get("r.csv")
    await kernel.command("rm r.csv")
    (found,) = await kernel.artifacts()
    assert (found.id, found.sha256, found.path, found.size) == (
        artifact.id,
        artifact.sha256,
        "r.csv",
        4,
    )
    assert found.actor is not None
    assert found.actor.kind == "user"
    assert await kernel.artifact_bytes(found) == b"1,2\n"
    target = tmp_path / "there"
    target.write_text("mine")
    await kernel.upload(b"1,2\n", "r.csv")
    with pytest.raises(UsageError, match="is there already"):
        await kernel.get("r.csv", target)
    assert target.read_text() == "mine"
    await kernel.get("r.csv", target, force=True)
    assert target.read_text() == "1,2\n"
    with pytest.raises(GuestCallFailed):
        await kernel.get("missing.csv", tmp_path / "never")
    assert not (tmp_path / "never").exists()


async def test_a_restart_keeps_files_and_a_reset_does_not(
    kernel: AsyncKernel, backend: str
) -> None:
    await kernel.run("x = 1; open('kept.txt', 'w').close()")
    await kernel.restart()
    result = await kernel.run("x")
    assert result.error is not None
    assert result.error.name == "NameError"
    assert result.execution_count == 1
    assert "kept.txt" in [entry.path for entry in await kernel.files()]
    await kernel.reset()
    gone = "kept.txt" not in [entry.path for entry in await kernel.files()]
    assert gone == (backend == "bubblewrap")  # else the workspace is the user's own folder
    assert [k for k in await kinds(kernel) if k == "restart"] == ["restart"] * 2


async def test_a_state_tells_what_stands_in_the_sandbox(kernel: AsyncKernel) -> None:
    await kernel.run("x = 41")
    before = await kernel.state()
    await kernel.run("x = 42")
    after = await kernel.state()
    assert after.seq == before.seq + 1
    assert after.variables != before.variables
    assert json.dumps(after.variables)


async def test_notices_reach_who_listens(connect: Connect, backend: str) -> None:
    kernel = await connect()
    heard: list[str] = []
    kernel.on_notice(lambda notice: heard.append(str(notice["code"])))
    await kernel.run("x = 1")
    await kernel.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (await kernel.run("x")).value == "1"
    assert "resumed" in heard


async def test_a_session_that_no_kernel_may_be_started_for(connect: Connect) -> None:
    with pytest.raises(KernelGone, match="told to start none"):
        await connect(uuid.uuid4(), start=False)
    with pytest.raises(UsageError, match="whole id"):
        await connect("3f2a")
    with pytest.raises(UsageError, match="no folder"):
        await connect(folder=Path("/nowhere/at/all"))
    with pytest.raises(UsageError, match="no kernel named"):
        await connect(kernel="nonsense")


async def test_a_kernel_that_cannot_start_says_why(connect: Connect) -> None:
    with pytest.raises(KernelGone, match="did not start"):
        await connect(env={"REPRISE_ENVIRONMENT": "there-is-none"}, patience=Patience(start=60))
    assert issubclass(Refused, RepriseError)
