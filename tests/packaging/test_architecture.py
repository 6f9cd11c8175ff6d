"""docs/architecture.md leads to every module, and to none that is not there."""

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
