"""`reprise demo` kills what it says it kills, and says so when something is not as promised."""

import json

import pytest

from reprise.demo.kernel import CellRun
from reprise.demo.story import Cell, Story
from tests.fixtures.commands import Reprise


def test_the_demo_keeps_all_its_promises(reprise: Reprise) -> None:
    shown = reprise("demo", "--json", timeout=280)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    told = json.loads(shown.stdout)
    assert told["ok"] is True
    assert told["cells"] == 15
    texts = [finding["what"] for finding in told["findings"]]
    assert sum("kill -9" in text for text in texts) == 2
    assert len(texts) == 6

    steps = json.loads(reprise("log", told["session"], "--json").stdout)["steps"]
    outcomes = [step["outcome"] for step in steps if step["kind"] == "cell"]
    assert outcomes.count("died") == 1
    assert set(outcomes) == {"ok", "died"}


def test_progress_goes_to_stderr_and_the_table_to_stdout(reprise: Reprise) -> None:
    shown = reprise("demo", "--no-compare", timeout=280)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "All as promised." in shown.stdout
    assert "[15/15]" in shown.stderr
    assert "[15/15]" not in shown.stdout
    assert "\x1b" not in shown.stdout + shown.stderr


class Silent:
    def begin(self, text: str) -> None: ...
    def cell(self, cell: Cell, run: CellRun, total: int, remark: str = "") -> None: ...
    def event(self, text: str) -> None: ...


def test_a_changed_output_is_found_by_the_comparison(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The plain run is real; what Reprise showed is replaced in one cell."""
    from jupyter_client.kernelspec import KernelSpecManager

    specs = KernelSpecManager(kernel_dirs=[])
    first = Story(specs, tmp_path_factory.mktemp("scratch"), Silent())
    first.compare_with_plain()
    assert first.told.findings[-1].ok is False  # nothing ran, so nothing is the same
    assert first.told.findings[-1].result.startswith("0 of 15")
