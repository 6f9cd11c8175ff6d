"""`reuse: never`: each cell and command has an interpreter of its own; files go on."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.kernel import Database, Kernels


@pytest.fixture
def never(database: Database) -> str:
    """The name of an environment in which nothing is used twice."""
    folder = database.home / "environments"
    folder.mkdir(exist_ok=True)
    (folder / "never.json").write_text(json.dumps({"reuse": "never"}))
    return "never"


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_variables_end_with_their_cell_and_files_stay(
    kernels: Kernels, never: str, backend: str
) -> None:
    kernel = kernels(backend, REPRISE_ENVIRONMENT=never)
    client = kernel.client()
    first = client.run("x = 1; open('kept.txt', 'w').write('a'); import os; os.getpid()")
    assert first.status == "ok"
    gone = client.run("x")
    assert gone.reply["ename"] == "NameError"
    # The prompt goes on, as the page counts.
    assert gone.reply["execution_count"] == first.reply["execution_count"] + 1
    assert client.prints("print(open('kept.txt').read())") == "a"
    client.shell("printf b >> kept.txt; sleep 600.25 & true")
    # What a step left running has ended with it.
    assert client.shell("cat kept.txt; pgrep -f '^sleep 600.25$' || true").text() == "ab"


@pytest.mark.parametrize("backend", ["process", "bubblewrap"])
def test_a_replay_gives_each_step_an_interpreter_of_its_own(
    kernels: Kernels, never: str, backend: str
) -> None:
    kernel = kernels(backend, REPRISE_ENVIRONMENT=never)
    client = kernel.client()
    client.run("x = 1; open('n.txt', 'w').write('1')")
    client.run("open('n.txt', 'a').write('2'); 'x' in globals()")
    before = client.run("open('n.txt').read(), 'x' in globals()")
    kernel.kill("router")
    # Under whatever environment it goes on: how a step ran is in the record.
    kernel = kernels.again(kernel)
    client = kernel.client()
    after = client.run("open('n.txt').read(), 'x' in globals()")
    assert after.reply["execution_count"] == before.reply["execution_count"] + 1
    recorded = kernels.read(kernel)
    assert recorded.report.ok
    assert not [n for n in recorded.notices if n.code in ("divergence", "not-replayed")]
    if backend == "bubblewrap":  # on `process` a replay never takes the folder back
        assert after.value == before.value == "('12', False)"


def test_a_session_may_change_over(kernels: Kernels, never: str) -> None:
    kernel = kernels("bubblewrap")
    client = kernel.client()
    client.run("x = 1")
    kernel.kill("router")
    kernel = kernels.again(kernel, REPRISE_ENVIRONMENT=never)
    client = kernel.client()
    # It came back with x, and the first step of the new environment has an interpreter of its own.
    assert client.run("x").reply["ename"] == "NameError"
    client.run("y = 2")
    kernel.kill("router")
    kernel = kernels.again(kernel)
    client = kernel.client()
    assert client.run("y").value == "2"
    assert client.run("x").reply["ename"] == "NameError"
    kernel.kill("router")
    kernel = kernels.again(kernel)
    assert kernel.client().run("y").value == "2"
    assert not [n for n in kernels.read(kernel).notices if n.code == "divergence"]
