"""Runs pytest in the suites' environment and writes what became of each test as JSON.

usage: recorded.py RESULTS [PYTEST ARGUMENT ...]

It knows nothing of Reprise: it runs in an environment where Reprise is not installed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest


class Recorder:
    """Keeps, for each test, its worst phase: a failing teardown is a failure too."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, str]] = {}

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            said = "" if report.outcome == "passed" else report.longreprtext
            self.tests[report.nodeid] = {"outcome": report.outcome, "said": said}

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "failed":
            self.tests[report.nodeid] = {"outcome": "failed", "said": report.longreprtext}


if __name__ == "__main__":
    recorder = Recorder()
    code = pytest.main(sys.argv[2:], plugins=[recorder])
    Path(sys.argv[1]).write_text(json.dumps(recorder.tests))
    sys.exit(code)
