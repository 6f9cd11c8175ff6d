"""A notebook run headless can be verified, its files fetched, its session reset and gone on with."""

import json
import uuid
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.fixtures.commands import Reprise


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """Reads a file beside it, writes one, shows a table's worth of text."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "data.txt").write_text("3\n4\n")
    path = folder / "work.ipynb"
    write(
        path,
        "numbers = [int(line) for line in open('data.txt')]\nprint(sum(numbers))",
        "import os\nos.makedirs('out')\nopen('out/result.bin', 'wb').write(bytes(range(256)) * 1000)",
        "",
        "numbers",
    )
    return path


def write(path: Path, *codes: str, **metadata: Any) -> None:
    cells = [new_markdown_cell("# Title"), *(new_code_cell(code) for code in codes)]
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)


def run(reprise: Reprise, path: Path, *args: str, expect: int = 0) -> dict[str, Any]:
    shown = reprise("run", str(path), "--json", *args)
    assert shown.returncode == expect, shown.stdout + shown.stderr
    told: dict[str, Any] = json.loads(shown.stdout)
    return told


def test_a_notebook_runs_and_its_session_verifies(reprise: Reprise, notebook: Path) -> None:
    told = run(reprise, notebook)
    assert told["ok"] is True
    assert told["failed"] is None
    assert [cell["status"] for cell in told["cells"]] == ["ok"] * 3
    executed = nbformat.read(notebook.with_name("work.executed.ipynb"), as_version=4)
    codes = [cell for cell in executed.cells if cell.cell_type == "code"]
    assert codes[0].outputs[0].text == "7\n"
    assert codes[3].outputs[0].data["text/plain"] == "[3, 4]"
    assert [cell.execution_count for cell in codes] == [1, 2, None, 3]
    assert nbformat.read(notebook, as_version=4).cells[1].outputs == []  # the source is untouched

    shown = reprise("verify", told["session"], "--json")
    assert shown.returncode == 0, shown.stdout
    report = json.loads(shown.stdout)
    assert report["counts"]["different"] == 0
    assert report["counts"]["same"] == len(report["steps"]) >= 3


def test_without_isolation_verify_works_in_a_copy_of_the_folder(
    reprise: Reprise, notebook: Path
) -> None:
    write(notebook, "print(open('data.txt').read())\nopen('log.txt', 'a').write('ran ')")
    folder, env = notebook.parent, {"REPRISE_BACKEND": "process"}
    shown = reprise("run", str(notebook), "--json", cwd=folder, **env)
    session = json.loads(shown.stdout)["session"]
    assert (folder / "log.txt").read_text() == "ran "
    verified = reprise("verify", session, cwd=folder, **env)
    assert verified.returncode == 0, verified.stdout
    assert (folder / "log.txt").read_text() == "ran "  # it ran again, but not here


def test_a_difference_is_shown_and_ends_with_1(reprise: Reprise, notebook: Path) -> None:
    write(notebook, "import os\nprint('a fixed line')", "print(os.urandom(8).hex() + 'xyz')")
    session = run(reprise, notebook)["session"]
    shown = reprise("verify", session)
    assert shown.returncode == 1
    assert "different" in shown.stdout
    assert "os.urandom" in shown.stdout
    assert "xyz" in shown.stdout  # both values, in a diff
    report = json.loads(reprise("verify", session, "--json").stdout)
    verdicts = [step["verdict"] for step in report["steps"] if step["kind"] == "cell"]
    assert verdicts == ["same", "different"]


def test_a_failing_cell_ends_with_1_and_the_copy_is_written(
    reprise: Reprise, notebook: Path
) -> None:
    write(notebook, "print('before')", "1/0", "print('never')")
    told = run(reprise, notebook, "-o", str(notebook.with_name("copy.ipynb")), expect=1)
    assert told["failed"] == 2
    assert "ZeroDivisionError" in told["cells"][1]["error"]
    assert len(told["cells"]) == 2
    executed = nbformat.read(notebook.with_name("copy.ipynb"), as_version=4)
    assert executed.cells[1].outputs[0].text == "before\n"
    assert executed.cells[2].outputs[0].ename == "ZeroDivisionError"
    assert executed.cells[3].outputs == []
    told = run(reprise, notebook, "--allow-errors", expect=1)
    assert [cell["status"] for cell in told["cells"]] == ["ok", "error", "ok"]


def test_a_cell_that_kills_its_kernel_is_rolled_back(reprise: Reprise, notebook: Path) -> None:
    write(notebook, "x = 1", "import os\nos._exit(1)", "print(x)")
    told = run(reprise, notebook, "--allow-errors", expect=1)
    assert [cell["status"] for cell in told["cells"]] == ["ok", "error", "ok"]
    steps = json.loads(reprise("log", told["session"], "--json").stdout)["steps"]
    assert [step["outcome"] for step in steps if step["kind"] == "cell"] == ["ok", "died", "ok"]


def test_a_cell_over_its_time_is_interrupted(reprise: Reprise, notebook: Path) -> None:
    write(notebook, "import time\ntime.sleep(600)")
    told = run(reprise, notebook, "--timeout", "2", expect=1)
    assert told["cells"][0]["status"] == "timeout"


def test_a_session_goes_on_where_it_was(reprise: Reprise, notebook: Path) -> None:
    session = str(uuid.uuid4())
    write(notebook, "x = 41")
    assert run(reprise, notebook, "--session", session)["session"] == session
    write(notebook, "print(x + 1)")
    told = run(reprise, notebook, "--session", session)
    executed = nbformat.read(told["output"], as_version=4)
    assert executed.cells[1].outputs[0].text == "42\n"


def test_files_of_a_session_without_a_kernel_are_rebuilt_and_fetched(
    reprise: Reprise, notebook: Path, tmp_path: Path
) -> None:
    session = run(reprise, notebook)["session"]
    listed = json.loads(reprise("files", session, "--json").stdout)
    assert listed["workspace"] == "rebuilt from the log"
    by_path = {entry["path"]: entry for entry in listed["files"]}
    assert by_path["out/result.bin"]["size"] == 256_000
    assert by_path["out"]["type"] == "dir"
    assert by_path["data.txt"]["size"] == 4

    shown = reprise("get", session, "out/result.bin", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "result.bin").read_bytes() == bytes(range(256)) * 1000
    again = reprise("get", session, "out/result.bin", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert reprise("get", session, "out/result.bin", "--force", cwd=tmp_path).returncode == 0
    assert reprise("get", session, "data.txt", "-o", "-").stdout == "3\n4\n"


@pytest.mark.parametrize("path", ["nothing.txt", "out", "../../etc/passwd", "/etc/passwd", ""])
def test_what_is_no_file_of_the_workspace_is_refused(
    reprise: Reprise, notebook: Path, tmp_path: Path, path: str
) -> None:
    session = run(reprise, notebook)["session"]
    shown = reprise("get", session, path, "-o", str(tmp_path / "got"))
    assert shown.returncode in {1, 2}, shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert not (tmp_path / "got").exists()
    assert not list(tmp_path.glob(".got*"))


def test_reset_empties_interpreter_and_workspace_and_keeps_history(
    reprise: Reprise, notebook: Path
) -> None:
    session = run(reprise, notebook)["session"]
    before = json.loads(reprise("log", session, "--json").stdout)["steps"]
    shown = reprise("reset", session, "--json")
    assert shown.returncode == 0, shown.stderr
    seq = json.loads(shown.stdout)["seq"]
    steps = json.loads(reprise("log", session, "--json").stdout)["steps"]
    assert steps[:-1] == before
    assert (steps[-1]["seq"], steps[-1]["kind"], steps[-1]["outcome"]) == (seq, "restart", "ok")
    assert json.loads(reprise("files", session, "--json").stdout)["files"] == []
    assert reprise("log", session, "--check").returncode == 0
    write(notebook, "numbers")
    told = run(reprise, notebook, "--session", session, expect=1)
    assert "NameError" in told["cells"][0]["error"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a notebook"),
        (b"{}", "not a notebook"),
        (b"\xff\xfe\x00", "not a notebook"),
        (b'{"cells": 5, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "not a notebook"),
        (None, "cannot be read"),
    ],
)
def test_what_is_no_notebook_is_wrong_use(
    reprise: Reprise, tmp_path: Path, content: bytes | None, words: str
) -> None:
    path = tmp_path / "odd.ipynb"
    if content is not None:
        path.write_bytes(content)
    shown = reprise("run", str(path))
    assert shown.returncode == 2, shown.stdout
    assert words in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert not path.with_name("odd.executed.ipynb").exists()


def test_another_languages_notebook_is_told_how_to_run(reprise: Reprise, tmp_path: Path) -> None:
    path = tmp_path / "r.ipynb"
    write(path, "x <- 1", kernelspec={"name": "ir", "language": "R", "display_name": "R"})
    shown = reprise("run", str(path))
    assert shown.returncode == 2
    assert "reprise kernelspec add ir" in shown.stderr


def test_an_unknown_kernel_is_wrong_use(reprise: Reprise, notebook: Path) -> None:
    shown = reprise("run", str(notebook), "--kernel", "no-such-kernel")
    assert shown.returncode == 2
    assert "no-such-kernel" in shown.stderr
