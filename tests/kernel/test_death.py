"""A cell that ends its sandbox is rolled back and says why; the kernel and the next cell work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fixtures.kernel import Client, Kernel, Kernels

ENDS = {
    "segfault": ("import ctypes; ctypes.string_at(0)", "segmentation fault"),
    "exit": ("import os; os._exit(1)", "exited by itself (code 1)"),
    "kill": ("import os; os.kill(os.getpid(), 9)", "killed (signal 9)"),
    "abort": ("import os; os.abort()", "aborted (signal 6)"),
}


@pytest.fixture(scope="module", params=["process", "bubblewrap"])
def kernel(request: pytest.FixtureRequest, module_kernels: Kernels) -> Kernel:
    return module_kernels(request.param)


@pytest.mark.parametrize("end", ENDS)
def test_the_cell_is_rolled_back_and_says_what_died(
    client: Client, kernel: Kernel, module_kernels: Kernels, end: str
) -> None:
    code, why = ENDS[end]
    before = client.run(f"x = '{end}'")
    seq = len(module_kernels.read(kernel).steps)
    died = client.run(f"x = 'half done'\nprint('begun', flush=True)\n{code}")
    assert died.error == "SandboxDied"
    assert why in died.reply["evalue"]
    assert f"Step {seq} was rolled back" in died.reply["evalue"]
    assert f"as after step {seq - 1}" in died.reply["evalue"]
    assert died.outputs[-1] == (
        "error",
        {k: died.reply[k] for k in ("ename", "evalue", "traceback")},
    )
    after = client.run("x")
    assert after.value == f"'{end}'"
    # The numbers go on: the dead cell keeps the one that it showed.
    assert died.reply["execution_count"] == before.reply["execution_count"] + 1
    assert after.reply["execution_count"] == before.reply["execution_count"] + 2
    recorded = module_kernels.read(kernel)
    assert recorded.statuses()[-3:] == ["ok", "died", "ok"]
    assert recorded.report.ok


def test_cells_queued_behind_a_death_are_aborted(client: Client) -> None:
    dying = client.execute("import os, time; time.sleep(0.3); os._exit(3)")
    behind = client.execute("behind = 1")
    assert client.finish(dying).error == "SandboxDied"
    assert client.finish(behind).status == "aborted"
    assert client.run("'behind' in globals()").value == "False"


def test_a_sandbox_that_dies_between_cells_costs_no_cell(client: Client, kernel: Kernel) -> None:
    client.run("between = 'kept'")
    start = len(client.heard)
    kernel.kill("language")
    client.wait(
        lambda h: h.type == "reprise_notice" and h.content["code"] == "resumed", start=start
    )
    assert client.run("between").value == "'kept'"


def test_memory_over_the_limit_is_a_death_with_its_reason(
    kernels: Kernels, limited: Callable[..., str]
) -> None:
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=limited("small", memory=256 << 20))
    client = kernel.client()
    assert client.run("x = 1").status == "ok"
    # Many processes, each within its own bound: only all of them together are too much.
    ran = client.run(
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        block = bytearray(os.urandom(1 << 20) * 90)\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "time.sleep(60)"
    )
    assert ran.error == "SandboxDied", ran.reply
    assert "out of memory" in ran.reply["evalue"]
    assert "reprise env limit memory" in ran.reply["evalue"]
    assert client.run("x").value == "1"
    cause = kernels.read(kernel).cells[1].outcome
    assert cause is not None
    assert cause.new.cause is not None
    assert cause.new.cause["what"] == "memory"


def test_one_process_over_the_limit_fails_or_dies_but_never_the_kernel(
    kernels: Kernels, limited: Callable[..., str]
) -> None:
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=limited("small-2", memory=256 << 20))
    client = kernel.client()
    client.run("x = 1")
    ran = client.run("blocks = []\nwhile True: blocks.append(bytearray(8 << 20))")
    assert ran.error in ("MemoryError", "SandboxDied")
    if ran.error == "SandboxDied":
        assert "out of memory" in ran.reply["evalue"]
    assert client.run("blocks = None; x").value == "1"


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_a_cell_over_its_time_is_interrupted_and_keeps_what_it_did(
    kernels: Kernels, limited: Callable[..., str], backend: str
) -> None:
    kernel = kernels(backend, REPRISE_ENVIRONMENT=limited("short", wall=1.0))
    client = kernel.client()
    ran = client.run("kept = 'yes'\nimport time; time.sleep(600)")
    assert ran.error == "KeyboardInterrupt"
    assert client.run("kept").value == "'yes'"
    recorded = kernels.read(kernel)
    assert recorded.statuses() == ["timeout", "ok"]
    assert recorded.cells[0].outcome is not None
    assert recorded.cells[0].outcome.new.cause == {"what": "timeout", "limit_s": 1.0}


def test_a_fork_bomb_is_ended_with_all_its_processes(
    kernels: Kernels, limited: Callable[..., str]
) -> None:
    name = limited("bomb", processes=64, wall=1.0)
    kernel = kernels("bubblewrap", REPRISE_ENVIRONMENT=name)
    client = kernel.client()
    client.run("x = 1")
    ran = client.run(
        "import os, signal\n_ = signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "while True:\n"
        "    try: os.fork()\n"
        "    except OSError: pass"
    )
    assert ran.error == "SandboxDied"
    assert "time limit" in ran.reply["evalue"]
    assert client.run("x").value == "1"
    assert len(kernel.descendants()) < 8
    assert kernels.read(kernel).statuses() == ["ok", "died", "ok"]


def test_a_step_that_kills_its_sandbox_on_each_replay_is_left_out(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("import os; x = 1")
    # Harmless at its first run, deadly when it is played again.
    client.run("x = 2\nif os.path.exists('seen'): os._exit(7)\nopen('seen', 'w').close()")
    client.run("y = x")
    kernel.kill("language")
    told = client.notice("not-replayed")
    assert "Step 1" in told["text"]
    assert client.run("(x, y)").value == "(1, 1)"


def test_cells_that_ran_beside_each_other_die_together(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    subshell = client.ask("create_subshell_request", channel="control")["subshell_id"]
    client.run("x = 1; import time, os")
    beside = client.execute("print('a', flush=True); x = 2; time.sleep(60)", subshell_id=subshell)
    client.shows(beside, "a")
    main = client.execute("print('b', flush=True); x = 3; time.sleep(60)")
    client.shows(main, "b")
    kernel.kill("language")
    assert client.finish(beside).error == "SandboxDied"
    assert client.finish(main).error == "SandboxDied"
    assert client.run("x").value == "1"
    assert client.run("x", subshell_id=subshell).value == "1"
    recorded = kernels.read(kernel)
    assert recorded.statuses() == ["ok", "died", "died", "ok", "ok"]
    assert recorded.report.ok
