"""Postgres stores a write and its answer is lost: it counts as stored, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.armed import LONG, Armed
from tests.faults.swallow import Swallowing
from tests.fixtures.kernel import Database, Kernels, shown_text


@pytest.fixture
def proxy(database: Database) -> Iterator[Swallowing]:
    with Swallowing(database.server, database.dsn) as running:
        yield running


@pytest.fixture
def armed(kernels: Kernels, proxy: Swallowing, tmp_path: Path) -> Armed:
    return Armed(kernels, tmp_path / "point", "process", REPRISE_DSN=proxy.dsn)


@pytest.mark.parametrize("point", ["before-step-commit", "before-outputs", "before-outcome-commit"])
def test_it_is_stored_once(armed: Armed, proxy: Swallowing, point: str) -> None:
    for number in range(2):
        sent = armed.run_to(point, LONG)
        proxy.swallow_next()
        armed.go_on()
        armed.history.finish()
        assert proxy.swallowed == number + 1
        assert sent.reply is not None
        assert sent.reply["status"] == "ok"
        assert sent.text == "before\nafter\n"
    assert armed.history.violations() == []


@pytest.mark.parametrize("point", ["before-step-commit", "before-outputs", "before-outcome-commit"])
def test_it_is_stored_once_when_something_runs_beside_it(
    armed: Armed, proxy: Swallowing, point: str
) -> None:
    history = armed.history
    created = history.client.ask("create_subshell_request", channel="control")
    running = history.client.execute(
        "print('beside', flush=True)\nfor i in range(15):\n"
        "    time.sleep(0.1); print(i, flush=True)",
        subshell_id=created["subshell_id"],
    )
    history.client.shows(running, "beside")
    sent = armed.run_to(point, LONG)
    proxy.swallow_next()
    armed.go_on()
    assert history.client.finish(running).status == "ok"
    history.finish()
    assert proxy.swallowed == 1
    assert sent.reply is not None
    assert sent.reply["status"] == "ok"
    recorded = history.kernels.read(history.kernel)
    assert recorded.report.ok, recorded.report.fault
    beside = next(r for r in recorded.cells if "beside" in r.step.payload["content"]["code"])
    assert shown_text(beside) == "beside\n" + "".join(f"{i}\n" for i in range(15))
    assert history.violations() == []


def test_a_cell_that_was_refused_meanwhile_is_lost_and_not_run(
    armed: Armed, proxy: Swallowing
) -> None:
    """Stored, never answered, and Postgres stays away: the client was told that it did not run."""
    history = armed.history
    sent = armed.run_to("before-step-commit")
    proxy.swallow_next(refuse_after=True)
    armed.go_on()
    history.finish()
    assert sent.reply is not None
    assert sent.reply["ename"] == "DatabaseUnavailable"
    proxy.refusing = False
    assert history.run("print('next')").text() == "next\n"
    memory, file = history.state()
    assert sent.token not in (*memory, *file)
    assert history.kernels.read(history.kernel).statuses()[1] == "lost"
    assert history.violations() == []
