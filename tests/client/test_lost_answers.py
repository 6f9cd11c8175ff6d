"""An answer that is lost is asked for again: the first one comes, and nothing runs twice."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from reprise.client import (
    Actor,
    AsyncKernel,
    ClientClosed,
    KernelGone,
    Output,
    Patience,
    StepResult,
    aconnect,
)
from reprise.client import line as line_module
from reprise.client import reach as reach_module
from reprise.errors import LeaseHeld, RepriseError, UsageError
from reprise.jupyter.sidecar import read_sidecar
from reprise.log.postgres import Log
from reprise.log.store import SessionInfo
from tests.client.conftest import Connect
from tests.fixtures.kernel import Database, Kernel, Kernels

Ask = Callable[[AsyncKernel, str, Callable[[Output], None]], Awaitable[StepResult]]


async def a_cell(kernel: AsyncKernel, key: str, show: Callable[[Output], None]) -> StepResult:
    code = "print('one'); n = globals().get('n', 0) + 1; n"
    return await kernel.run(code, key=key, on_output=show)


async def a_command(kernel: AsyncKernel, key: str, show: Callable[[Output], None]) -> StepResult:
    return await kernel.command("echo one; echo x >> log.txt", key=key, on_output=show)


async def an_upload(kernel: AsyncKernel, key: str, show: Callable[[Output], None]) -> StepResult:
    return await kernel.upload(b"data", "in.txt", key=key, check=False)


#: Where the kernel process is killed → how the step ended, and whether its answer is a repeated one.
POINTS = {
    "before-step-commit": ("ok", False),
    "after-step-commit": ("lost", True),
    "before-outcome-commit": ("lost", True),
    "after-outcome-commit": ("ok", True),
    "before-told": ("ok", True),
}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("ask", [a_cell, a_command, an_upload])
async def test_a_kernel_killed_before_it_answered_runs_nothing_twice(
    connect: Connect, tmp_path: Path, backend: str, point: str, ask: Ask
) -> None:
    if backend == "bubblewrap" and ask is not a_command:
        pytest.skip("the way of the answer is the same on both; once each is enough")
    armed = tmp_path / "armed"
    kernel = await connect(env={"REPRISE_FAILPOINT": f"@{armed}"})
    await kernel.run("before = 1")
    await kernel.files()  # what the first step left to record is recorded
    first_pid = pid_of(kernel)
    armed.write_text(f"{point}:kill")
    shown: list[Output] = []
    result = await ask(kernel, "the key", shown.append)
    assert not armed.exists(), "the point was not reached"
    assert pid_of(kernel) != first_pid
    status, repeated = POINTS[point]
    assert (result.status, result.repeated, result.key) == (status, repeated, "the key")
    steps = [s for s in await kernel.steps() if s.step.new.key == "the key"]
    assert [s.step.seq for s in steps] == [result.seq]
    assert steps[0].outcome is not None
    assert steps[0].outcome.status == status
    assert result.digest == steps[0].step.digest.hex()
    if status == "ok":
        assert "".join(o.text for o in shown) == result.text
    # Asked once more, by hand, it is still the first answer.
    again = await ask(kernel, "the key", lambda _: None)
    assert (again.seq, again.status, again.repeated) == (result.seq, status, True)
    assert again.text == result.text
    # The session goes on, and stands where it was.
    assert (await kernel.run("before")).text == "1"


def pid_of(kernel: AsyncKernel) -> int:
    """Of the kernel's process, which writes it down once it has its session."""
    assert kernel.connection_file is not None
    deadline = time.monotonic() + 60
    while (found := read_sidecar(kernel.connection_file)) is None:
        assert time.monotonic() < deadline, "the kernel has no session"
        time.sleep(0.01)
    return int(found["pid"])


async def test_a_key_is_remembered_by_the_session_not_by_the_client(connect: Connect) -> None:
    first = await connect()
    made = await first.command("echo once; date +%s%N", key="k")
    await first.close()
    second = await connect(first.session)
    again = await second.command("echo once; date +%s%N", key="k")
    assert (again.seq, again.stdout, again.repeated) == (made.seq, made.stdout, True)
    with pytest.raises(RepriseError):
        await second.command("echo another", key="k")
    fork = await second.fork()
    await second.attach(fork)
    shared = await second.command("echo once; date +%s%N", key="k")
    assert (shared.seq, shared.stdout, shared.repeated) == (made.seq, made.stdout, True)


async def test_two_clients_at_once_with_one_key_run_it_once(connect: Connect) -> None:
    first = await connect()
    second = await connect(first.session)
    assert not second.started
    assert second.connection_file == first.connection_file
    results = await asyncio.gather(
        *(each.command("echo $$; echo x >> log.txt", key="both") for each in (first, second) * 3)
    )
    assert len({result.seq for result in results}) == 1
    assert len({result.stdout for result in results}) == 1
    assert sum(not result.repeated for result in results) == 1
    assert await first.read("log.txt") == b"x\n"


async def test_two_clients_see_only_their_own_outputs(connect: Connect) -> None:
    first = await connect()
    second = await connect(first.session)
    results = await asyncio.gather(
        *(
            each.run(f"print('{name}', {n})")
            for n in range(5)
            for name, each in (("a", first), ("b", second))
        )
    )
    assert [r.stdout for r in results] == [f"{name} {n}\n" for n in range(5) for name in "ab"]


def serving(kernels: Kernels, backend: str) -> Kernel:
    """A kernel of somebody else's that has taken its session."""
    theirs = kernels(backend)
    assert theirs.client().run("1").status == "ok"
    return theirs


async def test_a_kernel_that_its_owner_starts_again_is_found(
    connect: Connect, kernels: Kernels, backend: str
) -> None:
    theirs = kernels(backend)
    theirs.connection()  # written; the kernel itself is still starting
    client = await connect(connection_file=theirs.path, start=False)
    assert client.session == theirs.session
    assert (await client.run("x = 5; x")).value == "5"
    theirs.kill("router")
    asked = asyncio.ensure_future(client.run("x + 1"))
    await asyncio.sleep(0)
    again = kernels.again(theirs)
    result = await asked
    assert result.value == "6"
    assert not client.started
    assert again.alive


async def test_when_nobody_starts_it_again_the_client_does(
    connect: Connect, kernels: Kernels, backend: str
) -> None:
    theirs = serving(kernels, backend)
    client = await connect(theirs.session, patience=Patience(back=0.5))
    assert not client.started
    await client.run("x = 5")
    theirs.kill("router")
    assert (await client.run("x")).value == "5"
    assert client.started


async def test_a_client_that_may_start_none_says_that_it_is_gone(
    connect: Connect, kernels: Kernels, backend: str
) -> None:
    theirs = serving(kernels, backend)
    client = await connect(theirs.session, start=False, patience=Patience(back=0.5))
    running = client.stream("import time\nprint('on', flush=True)\ntime.sleep(600)")
    async for _ in running:
        theirs.kill("router")
    with pytest.raises(KernelGone, match="told to start none"):
        await running


async def test_a_session_held_elsewhere_is_refused_with_who_holds_it(
    connect: Connect, database: Database
) -> None:
    log = await Log.connect(database.dsn, home=database.home)
    try:
        session = await log.begin(kernel="python3")
        writer = await log.acquire(session, {"pid": 1, "host": "another-machine"})
        with pytest.raises(LeaseHeld, match="another-machine"):
            await connect(session)
        await writer.close()
        kernel = await connect(session)
        assert (await kernel.run("1")).ok
    finally:
        await log.close()


async def test_a_connection_file_of_no_kernel_is_refused(connect: Connect, tmp_path: Path) -> None:
    with pytest.raises(RepriseError, match="cannot be used"):
        await connect(connection_file=tmp_path / "missing.json")
    (tmp_path / "bad.json").write_text("[]")
    with pytest.raises(RepriseError, match="cannot be used"):
        await connect(connection_file=tmp_path / "bad.json")


async def test_without_a_process_to_watch_the_heartbeat_tells_of_the_end(
    connect: Connect, kernels: Kernels, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = serving(kernels, backend)
    monkeypatch.setattr(line_module, "kernel_pid", lambda _: None)
    client = await connect(theirs.session, start=False, patience=Patience(back=0.5, heartbeat=1.0))
    running = client.stream("import time\nprint('on', flush=True)\ntime.sleep(600)")
    async for _ in running:
        theirs.kill("router")
    with pytest.raises(KernelGone):
        await running


async def test_closing_while_something_runs_ends_both_soon(connect: Connect) -> None:
    kernel = await connect()
    pid = pid_of(kernel)
    running = kernel.stream("import time\nprint('on', flush=True)\ntime.sleep(600)")
    async for _ in running:
        break
    waiting = asyncio.ensure_future(kernel.command("echo never"))
    await asyncio.wait_for(kernel.close(), 60)
    with pytest.raises(ClientClosed):
        await running
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await kernel.run("1")
    assert not psutil.pid_exists(pid)
    await kernel.close()
    # What ran is in the log as it ended; what waited never became a step.
    after = await connect(kernel.session)
    cells = [s for s in await after.steps() if s.step.kind in ("cell", "command")]
    assert len(cells) == 1
    assert cells[0].outcome is not None
    assert cells[0].outcome.status in ("interrupted", "died", "lost")


async def test_who_stops_waiting_leaves_the_step_running(kernel: AsyncKernel) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(kernel.run("import time; time.sleep(600)", key="long"), 1)
    await kernel.interrupt()
    found = await kernel.run("import time; time.sleep(600)", key="long")
    assert (found.status, found.repeated) == ("interrupted", True)


async def test_a_dead_sandbox_is_a_result_and_the_next_step_works(kernel: AsyncKernel) -> None:
    await kernel.run("x = 1")
    died = await kernel.run("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert died.status == "died"
    assert died.error is not None
    assert (await kernel.run("x")).value == "1"


async def test_a_stopped_kernel_is_waited_for(connect: Connect) -> None:
    kernel = await connect()
    pid = pid_of(kernel)
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = asyncio.ensure_future(kernel.run("6 * 7"))
        done, _ = await asyncio.wait([asked], timeout=1.0)
        assert not done
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (await asked).value == "42"


async def test_a_session_id_of_a_notebook_leads_to_its_session(
    connect: Connect, folder: Path
) -> None:
    notebook = folder / "work.ipynb"
    notebook.write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    first = await connect(notebook=notebook, folder=None)
    await first.run("x = 1")
    await first.close()
    second = await connect(notebook=notebook, folder=None)
    assert second.session == first.session
    assert (await second.run("x")).value == "1"
    other = await connect(notebook=folder / "other.ipynb", folder=None)
    assert other.session != first.session
    assert isinstance(other.session, uuid.UUID)


async def test_a_session_of_an_unknown_folder_brings_no_other_ones_files(
    connect: Connect, tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend == "process":
        pytest.skip("the workspace is the folder there")
    (tmp_path / "project" / "mine.txt").write_text("mine")
    first = await connect()
    await first.run("1")
    await first.close()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "foreign.txt").write_text("x")
    monkeypatch.chdir(elsewhere)
    second = await connect(first.session, folder=None)
    await second.run("1")
    names = [entry.path for entry in await second.files()]
    assert "mine.txt" in names
    assert "foreign.txt" not in names
    with pytest.raises(UsageError):
        await second.upload(b"", "")


async def test_a_client_follows_its_kernel_to_another_session(connect: Connect) -> None:
    first = await connect()
    second = await connect(first.session)
    await first.run("x = 1")
    begun = first.session
    fork = await first.fork()
    await first.attach(fork)
    assert (await second.run("x")).value == "1"
    assert second.session == fork != begun
    os.kill(pid_of(first), signal.SIGKILL)
    # Whoever comes back first starts the kernel of the session that it had gone to.
    assert (await first.run("x = x + 1; x")).value == "2"
    assert (await second.run("x")).value == "2"
    keys = [[s.step.new.key for s in await each.steps()] for each in (first, second)]
    assert keys[0] == keys[1]


async def test_closing_while_a_kernel_starts_leaves_no_process(
    env: dict[str, str], folder: Path
) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    asked = asyncio.ensure_future(aconnect(folder=folder, env=env))
    for _ in range(1000):
        started = {c.pid for c in psutil.Process().children(recursive=True)} - before
        if started:
            break
        await asyncio.sleep(0.01)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    left = {c for c in psutil.Process().children(recursive=True) if c.pid not in before}
    assert [(c.pid, c.status(), c.cmdline()) for c in left] == []


async def test_an_agents_steps_are_recorded_as_its_own(connect: Connect) -> None:
    kernel = await connect(actor=Actor("agent", "talk-1", 3))
    await kernel.command("true")
    await kernel.run("1", actor=Actor("agent", "talk-1", 4))
    actors = [s.step.new.actor for s in await kernel.steps() if s.step.kind != "upload"]
    assert actors == [Actor("agent", "talk-1", 3), Actor("agent", "talk-1", 4)]
    await kernel.run("open('made', 'w').write('x')")
    await kernel.get("made")
    (kept,) = await kernel.artifacts()
    assert kept.actor == Actor("agent", "talk-1", 3)


async def test_a_kernel_that_has_its_session_and_has_not_said_so_yet_is_waited_for(
    kernels: Kernels, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the process before it left in its file is nobody's: neither a pid nor a token."""
    first = kernels("process")
    first.client().run("x = 1")
    first.kill("router")
    second = kernels.again(first, REPRISE_FAILPOINT="lease-taken:pause")
    process = psutil.Process(second.process.pid)
    while process.status() != psutil.STATUS_STOPPED:
        await asyncio.sleep(0.01)
    looked = 0
    look = reach_module.running_kernel

    def counted(info: SessionInfo) -> Path | None:
        nonlocal looked
        looked += 1
        return look(info)

    monkeypatch.setattr(reach_module, "running_kernel", counted)
    env = {"REPRISE_DSN": database.dsn, "REPRISE_HOME": str(database.home)}
    connecting = asyncio.create_task(
        aconnect(
            second.session,
            start=False,
            env=env,
            actor=Actor("agent", "talk", 1),
            patience=Patience(start=60, answer=60, back=60),
        )
    )
    try:
        while looked < 3:
            await asyncio.sleep(0.01)
        assert not connecting.done()
    finally:
        process.resume()
    async with await connecting as kernel:
        ran = await asyncio.wait_for(kernel.run("x + 1"), 60)
        assert ran.value == "2"
    recorded = await asyncio.to_thread(database.read, second.session)
    assert recorded.steps[-1].step.new.actor.kind == "agent"
