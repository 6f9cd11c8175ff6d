"""`files`, `get` and `reset` ask the kernel that runs, and change what a person sees there."""

import json
from pathlib import Path

from reprise.demo.kernel import DemoKernel
from tests.fixtures.commands import Reprise


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
