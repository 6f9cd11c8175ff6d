"""The docs lead to every module, and each promise to tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kernel" / "reprise"
PAGE = (ROOT / "docs" / "architecture.md").read_text()

#: What a reader finds from its neighbour.
UNNAMED = {"__init__.py", "__main__.py"}


def named() -> set[str]:
    table = PAGE.partition("## Where is")[2]
    return set(re.findall(r"`([\w/.]+\.py)`", table))


def test_every_file_of_the_table_exists() -> None:
    missing = {
        name for name in named() if not (PACKAGE / name).exists() and not (ROOT / name).exists()
    }
    assert missing - {"commands/NAME.py"} == set()


def test_every_module_with_behaviour_is_in_the_table() -> None:
    modules = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.name not in UNNAMED and path.parts[-2] != "commands"
    }
    small = {
        "guest/prctl.py",
        "guest/settings.py",
        "guest/stream.py",
        "quantities.py",
        "replay/message.py",
        "sandbox/backends.py",
        "sandbox/child.py",
        "sandbox/documents.py",
        "log/head.py",
        "demo/rentals.py",
    }
    assert modules - named() - small == set()


def test_every_test_that_the_guarantees_name_exists() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    promised = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(promised) > 20
    missing = [
        f"{file}::{name}"
        for file, name in promised
        if f"def {name}(" not in (ROOT / file).read_text()
    ]
    assert missing == []


def test_every_promise_names_a_test() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text()
    tables = re.findall(r"^\| promise \| attacked by \|\n\|.*\n((?:\|.*\n)+)", page, re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 20
    assert [row for row in rows if "`tests/" not in row] == []
