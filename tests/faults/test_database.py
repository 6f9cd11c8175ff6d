"""Takes Postgres away from a living kernel: nothing runs unlogged, nothing is told unstored."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.faults.history import History
from tests.fixtures.kernel import Database, Kernels, is_state, shown_text


@pytest.fixture
def history(kernels: Kernels) -> History:
    return History.begin(kernels, kernels("process"))


@pytest.fixture(autouse=True)
def server_runs(database: Database) -> Iterator[None]:
    yield
    database.server.resume()
    if database.server.process is None:
        database.server.start()


def test_a_cell_without_a_database_is_refused_and_does_not_run(
    history: History, database: Database
) -> None:
    history.run("print('logged')")
    database.server.stop(signal.SIGKILL)
    ran = history.run("print('unlogged')")
    assert ran.error == "DatabaseUnavailable"
    assert "was not run" in ran.reply["evalue"]
    assert "Traceback" not in str(ran.reply)
    assert ran.text() == ""
    assert [kind for kind, _ in ran.outputs] == ["error"]
    database.server.start()
    assert history.run("print('again')").text() == "again\n"
    memory, file = history.state()
    assert 1 not in memory
    assert 1 not in file, "a cell ran that was not in the log"
    assert history.violations() == []


def test_what_a_cell_ended_with_is_stored_before_it_is_told(
    history: History, database: Database
) -> None:
    sent = history.send("print('begun', flush=True)\ninput()\nprint('ended')", allow_stdin=True)
    asked = history.client.wait(lambda h: h.type == "input_request" and h.parent == sent.msg_id)
    assert asked
    database.server.stop(signal.SIGKILL)
    history.client.answer("go on")
    history.client.shows(sent.msg_id, "ended")
    history.client.notice("database-away")
    told = [
        h for h in history.client.of(sent.msg_id) if h.channel == "shell" or is_state(h, "idle")
    ]
    assert told == [], "told before it was stored"
    database.server.start()
    assert history.client.finish(sent.msg_id).status == "ok"
    recorded = history.kernels.read(history.kernel)
    assert recorded.statuses()[-1] == "ok"
    assert "ended" in shown_text(recorded.cells[-1])
    assert history.violations() == []


def test_a_database_that_hangs_stops_nothing_for_good(history: History, database: Database) -> None:
    database.server.pause()
    sent = history.send("print('waited')")
    for _ in range(20):
        history.client.pump(0.05)
    assert history.client.of(sent.msg_id) == [], "it ran before it was in the log"
    database.server.resume()
    assert history.client.finish(sent.msg_id).text() == "waited\n"
    assert history.violations() == []


def test_a_kernel_that_starts_without_a_database_works_once_it_is_there(
    kernels: Kernels, database: Database
) -> None:
    database.server.stop(signal.SIGKILL)
    kernel = kernels("process")
    client = kernel.client()
    ran = client.run("print(1)")
    assert ran.error in ("DatabaseUnavailable", "UnavailableError")
    assert ran.text() == ""
    database.server.start()
    assert client.prints("print(2)") == "2"
    assert kernels.read(kernel).codes() == ["print(2)"]


def test_late_output_is_kept_through_a_loss(history: History, database: Database) -> None:
    history.run(
        "import threading\ndef late():\n    gate.wait(); print('late')\n"
        "gate = threading.Event(); threading.Thread(target=late).start()"
    )
    database.server.stop(signal.SIGKILL)
    token = history.client.execute("gate.set()")
    database.server.start()
    assert history.client.finish(token).status == "ok"
    history.client.wait(lambda h: h.type == "stream" and "late" in h.content["text"])
    history.kernel.shutdown()
    recorded = history.kernels.read(history.kernel)
    shown = [
        e.content["text"]
        for record in recorded.steps
        for e in (*record.late, *record.outputs)
        if e.type == "stream"
    ]
    assert "late\n" in "".join(shown)
    assert recorded.report.ok


def test_a_kernel_without_a_database_can_still_be_ended(
    history: History, database: Database
) -> None:
    sent = history.send("print('begun', flush=True)\ninput()", allow_stdin=True)
    history.client.wait(lambda h: h.type == "input_request" and h.parent == sent.msg_id)
    database.server.stop(signal.SIGKILL)
    history.client.answer("go on")
    history.client.notice("database-away")
    os.kill(history.kernel.process.pid, signal.SIGTERM)
    assert history.kernel.wait(30) == 0
    database.server.start()
    history.again()
    memory, _ = history.state()
    assert sent.token not in memory
    assert history.kernels.read(history.kernel).statuses()[1] == "lost"
