"""Runs real notebooks on the Reprise kernel, whole and with kills at random cells, and compares.

usage (in the checkout): python -m tests.notebooks.run NOTEBOOK.ipynb ...
                         [--backend B] [--seed N] [--kills N] [--json]

Each notebook is run uninterrupted in one session, and in another one in which its sandbox and its
router are killed (SIGKILL, alternating) at random cells and moments; a cell that was rolled back
is run again, as a person would. Then what the cells showed, the interpreter's variables and the
workspace's files must be the same in both, and the killed session must replay (`verify`) and its
digest chain hold. Where something differs the notebook is run uninterrupted once more: what also
differs between two whole runs (clocks, random numbers) is the notebook's own. Exits 1 when
anything else differs. The seed is printed, and the same seed kills the same cells.
"""

# ruff: noqa: T201

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import nbformat

from tests.fixtures.kernel import Kernels, run_database
from tests.fixtures.postgres import run_server
from tests.notebooks.course import Kill, Run, run_notebook
from tests.notebooks.judge import Judgement, judge, verified

PARTS = ("sandbox", "router")


@dataclass
class Row:
    """The verdict on one notebook."""

    notebook: str
    cells: int
    kills: list[str]
    same: int
    volatile: int
    kinds: list[str]
    own: int
    differ: list[str]
    variables: int
    files: int
    verify: str
    ok: bool
    seconds: dict[str, float] = field(default_factory=dict)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="+", type=Path, metavar="NOTEBOOK")
    parser.add_argument("--backend", default="bubblewrap")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kills", type=int, default=2, help="for each notebook (default: 2)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", file=sys.stderr, flush=True)
    rows = []
    with kernels() as started:
        for number, path in enumerate(options.notebooks):
            choice = random.Random(f"{seed} {path.name}")
            rows.append(_one(started, path, options, choice, number))
            if not options.json:
                _print(rows[-1])
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if all(row.ok for row in rows) else 1


@contextmanager
def kernels() -> Iterator[Kernels]:
    """Kernels on a database and a home of their own."""
    with tempfile.TemporaryDirectory(prefix="reprise-notebooks-") as folder:
        for server in run_server():
            for database in run_database(server, Path(folder) / "home"):
                started = Kernels(database, Path(folder))
                try:
                    yield started
                finally:
                    started.close()


def _one(
    started: Kernels,
    path: Path,
    options: argparse.Namespace,
    choice: random.Random,
    number: int,
) -> Row:
    codes = code_cells(path)
    folder = path.resolve().parent
    print(f"{path.name}: {len(codes)} cells, whole …", file=sys.stderr, flush=True)
    whole = run_notebook(started, codes, folder, options.backend)
    kills = []
    for count, at in enumerate(sorted(choice.sample(range(len(codes)), options.kills))):
        part = PARTS[(count + number) % len(PARTS)]
        # Up to past its end: a kill between two cells counts as well.
        kills.append(Kill(at, part, choice.uniform(0, 1.2) * whole.cells[at].seconds))
    print(f"{path.name}: with {len(kills)} kills …", file=sys.stderr, flush=True)
    killed = run_notebook(started, codes, folder, options.backend, kills)
    report, whole_chain = verified(started.database, killed.session, options.backend)

    def again() -> Run:
        print(f"{path.name}: whole once more, to compare …", file=sys.stderr, flush=True)
        return run_notebook(started, codes, folder, options.backend)

    found: Judgement = judge(whole, killed, report, whole_chain, again)
    return Row(
        path.name,
        len(codes),
        [str(kill) for kill in kills],
        found.same,
        found.volatile,
        sorted(found.kinds),
        found.own,
        found.differ,
        len(whole.variables),
        len(whole.files),
        found.verify,
        not found.differ,
        {
            "whole": round(whole.seconds, 1),
            "killed": round(killed.seconds, 1),
            "back": round(killed.back_s, 1),
            "verify": round(report.took_s, 1),
        },
    )


def code_cells(path: Path) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # older notebooks lack cell ids
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return [
        cell.source for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()
    ]


def _print(row: Row) -> None:
    told = ", ".join(f"{name} {value} s" for name, value in row.seconds.items())
    print(
        f"{'ok ' if row.ok else 'BAD'} {row.notebook}: {row.cells} cells; outputs {row.same} same,"
        f" {row.volatile} volatile, {row.own} of the notebook's own; {row.variables} variables,"
        f" {row.files} files; verify: {row.verify}; {told}"
    )
    for text in row.kills:
        print(f"      killed {text}")
    if row.kinds:
        print(f"      volatile {'; '.join(row.kinds)}")
    for text in row.differ:
        print(f"      DIFFERS {text}")
    sys.stdout.flush()


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    sys.exit(code)
