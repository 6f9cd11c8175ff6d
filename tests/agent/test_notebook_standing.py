"""What the agent did to a cell stands with how the cell was, until somebody else changes it."""

from __future__ import annotations

from typing import Any

from reprise_server.agent.contract import Edit, Entry
from reprise_server.agent.notebook.batch import changes_of, edits_of, exact
from reprise_server.agent.notebook.cells import Notebook, apply, by_id, cell_hash, normal
from reprise_server.agent.notebook.standing import Standing, standing, turns_of
from tests.agent.notebooks import code


class Told:
    """A conversation about a notebook, and the notebook as the agent and a person change it."""

    def __init__(self, **sources: str) -> None:
        cells = [code(name, source) for name, source in sources.items()]
        given = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
        self.notebook: Notebook = normal(given)
        self.notebooks: dict[str, Notebook] = {}
        self.entries: list[Entry] = []
        self.turn = 0

    def entry(self, kind: Any, **body: Any) -> None:
        self.entries.append(Entry(len(self.entries), self.turn, kind, body, 0))

    def begin(self, *, stored: bool = True) -> None:
        self.turn += 1
        self.entry("said", text="Go.", by=None)
        if stored:
            name = f"sha{self.turn}"
            self.notebooks[name] = self.notebook
            self.entry("notebook", path="n.ipynb", sha256=name, where="page")

    def agent(self, *edits: dict[str, Any], rejected: tuple[str, ...] = ()) -> None:
        call = f"c{len(self.entries)}"
        asked = [
            each if "cell" not in each else {**each, "was": self.hash(each["cell"])}
            for each in edits
        ]
        made = exact(self.notebook, asked)
        self.entry("called", id=call, act={"tool": "edit_notebook", "input": {"edits": made}})
        kept = [each for each in made if each["cell"] not in rejected]
        self.notebook = apply(self.notebook, changes_of(kept)).notebook
        told = [each.to_json() for each in edits_of({"edits": kept})]
        self.entry("result", id=call, status="ok", edits=told)

    def ran(self, name: str) -> None:
        edit = Edit(name, self.hash(name), self.hash(name))
        self.entry("result", id="r", status="ok", edits=[edit.to_json()])

    def types(self, name: str, source: str) -> None:
        """A person does."""
        by_id(self.notebook)[name]["source"] = source

    def hash(self, name: str) -> str:
        return cell_hash(by_id(self.notebook)[name])

    def stands(self, since: int = 0) -> dict[str, Standing]:
        self.notebooks = {name: normal(each) for name, each in self.notebooks.items()}
        found = standing(turns_of(self.entries, since), self.notebooks)
        return {each.cell: each for each in found}


def replaces(cell: str, source: str) -> dict[str, Any]:
    return {"do": "replace", "cell": cell, "source": source}


def source(cell: Any) -> str | None:
    return None if cell is None else str(cell["source"])


def test_each_kind_of_edit_stands_with_how_the_cell_was() -> None:
    told = Told(a="1", b="2", c="3", d="4")
    told.begin()
    told.agent(
        replaces("a", "one"),
        {"do": "delete", "cell": "b"},
        {"do": "insert", "after": "a", "source": "new"},
        {"do": "move", "cell": "d", "after": ""},
    )
    told.ran("c")
    found = told.stands()
    (new,) = set(found) - {"a", "b", "d"}
    assert (source(found["a"].before), found["a"].after) == ("1", ("code", "one"))
    assert (source(found["b"].before), found["b"].after) == ("2", None)
    assert found["b"].behind == ("a",)
    assert (found[new].before, found[new].after) == (None, ("code", "new"))
    assert (source(found["d"].before), found["d"].moved) == ("4", True)
    assert found["d"].behind == ("c", "b", "a")
    assert found["d"].after == ("code", "4")
    assert all(each.known for each in found.values())


def test_edits_of_several_turns_are_one_with_the_first_before() -> None:
    told = Told(a="1")
    told.begin()
    told.agent(replaces("a", "two"))
    told.begin()
    told.agent(replaces("a", "three"))
    found = told.stands()["a"]
    assert (source(found.before), found.after, found.turn) == ("1", ("code", "three"), 2)
    assert source(told.stands(since=2)["a"].before) == "two"


def test_what_a_person_wrote_between_two_turns_is_what_was_before() -> None:
    told = Told(a="1", b="2")
    told.begin()
    told.agent(replaces("a", "two"), replaces("b", "agent"))
    told.notebook = normal(told.notebook)
    told.types("a", "mine")
    told.begin()
    told.agent(replaces("a", "three"))
    found = told.stands()
    assert (source(found["a"].before), found["a"].known) == ("mine", True)
    assert source(found["b"].before) == "2"


def test_what_was_typed_within_a_turn_is_not_known() -> None:
    told = Told(a="1")
    told.begin()
    told.notebook = normal(told.notebook)
    told.types("a", "typed while it thought")
    told.agent(replaces("a", "two"))
    assert told.stands()["a"].known is False


def test_an_edit_without_a_stored_notebook_is_not_known() -> None:
    told = Told(a="1")
    told.begin(stored=False)
    told.agent(replaces("a", "two"))
    found = told.stands()["a"]
    assert (found.before, found.known, found.after) == (None, False, ("code", "two"))


def test_what_is_as_it_was_does_not_stand() -> None:
    told = Told(a="1")
    told.begin()
    told.agent(replaces("a", "two"), {"do": "insert", "source": "new"})
    told.agent(replaces("a", "1"))
    new = next(name for name in by_id(told.notebook) if name != "a")
    told.agent({"do": "delete", "cell": new})
    assert told.stands() == {}


def test_undone_turns_and_rejected_cells_do_not_stand() -> None:
    told = Told(a="1", b="2")
    told.begin()
    told.agent(replaces("a", "two"), replaces("b", "two"), rejected=("b",))
    assert set(told.stands()) == {"a"}
    told.entry("undone", turn=1)
    assert told.stands() == {}
