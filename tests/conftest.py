"""Loads the fixture plugins of tests/fixtures and chooses the hypothesis profile."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

pytest_plugins = [
    f"tests.fixtures.{path.stem}"
    for path in sorted((Path(__file__).parent / "fixtures").glob("[!_]*.py"))
]
# Before any of them is imported: they import each other.
pytest.register_assert_rewrite(*pytest_plugins)

#: Other projects' suites run in an environment of their own (tests/suites/run.py).
collect_ignore = ["suites"]

# No deadline: the machines that run this share their cores, so wall time says nothing.
settings.register_profile("dev", deadline=None)
# The same examples on every run: a failure in CI must be one that anybody can repeat.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
