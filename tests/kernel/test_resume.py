"""After the death of everything a fresh process stands where the old one stood."""

from __future__ import annotations

import os

import pytest

from tests.fixtures.kernel import Client, Kernel, Kernels


def killed(kernels: Kernels, kernel: Kernel) -> tuple[Kernel, Client]:
    """The next process after a kill -9 of this one."""
    kernel.kill("router")
    following = kernels.again(kernel)
    return following, following.client()


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_state_numbers_history_and_outputs(kernels: Kernels, backend: str) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    client.run("import random; random.seed(7); values = [random.random() for _ in range(3)]")
    client.run("print('shown once'); values")
    client.run("1/0")
    client.run("values.append('last'); len(values)")
    before = client.run("(values, _, In[-2])")
    kernel, client = killed(kernels, kernel)
    after = client.run("(values, Out[4], In[-3])")
    assert after.value == before.value
    assert after.reply["execution_count"] == before.reply["execution_count"] + 1
    # Nothing is shown twice.
    assert [h for h in client.heard if h.type == "stream"] == []
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert not [n for n in recorded.notices if n.code == "divergence"]
    assert [n.code for n in recorded.notices if n.code == "resumed"] == ["resumed"]


def test_a_progress_is_told_and_comes_to_its_end(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    for number in range(5):
        # Long enough for the next client to be there before the resume is over.
        client.run(f"import time; time.sleep(0.5); x = {number}")
    kernel, client = killed(kernels, kernel)
    client.run("x")
    told = [h.content for h in client.heard if h.type == "reprise_progress"]
    done = [each["done"] for each in told if not each["over"]]
    assert done == sorted(done)
    assert told[-1]["over"]


def test_a_kernel_answers_while_it_is_being_brought_back(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("import time; time.sleep(2)")
    kernel, client = killed(kernels, kernel)
    waiting = client.execute("'back'")
    assert client.ask("kernel_info_request")["status"] == "ok"
    assert client.ask("is_complete_request", {"code": "1"})["status"] in ("unknown", "complete")
    assert [h for h in client.of(waiting) if h.channel == "shell"] == []
    assert client.finish(waiting).value == "'back'"


def test_a_slow_resume_shows_itself_in_the_waiting_cell_and_clears_itself(
    kernels: Kernels,
) -> None:
    kernel = kernels("process")
    client = kernel.client()
    for _ in range(5):
        client.run("import time; time.sleep(1)")
    kernel, client = killed(kernels, kernel)
    ran = client.run("'back'")
    kinds = [kind for kind, _ in ran.outputs]
    assert "Bringing the session back" in str(ran.outputs[0])
    assert kinds.index("clear_output") < kinds.index("execute_result")
    recorded = kernels.read(kernel)
    kinds = [e.type for e in recorded.cells[-1].outputs if e.type != "execute_reply"]
    assert kinds == ["execute_result"], "what it showed while it waited is no output of the step"


def test_a_display_handle_works_after_a_resume(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    ran = client.run("from IPython.display import display; h = display(1, display_id=True)")
    shown = next(c for kind, c in ran.outputs if kind == "display_data")
    kernel, client = killed(kernels, kernel)
    ran = client.run("h.update(2)")
    updated = next(c for kind, c in ran.outputs if kind == "update_display_data")
    assert updated["transient"]["display_id"] == shown["transient"]["display_id"]


def test_a_widget_on_the_page_works_after_a_resume(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    ran = client.run(
        "import ipywidgets as w; s = w.IntSlider(); seen = []\n"
        "s.observe(lambda c: seen.append(c['new']), 'value'); s"
    )
    opened = [c for kind, c in ran.outputs if kind == "comm_open"]
    model = next(c for c in opened if c["data"]["state"].get("_model_name") == "IntSliderModel")
    update = {"method": "update", "state": {"value": 5}, "buffer_paths": []}
    client.request("comm_msg", {"comm_id": model["comm_id"], "data": update})
    assert client.run("(s.value, seen)").value == "(5, [5])"
    kernel, client = killed(kernels, kernel)
    # The comm message is a step too, and the page still speaks of the old id.
    assert client.run("(s.value, seen)").value == "(5, [5])"
    update["state"] = {"value": 6}
    client.request("comm_msg", {"comm_id": model["comm_id"], "data": update})
    assert client.run("(s.value, seen)").value == "(6, [5, 6])"
    ran = client.run("s.value = 7")
    sent = [c for kind, c in ran.outputs if kind == "comm_msg"]
    assert {c["comm_id"] for c in sent} == {model["comm_id"]}
    found = client.ask("comm_info_request", {"target_name": "jupyter.widget"})
    assert model["comm_id"] in found["comms"]
    assert kernels.read(kernel).statuses("comm") == ["ok", "ok"]


def test_a_comm_message_is_handled_while_a_cell_awaits_it(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run(
        "import asyncio\nfrom comm import create_comm\narrived = asyncio.Event()\n"
        "c = create_comm(target_name='t'); c.on_msg(lambda m: arrived.set())"
    )
    opened = next(h.content for h in client.heard if h.type == "comm_open")
    waiting = client.execute("print('waits', flush=True); await arrived.wait(); 'came'")
    client.shows(waiting, "waits")
    client.request("comm_msg", {"comm_id": opened["comm_id"], "data": {}})
    assert client.finish(waiting, 30).value == "'came'"
    # A replay keeps the order: the message is fed while the cell waits for it.
    kernel, client = killed(kernels, kernel)
    assert client.run("arrived.is_set()").value == "True"
    record = next(r for r in kernels.read(kernel).steps if r.step.kind == "comm")
    assert record.step.new.during is not None
    assert record.step.new.during.seq == 1


def test_a_subshell_runs_beside_a_cell_and_keeps_its_id(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    created = client.ask("create_subshell_request", channel="control")
    subshell = created["subshell_id"]
    client.run("import threading; gate = threading.Event()")
    running = client.execute("print('waits', flush=True); _ = gate.wait(30); 'opened'")
    client.shows(running, "waits")
    beside = client.execute("side = 'effect'; print('beside')", subshell_id=subshell)
    assert client.finish(beside).text() == "beside\n"
    client.run("gate.set()", subshell_id=subshell)
    assert client.finish(running).value == "'opened'"
    kernel, client = killed(kernels, kernel)
    assert client.run("side").value == "'effect'"
    assert client.run("side + ' again'", subshell_id=subshell).value == "'effect again'"
    listed = client.ask("list_subshell_request", channel="control")
    assert listed["subshell_id"] == [subshell]


def test_the_debugger_attaches(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("1")
    sent = {"type": "request", "seq": 1, "command": "debugInfo", "arguments": {}}
    assert client.ask("debug_request", sent, channel="control")["success"]
    arguments = {
        "clientID": "t",
        "adapterID": "python",
        "pathFormat": "path",
        "linesStartAt1": True,
        "columnsStartAt1": True,
        "locale": "en",
    }
    sent = {"type": "request", "seq": 2, "command": "initialize", "arguments": arguments}
    assert client.ask("debug_request", sent, channel="control")["success"]
    before = len(kernels.read(kernel).steps)
    assert client.run("2").value == "2"
    assert len(kernels.read(kernel).steps) == before + 1, "debugger traffic is no step"


def test_a_restart_by_hand_gives_a_clean_interpreter_on_the_same_files(
    kernels: Kernels,
) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("x = 1; open('result.txt', 'w').write('kept')")
    client.run("import time; time.sleep(0.7)")
    kernel.shutdown(restart=True)
    kernel = kernels.again(kernel)
    client = kernel.client()
    ran = client.run("(open('result.txt').read(), 'x' in globals())")
    assert ran.value == "('kept', False)"
    assert ran.reply["execution_count"] == 1
    recorded = kernels.read(kernel)
    kinds = [record.step.kind for record in recorded.steps]
    assert kinds.count("restart") == 1
    restart = next(r for r in recorded.steps if r.step.kind == "restart")
    assert restart.step.payload["tree"]
    # A crash after the restart starts from the restart's tree.
    client.run("y = 2; open('later.txt', 'w').write('too')")
    kernel, client = killed(kernels, kernel)
    ran = client.run("(y, open('result.txt').read(), open('later.txt').read(), 'x' in globals())")
    assert ran.value == "(2, 'kept', 'too', False)"
    assert ran.reply["execution_count"] == 3


def test_the_router_and_all_else_die_at_once(kernels: Kernels) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("x = [1]")
    running = client.execute(
        "x.append(2); print('running', flush=True); import time; time.sleep(60)"
    )
    client.shows(running, "running")
    family = [each.pid for each in kernel.descendants()]
    for pid in (*family, kernel.process.pid):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue  # it died with the one before
    kernel.process.wait()
    kernel = kernels.again(kernel)
    client = kernel.client()
    assert client.run("x").value == "[1]"
    assert kernels.read(kernel).statuses() == ["ok", "lost", "ok"]


def test_a_restart_in_the_middle_of_a_cell(kernels: Kernels) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("open('file', 'w').write('kept')")
    running = client.execute("import time; print('running', flush=True); time.sleep(600)")
    client.shows(running, "running")
    kernel.shutdown(restart=True)
    kernel = kernels.again(kernel)
    client = kernel.client()
    ran = client.run("open('file').read()")
    assert ran.value == "'kept'"
    assert ran.reply["execution_count"] == 1
    recorded = kernels.read(kernel)
    assert recorded.statuses() == ["ok", "interrupted", "ok"]
    assert recorded.statuses("restart") == ["ok"]
    assert recorded.report.ok


def test_a_restart_of_a_session_that_is_just_being_brought_back(kernels: Kernels) -> None:
    kernel = kernels("process")
    client = kernel.client()
    client.run("import time; time.sleep(3); x = 1")
    kernel, client = killed(kernels, kernel)
    client.wait(lambda h: h.type == "reprise_progress")
    kernel.shutdown(restart=True)
    kernel = kernels.again(kernel)
    client = kernel.client()
    assert client.run("'x' in globals()").value == "False"
    assert kernels.read(kernel).statuses("restart") == ["ok"]
