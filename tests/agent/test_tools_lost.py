"""Whatever dies under a call: it runs at most once, and what became of it is told as the log has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from reprise.client import Patience
from reprise.log.postgres import Log
from reprise_server.agent.contract import Result
from reprise_server.agent.tools.place import Place
from reprise_server.agent.tools.toolbox import toolbox
from tests.fixtures.kernel import Database, Kernel, Kernels
from tests.fixtures.place import ToolBench, text_of


@pytest.fixture
async def mortal(kernels: Kernels, database: Database) -> AsyncIterator[tuple[ToolBench, Kernel]]:
    """Tools on a kernel that a test may kill; they may start the next one."""
    kernel = kernels("bubblewrap")
    assert kernel.agent_token  # it has its session then
    environ = {
        "REPRISE_DSN": database.dsn,
        "REPRISE_HOME": str(database.home),
        "REPRISE_BACKEND": "bubblewrap",
        "REPRISE_ENVIRONMENT": "",
    }
    log = await Log.connect(database.dsn, home=database.home)
    patience = Patience(back=0.1)
    folder = kernel.folder
    try:
        async with Place(
            log, kernel.session, environ=environ, folder=folder, patience=patience
        ) as place:
            await place.kernel()
            yield ToolBench(place, toolbox(place), folder), kernel
    finally:
        await log.close()


async def midway(bench: ToolBench) -> tuple[asyncio.Task[Result], str]:
    """A command that has changed a file and goes on; and its key."""
    given = {"command": "echo x >> runs.txt; echo on; sleep 5; echo end"}
    act = await bench.act("run_command", **given)
    call = bench.call(given)
    task = asyncio.ensure_future(bench.tool("run_command").run(call, act))
    async with asyncio.timeout(60):
        while "on" not in "".join(bench.shown):
            await asyncio.sleep(0.02)
    return task, call.key


async def runs(bench: ToolBench) -> str:
    """How often it ran, as the files of the session know it."""
    return text_of(await bench.do("run_command", command="cat runs.txt 2>/dev/null | wc -l"))


async def test_a_kernel_killed_under_a_call_leaves_it_lost(
    mortal: tuple[ToolBench, Kernel],
) -> None:
    bench, kernel = mortal
    task, key = await midway(bench)
    kernel.kill("router")
    result = await task
    assert result.status == "lost"
    assert "It may have run; state is as before the step." in text_of(result)
    (record,) = await bench.place.of_call(key)
    assert record.outcome is not None
    assert record.outcome.status == "lost"
    assert "\n0\n" in await runs(bench)


async def test_a_sandbox_killed_under_a_call_rolls_it_back(
    mortal: tuple[ToolBench, Kernel],
) -> None:
    bench, kernel = mortal
    task, key = await midway(bench)
    kernel.kill("sandbox")
    result = await task
    assert result.status == "error"
    assert "rolled back: state is as before the step" in text_of(result)
    assert (await bench.place.of_call(key))[0].step.seq == result.steps[0]
    assert "\n0\n" in await runs(bench)


async def test_a_place_that_was_closed_leaves_word_in_the_log(
    mortal: tuple[ToolBench, Kernel], database: Database
) -> None:
    bench, _ = mortal
    task, key = await midway(bench)
    # As when the server goes: nobody is left who waits.
    task.cancel()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bench.place.close()
    async with Place(bench.place.log, bench.place.session, start=False) as later:
        async with asyncio.timeout(60):
            while not (found := await later.of_call(key)) or found[0].outcome is None:
                await asyncio.sleep(0.05)
        assert len(found) == 1
        assert await later.of_call(f"{key}0") == ()
