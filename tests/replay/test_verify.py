"""Verify on sessions that were interrupted, restarted or killed: what it compares, and what it says of the rest."""

import asyncio
import uuid
from typing import Any

import pytest

from reprise.client.beside import fresh_sandbox
from reprise.errors import UsageError
from reprise.log.postgres import Log
from reprise.replay.report import Report, StateReport
from reprise.replay.verify import Scope, verify
from reprise.sandbox.named import load
from tests.fixtures.kernel import Database, Kernels


def verified(
    database: Database,
    session: uuid.UUID,
    monkeypatch: pytest.MonkeyPatch,
    backend: str = "bubblewrap",
    **options: Any,
) -> Report:
    monkeypatch.setenv("REPRISE_BACKEND", backend)
    monkeypatch.setenv("REPRISE_HOME", str(database.home))

    async def run() -> Report:
        log = await Log.connect(database.dsn, home=database.home)
        try:
            reader = await log.reader(session)
            with fresh_sandbox(await reader.info(), load()) as (chosen, spec):
                return await verify(reader, chosen, spec, **options)
        finally:
            await log.close()

    return asyncio.run(run())


def against(report: Report, what: str) -> list[StateReport]:
    return [state for state in report.states if state.against == what]


def test_the_files_kept_at_a_restart_are_compared(
    kernels: Kernels, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("import os; open('fixed.txt', 'w').write('x')")
    client.run("open('dice.txt', 'w').write(f'rolled\\n{os.urandom(4).hex()}-\\n')")
    kernel.shutdown(restart=True)
    kernel = kernels.again(kernel)
    client = kernel.client()
    client.run("import os; y = os.path.exists('dice.txt')")
    client.run("print(y)")
    kernel.shutdown()
    report = verified(database, kernel.session, monkeypatch)
    (state,) = against(report, "restart")
    assert state.files.same >= 1
    (file,) = state.files.different
    assert (file.path, file.kind, file.volatile) == ("dice.txt", "content", False)
    assert file.diff.count("\n-") == file.diff.count("\n+") == 1  # its bytes were kept
    assert [cause.what for cause in file.causes] == ["randomness"]
    assert state.variables.why
    assert not report.ok
    assert all(step.verdict == "same" for step in report.steps)

    # Brought back from that very tree, what follows is as it was.
    restart = next(step.seq for step in report.steps if step.kind == "restart")
    later = verified(database, kernel.session, monkeypatch, scope=Scope(start=restart + 1))
    assert later.brought_back == 0
    assert later.ok, later.sentence
    assert [step.seq for step in later.steps] == [restart + 1, restart + 2]


def test_what_cannot_be_played_is_said(
    kernels: Kernels, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("import os, pathlib")
    client.run("if pathlib.Path('/workspace').exists() and os.environ.get('DEADLY'): os._exit(1)")
    died = client.execute("os._exit(3)")
    client.reply(died)
    client = kernel.client()
    client.run("x = 5")
    kernel.shutdown()
    # A step that ends its sandbox on the replay only: its environment is another one.
    folder = database.home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / "deadly.json").write_text('{"variables": {"DEADLY": "1"}}')
    monkeypatch.setenv("REPRISE_ENVIRONMENT", "deadly")
    report = verified(database, kernel.session, monkeypatch)
    cells = [step for step in report.steps if step.kind == "cell"]
    assert [step.verdict for step in cells] == ["same", "could not run", "skipped", "same"]
    assert "died in it" in cells[1].reason
    assert "rolled back" in cells[2].reason
    assert "os._exit(3)" in cells[2].source
    assert not report.ok
    assert "could not run" in report.sentence
    (state,) = against(report, "recorded state")  # after the step that was left out, too
    assert state.variables.different == ()


@pytest.mark.parametrize("backend", ["bubblewrap", "process"])
def test_an_interrupted_step_is_named_as_a_limit(
    kernels: Kernels, database: Database, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    kernel = kernels(backend)
    client = kernel.client()
    client.run("import time; n = 0")
    running = client.execute("n = 1; print('now', flush=True); time.sleep(600)")
    client.wait(lambda heard: heard.type == "stream")
    client.ask("interrupt_request", {}, channel="control")
    client.reply(running)
    kernel.shutdown()
    report = verified(database, kernel.session, monkeypatch, backend)
    cells = [step for step in report.steps if step.kind == "cell"]
    assert [step.verdict for step in cells] == ["same", "skipped"]
    assert any(f"Step(s) {cells[1].seq} had been cut short" in each for each in report.unsaid)
    (state,) = against(report, "recorded state")
    assert [each.found.name for each in state.variables.different] == ["n"]
    assert (state.files.why == "") == (backend == "bubblewrap")


def test_steps_that_are_not_there_are_refused(
    kernels: Kernels, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kernels("process")
    kernel.client().run("1")
    kernel.shutdown()
    for scope in (Scope(start=9), Scope(stop=9), Scope(start=-1), Scope(start=0, stop=0)):
        with pytest.raises(UsageError, match="has no steps"):
            verified(database, kernel.session, monkeypatch, "process", scope=scope)
