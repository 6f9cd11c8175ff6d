"""Cells that a model runs are steps; what was approved is what runs, and it is painted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from reprise.jupyter.static.policy import EDITED_BY
from reprise_server.agent.contract import BadCall
from reprise_server.agent.notebook.cells import by_id
from reprise_server.agent.notebook.file import FileNotebook
from reprise_server.agent.tools.notebook_tools import MOST_RUN, notebook_tools
from tests.agent.notebooks import code, markdown
from tests.fixtures.notes import cells, document_of, write
from tests.fixtures.place import ToolBench, text_of


async def test_cells_run_in_order_as_steps_and_are_painted(notes: ToolBench) -> None:
    write(
        notes,
        code("a", "n = 20\nprint('first')", metadata={"trusted": True}),
        markdown("m", "# no code"),
        code("b", "n + 1"),
    )
    act = await notes.act("run_cells", cells=["a", "m", "b"])
    assert (act.effect, act.title) == ("run", "run 2 cells of work/n.ipynb")
    assert act.code == "n = 20\nprint('first')\n\nn + 1"
    call = notes.call(act.input)
    result = await notes.tool("run_cells").run(call, act)
    assert result.status == "ok"
    said = text_of(result)
    assert said.index("cell a · step") < said.index("first") < said.index("cell b · step")
    assert "21" in said
    steps = [*await notes.place.of_call(call.key)]
    assert [record.step.seq for record in steps] == list(result.steps)
    assert all(record.step.new.actor.kind == "agent" for record in steps)
    assert [record.step.payload["metadata"] for record in steps] == [
        {"cellId": "a"},
        {"cellId": "b"},
    ]
    now = await cells(notes)
    assert now["a"]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "first\n"}]
    assert now["b"]["outputs"][0]["data"] == {"text/plain": "21"}
    assert now["b"]["execution_count"] == steps[1].outcome.new.execution_count  # type: ignore[union-attr]
    assert {edit.cell for edit in result.edits} == {"a", "b"}
    assert EDITED_BY not in now["a"]["metadata"]


async def test_a_run_stops_at_the_first_error(notes: ToolBench) -> None:
    write(notes, code("a", "seen = []"), code("b", "1/0"), code("c", "seen.append(1)"))
    result = await notes.do("run_cells", cells=["a", "b", "c"])
    assert result.status == "error"
    assert len(result.steps) == 2
    assert "ZeroDivisionError" in text_of(result)
    assert "Cell c and those after it did not run: cell b failed." in text_of(result)
    now = await cells(notes)
    assert now["b"]["outputs"][0]["ename"] == "ZeroDivisionError"
    assert now["c"]["outputs"] == []
    count = await notes.do("run_cells", cells=["a"])
    assert [edit.cell for edit in count.edits] == ["a"]


async def test_what_runs_is_what_was_approved(notes: ToolBench) -> None:
    write(notes, code("a", "approved = 1"), code("b", "approved + 1"))
    act = await notes.act("run_cells", cells=["a", "b"])
    write(notes, code("a", "something = 'else'"), code("b", "approved + 1"))
    before = await notes.place.quiet()
    with pytest.raises(BadCall, match="something = 'else'"):
        await notes.tool("run_cells").run(notes.call(act.input), act)
    assert await notes.place.quiet() == before
    # One that is changed while those before it run is not run either.
    write(notes, code("a", "approved = 1"), code("b", "approved + 1"))

    class Typed(FileNotebook):
        async def apply(self, changes: Any) -> None:
            await super().apply(changes)
            write(notes, code("a", "approved = 1"), code("b", "typed"))

    typed = Typed(document_of(notes)._given, document_of(notes)._home)
    tool = notebook_tools(typed, notes.place)[2]
    result = await tool.run(notes.call(act.input), act)
    assert len(result.steps) == 1
    assert "Cell b and those after it did not run: somebody changed it" in text_of(result)


async def test_a_cell_that_is_gone_when_it_has_run_is_no_failure(notes: ToolBench) -> None:
    write(notes, code("a", "import pathlib; 5"))
    act = await notes.act("run_cells", cells=["a"])
    tool = notes.tool("run_cells")
    given = document_of(notes)
    read = given.read
    reads = 0

    async def vanish() -> Any:
        nonlocal reads
        found = await read()
        write(notes)
        reads += 1
        return found

    given.read = vanish  # type: ignore[method-assign]
    result = await tool.run(notes.call(act.input), act)
    assert result.status == "ok"
    assert reads == 1
    assert "could not be painted" in text_of(result)
    assert await cells_of_file(given) == {}


async def cells_of_file(document: FileNotebook) -> dict[str, Any]:
    return by_id(await FileNotebook(document._given, document._home).read())


async def test_wrong_runs_are_refused_and_leave_no_step(notes: ToolBench) -> None:
    write(notes, code("a", "1"), markdown("m", "# m"))
    before = await notes.place.quiet()
    for given, words in (
        ({"cells": ["nope"]}, "Nothing ran"),
        ({"cells": ["m"]}, "nothing to run"),
        ({"cells": []}, "nothing to run"),
        ({"cells": ["a"] * (MOST_RUN + 1)}, f"at most {MOST_RUN}"),
        ({"cells": ["a"], "timeout": 0}, "above 0"),
    ):
        with pytest.raises(BadCall, match=words):
            await notes.act("run_cells", **given)
    assert await notes.place.quiet() == before


async def test_a_cancelled_run_ends_its_cell_and_shows_how_far_it_came(notes: ToolBench) -> None:
    source = "print('begun', flush=True)\nimport time\nfor _ in range(6000): time.sleep(0.1)"
    write(notes, code("a", source), code("b", "x"))
    act = await notes.act("run_cells", cells=["a", "b"])
    begun = asyncio.Event()
    call = replace(
        notes.call(act.input), show=lambda said: begun.set() if "begun" in said else None
    )
    running = asyncio.create_task(notes.tool("run_cells").run(call, act))
    await asyncio.wait_for(begun.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    (record,) = await notes.place.of_call(call.key)
    assert record.outcome is not None
    assert record.outcome.new.status == "interrupted"
    kinds = [output["output_type"] for output in (await cells(notes))["a"]["outputs"]]
    assert kinds == ["stream", "error"]


async def test_a_large_result_lies_in_the_workspace(notes: ToolBench) -> None:
    loud = "print('line\\n' * 20000)"
    write(notes, code("a", loud), code("b", "'end' + 'ing'"), code("c", loud))
    result = await notes.do("run_cells", cells=["a", "b", "c"])
    said = text_of(result)
    assert len(said) <= 16_000
    # How each of them ended is told, whatever is cut.
    assert "cell b · step" in said
    assert len(result.steps) == 4
    path = said.partition("in the file ")[2].partition(":")[0]
    kept = await (await notes.place.kernel()).read(path)
    assert kept.count(b"line\n") == 40000
    assert b"ending" in kept
    assert len((await cells(notes))["a"]["outputs"][0]["text"]) > 90_000
