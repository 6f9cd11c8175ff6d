"""Whatever a model asks of a notebook is made exact or refused in words, and shown within bounds."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reprise.errors import RepriseError
from reprise_server.agent.contract import RESULT_CHARACTERS, BadCall
from reprise_server.agent.notebook.batch import changes_of, edits_of, exact
from reprise_server.agent.notebook.cells import apply, by_id, cell_hash, normal
from reprise_server.agent.notebook.listing import Asked, listing
from reprise_server.agent.tools.notebook_tools import EditNotebook
from reprise_server.agent.tools.schemas import check_input
from tests.agent.notebooks import IDS, SOURCES, code, notebooks, of
from tests.agent.test_notebook_cells import JSON

SETTINGS = settings(max_examples=150, deadline=None)

FIELDS = {
    "do": st.sampled_from(["insert", "replace", "delete", "move"]),
    "cell": st.sampled_from([*IDS, "nope"]),
    "was": st.sampled_from(["", "0" * 12, "right"]),
    "after": st.sampled_from(["", *IDS, "nope", "#1", "#2", "#x", "#99999999"]),
    "type": st.sampled_from(["code", "markdown", "raw"]),
    "source": SOURCES,
}
EDITS = st.lists(
    st.fixed_dictionaries(
        {"do": FIELDS["do"]}, optional={key: FIELDS[key] for key in FIELDS if key != "do"}
    ),
    max_size=5,
)
#: Edits that have the fields they need, so that more of them are made.
WHOLE = st.one_of(
    st.fixed_dictionaries(
        {"do": st.just("insert"), "source": SOURCES},
        optional={"after": FIELDS["after"], "type": FIELDS["type"]},
    ),
    st.fixed_dictionaries(
        {"do": st.just("replace"), "cell": FIELDS["cell"], "was": st.just("right"),
         "source": SOURCES},
        optional={"type": FIELDS["type"]},
    ),
    st.fixed_dictionaries(
        {"do": st.just("delete"), "cell": FIELDS["cell"], "was": st.just("right")}
    ),
    st.fixed_dictionaries(
        {"do": st.just("move"), "cell": FIELDS["cell"], "was": st.just("right"),
         "after": FIELDS["after"]}
    ),
)  # fmt: skip


@SETTINGS
@given(notebooks(), EDITS | st.lists(WHOLE, max_size=5))
def test_edits_are_made_exact_or_refused(notebook: dict[str, Any], edits: list[Any]) -> None:
    there = by_id(notebook)
    for edit in edits:
        if edit.get("was") == "right" and edit.get("cell") in there:
            edit["was"] = cell_hash(there[edit["cell"]])[:12]
    before = copy.deepcopy(notebook)
    tool = EditNotebook.__dataclass_fields__["schema"].default_factory()  # type: ignore[misc]
    check_input("edit_notebook", tool, {"edits": edits})
    try:
        found = exact(notebook, edits)
    except BadCall:
        return
    finally:
        assert notebook == before
    assert exact(notebook, edits) == found
    stored = json.loads(json.dumps(found))
    made = apply(notebook, changes_of(stored))
    # What an undo is told of a call without a result is what the call does.
    assert made.edits == edits_of({"edits": stored})
    asked = [edit for edit in edits if edit["do"] == "insert"]
    new = [name for name in by_id(made.notebook) if name not in there]
    deleted = {edit["cell"] for edit in edits if edit["do"] == "delete"}
    assert len(new) == len(asked)
    assert deleted & by_id(made.notebook).keys() == set()


@SETTINGS
@given(st.data())
def test_any_notebook_is_shown_within_bounds(data: st.DataObject) -> None:
    outputs, metadata = data.draw(JSON), data.draw(JSON)
    source = data.draw(st.sampled_from(["x = 1\n", "é" * 3000, "\x1b[31m\u202e", "a" * 20_000]))
    cells = [
        code(f"c{n}", source * data.draw(st.integers(0, 40)), outputs=outputs)
        for n in range(data.draw(st.integers(0, 6)))
    ]
    cells.append({"cell_type": "code", "source": "", "metadata": metadata, "outputs": [outputs]})
    try:
        notebook = normal(of(*cells, metadata=metadata))
    except RepriseError:
        return
    asked = Asked(
        tuple(data.draw(st.lists(st.sampled_from([*by_id(notebook), "nope"]), max_size=3))),
        data.draw(st.none() | st.sampled_from([*by_id(notebook), "nope"])),
        data.draw(st.none() | st.integers(-1, 5)),
        data.draw(st.booleans()),
        data.draw(st.integers(1, 3)),
    )
    try:
        found = listing(notebook, "n.ipynb", asked)
    except BadCall as error:
        texts = [str(error)]
    else:
        texts = [block["text"] for block in found.blocks if block["type"] == "text"]
    assert 0 < sum(map(len, texts)) <= RESULT_CHARACTERS
    assert "\x1b" not in "".join(texts)
    assert "\u202e" not in "".join(texts)


def test_a_long_notebook_can_be_read_to_its_end_whatever_is_in_it() -> None:
    long = normal(of(*(code(f"c{n}", f"x = {n}\n" * (n % 700)) for n in range(300))))
    seen: list[str] = []
    asked = Asked()
    while True:
        said = "".join(str(block["text"]) for block in listing(long, "n", asked).blocks)
        seen += [line.split()[1] for line in said.splitlines() if line.startswith("cell ")]
        if 'first="' not in said:
            break
        asked = Asked(first=said.rpartition('first="')[2].partition('"')[0])
    assert seen == list(by_id(long))
