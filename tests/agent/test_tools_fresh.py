"""A model finds the person's files before anything has run, and as they are now."""

from __future__ import annotations

import pytest

from reprise_server.agent.contract import BadCall
from tests.fixtures.place import ToolBench, text_of


async def test_the_notebooks_folder_is_found_before_the_first_step_and_as_it_is(
    bench: ToolBench,
) -> None:
    steps = (await bench.place.info()).steps
    (bench.folder / "sales.csv").write_text("north,1\n")
    assert "north,1" in text_of(await bench.do("read_file", path="sales.csv"))
    assert "sales.csv" in text_of(await bench.do("list_files", path=""))
    (bench.folder / "sales.csv").write_text("south,2\n")
    assert "south,2" in text_of(await bench.do("search_files", pattern="south"))
    assert "south,2" in text_of(await bench.do("read_file", path="sales.csv"))
    (bench.folder / "sales.csv").unlink()
    with pytest.raises(BadCall, match=r"sales\.csv"):
        await bench.do("read_file", path="sales.csv")
    reader = await bench.place.reader()
    actors = {r.step.new.actor.kind async for r in reader.records(steps, outputs=False)}
    assert actors == {"system"}


async def test_a_file_that_changed_in_the_folder_since_it_was_read_is_not_written_over(
    bench: ToolBench,
) -> None:
    (bench.folder / "notes.txt").write_text("one\n")
    await bench.do("read_file", path="notes.txt")
    (bench.folder / "notes.txt").write_text("two, by the person\n")
    with pytest.raises(BadCall, match="changed"):
        await bench.do("write_file", path="notes.txt", content="three\n")
    assert (bench.folder / "notes.txt").read_text() == "two, by the person\n"
