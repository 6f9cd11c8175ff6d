"""The client without an event loop: also inside one, from several threads, and with Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprise.client import ClientClosed, Kernel, Output, StepFailed, connect
from reprise.errors import UsageError


@pytest.fixture
def here(env: dict[str, str], folder: Path) -> Iterator[Kernel]:
    with connect(folder=folder, env=env) as kernel:
        yield kernel


def test_a_session_from_plain_python(here: Kernel, tmp_path: Path) -> None:
    assert here.started
    assert here.run("x = 6 * 7; x").value == "42"
    assert here.command("echo $((6 * 7))").stdout == "42\n"
    here.upload(b"data", "in.txt")
    assert here.read("in.txt") == b"data"
    assert "in.txt" in [entry.path for entry in here.files()]
    here.get("in.txt", tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == b"data"
    (artifact,) = here.artifacts()
    assert here.artifact_bytes(artifact) == b"data"
    seq = here.steps()[-1].step.seq
    here.run("x = 0")
    here.rewind(seq)
    assert here.run("x").value == "42"
    background = here.background("sleep 600")
    assert [each.command for each in here.background_commands()] == [background.command]
    assert background.status().running
    assert background.stop().ok
    assert not background.wait(30).running
    assert here.state().seq >= seq
    here.restart()
    with pytest.raises(StepFailed):
        here.run("x", check=True)
    assert here.reset() > seq


def test_outputs_and_questions_come_to_the_thread_that_waits(here: Kernel) -> None:
    threads: set[int] = set()
    heard: list[str] = []

    def output(each: Output) -> None:
        threads.add(threading.get_ident())
        heard.append(each.text)

    def answer(prompt: str, password: bool) -> str:
        threads.add(threading.get_ident())
        heard.append(prompt)
        return "Ada"

    code = "print('first', flush=True)\nprint('hello', input('who? '))"
    result = here.run(code, on_output=output, on_input=answer)
    assert result.stdout == "first\nhello Ada\n"
    assert "".join(heard) == "first\nwho? hello Ada\n"
    assert threads == {threading.get_ident()}


def test_a_callback_that_fails_is_the_callers_error(here: Kernel) -> None:
    def broken(_: Output) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        here.run("print('x')", on_output=broken)
    assert here.run("1").value == "1"


def test_outputs_are_iterated_over(here: Kernel) -> None:
    running = here.stream("print('a', flush=True); input(); print('b')", on_input=lambda *_: "")
    assert "".join(each.text for each in running) == "a\nb\n"
    assert running.result().ok
    command = here.stream_command("echo c")
    assert command.result().stdout == "c\n"  # nobody has to iterate


async def test_it_works_inside_a_running_loop(env: dict[str, str], folder: Path) -> None:
    # As in a notebook's cell: a loop runs in this thread, and is not asked for anything.
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    with connect(folder=folder, env=env) as kernel:
        assert kernel.run("6 * 7").value == "42"
        before = ticks
        result = await asyncio.to_thread(kernel.command, "echo from a thread")
        assert result.stdout == "from a thread\n"
        assert ticks > before
    ticking.cancel()


def test_several_threads_share_one_client(here: Kernel) -> None:
    results: dict[int, str] = {}

    def work(number: int) -> None:
        results[number] = here.command(f"echo {number}").stdout

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert results == {n: f"{n}\n" for n in range(8)}


def test_another_thread_interrupts_what_runs(here: Kernel) -> None:
    def interrupt(_: Output) -> None:
        threading.Thread(target=here.interrupt).start()

    result = here.run("import time\nprint('on', flush=True)\ntime.sleep(600)", on_output=interrupt)
    assert result.status == "interrupted"


def test_a_closed_client_says_so(env: dict[str, str], folder: Path) -> None:
    kernel = connect(folder=folder, env=env)
    kernel.close()
    kernel.close()
    with pytest.raises(ClientClosed):
        kernel.run("1")
    with pytest.raises(UsageError):
        connect("not an id", env=env)


#: A script that a person would stop with Ctrl-C: its step is interrupted and the session goes on.
SCRIPT = """
import sys
from reprise.client import connect

with connect(folder=sys.argv[1]) as kernel:
    print(kernel.session, flush=True)
    def shown(output):
        print("running", flush=True)
    try:
        kernel.run("print('on', flush=True)\\nimport time\\ntime.sleep(600)", on_output=shown)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    last = kernel.steps()[-1]
    print(last.outcome.status, kernel.run("6 * 7").value, flush=True)
"""


def test_ctrl_c_interrupts_the_step_and_leaves_the_session_well(
    env: dict[str, str], folder: Path
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REPRISE_")}
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**kept, **env},
    ) as process:
        try:
            assert process.stdout is not None
            assert len(process.stdout.readline()) == 37
            assert "running" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=120)
        finally:
            process.kill()
    assert "interrupted\ninterrupted 42\n" in rest
    assert process.returncode == 0
