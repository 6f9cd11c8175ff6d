"""Two living kernel processes on one session: the second waits, then either is refused or is alone."""

from __future__ import annotations

import os
import signal

from tests.faults.history import History
from tests.fixtures.kernel import Database, Kernels


def test_a_second_kernel_waits_and_is_told_who_holds_the_session(kernels: Kernels) -> None:
    first = kernels("process")
    client = first.client()
    assert client.prints("x = 1; print(x)") == "1"
    second = kernels("process", session=first.session)
    other = second.client()
    ran = other.run("print(x)")
    assert ran.error == "LeaseHeld"
    assert f"pid {first.process.pid}" in ran.reply["evalue"]
    assert "since 20" in ran.reply["evalue"]
    assert client.prints("x += 1; print(x)") == "2"
    # The newcomer gets it as soon as the holder has gone.
    first.shutdown()
    assert other.prints("print(x)") == "2"
    assert kernels.read(second).codes() == ["x = 1; print(x)", "x += 1; print(x)", "print(x)"]


def test_a_newcomer_that_waits_goes_on_when_the_holder_ends(kernels: Kernels) -> None:
    first = kernels("process")
    assert first.client().prints("x = 1; print(x)") == "1"
    second = kernels("process", session=first.session)
    client = second.client()
    waiting = client.execute("print(x)")
    first.shutdown()
    assert client.finish(waiting).text() == "1\n"


def test_a_paused_holder_that_lost_its_lease_writes_no_more(
    kernels: Kernels, database: Database
) -> None:
    first = kernels("process")
    history = History.begin(kernels, first)
    history.run("print(1)")
    history.learn()
    os.kill(first.process.pid, signal.SIGSTOP)  # a laptop that sleeps
    database.lose_connections()
    second = kernels("process", session=first.session)
    client = second.client()
    assert client.prints("ran.append('second'); print(ran)") == "[0, 'second']"
    os.kill(first.process.pid, signal.SIGCONT)
    ran = history.client.run("ran.append('first'); print(ran)")
    assert ran.error in ("LeaseLost", "LeaseHeld")
    assert ran.text() == ""
    assert client.prints("print(ran)") == "[0, 'second']"
    recorded = kernels.read(second)
    assert recorded.report.ok
    assert "ran.append('first'); print(ran)" not in recorded.codes()
    # As the person who comes back to the first one: its sandbox was thrown away, and it waits.
    second.shutdown()
    assert history.client.prints("print(ran)") == "[0, 'second']"


def test_an_outcome_that_comes_after_the_lease_was_lost_stays_lost(
    kernels: Kernels, database: Database
) -> None:
    first = kernels("process")
    history = History.begin(kernels, first)
    sent = history.send("print('begun', flush=True); time.sleep(0.5)")
    history.client.shows(sent.msg_id, "begun")
    os.kill(first.process.pid, signal.SIGSTOP)
    database.lose_connections()
    second = kernels("process", session=first.session)
    assert second.client().prints("print(ran)") == "[]"
    os.kill(first.process.pid, signal.SIGCONT)
    ran = history.client.finish(sent.msg_id)
    assert ran.error == "LeaseLost"
    assert kernels.read(second).statuses() == ["ok", "lost", "ok"]
    assert kernels.read(second).report.ok
