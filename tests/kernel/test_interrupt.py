"""An interrupt reaches what runs from every side, and is harmless when nothing does."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from tests.fixtures.kernel import Client, Kernel, Kernels

SLEEP = "import time\nkept = 'yes'\nprint('running', flush=True)\ntime.sleep(600)"


def by_control(client: Client, kernel: Kernel) -> None:
    assert client.ask("interrupt_request", channel="control")["status"] == "ok"


def by_shell(client: Client, kernel: Kernel) -> None:
    client.request("interrupt_request")  # as VS Code does


def by_signal(client: Client, kernel: Kernel) -> None:
    os.kill(kernel.process.pid, signal.SIGINT)


@pytest.mark.parametrize("way", [by_control, by_shell, by_signal])
def test_what_runs_is_interrupted(
    client: Client,
    kernel: Kernel,
    module_kernels: Kernels,
    way: Callable[[Client, Kernel], None],
) -> None:
    running = client.execute(SLEEP)
    client.shows(running, "running")
    way(client, kernel)
    assert client.finish(running).error == "KeyboardInterrupt"
    assert client.run("kept").value == "'yes'", "an interrupted cell keeps what it did"
    assert module_kernels.read(kernel).statuses()[-2] == "interrupted"


@pytest.mark.parametrize("way", [by_control, by_shell, by_signal])
def test_it_is_harmless_when_nothing_runs(
    client: Client, kernel: Kernel, way: Callable[[Client, Kernel], None]
) -> None:
    for _ in range(3):
        way(client, kernel)
    # A signal may still be on its way when the next cell runs; then it interrupts that one.
    first = client.run("40 + 2")
    assert first.value == "42" or (way is by_signal and first.error == "KeyboardInterrupt")
    assert client.run("40 + 2").value == "42"


def test_a_cell_that_catches_it_ends_well_and_counts_as_interrupted(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    running = client.execute(f"try:\n    exec({SLEEP!r})\nexcept KeyboardInterrupt: caught = True")
    client.shows(running, "running")
    by_control(client, kernel)
    assert client.finish(running).status == "ok"
    assert client.run("caught").value == "True"
    # No replay can cut it at the same moment again.
    assert module_kernels.read(kernel).statuses()[-2] == "interrupted"


def test_an_interrupted_cell_is_left_out_of_a_resume_and_the_user_is_told(
    kernels: Kernels,
) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("kept = 'no'")
    running = client.execute(SLEEP)
    client.shows(running, "running")
    by_control(client, kernel)
    client.finish(running)
    assert client.run("kept").value == "'yes'"
    kernel.kill("language")
    told = client.notice("resumed")
    assert "interrupted step(s) 1" in told["text"]
    assert client.run("kept").value == "'no'"


def test_a_resume_is_interrupted_and_can_be_started_again(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("import time; x = 1")
    client.run("time.sleep(2); x += 1")
    kernel.kill("router")
    kernel = kernels.again(kernel)
    client = kernel.client()
    waiting = client.execute("print(x)")
    client.wait(lambda h: h.type == "reprise_progress" and h.content["done"] >= 1)
    by_control(client, kernel)
    ran = client.finish(waiting)
    assert ran.error == "ResumeCancelled"
    assert "log is whole" in ran.reply["evalue"]
    assert client.prints("print(x)") == "2"
    assert kernels.read(kernel).codes()[2:] == ["print(x)"], "the refused cell is no step"


def test_queued_cells_are_aborted_with_the_interrupted_one(client: Client, kernel: Kernel) -> None:
    running = client.execute(SLEEP)
    behind = client.execute("never = 1")
    client.shows(running, "running")
    by_control(client, kernel)
    assert client.finish(running).error == "KeyboardInterrupt"
    assert client.finish(behind).status == "aborted"
    assert client.run("'never' in globals()").value == "False"


def test_an_interrupt_at_any_moment_of_a_short_cell_leaves_no_client_waiting(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    """ipykernel loses the reply of a cell that is interrupted at its very end; we give one."""
    chance = random.Random(4)
    client.run("x = 'kept'")
    for _ in range(60):
        sent = client.execute("40 + 2")
        until = time.monotonic() + chance.random() * 0.008
        while time.monotonic() < until:
            client.pump(0)
        client.request("interrupt_request", channel="control")
        # Now and then it ends ipykernel's own loop, with or without us; then the cell is rolled back.
        assert client.finish(sent, 30).error in ("", "KeyboardInterrupt", "SandboxDied")
    assert client.run("x").value == "'kept'"
    recorded = module_kernels.read(kernel)
    assert recorded.report.ok
    assert None not in [record.outcome for record in recorded.steps]
