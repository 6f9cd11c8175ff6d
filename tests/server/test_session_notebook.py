"""The notebook as of a step: each cell as it last ran by then, nothing newer, nothing unsafe."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

import httpx
import nbformat
import pytest

from reprise.jupyter.static.bundle import ORIGINAL
from reprise.log.model import Actor, NewStep, OutputEntry
from tests.fixtures.histories import Part, cell, display, history, of_cell, text
from tests.fixtures.kernel import Database
from tests.fixtures.server import JupyterServer

AGENT = Actor("agent", "talk", 1)
SCRIPT = "<b>bold</b><script>parent.document.title = 'mine'</script>"


@pytest.fixture(scope="module")
def client(api: JupyterServer) -> httpx.Client:
    return api.client("alice")


def past(client: httpx.Client, session: str, **query: Any) -> dict[str, Any]:
    """The answer, whose notebook nbformat takes."""
    answer = client.get(f"sessions/{session}/notebook", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    nbformat.validate(nbformat.from_dict(found["notebook"]))
    return found


def sources(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["id"], each["source"]) for each in found["notebook"]["cells"]]


def test_cells_are_as_they_last_ran_by_then(client: httpx.Client, database: Database) -> None:
    session = history(
        database,
        [
            Part(of_cell("a", "first"), (text("one"),)),
            Part(of_cell("b", "second")),
            Part(NewStep("command", {"argv": ["ls"]}, "0" * 64, 0, AGENT)),
            Part(of_cell("a", "changed"), (text("two"),), "error"),
            Part(of_cell("c", "new")),
        ],
    )
    assert past(client, session, at=-1)["notebook"]["cells"] == []
    assert sources(past(client, session, at=1)) == [("a", "first"), ("b", "second")]
    found = past(client, session, at=3)
    # Where it stood, though it ran after the other one.
    assert sources(found) == [("a", "changed"), ("b", "second")]
    (first, _) = found["notebook"]["cells"]
    assert first["metadata"]["reprise"] == {"seq": 3, "outcome": "error"}
    assert first["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "two"}]
    assert found["notebook"]["metadata"]["reprise"] == {"session": session, "at": 3}
    assert found["left_out"] == {"older_cells": False, "outputs": []}
    assert len(past(client, session)["notebook"]["cells"]) == 3
    missing = client.get(f"sessions/{session}/notebook", params={"at": 5})
    assert missing.status_code == 404


def test_what_a_front_end_asks_for_itself_and_cells_without_an_id(
    client: httpx.Client, database: Database
) -> None:
    hidden = cell("hidden")
    hidden = replace(
        hidden,
        payload={**hidden.payload, "content": {"code": "hidden", "silent": True}},
    )
    session = history(
        database,
        [
            Part(cell("nobody said which")),
            Part(hidden),
            Part(of_cell("not an id!", "odd")),
            Part(of_cell("a", "mine", metadata={"x": {"cellId": "b"}})),
            Part(of_cell("b", "theirs")),
            Part(of_cell("a", "again", metadata={"x": {"cellId": "b"}})),
        ],
    )
    found = past(client, session)
    codes = [each["source"] for each in found["notebook"]["cells"]]
    assert sorted(codes) == ["again", "nobody said which", "odd", "theirs"]
    by_code = {each["source"]: each["id"] for each in found["notebook"]["cells"]}
    assert (by_code["again"], by_code["theirs"]) == ("a", "b")
    assert len(set(by_code.values())) == 4


def test_a_display_is_as_it_was_updated_by_then(client: httpx.Client, database: Database) -> None:
    def at(value: str, kind: str = "update_display_data") -> OutputEntry:
        return display({"text/plain": value}, "one", kind)

    session = history(
        database,
        [
            Part(of_cell("a"), (at("0 %", "display_data"),)),
            Part(of_cell("b"), (at("50 %"),)),
            Part(of_cell("b"), (at("100 %"),)),
        ],
    )
    seen = [
        past(client, session, at=at)["notebook"]["cells"][0]["outputs"][0]["data"]["text/plain"]
        for at in range(3)
    ]
    assert seen == ["0 %", "50 %", "100 %"]


def test_what_came_after_an_untrusted_step_is_never_an_original(
    client: httpx.Client, database: Database
) -> None:
    html = (display({"text/html": SCRIPT}),)
    edited = {"reprise_edited_by": "agent"}
    session = history(
        database,
        [
            Part(of_cell("a"), html),
            Part(of_cell("b", metadata=edited), html),
            Part(of_cell("c"), html),
        ],
    )
    first, second, third = past(client, session)["notebook"]["cells"]
    assert first["outputs"][0]["data"]["text/html"] == SCRIPT, "as it was live"
    for each in (second, third):
        data = each["outputs"][0]["data"]
        assert "<script" not in data["text/html"]
        assert "<b>bold</b>" in data["text/html"]
        assert ORIGINAL in data
    # In a copy that runs again it stays the agent's.
    assert second["metadata"]["reprise_edited_by"] == "agent"
    assert "reprise_edited_by" not in third["metadata"]


def test_what_an_untrusted_step_made_of_an_earlier_display_is_no_original(
    client: httpx.Client, database: Database
) -> None:
    update = display({"text/html": SCRIPT}, "one", "update_display_data")
    session = history(
        database,
        [
            Part(of_cell("a"), (display({"text/html": "<i>one</i>"}, "one"),)),
            Part(of_cell("b"), (update,)),
            Part(of_cell("c", actor=AGENT), (update,)),
        ],
    )
    for at, script in ((1, True), (2, False)):
        html = past(client, session, at=at)["notebook"]["cells"][0]["outputs"][0]["data"]
        assert "<b>bold</b>" in html["text/html"]
        assert ("<script" in html["text/html"]) is script


def test_what_is_too_much_is_named(client: httpx.Client, database: Database) -> None:
    large = (text("x" * (7 << 20)),)
    parts = [Part(of_cell(f"c{n}", f"n = {n}"), large) for n in range(6)]
    session = history(database, [*parts, Part(of_cell("long", "x" * (9 << 20)))])
    found = past(client, session)
    left = {each["seq"] for each in found["left_out"]["outputs"]}
    assert left, "42 MiB are over the bound"
    for seq, each in enumerate(found["notebook"]["cells"][:6]):
        assert (each["outputs"] == []) == (seq in left)
        assert each["source"] == f"n = {seq}"
    assert "too long to be shown" in found["notebook"]["cells"][-1]["source"]


def test_a_forks_own_notebook_goes_on_with_it(client: httpx.Client, database: Database) -> None:
    session = history(database, [Part(of_cell("a", "x = 1")), Part(of_cell("b", "x = 2"))])
    fork = client.post(f"sessions/{session}/forks", json={"at": 0}).json()["session"]
    found = past(client, fork, attached=True)
    metadata = found["notebook"]["metadata"]
    assert metadata["kernelspec"]["name"] == "reprise"
    assert metadata["reprise"] == {"session": fork, "step": 0}
    assert sources(found) == [("a", "x = 1")]
    nobody = client.get(f"sessions/{uuid.uuid4()}/notebook")
    assert nobody.status_code == 404
