"""`files`, `get` and `reset` ask the kernel that runs, and change what a person sees there."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprise.client.specs import kernel_specs
from reprise.demo.kernel import DemoKernel
from tests.fixtures.commands import Reprise


@pytest.fixture
def session() -> str:
    return str(uuid.uuid4())


@pytest.fixture
def kernel(reprise: Reprise, session: str, tmp_path: Path) -> Iterator[DemoKernel]:
    folder = tmp_path / "folder"
    folder.mkdir()
    env = {**reprise.environ, "REPRISE_SESSION": session}
    with kernel_specs() as specs, DemoKernel("reprise", specs, folder, env) as running:
        yield running


def test_files_and_get_ask_the_running_kernel(
    reprise: Reprise, kernel: DemoKernel, session: str, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 40_000  # several pieces
    code = "open('big.bin', 'wb').write(bytes(range(256)) * 40_000)"
    assert kernel.run(code, "a").status == "ok"
    listed = json.loads(reprise("files", session, "--json").stdout)
    assert listed["workspace"] == "of the running kernel"
    assert {each["path"]: each["size"] for each in listed["files"]}["big.bin"] == len(data)
    shown = reprise("get", session, "big.bin", "-o", str(tmp_path / "got.bin"))
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "got.bin").read_bytes() == data
    assert kernel.run("print('still here')", "b").shown == [["stream", "stdout", "still here\n"]]


def test_reset_reaches_the_running_kernel(
    reprise: Reprise, kernel: DemoKernel, session: str
) -> None:
    assert kernel.run("x = 1\nopen('made.txt', 'w').close()", "a").status == "ok"
    shown = reprise("reset", session, "--json")
    assert shown.returncode == 0, shown.stderr
    assert kernel.run("x", "b").error.startswith("NameError")
    assert kernel.run("import os\nprint(os.path.exists('made.txt'))", "c").shown == [
        ["stream", "stdout", "False\n"]
    ]
    steps = json.loads(reprise("log", session, "--json").stdout)["steps"]
    assert [step["kind"] for step in steps if step["kind"] != "upload"] == [
        "cell",
        "restart",
        "cell",
        "cell",
    ]


def test_a_running_session_is_shown_as_in_use(
    reprise: Reprise, kernel: DemoKernel, session: str
) -> None:
    assert kernel.run("1", "a").status == "ok"
    listed = json.loads(reprise("sessions", "--json").stdout)["sessions"]
    (found,) = [each for each in listed if each["id"] == session]
    assert found["holder"]["pid"] == kernel.pid
    assert f"pid {kernel.pid}" in reprise("sessions").stdout
