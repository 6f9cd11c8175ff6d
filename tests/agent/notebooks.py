"""Notebooks and changes of them as hypothesis draws them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from reprise_server.agent.contract import Change
from reprise_server.agent.notebook.cells import apply, by_id, cell_hash, normal

SOURCES = st.sampled_from(["", "x = 1", "x = 2\nprint(x)", "# häß", "a\r\nb"])
TYPES = st.sampled_from(["code", "markdown", "raw"])
IDS = [f"cell-{number}" for number in range(6)]


def code(name: str, source: str, **more: Any) -> dict[str, Any]:
    made = {"cell_type": "code", "id": name, "metadata": {}, "source": source}
    return {**made, "outputs": [], "execution_count": None, **more}


def markdown(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def of(*cells: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


@st.composite
def notebooks(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(IDS), unique=True))
    cells = []
    for name in names:
        source = draw(SOURCES)
        if draw(TYPES) != "code":
            cells.append(markdown(name, source))
            continue
        shown = {"output_type": "stream", "name": "stdout", "text": source}
        outputs = [shown] if draw(st.booleans()) else []
        cells.append(code(name, source, outputs=outputs, execution_count=len(outputs) or None))
    return normal(of(*cells))


@st.composite
def changes(draw: st.DrawFn, notebook: dict[str, Any], new: str) -> list[Change]:
    """Changes that can be made to `notebook` in this order; new cells are called `new`-1, …"""
    made: list[Change] = []
    for number in range(draw(st.integers(0, 5))):
        names = list(by_id(notebook))
        what = draw(st.sampled_from(["insert", "replace", "delete", "move", "outputs"]))
        if what == "insert" or not names:
            after = draw(st.sampled_from(["", *names]))
            change = Change(
                "insert",
                f"{new}-{number}",
                after=after,
                cell_type=draw(TYPES),
                source=draw(SOURCES),
            )
        else:
            name = draw(st.sampled_from(names))
            cell = by_id(notebook)[name]
            was = cell_hash(cell)
            if what == "replace":
                kind = draw(st.none() | TYPES)
                change = Change("replace", name, was=was, cell_type=kind, source=draw(SOURCES))
            elif what == "delete":
                change = Change("delete", name, was=was)
            elif what == "move":
                others = [other for other in names if other != name]
                change = Change("move", name, was=was, after=draw(st.sampled_from(["", *others])))
            elif cell["cell_type"] == "code":
                shown = {"output_type": "stream", "name": "stdout", "text": "ran"}
                change = Change("outputs", name, outputs=[shown], execution_count=7)
            else:
                continue
        notebook = apply(notebook, [change]).notebook
        made.append(change)
    return made
