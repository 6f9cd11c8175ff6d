"""A notebook's kernel runs in the environment that was chosen for its session, and so do the next."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from reprise.client.choosing import choose_hosts, chosen_of, move
from reprise.jupyter.sidecar import read_sidecar
from reprise.sandbox.chosen import Choice, choose
from tests.fixtures.histories import with_log
from tests.fixtures.kernel import Database, Kernel, Kernels


@pytest.fixture(autouse=True)
def home(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_HOME", str(database.home))


def notebook(folder: Path, session: uuid.UUID, name: str = "a.ipynb") -> Path:
    path = folder / name
    metadata = {"kernelspec": {"name": "reprise"}, "reprise": {"session": str(session)}}
    value = {"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(value))
    return path


def opened(kernels: Kernels, path: Path, file: Path | None = None) -> Kernel:
    """A kernel as Jupyter starts one for a notebook."""
    return kernels(
        "bubblewrap", named=False, folder=path.parent, path=file, JPY_SESSION_NAME=str(path)
    )


def chosen(session: uuid.UUID, name: str) -> None:
    choose(session, Choice(name))


def says(kernel: Kernel) -> str:
    """A variable that only its environment sets."""
    return kernel.client().run("import os; os.environ.get('WHERE')").value


def environment(database: Database, name: str, **said: object) -> str:
    folder = database.home / "environments"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({"variables": {"WHERE": name}, **said}))
    return name


def test_a_notebook_runs_where_its_session_is_to_run_and_a_strangers_does_not(
    kernels: Kernels, database: Database, tmp_path: Path
) -> None:
    session = uuid.uuid4()
    with_log(database, lambda log: log.begin(session=session, kernel="python3"))
    chosen(session, environment(database, "chosen-one"))
    path = notebook(tmp_path, session)
    kernel = opened(kernels, path)
    assert says(kernel) == "'chosen-one'"
    assert kernels.database.read(session).statuses() == ["ok"]
    kernel.shutdown()
    # Whatever a notebook says of environments counts for nothing.
    other = notebook(tmp_path, uuid.uuid4(), "stranger.ipynb")
    value = json.loads(other.read_text())
    value["metadata"]["reprise"]["environment"] = "chosen-one"
    other.write_text(json.dumps(value))
    assert says(opened(kernels, other)) == ""


def test_a_chosen_environment_that_is_gone_is_told_and_the_session_goes_on(
    kernels: Kernels, database: Database, tmp_path: Path
) -> None:
    session = uuid.uuid4()
    with_log(database, lambda log: log.begin(session=session, kernel="python3"))
    chosen(session, environment(database, "fleeting"))
    path = notebook(tmp_path, session)
    kernel = opened(kernels, path)
    assert says(kernel) == "'fleeting'"
    kernel.shutdown()
    (database.home / "environments" / "fleeting.json").unlink()
    kernel = opened(kernels, path)
    assert says(kernel) == ""
    told = next(n for n in database.read(session).notices if n.code == "environment-gone")
    assert "'fleeting'" in told.text


def test_a_session_goes_on_elsewhere_with_its_files_and_without_its_variables(
    kernels: Kernels, database: Database, tmp_path: Path
) -> None:
    environment(database, "elsewhere")
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    file = tmp_path / f"kernel-{uuid.uuid4()}.json"
    kernel = opened(kernels, path, file)
    client = kernel.client()
    assert client.prints("x = 6; open('kept.txt', 'w').write('as it was'); print(x)") == "6"
    session = uuid.UUID(str(sidecar(kernel)["session"]))

    made = with_log(database, lambda log: move(log, session, "elsewhere"))
    fork = made.info.id
    assert fork != session
    # As Jupyter's restart: the same kernel file, the same notebook.
    kernel.shutdown(restart=True)
    kernel.close_clients()
    kernel = opened(kernels, path, file)
    assert says(kernel) == "'elsewhere'"
    client = kernel.client()
    assert client.prints("print(open('kept.txt').read(), 'x' in globals())") == "as it was False"
    assert uuid.UUID(str(sidecar(kernel)["session"])) == fork
    assert kinds(database, session).count("restart") == 0
    assert kinds(database, fork).count("restart") == 1
    told = with_log(database, lambda log: chosen_of(log, session))
    assert told.choice == Choice()
    kernel.shutdown()
    # A saved notebook names its new session, whose next kernel runs there, too.
    notebook(tmp_path, fork)
    assert says(opened(kernels, path)) == "'elsewhere'"


def test_hosts_of_one_session_come_with_its_next_kernel_and_are_recorded(
    kernels: Kernels, database: Database, tmp_path: Path
) -> None:
    path = notebook(tmp_path, uuid.uuid4())
    kernel = opened(kernels, path)
    assert kernel.client().run("x = 1; x").value == "1"
    session = uuid.UUID(str(sidecar(kernel)["session"]))
    notebook(tmp_path, session)
    choice = Choice(None, ("a.example",))
    told = with_log(database, lambda log: choose_hosts(log, session, choice))
    assert told.surroundings["network"] == []
    kernel.shutdown()
    kernel = opened(kernels, path)
    assert kernel.client().run("x").value == "1"  # brought back: nothing was restarted by hand
    assert sidecar(kernel)["surroundings"]["network"] == ["a.example"]
    recorded = database.read(session)
    assert recorded.report.ok
    assert any(n.code == "environment-changed" for n in recorded.notices)


def kinds(database: Database, session: uuid.UUID) -> list[str]:
    return [step.step.new.kind for step in database.read(session).steps]


def sidecar(kernel: Kernel) -> dict[str, object]:
    found = read_sidecar(kernel.path)
    assert found is not None
    return found
