"""Changes of a notebook are made all or none, never over somebody else's, and can be put back."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.errors import RepriseError, TooLarge, UsageError
from reprise.jupyter.static.policy import EDITED_BY
from reprise_server.agent.contract import Change, Edit, Stale
from reprise_server.agent.notebook import cells as cells_module
from reprise_server.agent.notebook.cells import (
    BadNotebook,
    apply,
    by_id,
    cell_hash,
    hash_of,
    normal,
    snapshot,
)
from reprise_server.agent.notebook.file import as_file, parsed
from reprise_server.agent.notebook.undoing import put_back
from tests.agent.notebooks import changes, code, markdown, notebooks, of

SETTINGS = settings(max_examples=150, deadline=None)


def names(notebook: Any) -> list[str]:
    return list(by_id(notebook))


@SETTINGS
@given(st.data())
def test_changes_leave_what_they_were_made_to_and_all_else(data: st.DataObject) -> None:
    notebook = data.draw(notebooks())
    before = copy.deepcopy(notebook)
    made = data.draw(changes(notebook, "new"))
    after = apply(notebook, made)
    assert notebook == before
    untouched = set(by_id(before)) - {change.cell for change in made}
    left = by_id(after.notebook)
    assert all(left[name] == by_id(before)[name] for name in untouched)
    assert [n for n in left if n in untouched] == [n for n in by_id(before) if n in untouched]
    # Whatever the agent wrote says so, and it is a notebook that Jupyter takes.
    wrote = {change.cell for change in made if change.what in ("insert", "replace")}
    assert all(left[name]["metadata"][EDITED_BY] == "agent" for name in wrote & left.keys())
    read = nbformat.reads(as_file(after.notebook, "n"), as_version=4)
    nbformat.validate(read)


@SETTINGS
@given(st.data())
def test_one_stale_change_and_none_is_made(data: st.DataObject) -> None:
    notebook = data.draw(notebooks().filter(lambda found: found["cells"]))
    made = data.draw(changes(notebook, "new"))
    name = data.draw(st.sampled_from(names(notebook)))
    what = data.draw(st.sampled_from(["replace", "delete", "move"]))
    was = hash_of("code", "something else")
    stale = Change(what, name, was=was, source="mine", after="")  # type: ignore[arg-type]
    with pytest.raises(Stale) as told:
        apply(notebook, [stale, *made])
    assert name in told.value.cells


@SETTINGS
@given(st.data())
def test_what_the_agent_did_is_put_back_exactly(data: st.DataObject) -> None:
    before = data.draw(notebooks())
    edits: list[Edit] = []
    now = before
    for turn in range(data.draw(st.integers(1, 3))):
        applied = apply(now, data.draw(changes(now, f"new{turn}")))
        edits.extend(applied.edits)
        now = applied.notebook
    if data.draw(st.booleans()):  # the log keeps them as JSON
        edits = [Edit.of(json.loads(json.dumps(edit.to_json()))) for edit in edits]
    found = put_back(before, now, edits)
    assert found.kept == ()
    assert apply(now, found.changes).notebook == before


@SETTINGS
@given(st.data())
def test_a_lost_call_may_have_made_its_changes_or_not(data: st.DataObject) -> None:
    before = data.draw(notebooks())
    made = apply(before, data.draw(changes(before, "new")))
    lost = apply(made.notebook, data.draw(changes(made.notebook, "lost")))
    for now in (made.notebook, lost.notebook):
        found = put_back(before, now, [*made.edits, *lost.edits])
        assert found.kept == ()
        assert apply(now, found.changes).notebook == before


@SETTINGS
@given(st.data())
def test_an_undo_keeps_every_edit_of_the_user(data: st.DataObject) -> None:
    before = data.draw(notebooks())
    agent = apply(before, data.draw(changes(before, "new")))
    user = apply(agent.notebook, data.draw(changes(agent.notebook, "user")))
    found = put_back(before, user.notebook, agent.edits)
    after = by_id(apply(user.notebook, found.changes).notebook)
    touched = {edit.cell for edit in agent.edits}
    there = by_id(user.notebook)
    for name in there.keys() - touched:
        assert after[name] == there[name]
    for name in found.kept:
        assert after.get(name) == there.get(name)
    # Text of the user's own is never gone: neither what a cell held only since, …
    for edit in user.edits:
        mine = {e.after for e in agent.edits if e.cell == edit.cell}
        old = by_id(before).get(edit.cell)
        theirs = there.get(edit.cell)
        if theirs is not None and cell_hash(theirs) not in mine | {old and cell_hash(old)}:
            assert after[edit.cell] == theirs
            assert edit.cell in found.kept or edit.cell not in touched


def test_a_cell_that_the_user_changed_between_two_edits_of_the_agent_is_kept() -> None:
    before = normal(of(code("a", "mine"), code("b", "other")))
    first = apply(before, [Change("replace", "a", was=hash_of("code", "mine"), source="agent 1")])
    typed = apply(
        first.notebook, [Change("replace", "a", was=hash_of("code", "agent 1"), source="typed")]
    )
    second = apply(
        typed.notebook, [Change("replace", "a", was=hash_of("code", "typed"), source="agent 2")]
    )
    found = put_back(before, second.notebook, [*first.edits, *second.edits])
    assert found == ((), ("a",))


def test_a_cell_that_came_after_the_snapshot_cannot_be_put_back_so_it_is_kept() -> None:
    before = normal(of())
    typed = apply(before, [Change("insert", "u", after="", source="typed")])
    agent = apply(
        typed.notebook, [Change("replace", "u", was=hash_of("code", "typed"), source="agent")]
    )
    assert put_back(before, agent.notebook, agent.edits) == ((), ("u",))


def test_a_cell_that_the_user_deleted_stays_deleted_and_is_named() -> None:
    before = normal(of(code("a", "1"), code("b", "2")))
    agent = apply(before, [Change("replace", "a", was=hash_of("code", "1"), source="agent")])
    user = apply(agent.notebook, [Change("delete", "a", was=hash_of("code", "agent"))])
    assert put_back(before, user.notebook, agent.edits) == ((), ("a",))


def test_a_batch_is_checked_against_what_was_read_not_against_itself() -> None:
    notebook = normal(of(code("a", "1"), code("b", "2")))
    was = hash_of("code", "1")
    made = apply(
        notebook,
        [
            Change("replace", "a", was=was, source="first"),
            Change("insert", "c", after="a", cell_type="markdown", source="# c"),
            Change("move", "a", was=was, after="b"),
            Change("replace", "a", was=was, source="second", cell_type="raw"),
        ],
    )
    assert [(c["id"], c["source"]) for c in made.notebook["cells"]] == [
        ("c", "# c"),
        ("b", "2"),
        ("a", "second"),
    ]
    deletes = Change("delete", "a", was=was)
    for later in (Change("replace", "a", was=was, source=""), Change("insert", "n", after="a")):
        with pytest.raises(UsageError, match="deletes cell a"):
            apply(notebook, [deletes, replace(later, source="")])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (Change("insert", "a", after="", source="x"), "a cell a already"),
        (Change("insert", "two words", after="", source="x"), "cannot be the id"),
        (Change("insert", "n", after="", source="\ud800"), "half a character"),
        (Change("insert", "n", after=""), "give its `source`"),
        (Change("replace", "a", source="x"), "say how it was read"),
        (Change("move", "a", was=hash_of("code", "1"), after="a"), "cannot follow itself"),
        (Change("outputs", "a", outputs=[{"output_type": "odd"}]), "of no kind"),
        (
            Change("insert", "n", after="", cell_type="heading", source=""),  # type: ignore[arg-type]
            "not 'heading'",
        ),
    ],
    ids=["twice", "id", "surrogate", "empty", "was", "itself", "output", "type"],
)
def test_what_could_never_be_made_is_refused(change: Change, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        apply(normal(of(code("a", "1"))), [change])


def test_a_source_has_a_bound() -> None:
    long = "x" * (cells_module.MAX_SOURCE + 1)
    with pytest.raises(TooLarge):
        apply(normal(of()), [Change("insert", "n", after="", source=long)])


def test_an_anchor_that_is_gone_is_stale_and_named() -> None:
    with pytest.raises(Stale) as told:
        apply(normal(of()), [Change("insert", "n", after="gone", source="")])
    assert told.value.cells == ("gone",)


def test_outputs_are_painted_untrusted_and_only_where_there_is_code() -> None:
    shown = {"output_type": "display_data", "data": {"text/html": ["<b>", "x</b>"]}, "metadata": {}}
    notebook = normal(of(code("a", "1", metadata={"trusted": True}), markdown("m", "# m")))
    painted = apply(notebook, [Change("outputs", "a", outputs=[shown], execution_count=3)])
    cell = by_id(painted.notebook)["a"]
    assert cell["metadata"] == {"trusted": False}
    assert (cell["execution_count"], cell["outputs"][0]["data"]) == (3, {"text/html": "<b>x</b>"})
    assert painted.edits == (Edit("a", cell_hash(cell), cell_hash(cell)),)
    with pytest.raises(Stale):
        apply(notebook, [Change("outputs", "m", outputs=[shown])])


def test_cells_without_ids_have_the_same_ones_at_every_reading() -> None:
    old = of(
        {"cell_type": "code", "metadata": {}, "source": ["x = 1\n", "y"], "outputs": []},
        {"cell_type": "code", "metadata": {}, "source": "x = 1\ny", "outputs": []},
        code("twice", "a"),
        code("twice", "b"),
        nbformat_minor=2,
    )
    first, again = normal(old), normal(json.loads(json.dumps(old)))
    assert first == again
    assert first["nbformat_minor"] == 5
    assert len(set(names(first))) == 4
    assert names(first)[2] == "twice"
    # Neither does a cell that comes before the others change them.
    longer = normal({**old, "cells": [markdown("m", "# new"), *old["cells"]]})
    assert names(longer)[1:] == names(first)


@pytest.mark.parametrize(
    "given",
    [None, [], {}, {"cells": {}}, of({"cell_type": "odd"}), of(3), {"cells": [], "nbformat": 5}],  # type: ignore[arg-type]
    ids=["none", "list", "empty", "cells", "type", "cell", "format"],
)
def test_what_is_no_notebook_is_said_to_be_none(given: object) -> None:
    with pytest.raises(BadNotebook):
        normal(given)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(
            ["cells", "cell_type", "source", "id", "metadata", "outputs", "execution_count",
             "nbformat", "nbformat_minor", "data", "output_type", "text"]
        ) | st.text(max_size=3),
        inner,
        max_size=6,
    ),
    max_leaves=30,
)  # fmt: skip


@SETTINGS
@given(JSON, JSON, JSON)
def test_no_json_crashes_the_reading(cell: Any, outputs: Any, whole: Any) -> None:
    made = {"cell_type": "code", "source": "x", "outputs": outputs, "id": cell}
    more = whole if isinstance(whole, dict) else {}
    for given_ in (cell, of(cell), of(made), {**more, **of(made)}, {**of(made), **more}):
        try:
            found = normal(given_)
        except RepriseError:
            continue
        assert normal(found) == found or "nan" in repr(found).lower()
        assert len(set(names(found))) == len(found["cells"])
        assert json.loads(snapshot(found)) == found or "nan" in repr(found).lower()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_bytes_crash_the_reading(data: bytes) -> None:
    try:
        parsed(data, "n.ipynb")
    except RepriseError:
        return
    assert json.loads(data.decode("utf-8-sig"))["nbformat"] in (1, 2, 3, 4)


def test_a_notebook_nested_too_deeply_is_told() -> None:
    deep = b'{"cells":[],"nbformat":4,"metadata":' + b'{"a":' * 5000 + b"1" + b"}" * 5001
    with pytest.raises(BadNotebook):
        parsed(deep, "n.ipynb")


def test_a_notebook_of_format_3_is_read() -> None:
    cell = {"cell_type": "code", "input": ["x = 1"], "language": "python", "outputs": []}
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": [cell]}]}
    (found,) = parsed(json.dumps(old).encode(), "n.ipynb")["cells"]
    assert found["source"] == "x = 1"
