"""The notebook of a session is one that Jupyter takes, with what the cells showed at their end."""

from __future__ import annotations

import json
import uuid
import warnings
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.bundle.notebook import as_notebook, bash_cell
from reprise.bundle.outputs import Outputs
from reprise.log.model import OutputEntry
from reprise.log.postgres import Log
from tests.bundle.sample import ODD, begin, cell, run, text


async def notebook(log: Log, session: uuid.UUID, **options: bool) -> tuple[Any, int]:
    data, count = await as_notebook(await log.reader(session), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = nbformat.reads(data.decode(), as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(found)
    return found, count


async def test_every_kind_of_step_has_its_place(log: Log, sample: uuid.UUID) -> None:
    found, count = await notebook(log, sample)
    kinds = [(c.cell_type, c.source) for c in found.cells]
    codes = [source for kind, source in kinds if kind == "code"]
    assert count == len(codes) == 6
    assert codes[0] == "print(1)"
    assert found.cells[0].execution_count == 1
    # What a thread said later stands where Jupyter shows it.
    assert found.cells[0].outputs[0].text == "1\n2\nlate morethe very last"
    assert found.cells[1].source == ODD.replace("\ud800", "?")
    assert any("%%bash" in code and "cat" in code for code in codes)
    notes = [source for kind, source in kinds if kind == "markdown"]
    assert any("data/large" in each and "`gone` removed" in each for each in notes)
    assert any("afresh; its files stayed" in each for each in notes)
    assert any("/skills/x" in each for each in notes)
    assert any("rolled back" in each for each in notes)
    assert len({c.id for c in found.cells}) == len(found.cells)
    agent = next(c for c in found.cells if c.source == "1/0")
    assert agent.metadata.tags == ["agent"]
    assert found.metadata.kernelspec.name == "python3"
    assert "reprise" not in found.metadata


async def test_an_attached_notebook_names_its_session(log: Log, sample: uuid.UUID) -> None:
    found, _ = await notebook(log, sample, attached=True)
    assert found.metadata.reprise.session == str(sample)
    assert found.metadata.kernelspec.name == "reprise"


async def test_cells_keep_their_ids_and_what_a_page_asks_for_is_left_out(log: Log) -> None:
    writer = await begin(log)
    for identity, silent in (("abc", False), ("abc", False), ("no id!", False), ("d", True)):
        new = cell("1")
        new.payload["metadata"]["cellId"] = identity
        new.payload["content"]["silent"] = silent
        await run(writer, new)
    await writer.close()
    found, count = await notebook(log, writer.session)
    assert count == 3
    assert [c.id == "abc" for c in found.cells] == [True, False, False]


def shown(*entries: OutputEntry) -> list[dict[str, Any]]:
    outputs = Outputs({}, 5)
    for entry in entries:
        outputs.add(entry)
    return outputs.list


def display(value: str, identity: str | None = None, kind: str = "display_data") -> OutputEntry:
    transient = {} if identity is None else {"display_id": identity}
    return OutputEntry(
        kind, {"data": {"text/plain": value}, "metadata": {}, "transient": transient}
    )


def test_outputs_are_what_stands_there_at_the_end() -> None:
    assert [o["text"] for o in shown(*text("a", "b"), *text("c", name="stderr"))] == ["ab", "c"]
    clear = OutputEntry("clear_output", {"wait": False})
    wait = OutputEntry("clear_output", {"wait": True})
    assert [o["text"] for o in shown(*text("a"), clear, *text("b"))] == ["b"]
    assert [o["text"] for o in shown(*text("a"), wait)] == ["a"]
    assert [o["text"] for o in shown(*text("a"), wait, *text("b", "c"))] == ["bc"]
    [first, second] = shown(
        display("old", "x"), display("other"), display("new", "x", "update_display_data")
    )
    assert (first["data"], second["data"]) == ({"text/plain": "new"}, {"text/plain": "other"})
    [result] = shown(display("1", None, "execute_result"))
    assert result["execution_count"] == 5


def test_a_command_is_a_cell_of_bash() -> None:
    assert bash_cell({"shell": "echo a\necho b"}) == "%%bash\necho a\necho b"
    words = bash_cell({"argv": ["a b", "$c"], "cwd": "d e", "env": {"F": "g'h"}})
    assert words == "%%bash\ncd 'd e'\nexport F='g'\"'\"'h'\n'a b' '$c'"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
TYPES = ["display_data", "execute_result", "update_display_data", "error", "clear_output", "x"]


@settings(max_examples=200)
@given(
    entries=st.lists(
        st.tuples(
            st.sampled_from(TYPES),
            st.dictionaries(
                st.sampled_from(["data", "metadata", "transient", "ename", "traceback", "wait"]),
                JSON,
            ),
        ),
        max_size=5,
    )
)
def test_whatever_a_kernel_sent_makes_a_valid_notebook(
    entries: list[tuple[str, dict[str, Any]]],
) -> None:
    outputs = shown(*(OutputEntry(kind, content) for kind, content in entries))
    cells = [
        {
            "cell_type": "code",
            "id": "a",
            "metadata": {},
            "source": "",
            "execution_count": None,
            "outputs": outputs,
        }
    ]
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    nbformat.validate(json.loads(json.dumps(whole)))


@pytest.mark.parametrize("minor", [5])
async def test_an_empty_session_makes_an_empty_notebook(log: Log, minor: int) -> None:
    found, count = await notebook(log, await log.begin(kernel="python3"))
    assert (found.cells, count, found.nbformat_minor) == ([], 0, minor)
