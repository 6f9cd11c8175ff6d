"""A batch of edits of which some cells were rejected makes the others, where they were meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise_server.agent.contract import Stale
from reprise_server.agent.notebook.batch import changes_of, exact
from reprise_server.agent.notebook.cells import apply, by_id, cell_hash, normal
from reprise_server.agent.notebook.parted import left, of_part, parts_of
from tests.agent.notebooks import code


def notebook(*names: str) -> Any:
    cells = [code(name, f"{name} = 1") for name in names]
    return normal({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells})


def was(here: Any, name: str) -> str:
    return cell_hash(by_id(here)[name])


def made(here: Any, edits: list[dict[str, Any]], *rejected: str) -> list[str]:
    """The sources after what is left of them."""
    order = [cell["id"] for cell in here["cells"]]
    changed = apply(here, changes_of(left(edits, rejected, order))).notebook
    return [cell["source"] for cell in changed["cells"]]


def test_edits_of_one_cell_go_together() -> None:
    here = notebook("a", "b")
    edits = exact(
        here,
        [
            {"do": "replace", "cell": "a", "was": was(here, "a"), "source": "first"},
            {"do": "delete", "cell": "b", "was": was(here, "b")},
            {"do": "replace", "cell": "a", "was": was(here, "a"), "source": "second"},
        ],
    )
    assert parts_of(edits) == ("a", "b")
    assert [edit["source"] for edit in of_part(edits, "a")] == ["first", "second"]
    assert made(here, edits, "b") == ["second", "b = 1"]
    assert made(here, edits, "a") == ["a = 1"]


def test_what_follows_a_rejected_cell_stands_where_that_would_have() -> None:
    here = notebook("a", "b")
    edits = exact(
        here,
        [
            {"do": "insert", "after": "a", "source": "one"},
            {"do": "insert", "after": "#1", "source": "two"},
            {"do": "insert", "after": "#2", "source": "three"},
        ],
    )
    one, two, _ = parts_of(edits)
    assert made(here, edits, one) == ["a = 1", "two", "three", "b = 1"]
    assert made(here, edits, one, two) == ["a = 1", "three", "b = 1"]
    # Also where the cell before it is deleted, or there is none.
    edits = exact(
        here,
        [
            {"do": "insert", "after": "a", "source": "one"},
            {"do": "delete", "cell": "a", "was": was(here, "a")},
            {"do": "insert", "after": "#1", "source": "two"},
        ],
    )
    one = parts_of(edits)[0]
    assert made(here, edits, one) == ["two", "b = 1"]


def test_a_cell_that_is_gone_is_stale_whatever_was_rejected() -> None:
    here = notebook("a", "b", "c")
    edits = exact(
        here,
        [
            {"do": "insert", "after": "b", "source": "one"},
            {"do": "delete", "cell": "c", "was": was(here, "c")},
        ],
    )
    with pytest.raises(Stale):
        made(notebook("a", "c"), edits, "c")


@st.composite
def batches(draw: st.DrawFn) -> tuple[Any, list[dict[str, Any]], list[str]]:
    """A notebook, exact edits of it, and some of their cells."""
    here = notebook(*"abcd")
    names = list("abcd")
    asked: list[dict[str, Any]] = []
    gone: set[str] = set()
    for number in range(1, draw(st.integers(1, 7)) + 1):
        inserted = [f"#{at}" for at, edit in enumerate(asked, 1) if edit["do"] == "insert"]
        there = [name for name in names if name not in gone]
        what = draw(st.sampled_from(["insert", "replace", "delete", "move"]))
        after = draw(st.sampled_from(["", *there, *inserted]))
        if what == "insert" or not there:
            asked.append({"do": "insert", "after": after, "source": f"new {number}"})
            continue
        cell = draw(st.sampled_from(there))
        edit: dict[str, Any] = {"do": what, "cell": cell, "was": was(here, cell)}
        if what == "replace":
            edit["source"] = f"{cell} = {number}"
        elif what == "move":
            if after == cell:
                continue
            edit["after"] = after
        else:
            gone.add(cell)
        asked.append(edit)
    edits = exact(here, asked or [{"do": "insert", "source": "x"}])
    rejected = draw(st.lists(st.sampled_from(parts_of(edits)), unique=True))
    return here, edits, rejected


@given(batches())
def test_any_part_of_a_batch_can_be_made_and_touches_nothing_else(
    given_: tuple[Any, list[dict[str, Any]], list[str]],
) -> None:
    here, edits, rejected = given_
    order = [cell["id"] for cell in here["cells"]]
    kept = left(edits, rejected, order)
    after = by_id(apply(here, changes_of(kept)).notebook)
    whole = by_id(apply(here, changes_of(edits)).notebook)
    before = by_id(here)
    for name in {*after, *whole, *before}:
        expected = before.get(name) if name in rejected else whole.get(name)
        assert after.get(name) == expected, name
    if not rejected:
        assert kept == edits
    # Cells that no edit moves or inserts keep their order.
    moved = {str(edit["cell"]) for edit in kept if edit["do"] in ("move", "insert")}
    still = [name for name in after if name not in moved]
    assert still == [name for name in before if name in still]
