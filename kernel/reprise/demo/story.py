"""The demo's story: a notebook runs, its sandbox is killed, then its kernel, and all comes back."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Protocol

from jupyter_client.kernelspec import KernelSpecManager

from reprise.demo.kernel import CellRun, DemoKernel
from reprise.errors import UnavailableError
from reprise.settings import SESSION

#: In the middle of this cell the sandbox is killed: it runs for a second or two.
KILL_SANDBOX_IN = "bootstrap"
#: After this cell the kernel process is killed.
KILL_KERNEL_AFTER = "save"


@dataclass(frozen=True)
class Cell:
    """A code cell of the notebook: its number among the code cells, its id and its code."""

    number: int
    id: str
    code: str

    @property
    def title(self) -> str:
        first = next((line for line in self.code.splitlines() if line.strip()), "")
        return first if len(first) <= 56 else first[:55] + "…"


@dataclass(frozen=True)
class Finding:
    """A row of the closing table: what was done, how long it (or the way back from it) took in
    seconds, what came of it, and whether that is as promised."""

    what: str
    seconds: float
    result: str
    ok: bool


@dataclass
class Told:
    """Everything the story found out."""

    session: uuid.UUID
    cells: int
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)

    def find(self, what: str, seconds: float, result: str, *, ok: bool) -> None:
        self.findings.append(Finding(what, seconds, result, ok))


class Narrator(Protocol):
    """Who tells the story while it happens."""

    def begin(self, text: str) -> None:
        """Something that takes a while begins."""

    def cell(self, cell: Cell, run: CellRun, total: int, remark: str = "") -> None:
        """A cell has ended."""

    def event(self, text: str) -> None:
        """Something worth a line happened."""


def notebook_cells() -> list[Cell]:
    """The code cells of the shipped notebook."""
    text = (files("reprise.demo") / "rentals.ipynb").read_text(encoding="utf-8")
    codes = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return [Cell(n, cell["id"], "".join(cell["source"])) for n, cell in enumerate(codes, start=1)]


def lay_out(folder: Path) -> None:
    """Put the notebook and its data into an empty folder, as a person would have them."""
    for name in ("rentals.ipynb", "rentals.csv"):
        (folder / name).write_bytes((files("reprise.demo") / name).read_bytes())


class Story:
    """The kills, and what is compared afterwards. One run of the notebook; `told` grows with it."""

    def __init__(self, specs: KernelSpecManager, scratch: Path, narrator: Narrator) -> None:
        self._specs = specs
        self._scratch = scratch
        self._narrator = narrator
        self._cells = notebook_cells()
        self._runs: dict[str, CellRun] = {}
        self.told = Told(uuid.uuid4(), len(self._cells))

    def run(self) -> Told:
        """Run the notebook with both kills. Raises UnavailableError without a working kernel."""
        folder = self._folder("notebook")
        rest = iter(self._cells)
        self._narrator.begin("starting the kernel")
        with self._kernel(folder) as kernel:
            self._until(kernel, rest, KILL_KERNEL_AFTER)
            killed_after = self._kill_kernel(kernel)
        self._narrator.begin("a new kernel takes the session and plays it again")
        started = time.perf_counter()
        with self._kernel(folder) as kernel:
            # Costs next to nothing by itself, so what it takes is the way back.
            back = kernel.run("pass", "probe")
            took = time.perf_counter() - started
            self._narrator.event(f"back after {took:.1f} s, in a new kernel and a fresh sandbox")
            self._until(kernel, rest, None)
        lost = [cell for cell in self._cells if self._status(cell) != "ok"]
        self.told.find(
            f"kill -9 of the kernel, after cell {killed_after}",
            took,
            "the way back; nothing was lost" if not lost else f"cells failed: {_numbers(lost)}",
            ok=back.status == "ok" and not lost,
        )
        self.told.findings.insert(
            0,
            Finding(
                f"a pandas notebook of {len(self._cells)} cells",
                sum(run.seconds for run in self._runs.values()),
                f"{len(self._cells) - len(lost)} ran to their end",
                ok=not lost,
            ),
        )
        return self.told

    def compare_with_plain(self) -> None:
        """Run the same cells, undisturbed, on plain ipykernel, and compare every output."""
        self._narrator.begin("the same notebook on plain ipykernel, undisturbed")
        started = time.perf_counter()
        different: list[Cell] = []
        with DemoKernel("python3", self._specs, self._folder("plain"), {}) as plain:
            for cell in self._cells:
                reference, ours = plain.run(cell.code, cell.id), self._runs.get(cell.id)
                if ours is None or (ours.status, ours.shown) != (
                    reference.status,
                    reference.shown,
                ):
                    different.append(cell)
        same = len(self._cells) - len(different)
        self.told.find(
            "the same notebook, undisturbed, on plain ipykernel",
            time.perf_counter() - started,
            f"{same} of {len(self._cells)} cells show the same"
            + (f"; different: {_numbers(different)}" if different else ""),
            ok=not different,
        )

    def _folder(self, name: str) -> Path:
        folder = self._scratch / name
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        lay_out(folder)
        return folder

    def _kernel(self, folder: Path) -> DemoKernel:
        return DemoKernel("reprise", self._specs, folder, {SESSION: str(self.told.session)})

    def _until(self, kernel: DemoKernel, cells: Iterator[Cell], last: str | None) -> None:
        for cell in cells:
            if cell.id == KILL_SANDBOX_IN:
                self._kill_sandbox_in(kernel, cell)
            else:
                self._run(kernel, cell)
            if cell.id == last:
                return

    def _status(self, cell: Cell) -> str:
        run = self._runs.get(cell.id)
        return "not run" if run is None else run.status

    def _run(self, kernel: DemoKernel, cell: Cell, remark: str = "") -> None:
        run = kernel.run(cell.code, cell.id)
        self._runs[cell.id] = run
        self._narrator.cell(cell, run, len(self._cells), remark)
        if run.status != "ok" and cell.number == 1:
            raise UnavailableError(
                f"The kernel does not run cells here. It says: {run.error} "
                "`reprise doctor` says what this machine lacks."
            )

    def _kill_sandbox_in(self, kernel: DemoKernel, cell: Cell) -> None:
        killed: list[int] = []

        def kill() -> None:
            killed.append(kernel.kill_sandbox())
            self._narrator.event(
                f"kill -9 {killed[0]}: the sandbox, in the middle of cell {cell.number}"
            )

        run = kernel.run(cell.code, cell.id, on_output=kill)
        died = time.perf_counter()
        self._narrator.cell(cell, run, len(self._cells), "rolled back")
        if run.error:
            self._narrator.event(f"the cell says: {run.error}")
        back = kernel.run("pass", "probe")
        took = time.perf_counter() - died
        self._narrator.event(f"back after {took:.1f} s, in a fresh sandbox")
        rolled_back = bool(killed) and run.status == "error"
        self.told.find(
            f"kill -9 of the sandbox, in the middle of cell {cell.number}",
            took,
            f"the way back; that cell rolled back, {cell.number - 1} cells played again"
            if rolled_back
            else f"the cell ended as {run.status!r}, it was not rolled back",
            ok=rolled_back and back.status == "ok" and kernel.alive,
        )
        self._run(kernel, cell, remark="run again")

    def _kill_kernel(self, kernel: DemoKernel) -> int:
        """Returns the number of cells that had run."""
        pid, sandbox = kernel.kill()
        self._narrator.event(f"kill -9 {pid}: the kernel process; its sandbox {sandbox} went too")
        return len(self._runs)


def _numbers(cells: list[Cell]) -> str:
    return ", ".join(str(cell.number) for cell in cells)
