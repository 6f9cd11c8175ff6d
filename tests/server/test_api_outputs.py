"""What a page fills its notebook with: the newest step of each cell, as the router published it."""

from __future__ import annotations

import json
import os
import signal
import uuid
from dataclasses import replace
from typing import Any

import httpx
import pytest

from reprise.jupyter.static.bundle import ORIGINAL
from reprise.log.model import Actor, NewStep, OutputEntry, outputs_hash
from reprise.log.model import NewOutcome as Outcome
from reprise.log.postgres import Log
from tests.fixtures.agent_server import refused
from tests.fixtures.histories import (
    AT,
    ENVIRONMENT,
    SPEC,
    Part,
    cell,
    display,
    history,
    of_cell,
    text,
    with_log,
)
from tests.fixtures.kernel import Database, Kernels, Recorded
from tests.fixtures.server import JupyterServer

AGENT = Actor("agent", "talk", 1)
SCRIPT = "<b>bold</b><script>parent.document.title = 'mine'</script>"
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def client(api: JupyterServer) -> httpx.Client:
    return api.client("alice")


def clear(wait: bool) -> OutputEntry:
    return OutputEntry("clear_output", {"wait": wait})


def shown(client: httpx.Client, session: str, seq: int, **query: Any) -> dict[str, Any]:
    answer = client.get(f"sessions/{session}/steps/{seq}/shown", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def cells(client: httpx.Client, session: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"sessions/{session}/cells", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def named(found: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["cell"], each["seq"]) for each in found["cells"]]


def test_of_each_cell_the_newest_step_is_told(client: httpx.Client, database: Database) -> None:
    session = history(
        database,
        [
            Part(of_cell("a")),
            Part(
                of_cell("b", 'print(\'"cellId":"c"\')', metadata={"cell": {"cellId": "not this"}})
            ),
            Part(cell("without a cell")),
            Part(of_cell("a", "a\x00 \ud800"), status="died"),
            Part(of_cell("d", actor=AGENT)),
            Part(of_cell("e"), status=None),
        ],
    )
    found = cells(client, session)
    assert named(found) == [("b", 1), ("a", 3), ("d", 4), ("e", 5)]
    assert [each["outcome"] for each in found["cells"]] == ["ok", "died", "ok", None]
    assert [each["actor"] for each in found["cells"]] == ["user", "user", "agent", "user"]
    assert found["steps"] == 6
    assert found["after"] is None
    assert named(cells(client, session, after=3)) == [("d", 4), ("e", 5)]
    assert named(cells(client, session, after=5)) == []


def test_what_a_notebook_has_of_another_session_counts_as_far_as_both_share_it(
    client: httpx.Client, database: Database
) -> None:
    first = history(database, [Part(of_cell("a")), Part(of_cell("b")), Part(of_cell("c"))])
    fork = client.post(f"sessions/{first}/forks", json={"at": 1}).json()["session"]
    stranger = history(database, [Part(of_cell("z"))])

    # The notebook showed all of the first; the fork shares two steps with it.
    assert cells(client, fork, after=2, of=first)["after"] == 1
    assert cells(client, fork, after=0, of=first)["after"] == 0
    assert named(cells(client, fork, after=0, of=first)) == [("b", 1)]
    # And back again.
    assert cells(client, first, after=1, of=fork)["after"] == 1
    assert named(cells(client, first, after=1, of=fork)) == [("c", 2)]
    assert cells(client, first, after=1, of=stranger)["after"] == -1
    assert cells(client, first, after=1, of=str(uuid.uuid4()))["after"] == -1


def test_a_step_is_shown_in_as_few_messages_as_lead_to_the_same(
    client: httpx.Client, database: Database
) -> None:
    pictures = [
        entry
        for at in range(50)
        for entry in (clear(True), display({"text/plain": f"frame {at}"}, "one"))
    ]
    session = history(
        database,
        [
            Part(
                of_cell("a"),
                (text("gone"), *pictures, text("x\ry"), text("z"), text("e", "stderr")),
            ),
            Part(of_cell("b"), (text("kept until something comes"), clear(True)), status=None),
            Part(of_cell("c"), (display({"text/plain": "new"}, "one", "update_display_data"),)),
        ],
    )
    found = shown(client, session, 0)
    assert [kind for kind, _ in found["messages"]] == ["display_data", "stream", "stream"]
    # A later step has updated it.
    assert found["messages"][0][1]["data"] == {"text/plain": "new"}
    assert found["messages"][0][1]["transient"] == {"display_id": "one"}
    assert found["messages"][1][1] == {"name": "stdout", "text": "x\ryz"}
    assert found["whole"]
    assert not found["more"]
    found = shown(client, session, 1)
    assert [kind for kind, _ in found["messages"]] == ["stream", "clear_output"]
    assert found["outcome"] is None
    # Whose display it updated is told with it.
    assert shown(client, session, 2)["touched"] == [{"cell": "a", "seq": 0}]
    assert shown(client, session, 2, after="0.0")["touched"] == [{"cell": "a", "seq": 0}]


def test_a_step_that_is_no_cell_is_shown_as_well(client: httpx.Client, database: Database) -> None:
    command = NewStep("command", {"shell": "pip list"}, ENVIRONMENT, AT)
    restart = NewStep("restart", {"emptied": False}, ENVIRONMENT, AT)
    session = history(database, [Part(command, (text("pandas 2.3"),)), Part(restart)])
    said = {"name": "stdout", "text": "pandas 2.3"}
    assert shown(client, session, 0)["messages"] == [["stream", said]]
    assert shown(client, session, 1)["messages"] == []


def test_nothing_of_a_static_session_is_an_original(
    client: httpx.Client, database: Database
) -> None:
    outputs = (
        display({"text/html": SCRIPT, "text/plain": "plain"}),
        display({"application/javascript": "alert(1)"}),
        text("\x1b]52;c;clipboard\x07text"),
    )
    session = history(
        database,
        [
            Part(of_cell("a"), outputs),
            Part(of_cell("b", actor=AGENT), outputs),
            Part(of_cell("c"), outputs),
        ],
    )
    live = shown(client, session, 0)
    assert not live["static"]
    assert live["messages"][0][1]["data"]["text/html"] == SCRIPT
    for seq in (1, 2):
        for query in ({}, {"after": "0.0"}):
            found = shown(client, session, seq, **query)
            assert found["static"]
            first, second, third = (content for _, content in found["messages"])
            assert first["data"]["text/html"].startswith("<b>bold</b>\n")
            assert "<script" not in first["data"]["text/html"]
            assert first["data"][ORIGINAL]["data"] == {"text/html": SCRIPT}
            assert "application/javascript" not in second["data"]
            assert "held back" in second["data"]["text/plain"]
            assert third["text"] == "text"


def test_what_an_untrusted_step_makes_of_an_earlier_display_is_no_original(
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
    assert shown(client, session, 2)["touched"] == [{"cell": "a", "seq": 0}]
    (message,) = shown(client, session, 0)["messages"]
    assert "<b>bold</b>" in message[1]["data"]["text/html"], "it was updated"
    assert "<script" not in message[1]["data"]["text/html"]
    before = client.post(f"sessions/{session}/forks", json={"at": 1}).json()["session"]
    (message,) = shown(client, before, 0)["messages"]
    assert message[1]["data"]["text/html"] == SCRIPT, "nothing of it is untrusted"


def test_output_of_any_shape_is_told(client: httpx.Client, database: Database) -> None:
    odd = [
        OutputEntry("comm_open", {"comm_id": [1], "data": {"state": []}}),
        display({VIEW: {"model_id": ["no", "text"]}}),
        display({VIEW: "no object"}),
        OutputEntry("display_data", {"data": [], "metadata": 1, "transient": {"display_id": {}}}),
        OutputEntry("update_display_data", {}),
        OutputEntry("stream", {"name": 1, "text": ["a"]}),
    ]
    session = history(database, [Part(of_cell("a", actor=AGENT), tuple(odd))])
    for query in ({}, {"after": "0.0"}):
        assert shown(client, session, 0, **query)["static"]
    assert client.get(f"sessions/{session}/notebook").status_code == 200


def test_an_environment_says_whether_output_is_static(
    client: httpx.Client, database: Database
) -> None:
    async def write(log: Log, rule: str, actor: Actor) -> uuid.UUID:
        session = await log.begin(kernel="python3")
        held = await log.acquire(session, {"pid": 1, "host": "elsewhere"})
        environment = ENVIRONMENT[:-4] + rule.encode().hex()[:4]
        if rule != "unknown":
            await held.record_environment(environment, {**SPEC, "output": rule})
        entries = [display({"text/html": SCRIPT})]
        step = await held.append_step(replace(of_cell("a", actor=actor), environment=environment))
        await held.append_outputs(step.seq, entries)
        await held.record_outcome(step.seq, Outcome("ok", outputs_hash(entries), AT))
        await held.close()
        return session

    for rule, actor, static in (
        ("live", AGENT, False),
        ("static", Actor("user"), True),
        ("auto", Actor("user"), False),
        # What cannot be read is no permission.
        ("unknown", Actor("user"), True),
    ):
        session = with_log(database, lambda log, r=rule, a=actor: write(log, r, a))
        assert shown(client, session, 0)["static"] is static, rule


def test_a_widget_is_shown_where_its_kind_is_known(
    client: httpx.Client, database: Database
) -> None:
    def opened(name: str, module: str, model: str) -> OutputEntry:
        state = {"_model_module": module, "_model_name": model}
        content = {"comm_id": name, "target_name": "jupyter.widget", "data": {"state": state}}
        return OutputEntry("comm_open", content)

    def view(name: str) -> OutputEntry:
        return display({VIEW: {"version_major": 2, "version_minor": 0, "model_id": name}})

    session = history(
        database,
        [
            Part(of_cell("m", actor=AGENT)),
            Part(
                of_cell("a"),
                (
                    opened("slider", "@jupyter-widgets/controls", "IntSliderModel"),
                    opened("foreign", "anywidget", "AnyModel"),
                    view("slider"),
                    view("foreign"),
                ),
            ),
            Part(of_cell("b"), (view("slider"), view("foreign"), view("none"))),
        ],
    )
    for seq, count in ((1, 2), (2, 3)):
        views = [content["data"] for _, content in shown(client, session, seq)["messages"]]
        assert views[0][VIEW]["model_id"] == "slider"
        assert [VIEW in data for data in views] == [True] + [False] * (count - 1)


def test_what_comes_later_is_had_in_parts(client: httpx.Client, database: Database) -> None:
    async def write(log: Log) -> uuid.UUID:
        session = await log.begin(kernel="python3")
        held = await log.acquire(session, {"pid": 1, "host": "elsewhere"})
        await held.record_environment(ENVIRONMENT, SPEC)
        step = await held.append_step(of_cell("a"))
        for number in range(500):
            await held.append_outputs(step.seq, [text(f"{number}\n")])
        await held.close()
        return session

    session = str(with_log(database, write))
    found = shown(client, session, 0, after="1.9")
    said = "".join(content["text"] for _, content in found["messages"])
    while found["more"]:
        assert not found["whole"]
        found = shown(client, session, 0, after=found["next"])
        said += "".join(content["text"] for _, content in found["messages"])
    assert said == "".join(f"{n}\n" for n in range(10, 500))
    assert found["next"] == "1.499"
    assert shown(client, session, 0, after="1.499")["messages"] == []
    refused(client.get(f"sessions/{session}/steps/0/shown?after=x"), 400, "bad-cursor")
    refused(client.get(f"sessions/{session}/steps/9/shown"), 404, "step-not-found")


def test_what_is_too_large_is_cut_and_told(client: httpx.Client, database: Database) -> None:
    long = "é" * (1 << 20)
    large = display({"image/png": "A" * (5 << 20)})
    session = history(
        database,
        [
            Part(of_cell("a"), (text("begin " + long), text("", "stderr"), text(long + " end"))),
            Part(of_cell("b"), (large, large, text("hello"))),
        ],
    )
    cut = shown(client, session, 0)
    whole = sum(len(json.dumps(content)) for _, content in cut["messages"])
    assert whole < (8 << 20) + 1000
    assert cut["messages"][0][1]["text"].startswith("begin éé")
    assert "step 0 of the session has it" in cut["messages"][-1][1]["text"]
    assert cut["messages"][-1][1]["text"].endswith(" end")
    assert cut["left_out"]["outputs"] == 0
    cut = shown(client, session, 1)
    assert [kind for kind, _ in cut["messages"]] == ["display_data", "stream"]
    assert "2 more outputs" in cut["messages"][1][1]["text"]
    assert cut["left_out"]["outputs"] == 2


def test_output_after_a_steps_end_is_told_to_who_has_not_seen_it(
    client: httpx.Client, database: Database
) -> None:
    async def write(log: Log) -> uuid.UUID:
        session = await log.begin(kernel="python3")
        held = await log.acquire(session, {"pid": 1, "host": "elsewhere"})
        await held.record_environment(ENVIRONMENT, SPEC)
        for name in ("a", "b"):
            step = await held.append_step(of_cell(name))
            await held.append_outputs(step.seq, [text("during\n")])
            await held.record_outcome(step.seq, Outcome("ok", outputs_hash([text("during\n")]), AT))
        assert held.next_output == 2
        await held.append_outputs(0, [text("later\n")], late=True)
        await held.close()
        return session

    session = str(with_log(database, write))
    assert cells(client, session, after=1, outputs=3)["cells"] == []
    found = cells(client, session, after=1, outputs=2)
    assert named(found) == [("a", 0)]
    assert found["cells"][0]["late_only"]
    assert found["outputs"] == 3
    # Only what is new: somebody may have cleared the rest.
    told = shown(client, session, 0, after=f"{found['own']}.1")
    assert [content["text"] for _, content in told["messages"]] == ["later\n"]
    # Who has to fill in the whole cell gets all of it.
    assert named(cells(client, session, after=-1, outputs=0)) == [("a", 0), ("b", 1)]
    assert shown(client, session, 0)["messages"][0][1]["text"] == "during\nlater\n"


def test_one_page_paints_at_a_time(client: httpx.Client, database: Database) -> None:
    session = history(database, [Part(of_cell("a"))])

    def claim(page: str, paints: bool = True) -> dict[str, Any]:
        answer = client.post(f"sessions/{session}/painter", json={"page": page, "paints": paints})
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    assert claim("page-one")["paints"]
    assert claim("page-one")["paints"]
    other = claim("page-two")
    assert not other["paints"]
    assert 0 < other["seconds"] <= 15
    claim("page-two", paints=False)  # takes nothing from the one that paints
    assert not claim("page-two")["paints"]
    claim("page-one", paints=False)
    assert claim("page-two")["paints"]
    elsewhere = history(database, [Part(of_cell("a"))])
    answer = client.post(f"sessions/{elsewhere}/painter", json={"page": "page-one", "paints": True})
    assert answer.json()["paints"]
    refused(
        client.post(f"sessions/{session}/painter", json={"page": "<x>"}), 400, "invalid-request"
    )


def test_a_cell_whose_page_is_gone_is_answered_by_another(
    client: httpx.Client, kernels: Kernels
) -> None:
    kernel = kernels("process")
    page = kernel.client()
    content = {"code": "print('hi'); name = input('Who? '); print(f'<{name}>')"}
    whole = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True}
    asked = page.request(
        "execute_request", {**content, **whole, "stop_on_error": True}, metadata={"cellId": "a"}
    )
    page.wait(lambda heard: heard.type == "input_request")
    session = str(kernel.session)
    found = shown(client, session, 0)
    while not found["question"] or not found["messages"]:
        found = shown(client, session, 0)
    assert found["question"] == {"prompt": "Who? ", "password": False}
    assert found["msg_id"] == asked
    assert found["messages"] == [["stream", {"name": "stdout", "text": "hi\n"}]]
    # A kernel that says nothing keeps nobody from what the cell has shown.
    os.kill(kernel.process.pid, signal.SIGSTOP)
    try:
        found = shown(client, session, 0)
        assert (found["question"], len(found["messages"])) == (None, 1)
    finally:
        os.kill(kernel.process.pid, signal.SIGCONT)
    answer = client.post(f"sessions/{session}/answers", json={"msg_id": asked, "value": "Ada"})
    assert answer.json() == {"answered": True}
    ran = page.finish(asked)
    assert ran.text() == "hi\n<Ada>\n"
    late = client.post(f"sessions/{session}/answers", json={"msg_id": asked, "value": "Bob"})
    refused(late, 409, "not-asked")
    found = shown(client, session, 0)
    assert found["outcome"] == "ok"
    assert found["question"] is None
    recorded: Recorded = kernels.read(kernel)
    assert [each.outcome.new.inputs for each in recorded.cells if each.outcome] == [("Ada",)]
