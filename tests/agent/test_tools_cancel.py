"""A call that is cancelled ends its own step, whatever it does, and nobody else's."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from reprise_server.agent.tools import place as places
from tests.fixtures.place import ToolBench


async def begun(bench: ToolBench, text: str) -> None:
    """Return once a running tool has shown something."""
    async with asyncio.timeout(60):
        while text not in "".join(bench.shown):
            await asyncio.sleep(0.02)


async def started(bench: ToolBench, **given: Any) -> tuple[asyncio.Task[Any], str]:
    """A call of run_command on its way, and its key."""
    act = await bench.act("run_command", **given)
    call = bench.call(given)
    return asyncio.ensure_future(bench.tool("run_command").run(call, act)), call.key


async def test_a_cancelled_command_ends_before_the_call_does(bench: ToolBench) -> None:
    # It ignores what Ctrl-C sends, and has left its own group.
    command = "trap '' INT; (setsid sleep 600 &) ; echo on; sleep 600"
    task, key = await started(bench, command=command)
    await begun(bench, "on")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (record,) = await bench.place.of_call(key)
    assert record.outcome is not None
    assert record.outcome.status == "interrupted"
    kernel = await bench.place.kernel()
    left = await kernel.command("ps -eo args | grep -c '[s]leep 600' || true")
    assert left.stdout == "0\n"


async def test_a_time_limit_ends_a_command(bench: ToolBench) -> None:
    result = await bench.do("run_command", command="echo on; sleep 600", timeout_s=1)
    assert result.status == "error"
    assert "It took longer" in str(result.content[0])
    assert "on" in str(result.content[0])


async def test_a_step_that_waits_is_ended_when_it_begins(
    bench: ToolBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "QUEUED_S", 0.5)
    kernel = await bench.place.kernel()
    answer = asyncio.Event()

    async def later(*_: object) -> str:
        await answer.wait()
        return "yes"

    running = kernel.stream("print('on', flush=True); ok = input()", on_input=later)
    async for output in running:
        if "on" in output.text:
            break
    task, key = await started(bench, command="echo mine; sleep 600")
    async with asyncio.timeout(60):
        await _sent(bench)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await bench.place.of_call(key) == ()
    assert not running.done  # the person's cell is not touched
    answer.set()
    assert (await running).status == "ok"
    async with asyncio.timeout(60):
        while not (found := await bench.place.of_call(key)) or found[0].outcome is None:
            await asyncio.sleep(0.05)
    assert found[0].outcome.status == "interrupted"


async def _sent(bench: ToolBench) -> None:
    """Let the request reach the kernel: what is asked after it is answered after it."""
    workspace = await bench.place.workspace()
    await workspace.commands()


async def test_a_second_cancel_does_not_wait(bench: ToolBench) -> None:
    command = "trap '' TERM INT; echo on; while :; do sleep 1; done"
    task, key = await started(bench, command=command)
    await begun(bench, "on")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # It is ended all the same, by what the place leaves behind.
    async with asyncio.timeout(60):
        while (await bench.place.of_call(key))[0].outcome is None:
            await asyncio.sleep(0.05)


async def test_a_call_cancelled_before_it_asks_runs_nothing(bench: ToolBench) -> None:
    before = await bench.place.quiet()
    task, key = await started(bench, command="echo never")
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert await bench.place.of_call(key) == ()
    assert await bench.place.quiet() == before
