"""The guest and the pure core import only what they may, whatever import-linter is told."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import reprise

PACKAGE = Path(reprise.__file__).parent

#: Modules that hold correctness and do no I/O.
CORE = [
    "errors.py",
    "log/model.py",
    "replay/plan.py",
    "replay/compare.py",
    "replay/identity.py",
    "replay/recorder.py",
    "sandbox/frames.py",
    "workspace/manifest.py",
]
IO = {
    "asyncio",
    "multiprocessing",
    "psycopg",
    "selectors",
    "socket",
    "subprocess",
    "threading",
    "zmq",
}


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, at any depth, with relative imports made absolute."""
    root = next(parent for parent in path.parents if parent.name in ("reprise", "reprise_server"))
    package = [root.name, *path.relative_to(root).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield module
            if module == "reprise" or node.level:
                yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("path", sorted((PACKAGE / "guest").rglob("*.py")), ids=lambda p: p.name)
def test_the_guest_needs_nothing_that_a_sandbox_may_lack(path: Path) -> None:
    def allowed(module: str) -> bool:
        top = module.partition(".")[0]
        if top == "reprise":
            return module == "reprise.sandbox.frames" or module.startswith("reprise.guest")
        return top in sys.stdlib_module_names or top == "zmq"

    assert [module for module in imported(path) if not allowed(module)] == []


@pytest.mark.parametrize("name", CORE)
def test_the_core_does_no_io(name: str) -> None:
    tops = {module.partition(".")[0] for module in imported(PACKAGE / name)}
    assert tops & IO == set()


def test_the_test_sees_imports_of_every_form(tmp_path: Path) -> None:
    path = PACKAGE / "guest" / "imaginary.py"

    class Fake(type(path)):  # type: ignore[misc]
        def read_text(self, *args: object, **kw: object) -> str:
            return "import os.path\nfrom . import wire\nfrom ..log import model\ndef f():\n import zmq\n"

    assert set(imported(Fake(path))) == {
        "os.path",
        "reprise.guest",
        "reprise.guest.wire",
        "reprise.log",
        "reprise.log.model",
        "zmq",
    }
