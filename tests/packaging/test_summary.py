"""What a run says at its end: what was not tested, and the matrix of backends; in one process or several."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TESTS = """
import pytest

@pytest.fixture(params=["bubblewrap", "process", "other"])
def name(request):
    return request.param

@pytest.fixture
def broken():
    raise OSError

def test_passes(name): ...
@pytest.mark.area("ends")
def test_of_another_area(name):
    assert name != "process"
def test_that_cannot_begin(name, broken): ...
def test_without_a_backend(): ...
@pytest.mark.parametrize("number", [1, 2])
def test_skipped(name, number):
    pytest.skip("NOT TESTED: no engine\\nwas found here")
@pytest.mark.skipif(True, reason="has no meaning here")
def test_left_out(name): ...
@pytest.mark.skipif(True, reason="NOT TESTED: no browser")
def test_marked(): ...
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_the_end_of_a_run(processes: str, tmp_path: Path) -> None:
    folder = tmp_path / "conformance"
    folder.mkdir()
    (folder / "test_backends.py").write_text(TESTS)
    (folder / "test_limits.py").write_text("def test_limit(x): ...\n".replace("x", "backend"))
    (folder / "conftest.py").write_text(
        "import pytest\nbackend = pytest.fixture(params=['oci-crun'])(lambda request: request.param)\n"
    )
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.fixtures.untested"),
            *("-p", "tests.fixtures.matrix", "-p", "no:cacheprovider", "-n", processes, "-q"),
            *("-p", "no:asyncio", "-c", os.devnull, "--rootdir", str(tmp_path), str(folder)),
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = done.stdout
    assert done.returncode == 1, said + done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in said.splitlines() if "–" in line}
    none = "–"
    assert rows["contract"] == ["1/1/3", "1/1/3", none, none, none, none], said
    assert rows["ends"] == ["1/0/0", "0/1/0", none, none, none, none]
    assert rows["limits"] == [none, none, "1/0/0", none, none, none]
    assert rows["resume"] == [none] * 6
    loud = [line for line in said.splitlines() if line.startswith("NOT TESTED:")]
    assert loud == [
        "NOT TESTED: no browser (1 skipped)",
        "NOT TESTED: no engine was found here (6 skipped)",
    ]
    assert not re.search(r"^NOT TESTED.*no meaning", said, re.MULTILINE)


def test_a_run_that_leaves_nothing_out_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): ...\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.fixtures.untested"),
            *("-p", "tests.fixtures.matrix", "-p", "no:cacheprovider", "-p", "no:asyncio"),
            *("-c", os.devnull, "--rootdir", str(tmp_path), "-q", str(tmp_path)),
        ],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "NOT TESTED" not in done.stdout
    assert "Backends" not in done.stdout
