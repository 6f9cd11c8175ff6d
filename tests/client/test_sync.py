"""What lies in the notebook's folder can be read before any step has run, and nobody waits for it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.client.conftest import Connect


@pytest.mark.parametrize("backend", ["bubblewrap"], indirect=True)
async def test_the_folder_is_there_before_the_first_step_by_an_upload_of_the_systems(
    connect: Connect, folder: Path
) -> None:
    (folder / "data.csv").write_text("a\n")
    kernel = await connect()
    paths = {entry.path for entry in await kernel.files()}
    assert "data.csv" not in paths
    assert await kernel.workspace.sync()
    assert await kernel.read("data.csv") == b"a\n"
    assert await kernel.workspace.sync()
    (folder / "data.csv").write_text("b\n")
    assert await kernel.workspace.sync()
    assert await kernel.read("data.csv") == b"b\n"
    recorded = [(step.step.kind, step.step.new.actor.kind) for step in await kernel.steps()]
    assert recorded == [("upload", "system"), ("upload", "system")]
    assert (await kernel.run("open('data.csv').read()")).value == "'b\\n'"


@pytest.mark.parametrize("backend", ["bubblewrap"], indirect=True)
async def test_while_a_step_runs_nothing_comes_in_and_nobody_waits(
    connect: Connect, folder: Path
) -> None:
    kernel = await connect()
    (folder / "before").write_text("a")
    began = asyncio.Event()
    running = asyncio.create_task(
        kernel.run(
            "import time\nprint('began', flush=True)\n"
            "while not __import__('os').path.exists('go'): time.sleep(0.01)",
            on_output=lambda _: began.set(),
        )
    )
    await began.wait()
    (folder / "late").write_text("a")
    assert not await kernel.workspace.sync()
    assert {"before"} == {e.path for e in await kernel.files()} & {"before", "late"}
    await kernel.interrupt()
    await running
    assert await kernel.workspace.sync()
    assert "late" in {entry.path for entry in await kernel.files()}


@pytest.mark.parametrize("backend", ["process"], indirect=True)
async def test_without_a_workspace_of_its_own_there_is_nothing_to_bring_in(
    connect: Connect, folder: Path
) -> None:
    (folder / "data.csv").write_text("a\n")
    kernel = await connect()
    assert await kernel.workspace.sync()
    assert await kernel.read("data.csv") == b"a\n"
    assert await kernel.steps() == []
