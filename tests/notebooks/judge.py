"""Compares a notebook's killed run with its whole one: outputs, variables, files, replay."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reprise.commands.workspaces import fresh_sandbox
from reprise.log.check import CheckReport
from reprise.log.model import OutputEntry, canonical
from reprise.log.postgres import Log
from reprise.replay.compare import compare
from reprise.replay.difference import Comparison
from reprise.replay.identity import IdMap
from reprise.replay.verify import Report, verify
from reprise.sandbox.named import load
from reprise.settings import BACKEND
from tests.fixtures.kernel import Database
from tests.notebooks.course import Cell, Run


@dataclass
class Judgement:
    """How many cells' outputs came out how.

    kinds: what was volatile. own: cells that differ between two whole runs too. differ: what must
    not be.
    """

    same: int = 0
    volatile: int = 0
    own: int = 0
    kinds: set[str] = field(default_factory=set)
    differ: list[str] = field(default_factory=list)
    verify: str = ""


@dataclass(frozen=True)
class _Differences:
    """Between two runs: verdicts of cells, and the names of what else differs."""

    cells: list[Comparison]
    variables: set[str]
    files: set[str]

    @property
    def different(self) -> set[int]:
        return {at for at, cell in enumerate(self.cells) if cell.verdict == "different"}


def verified(database: Database, session: uuid.UUID, backend: str) -> tuple[Report, CheckReport]:
    """Replay a session in a fresh sandbox and recompute its digest chain."""
    os.environ[BACKEND] = backend
    return asyncio.run(_verified(database, session))


async def _verified(database: Database, session: uuid.UUID) -> tuple[Report, CheckReport]:
    log = await Log.connect(database.dsn, home=database.home)
    try:
        reader = await log.reader(session)
        with fresh_sandbox(await reader.info(), load()) as (backend, spec):
            report = await verify(reader, backend, spec)
        return report, await log.check(session)
    finally:
        await log.close()


def judge(
    whole: Run, killed: Run, report: Report, chain: CheckReport, again: Callable[[], Run]
) -> Judgement:
    """again: a second whole run, asked for only where something differs."""
    found = Judgement(verify=_counts(report))
    differences = _between(whole, killed)
    replayed = _not_replayed(killed, report)
    own: _Differences | None = None
    if differences.different or differences.variables or differences.files or replayed:
        own = _between(whole, again())
    for at, comparison in enumerate(differences.cells):
        if comparison.verdict == "different" and own is not None and at in own.different:
            found.own += 1
        elif comparison.verdict == "different":
            found.differ.append(f"cell {at + 1}: {_told(comparison)}")
        else:
            setattr(found, comparison.verdict, getattr(found, comparison.verdict) + 1)
            found.kinds |= {f"{each.where}: {each.kind}" for each in comparison.differences}
    strange = set() if own is None else own.variables
    found.differ += [f"variable {name}" for name in sorted(differences.variables - strange)]
    strange = set() if own is None else own.files
    found.differ += [f"file {name}" for name in sorted(differences.files - strange)]
    last = -1 - report.steps[-1].seq
    for at, text in replayed.items():
        # The last step printed the variables' digests.
        strange_here = own is not None and (
            at in own.different if at != last else bool(own.variables)
        )
        if not strange_here:
            found.differ.append(text)
    found.differ += _prompts(whole, killed)
    if chain.fault is not None:
        found.differ.append(f"the digest chain: {chain.fault}")
    for run, name in ((whole, "whole"), (killed, "killed")):
        found.differ += [
            f"cell {at + 1} of the {name} run was shown other than recorded: {_told(told)}"
            for at, cell in enumerate(run.cells)
            if (told := _shown_and_recorded(cell)).verdict == "different"
        ]
    return found


def _between(left: Run, right: Run) -> _Differences:
    ids = IdMap()  # what one cell opened another one may show
    cells = [_cells(a, b, ids) for a, b in zip(left.cells, right.cells, strict=True)]
    variables = _keys_that_differ(left.variables, right.variables)
    return _Differences(cells, variables, _keys_that_differ(left.files, right.files))


def _keys_that_differ(left: Mapping[str, object], right: Mapping[str, object]) -> set[str]:
    return {key for key in {*left, *right} if left.get(key) != right.get(key)}


def _cells(left: Cell, right: Cell, ids: IdMap) -> Comparison:
    moments = (left.record.step.new.at, right.record.step.new.at)
    ids.learn(left.record.outputs, right.record.outputs)
    renamed = [
        OutputEntry.from_json(json.loads(ids.to_client(canonical(entry.to_json()))))
        for entry in right.record.outputs
    ]
    return compare(left.record.outputs, renamed, moments=moments)


def _prompts(whole: Run, killed: Run) -> list[str]:
    """Prompt numbers never go back, and run ahead only by the cells that were rolled back."""
    ahead, most, found = 0, len(killed.kills), []
    for at, (left, right) in enumerate(zip(whole.cells, killed.cells, strict=True)):
        if left.prompt is None or right.prompt is None:
            continue
        if not ahead <= right.prompt - left.prompt <= most:
            found.append(f"cell {at + 1}: prompt {left.prompt} became {right.prompt}")
        ahead = right.prompt - left.prompt
    return found


def _shown_and_recorded(cell: Cell) -> Comparison:
    if cell.shown is None:
        return Comparison("same")
    recorded: list[OutputEntry] = [e for e in cell.record.outputs if e.type != "execute_reply"]
    found = compare(recorded, cell.shown)
    if found.verdict == "different" and cell.record.late:
        # What came after its end may have reached the client before we looked.
        found = compare([*recorded, *cell.record.late], cell.shown)
    return found


def _not_replayed(run: Run, report: Report) -> dict[int, str]:
    """Cells (by position; a negative number for other steps) that verify could not play, or played otherwise."""
    at = {cell.record.step.seq: number for number, cell in enumerate(run.cells)}
    found: dict[int, str] = {}
    for step in report.steps:
        if step.verdict in ("different", "could not run"):
            told = "" if step.comparison is None else _told(step.comparison)
            text = f"verify, step {step.seq}: {step.verdict}: {step.reason}{told}"
            found[at.get(step.seq, -1 - step.seq)] = text
    return found


def _counts(report: Report) -> str:
    verdicts = ("same", "volatile", "different", "could not run", "skipped")
    return ", ".join(f"{count} {v}" for v in verdicts if (count := report.count(v)))  # type: ignore[arg-type]


def _told(comparison: Comparison) -> str:
    return "; ".join(
        f"{each.where} ({each.kind}): {each.recorded[:120]!r} / {each.replayed[:120]!r}"
        for each in comparison.differences
        if not each.volatile
    )
