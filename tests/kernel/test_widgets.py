"""Widgets and displays on a page that was open before a death go on working after it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from typing import Any

import pytest

from tests.fixtures.kernel import PATIENCE, Client, Kernel, Kernels, is_state
from tests.fixtures.page import Page

SLIDER = (
    "import ipywidgets as w; seen = []; s = w.IntSlider()\n"
    "s.observe(lambda change: seen.append(change['new']), 'value'); s"
)


def following(kernels: Kernels, kernel: Kernel, page: Page, part: str) -> tuple[Kernel, Client]:
    """What is there after a kill -9 of one part; the page stays open."""
    page.look()
    heard = len(page.client.heard)
    kernel.kill(part)
    if part == "router":
        kernel = kernels.again(kernel)
        page.on(kernel.client())
    else:
        # What is sent before the death was noticed dies with the sandbox.
        page.client.wait(
            lambda h: h.type == "reprise_notice" and h.content["code"] == "resumed", start=heard
        )
    return kernel, page.client


def verified(kernels: Kernels, kernel: Kernel) -> dict[str, Any]:
    """What `reprise verify` says of a session that no kernel holds any more."""
    report: dict[str, Any] = json.loads(reprise(kernels, kernel, "verify", "--json"))
    return report


def reprise(kernels: Kernels, kernel: Kernel, command: str, *arguments: str) -> str:
    """What `reprise COMMAND SESSION …` prints."""
    database = kernels.database
    env = {"REPRISE_DSN": database.dsn, "REPRISE_HOME": str(database.home)}
    ran = subprocess.run(
        [sys.executable, "-m", "reprise.cli", command, str(kernel.session), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=kernel.folder,
        env={**os.environ, **env, "REPRISE_BACKEND": kernel.backend},
    )
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


@pytest.mark.parametrize("part", ["sandbox", "router"])
@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_a_slider_goes_on_in_a_second_and_a_third_life(
    kernels: Kernels, backend: str, part: str
) -> None:
    kernel = kernels(backend)
    page = Page(kernel.client())
    page.client.run(SLIDER)
    slider = page.model("IntSliderModel")
    page.set(slider, value=1)
    for life in (2, 3):
        kernel, client = following(kernels, kernel, page, part)
        page.set(slider, value=10 * life)
        client.run(f"s.max = {100 * life}; t{life} = w.FloatText()")
        assert page.state(slider)["value"] == 10 * life
        assert page.state(slider)["max"] == 100 * life
        # What was made after a resume works too, after the next one as well.
        text = page.model("FloatTextModel", life - 2)
        page.set(text, value=life / 2)
        first = page.model("FloatTextModel", 0)
        page.set(first, value=life)
        assert client.run("seen").value == str([1, 20, 30][:life])
        assert client.run("t2.value").value == f"{float(life)}"
    # The log holds the ids that the page knows, whatever kernel drew them.
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    named = {
        entry.content["comm_id"]
        for record in recorded.steps
        for entry in record.outputs
        if entry.type.startswith("comm_")
    }
    assert named <= set(page.models)
    assert not [n for n in recorded.notices if n.code in ("divergence", "not-replayed")]


def test_a_fork_goes_on_with_the_widgets_of_the_page(kernels: Kernels) -> None:
    """A fork of a session that has been resumed itself: ids of three kernels, one page."""
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(SLIDER)
    slider = page.model("IntSliderModel")
    page.set(slider, value=1)
    kernel, client = following(kernels, kernel, page, "router")
    client.run("t = w.IntText()")
    text = page.model("IntTextModel")
    page.set(text, value=2)
    page.set(slider, value=3)  # after the fork's point
    fork = reprise(kernels, kernel, "fork", "--at", "3").strip()
    forked = kernels("process", session=uuid.UUID(fork), folder=kernel.folder)
    page.on(forked.client())
    page.set(text, value=4)
    assert page.client.run("(seen, s.value, t.value)").value == "([1], 1, 4)"
    page.set(slider, value=5)
    assert page.client.run("s.value").value == "5"
    page.on(client)
    assert client.run("(seen, t.value)").value == "([1, 3], 2)"


@pytest.mark.parametrize("part", ["sandbox", "router"])
def test_widgets_that_name_each_other(kernels: Kernels, part: str) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(
        "import ipywidgets as w, json\n"
        "a, b = w.IntSlider(), w.IntText(); link = w.jslink((a, 'value'), (b, 'value'))\n"
        "box = w.HBox([a]); note = w.HTML(json.dumps({'of': json.dumps({a.model_id: b.model_id})}))"
    )
    box, note = page.model("HBoxModel"), page.model("HTMLModel")
    a, b = page.model("IntSliderModel"), page.model("IntTextModel")
    before = page.state(note)["value"]
    assert json.loads(json.loads(before)["of"]) == {a: b}
    kernel, client = following(kernels, kernel, page, part)
    client.run("box.children = [b, a, w.Button()]")
    assert page.children(box)[:2] == [b, a]
    client.run("note.value = json.dumps({'of': json.dumps({a.model_id: b.model_id})}) + ' '")
    assert page.state(note)["value"] == before + " "
    # What a page tells of them reaches the living ones.
    page.set(box, children=[f"IPY_MODEL_{a}"])
    assert client.run("box.children == (a,)").value == "True"
    client.run("link.target = (a, 'value')")
    assert page.state(page.model("LinkModel"))["target"] == [f"IPY_MODEL_{a}", "value"]
    # All states at once, as a page asks for them that is loaded anew.
    client.request(
        "comm_open",
        {"comm_id": "0a" * 16, "target_name": "jupyter.widget.control", "data": {}},
        metadata={"version": "1.0.0"},
    )
    asked = client.request("comm_msg", {"comm_id": "0a" * 16, "data": {"method": "request_states"}})
    told = client.wait(lambda h: h.parent == asked and h.type == "comm_msg", 20).content
    assert told["comm_id"] == "0a" * 16
    assert set(told["data"]["states"]) == set(page.models)
    found = client.ask("comm_info_request", {"target_name": "jupyter.widget"})
    assert set(found["comms"]) == set(page.models)
    client.run("a.close()")
    assert a in page.look().closed


AWAITS = (
    "import asyncio, ipywidgets as w\n"
    "s = w.IntSlider(); moved = asyncio.Event()\n"
    "s.observe(lambda change: moved.set(), 'value'); display(s)\n"
    "print('waits', flush=True)\n"
    "await asyncio.wait_for(moved.wait(), 60)\n"
    "print('got', s.value); s.value"
)


@pytest.mark.parametrize("part", ["sandbox", "router"])
@pytest.mark.parametrize("by", ["main", "subshell"])
def test_a_cell_awaits_the_answer_of_a_widget_that_it_made(
    kernels: Kernels, part: str, by: str
) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    if by == "subshell":
        made = page.client.ask("create_subshell_request", channel="control")
        page.subshell = made["subshell_id"]
    waiting = page.client.execute(AWAITS)
    page.client.shows(waiting, "waits")
    slider = page.model("IntSliderModel")
    answered = page.update(slider, value=7)
    assert page.client.finish(waiting, 30).value == "7"
    if part == "sandbox":
        page.done(answered)
    kernel, _ = following(kernels, kernel, page, part)
    assert page.client.run("(s.value, moved.is_set())").value == "(7, True)"
    page.set(slider, value=8)
    assert page.client.run("s.value").value == "8"
    recorded = kernels.read(kernel)
    comm = next(r for r in recorded.steps if r.step.kind == "comm")
    assert comm.step.new.during is not None
    assert comm.step.new.during.seq == 0
    # The answer is in the log before the end of the cell that may have needed it.
    assert comm.outcome is not None
    assert recorded.steps[0].outcome is not None
    assert comm.outcome.event < recorded.steps[0].outcome.event
    assert not [n for n in recorded.notices if n.code in ("divergence", "not-replayed")]
    kernel.shutdown()
    report = verified(kernels, kernel)
    assert [step["verdict"] for step in report["steps"]] == ["same"] * len(recorded.steps), report


def test_a_cell_awaits_a_click_that_shows_nothing(kernels: Kernels) -> None:
    """No status and no output tell that the message was handled."""
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(
        "import asyncio, ipywidgets as w; clicks = []; clicked = asyncio.Event(); b = w.Button()\n"
        "b.on_click(lambda _: (clicks.append(1), clicked.set()))"
    )
    button = page.model("ButtonModel")
    for number in (1, 2):
        waiting = page.client.execute(
            "print('waits', flush=True); await clicked.wait(); clicked.clear(); len(clicks)"
        )
        page.client.shows(waiting, "waits")
        clicked = page.click(button)
        assert page.client.finish(waiting, 30).value == str(number)
        page.done(clicked)
        following(kernels, kernel, page, "sandbox")
        assert page.client.run("len(clicks)").value == str(number)
    assert kernels.read(kernel).statuses("comm") == ["ok", "ok"]


@pytest.mark.parametrize("by", ["main", "subshell"])
def test_a_slider_is_dragged_while_a_cell_awaits(kernels: Kernels, by: str) -> None:
    """Its page sends the next value only after an idle, which ipykernel does not always give.

    ipykernel handles the first of a subshell's messages on the main shell, later ones beside: two
    threads, and nobody promises which of them comes first.
    """

    def in_order(shown: str) -> str:
        return shown if by == "main" else str(sorted(json.loads(shown)))

    kernel = kernels("process")
    page = Page(kernel.client())
    if by == "subshell":
        made = page.client.ask("create_subshell_request", channel="control")
        page.subshell = made["subshell_id"]
    page.client.run(SLIDER)
    slider = page.model("IntSliderModel")
    waiting = page.client.execute(
        "import asyncio\nprint('waits', flush=True)\nwhile s.value < 5: await asyncio.sleep(0.01)\n"
        "list(seen)"
    )
    page.client.shows(waiting, "waits")
    for value in range(1, 6):
        page.set(slider, value=value)
    shown = json.loads(page.client.finish(waiting, 30).value)
    assert shown == [1, 2, 3, 4, 5] or (by == "subshell" and 5 in shown)
    following(kernels, kernel, page, "sandbox")
    assert in_order(page.client.run("seen").value) == "[1, 2, 3, 4, 5]"


def test_a_flood_of_updates_is_few_steps_and_the_last_value_arrives(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(SLIDER + "\nother = w.IntSlider(); clicks = []; b = w.Button()")
    page.client.run("b.on_click(lambda _: clicks.append((s.value, other.value)))")
    slider, other = page.model("IntSliderModel"), page.model("IntSliderModel", 1)
    page.client.run("s.max = 10_000")
    sent = [page.update(slider, value=n) for n in range(1, 501)]
    sent += [page.update(other, value=99)]
    sent += [page.click(page.model("ButtonModel"))]
    sent += [page.update(slider, value=n) for n in range(501, 1001)]
    for each in sent:
        page.done(each)
    seen = json.loads(page.client.run("seen").value)
    assert seen == sorted(seen)
    # The click saw what its page had sent before it: nothing of that was dropped.
    assert page.client.run("clicks").value == "[(500, 99)]"
    assert page.client.run("s.value").value == "1000"
    # Overtaken updates have left no trace but their idle.
    comms = [r for r in kernels.read(kernel).steps if r.step.kind == "comm"]
    assert len(comms) < 100
    dispatched = [c.step.payload["header"]["msg_id"] for c in comms]
    assert dispatched == [each for each in sent if each in dispatched]
    following(kernels, kernel, page, "sandbox")
    assert json.loads(page.client.run("seen").value) == seen


def test_an_update_and_a_cell_keep_their_order(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(SLIDER)
    slider = page.model("IntSliderModel")
    for turn in range(20):
        page.update(slider, value=2 * turn + 1)
        first = page.client.execute("s.value")
        second = page.client.execute("s.value")
        assert page.client.finish(first).value == str(2 * turn + 1)
        page.update(slider, value=2 * turn + 2)
        assert page.client.finish(second).value in (str(2 * turn + 1), str(2 * turn + 2))
    # Also while all of them wait for the session to come back.
    kernel.kill("router")
    kernel = kernels.again(kernel)
    page.on(kernel.client())
    for value in (50, 51, 52):
        page.update(slider, value=value)
    running = page.client.execute("before = s.value")
    last = page.update(slider, value=60)
    page.client.finish(running)
    page.done(last)
    assert page.client.run("(before, s.value)").value == "(52, 60)"


def test_a_widget_message_asked_for_as_a_step_has_its_place_among_cells(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(SLIDER)
    slider = page.model("IntSliderModel")
    data = {"method": "update", "state": {"value": 4}, "buffer_paths": []}
    payload = {"msg_type": "comm_msg", "content": {"comm_id": slider, "data": data}}
    first = page.client.execute("s.value")
    asked = page.client.request("step_request", {"kind": "comm", "payload": payload})
    second = page.client.execute("s.value")
    assert page.client.finish(second, 30).value == "4"
    assert page.client.finish(first).value == "0"
    assert page.client.finish(asked).reply["outcome"] == "ok"
    following(kernels, kernel, page, "router")
    assert page.client.run("(s.value, seen)").value == "(4, [4])"
    assert page.state(slider)["value"] == 4


def test_a_subshells_cell_awaits_a_click_that_shows_nothing(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    made = page.client.ask("create_subshell_request", channel="control")
    page.subshell = made["subshell_id"]
    page.client.run(
        "import asyncio, ipywidgets as w; clicks = []; b = w.Button()\n"
        "b.on_click(lambda _: clicks.append(1))",
        subshell_id=page.subshell,
    )
    waiting = page.client.execute(
        "print('waits', flush=True)\nwhile not clicks: await asyncio.sleep(0.01)",
        subshell_id=page.subshell,
    )
    page.client.shows(waiting, "waits")
    clicked = page.click(page.model("ButtonModel"))
    page.client.finish(waiting, 30)
    page.done(clicked)
    assert kernels.read(kernel).statuses("comm") == ["ok"]
    following(kernels, kernel, page, "router")
    assert page.client.run("clicks").value == "[1]"


def test_a_cell_whose_answer_has_no_end_in_the_log_ends_on_a_resume(kernels: Kernels) -> None:
    """The kernel died in the callback that had woken the cell: the cell would wait for ever."""
    kernel = kernels("process")
    page = Page(kernel.client())
    made = page.client.ask("create_subshell_request", channel="control")
    page.client.run(SLIDER + "\nimport time, asyncio")
    page.client.run(
        "s.observe(lambda change: time.sleep(60) if change['new'] == 2 else None, 'value')"
    )
    page.subshell = made["subshell_id"]
    slider = page.model("IntSliderModel")
    waiting = page.client.execute(
        "print('waits', flush=True)\nwhile s.value < 2: await asyncio.sleep(0.01)\n"
    )
    page.client.shows(waiting, "waits")
    page.set(slider, value=1)
    page.update(slider, value=2)
    page.client.finish(waiting, 30)
    kernel, client = following(kernels, kernel, page, "router")
    assert client.run("s.value", timeout_s=80).value == "1"
    recorded = kernels.read(kernel)
    assert recorded.statuses("comm") == ["ok", "lost"]
    told = [n.text for n in recorded.notices if n.code == "not-replayed"]
    assert len(told) == 1
    assert "left out" in told[0]


def test_a_comm_that_waits_for_a_computing_cell_belongs_after_it(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(SLIDER + "\nimport time, asyncio")
    page.client.run("s.observe(lambda change: time.sleep(0.5), 'value')")
    slider = page.model("IntSliderModel")
    code = "print('runs', flush=True); time.sleep(1); await asyncio.sleep(0); before = list(seen)"
    running = page.client.execute(code)
    page.client.shows(running, "runs")
    moved = page.update(slider, value=3)
    ended = page.client.finish(running)
    page.done(moved)
    idle = next(h for h in ended.heard if is_state(h, "idle"))
    heard = page.client.heard
    at = {id(h): n for n, h in enumerate(heard)}
    idle_of_comm = next(h for h in page.client.of(moved) if is_state(h, "idle"))
    # The cell is told to be over before the widget's callback is: it does not wait for it.
    assert at[id(idle)] < at[id(idle_of_comm)]
    assert page.client.run("(before, seen)").value == "([], [3])"
    recorded = kernels.read(kernel)
    comm = next(r for r in recorded.steps if r.step.kind == "comm")
    assert comm.outcome is not None
    assert comm.outcome.new.duration_us > 500_000
    assert "echo_update" in str(comm.outputs)
    following(kernels, kernel, page, "sandbox")
    assert page.client.run("(before, seen)").value == "([], [3])"
    assert not [n for n in kernels.read(kernel).notices if n.code == "divergence"]


def test_a_widgets_callback_is_interrupted(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(SLIDER + "\nimport time")
    page.client.run(
        "s.observe(lambda change: (print('runs', flush=True), time.sleep(60)), 'value')"
    )
    moved = page.update(page.model("IntSliderModel"), value=3)
    page.client.shows(moved, "runs")
    page.client.request("interrupt_request", channel="control")
    page.client.wait(lambda h: h.parent == moved and is_state(h, "idle"), 20)
    assert page.client.run("seen").value == "[3]"
    assert kernels.read(kernel).statuses("comm") == ["interrupted"]


@pytest.mark.parametrize("part", ["sandbox", "router"])
def test_what_callbacks_threads_and_later_cells_made_goes_on(kernels: Kernels, part: str) -> None:
    kernel = kernels("bubblewrap")
    page = Page(kernel.client())
    client = page.client
    client.run(
        "import ipywidgets as w, threading\nfrom IPython.display import display\n"
        "out = w.Output(); box = w.VBox(); b = w.Button(); h = display('first', display_id=True)\n"
        "def more(_):\n"
        "    with out: print('clicked')\n"
        "    box.children += (w.FloatSlider(value=len(box.children)),)\n"
        "b.on_click(more)"
    )
    client.run("g = display('second', display_id=True); h.update('changed')")
    button, box = page.model("ButtonModel"), page.model("VBoxModel")
    page.done(page.click(button))
    page.done(page.click(button))
    threaded = client.execute(
        "def late():\n"
        "    go.wait(); h.update('by a thread'); pic.value = b'GIF89a' * 500; made.append(w.Text())\n"
        "    done.set()\n"
        "go, done, made = threading.Event(), threading.Event(), []; pic = w.Image()\n"
        "t = threading.Thread(target=late); t.start()"
    )
    client.finish(threaded)
    client.run("go.set(); done.wait()")
    client.wait(lambda h: h.type == "comm_open" and "TextModel" in str(h.content))
    late, picture = page.model("TextModel"), page.model("ImageModel")
    assert page.buffers[picture] == [b"GIF89a" * 500]
    second, first = page.children(box)[1], page.children(box)[0]
    kernel, client = following(kernels, kernel, page, part)
    # Opened by a callback, by a thread after its cell's end, before and after the death:
    page.set(first, value=5.5)
    page.set(second, value=6.5)
    page.set(late, value="typed")
    page.done(page.click(button))
    assert page.children(box)[:2] == [first, second]
    page.set(page.children(box)[2], value=7.5)
    told = client.run("([c.value for c in box.children], made[0].value)").value
    assert told == "([5.5, 6.5, 7.5], 'typed')"
    assert str(page.state(page.model("OutputModel"))["outputs"]).count("clicked") == 3
    shown = set(page.displays)
    client.run("h.update('again'); g.update('too')")
    page.look()
    assert set(page.displays) == shown
    assert {"'again'", "'too'"} <= set(page.displays.values())
    client.run("pic.value = b'PNG'")
    assert page.look().buffers[picture] == [b"PNG"]
    recorded = kernels.read(kernel)
    assert recorded.report.ok, recorded.report
    assert not [n for n in recorded.notices if n.code in ("divergence", "not-replayed")]


@pytest.mark.parametrize("moment", ["during the replay", "after it"])
def test_what_a_thread_opened_after_its_cell(kernels: Kernels, moment: str) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    client = page.client
    client.run(
        "import ipywidgets as w, os, threading, time\nmade = []; h = display(0, display_id=True)\n"
        "def late():\n"
        "    while not os.path.exists('go'): time.sleep(0.01)\n"
        "    for n in range(3): made.append(w.Text(str(n)))\n"
        "    display(w.Image(value=b'GIF89a'), display_id='0' * 31 + 'a'); h.update('late')\n"
        "threading.Thread(target=late).start()"
    )
    go = kernel.folder / "go"
    go.touch()
    client.wait(lambda h: h.type == "update_display_data")
    texts = [page.model("TextModel", n) for n in range(3)]
    client.run("1")  # late output has been stored when a later step is
    if moment == "after it":
        go.unlink()
    kernel, client = following(kernels, kernel, page, "sandbox")
    heard = len(client.heard)
    go.touch()
    if moment == "after it":
        client.wait(lambda h: h.type == "update_display_data", start=heard)
    for n, text in enumerate(texts):
        page.set(text, value=f"typed {n}")
    told = client.run("[t.value for t in made]").value
    assert told == "['typed 0', 'typed 1', 'typed 2']"
    # The page has no second model in the place of the first.
    assert len(page.look().opened) == len(set(page.opened))
    kernel.shutdown()
    recorded = kernels.read(kernel)
    assert recorded.report.ok, recorded.report
    late = [entry for entry in recorded.steps[0].late if entry.type == "comm_open"]
    assert {entry.content["comm_id"] for entry in late} >= set(texts)
    assert len(late) == len({entry.content["comm_id"] for entry in late})


def test_uploaded_files_and_interactive_functions_come_back(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    client = page.client
    client.run("import ipywidgets as w; up = w.FileUpload()\nup")
    client.run(
        "calls = []\n@w.interact(x=(0, 10), name=['a', 'b'])\ndef f(x, name):\n    calls.append((x, name)); print(x)"
    )
    upload, slider = page.model("FileUploadModel"), page.model("IntSliderModel")
    names = page.model("DropdownModel")
    file = {"name": "a.bin", "type": "", "size": 4, "last_modified": 1_700_000_000_000}
    paths = [["value", 0, "content"]]
    data = {"method": "update", "state": {"value": [file]}, "buffer_paths": paths}
    page.done(page.send(upload, data, [b"\x00\xff\x01\n"]))
    page.set(slider, value=7)
    page.set(names, index=1)
    asked = "(bytes(up.value[0].content), calls)"
    told = client.run(asked).value
    assert told == r"(b'\x00\xff\x01\n', [(5, 'a'), (7, 'a'), (7, 'b')])"
    kernel, client = following(kernels, kernel, page, "router")
    assert client.run(asked).value == told
    page.set(slider, value=1)
    assert client.run("calls[-1]").value == "(1, 'b')"
    assert "1\\n" in str(page.state(page.model("OutputModel"))["outputs"])


def test_widgets_of_an_interrupted_cell_are_gone_without_harm(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    client = page.client
    client.run("import ipywidgets as w, time")
    running = client.execute("s = w.IntSlider(); print('made', flush=True); time.sleep(60)")
    client.shows(running, "made")
    client.request("interrupt_request", channel="control")
    client.finish(running)
    slider = page.model("IntSliderModel")
    page.set(slider, value=1)
    client.run("t = w.IntText()")
    text = page.model("IntTextModel")
    kernel, client = following(kernels, kernel, page, "router")
    # As in any kernel that does not know the comm: an idle, and a word on stderr.
    asked = page.set(slider, value=2)
    plain = page.send("0b" * 16, {"method": "update", "state": {}, "buffer_paths": []})
    page.done(plain)
    said = [[(h.type, set(h.content)) for h in client.of(each)] for each in (asked, plain)]
    assert said[0] == said[1]
    page.set(text, value=5)
    assert client.run("t.value").value == "5"
    assert slider not in client.ask("comm_info_request", {})["comms"]


def test_a_subshell_that_no_step_has_used_yet_outlives_its_kernel(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run(SLIDER)
    page.subshell = page.client.ask("create_subshell_request", channel="control")["subshell_id"]
    slider = page.model("IntSliderModel")
    kernel, client = following(kernels, kernel, page, "router")
    page.set(slider, value=4)
    assert client.run("s.value").value == "4"
    assert page.state(slider)["value"] == 4
    listed = client.ask("list_subshell_request", channel="control")
    assert listed["subshell_id"] == [page.subshell]
    # One that was deleted stays deleted.
    gone = {"subshell_id": page.subshell}
    client.reply(client.request("delete_subshell_request", gone, channel="control"))
    refused = client.execute("1", subshell_id=page.subshell)
    assert client.reply(refused)["status"] == "error"


def test_a_page_that_asks_for_widgets_during_a_resume_is_told_of_them(kernels: Kernels) -> None:
    kernel = kernels("process")
    page = Page(kernel.client())
    page.client.run("import time; time.sleep(2)")
    page.client.run(SLIDER)
    kernel, client = following(kernels, kernel, page, "router")
    found = client.ask("comm_info_request", {"target_name": "jupyter.widget"})
    assert set(found["comms"]) == set(page.models)
