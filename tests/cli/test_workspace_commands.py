"""`exec`, `put`, `get`, `artifacts` and `files`, on sessions with a kernel and without."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprise.client import Kernel, connect
from tests.fixtures.commands import Reprise


@pytest.fixture(params=["bubblewrap", "process"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (path / "data.txt").write_text("3\n4\n")
    return path


def variables(reprise: Reprise, backend: str) -> dict[str, str]:
    return {"REPRISE_HOME": str(reprise.home), "REPRISE_DSN": "", "REPRISE_BACKEND": backend}


@pytest.fixture
def kernel(reprise: Reprise, folder: Path, backend: str) -> Iterator[Kernel]:
    """A kernel that runs while the commands do."""
    with connect(folder=folder, env=variables(reprise, backend)) as running:
        running.run("open('made.txt', 'w').write('one\\n')", check=True)
        yield running


@pytest.fixture
def ended(reprise: Reprise, folder: Path, backend: str) -> tuple[str, int]:
    """A session without a kernel, and the number of a step in its middle."""
    with connect(folder=folder, env=variables(reprise, backend)) as kernel:
        seq = kernel.run("open('made.txt', 'w').write('one\\n')", check=True).seq
        kernel.command("echo two >> made.txt; echo new > new.txt; printf '\\0' > raw.bin")
        return str(kernel.session), seq


def told(shown: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert shown.returncode == code, shown.stdout + shown.stderr
    return json.loads(shown.stdout)


def test_exec_runs_in_the_kernel_that_runs(reprise: Reprise, kernel: Kernel) -> None:
    session = str(kernel.session)
    shown = reprise("exec", session, "--", "cat made.txt; echo oh >&2; exit 3")
    assert shown.returncode == 1
    assert shown.stdout == "one\n"
    assert shown.stderr.startswith("oh\n")
    assert "exit code 3" in shown.stderr
    ran = told(reprise("exec", session, "--json", "--env", "A=é b", "--", "printenv", "A"))
    assert (ran["exit_code"], ran["stdout"], ran["outcome"]) == (0, "é b\n", "ok")
    assert kernel.steps()[-1].step.seq == ran["seq"]
    late = told(reprise("exec", session, "--json", "--timeout", "1s", "--", "sleep", "600"), 1)
    assert (late["outcome"], late["timed_out"]) == ("timeout", True)
    # The kernel was only visited.
    assert kernel.run("print(open('made.txt').read())").stdout == "one\n\n"


def test_exec_passes_its_input_on(reprise: Reprise, kernel: Kernel) -> None:
    data = bytes(range(256)) * 100
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "reprise.cli",
            "exec",
            str(kernel.session),
            "--stdin",
            "--",
            "wc",
            "-c",
        ],
        input=data,
        capture_output=True,
        env=reprise.environ,
        timeout=120,
    )
    assert (shown.returncode, shown.stdout.strip()) == (0, b"25600")


def test_exec_with_a_key_runs_once(reprise: Reprise, kernel: Kernel) -> None:
    first = told(reprise("exec", str(kernel.session), "--json", "--key", "k", "--", "echo $$"))
    again = told(reprise("exec", str(kernel.session), "--json", "--key", "k", "--", "echo $$"))
    assert (again["seq"], again["stdout"], again["repeated"]) == (
        first["seq"],
        first["stdout"],
        True,
    )


def test_exec_in_the_background(reprise: Reprise, kernel: Kernel) -> None:
    session = str(kernel.session)
    begun = told(reprise("exec", session, "--json", "--background", "--", "echo up; sleep 600"))
    number = str(begun["command"])
    deadline = time.monotonic() + 60
    while reprise("exec", session, "--read", number).stdout != "up\n":
        assert time.monotonic() < deadline
    (listed,) = told(reprise("exec", session, "--list", "--json"))["commands"]
    assert (listed["command"], listed["running"]) == (begun["command"], True)
    assert "running" in reprise("exec", session, "--list").stdout
    assert told(reprise("exec", session, "--stop", number, "--json"))["outcome"] == "ok"
    assert reprise("exec", session, "--stop", "99999").returncode == 1


def test_exec_starts_a_kernel_where_none_runs(
    reprise: Reprise, ended: tuple[str, int], folder: Path, tmp_path: Path, backend: str
) -> None:
    session, _ = ended
    # From another folder, whose files must not come in.
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "foreign.txt").write_text("x")
    where = ["--folder", str(folder)] if backend == "process" else []
    env = {"REPRISE_BACKEND": backend}
    shown = reprise("exec", session, *where, "--", "cat made.txt; ls", cwd=elsewhere, **env)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("one\ntwo\n")
    assert "data.txt" in shown.stdout
    assert "foreign.txt" not in shown.stdout
    listed = told(reprise("sessions", "--json"))["sessions"]
    assert [each["holder"] for each in listed if each["id"] == session] == [None]
    refused = reprise("exec", session, "--background", "--", "sleep 1", **env)
    assert refused.returncode == 2
    assert "ends with its kernel" in refused.stderr


def test_put_brings_files_and_folders_in(reprise: Reprise, kernel: Kernel, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep").mkdir(parents=True)
    (tree / "deep" / "run").write_text("#!/bin/sh\necho ran\n")
    (tree / "deep" / "run").chmod(0o755)
    (tree / "skip.pyc").write_text("x")
    (tmp_path / "one file.txt").write_text("one")
    session = str(kernel.session)
    paths = [str(tree), str(tmp_path / "one file.txt")]
    done = told(reprise("put", session, *paths, "--to", "in", "--exclude", "*.pyc", "--json"))
    assert [(each["to"], each["files"]) for each in done["uploads"]] == [
        ("in/tree", 1),
        ("in/one file.txt", 1),
    ]
    assert kernel.command("in/tree/deep/run; ls in/tree").stdout == "ran\ndeep\n"
    missing = reprise("put", session, str(tmp_path / "missing"))
    assert missing.returncode == 2
    assert reprise("put", session, str(tree), "--to", "../out").returncode == 2


def test_get_keeps_what_it_takes_out(reprise: Reprise, kernel: Kernel, tmp_path: Path) -> None:
    session = str(kernel.session)
    target = tmp_path / "got.txt"
    shown = reprise("get", session, "made.txt", "-o", str(target))
    assert shown.returncode == 0, shown.stderr
    assert target.read_text() == "one\n"
    kernel.command("echo changed > made.txt")
    assert reprise("get", session, "made.txt", "-o", str(target)).returncode == 2
    assert reprise("get", session, "missing.txt", "-o", str(tmp_path / "no")).returncode == 1
    assert not (tmp_path / "no").exists()
    (kept,) = told(reprise("artifacts", session, "--json"))["artifacts"]
    assert (kept["path"], kept["size"], kept["actor"]) == ("made.txt", 4, {"kind": "user"})
    assert "made.txt" in reprise("artifacts", session).stdout
    # What was taken is there, whatever has become of the file.
    again = tmp_path / "again.txt"
    back = reprise("artifacts", "--get", kept["artifact"][:12], "-o", str(again))
    assert back.returncode == 0, back.stderr
    assert again.read_text() == "one\n"
    assert reprise("artifacts", "--get", str(uuid.uuid4())).returncode == 2


def test_a_session_at_rest_is_read_and_its_files_are_kept(
    reprise: Reprise, ended: tuple[str, int], folder: Path, tmp_path: Path, backend: str
) -> None:
    session, seq = ended
    env = {"REPRISE_BACKEND": backend}
    if backend == "process":
        refused = reprise("get", session, "made.txt", "-o", str(tmp_path / "x"), **env)
        assert refused.returncode == 2
        assert "notebook's own folder" in refused.stderr
        past = reprise("files", session, "--at", str(seq), "--folder", str(folder), **env)
        assert past.returncode == 0, past.stderr
        assert (folder / "made.txt").read_text() == "one\ntwo\n"  # built in a copy
        return
    shown = told(reprise("get", session, "made.txt", "-o", str(tmp_path / "x"), "--json", **env))
    assert (tmp_path / "x").read_text() == "one\ntwo\n"
    assert shown["seq"] == seq + 1
    (kept,) = told(reprise("artifacts", session, "--json"))["artifacts"]
    assert kept["artifact"] == shown["artifact"]
    names = [each["path"] for each in told(reprise("files", session, "--json"))["files"]]
    assert names == ["data.txt", "made.txt", "new.txt", "raw.bin"]
    past = told(reprise("files", session, "--at", str(seq), "--json"))
    assert [each["path"] for each in past["files"]] == ["data.txt", "made.txt"]
    before = told(reprise("files", session, "--at", "-1", "--json"))
    assert before["files"] == []
    assert reprise("files", session, "--at", str(seq), "--read", "made.txt").stdout == "one\n"
    assert reprise("files", session, "--at", "99").returncode == 2


def test_files_of_two_moments_are_compared(
    reprise: Reprise, ended: tuple[str, int], backend: str
) -> None:
    if backend == "process":
        pytest.skip("without a workspace of its own, the past is built on today's folder")
    session, seq = ended
    for steps in (str(seq), f"{seq}..{seq + 1}"):
        found = told(reprise("files", session, "--diff", steps, "--json"))["changes"]
        kinds = {each["path"]: (each["kind"], each["diff"] is not None) for each in found}
        assert kinds == {
            "made.txt": ("changed", True),
            "new.txt": ("added", True),
            "raw.bin": ("added", False),
        }
    shown = reprise("files", session, "--diff", f"{seq}..{seq + 1}")
    assert shown.returncode == 0
    assert "    +two" in shown.stdout
    assert "+ raw.bin  (1 bytes, sha256 " in shown.stdout
    assert reprise("files", session, "--diff", "later").returncode == 2


def test_the_live_workspace_is_compared_and_stays_as_it_is(
    reprise: Reprise, kernel: Kernel, backend: str
) -> None:
    if backend == "process":
        pytest.skip("without a workspace of its own, the past is built on today's folder")
    seq = kernel.steps()[-1].step.seq
    kernel.run("live = 1; open('made.txt', 'w').write('uno\\n')", check=True)
    found = told(reprise("files", str(kernel.session), "--diff", str(seq), "--json"))["changes"]
    assert [each["path"] for each in found] == ["made.txt"]
    assert "-one\n+uno\n" in found[0]["diff"]
    assert kernel.run("live").value == "1"
    assert reprise("files", str(kernel.session), "--read", "made.txt").stdout == "uno\n"


def test_wrong_use_says_what_is_right(reprise: Reprise, kernel: Kernel) -> None:
    session = str(kernel.session)
    for words in (
        ("exec", session),
        ("exec", session, "--list", "--", "ls"),
        ("exec", session, "--env", "nonsense", "--", "ls"),
        ("files", session, "--read", "x", "--json"),
        ("files", session, "--at", "1", "--diff", "1"),
        ("artifacts", "--force"),
        ("get", session, "x", "-o", "-", "--json"),
    ):
        shown = reprise(*words)
        assert shown.returncode == 2, words
        assert "error:" in shown.stderr
