"""Whether the notebook, run from top to bottom in a fresh kernel, gives what stands in it."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import pairwise

from reviewing.findings import Findings
from reviewing.names import GIVEN, Names
from reviewing.notebook import Cell, Notebook
from reviewing.python_source import AUTOMAGIC, Source


def look_at_counts(book: Notebook, found: Findings) -> None:
    """Execution counts tell in which order cells really ran."""
    cells = [cell for cell in book.code if cell.source.strip()]
    if book.ordered or not cells:
        return
    run = [cell for cell in cells if cell.count is not None]
    if not run:
        found.add(
            *("info", "never-run", None, None),
            "No cell was run, or counts were cleared.",
            "Run it once from the top, so that its outputs are known to be of this code.",
        )
        return
    for cell in cells:
        if cell.count is None:
            found.add(
                *("warning", "not-run", cell, None),
                "This cell was not run, others were.",
                "Run all from the top, or delete it.",
            )
    numbers = [cell.count or 0 for cell in run]
    for before, cell in pairwise(run):
        if (cell.count or 0) < (before.count or 0):
            found.add(
                *("warning", "out-of-order", cell, None),
                f"It ran as number {cell.count}, before cell {before.number}, which ran as"
                f" {before.count}.",
                "Restart and run all; move the cell to where it belongs if that fails.",
            )
    counts = Counter(numbers)
    for number, times in counts.items():
        if times > 1:
            found.add(
                *("warning", "same-count", None, None),
                f"{times} cells ran as number {number}: they come from different kernels.",
                "Restart and run all.",
            )
    missing = max(numbers) - len(counts)
    if missing > 0:
        found.add(
            *("info", "runs-missing", None, None),
            f"{missing} of {max(numbers)} executions are of cells that were run again, changed or"
            " deleted since.",
            "What they left in memory may be needed: restart and run all tells.",
        )


def look_at_errors(book: Notebook, found: Findings) -> None:
    for cell in book.code:
        for output in cell.outputs:
            if output.get("output_type") == "error":
                name = str(output.get("ename", ""))[:60]
                found.add(
                    *("warning", "error-output", cell, None),
                    f"It ended with an error ({name}).",
                    "Mend or delete it: `Run all` stops here, and all below is then stale.",
                )


def look_at_names(
    read: list[tuple[Cell, Source, Names | None]], ordered: bool, found: Findings
) -> None:
    """Names that are used before anything defines them, or that nothing defines."""
    later: dict[str, Cell] = {}
    for cell, source, names in reversed(read):
        for name in (*(names.sets if names else ()), *source.defines):
            later[name] = cell  # ends as the first cell that sets it
    known: set[str] = set()
    deleted: dict[str, Cell] = {}
    open_ended = False
    for cell, source, names in read:
        open_ended = open_ended or source.brings
        known |= source.defines
        if names is None:
            continue
        for name, line in sorted(names.needs.items(), key=lambda each: each[1]):
            if name in known or name in GIVEN or _prompt(name) or name in names.imports:
                continue
            if name not in later and _automagic(cell, line, known):
                continue
            if name in deleted:
                found.add(
                    *("error", "used-after-del", cell, line),
                    f"`{name}` was deleted in cell {deleted[name].number}.",
                    "Delete it later, or define it again.",
                )
            elif open_ended and name in later:
                pass  # something above that cannot be read may have brought it
            elif name in later and later[name].number > cell.number:
                found.add(
                    *("error", "used-before-defined", cell, line),
                    f"`{name}` is used here, but defined only in cell {later[name].number} below.",
                    "Move the definition up; from the top this cell fails.",
                )
            elif name in later and later[name] is cell:
                if "NameError" in cell.source or "globals()" in cell.source:
                    continue  # it asks first
                found.add(
                    *("error", "used-before-defined", cell, line),
                    f"`{name}` is used in this cell before it sets it, and nothing above does.",
                    "Define it above; the cell works only when it is run a second time.",
                )
            elif not (open_ended or names.star) and not ordered:
                found.add(
                    *("error", "undefined", cell, line),
                    f"Nothing in the notebook defines `{name}`: the cell that did may be deleted.",
                    "Bring the definition back; from the top this cell fails.",
                )
            known.add(name)  # told once
        known |= set(names.sets)
        open_ended = open_ended or names.star
        for name in names.deleted:
            known.discard(name)
            deleted[name] = cell
        for name in names.sets:
            deleted.pop(name, None)
    if ordered or open_ended:
        return
    for cell, _, names in read:
        for name, line in (names.later if names else {}).items():
            if name not in later and name not in GIVEN and not _prompt(name) and name not in known:
                found.add(
                    *("warning", "undefined-in-function", cell, line),
                    f"A function uses `{name}`, which nothing in the notebook defines.",
                    "It fails when it is called.",
                )


def _automagic(cell: Cell, line: int, known: set[str]) -> bool:
    """Whether the line reads as Python (`cd / tmp`) and IPython takes it for a magic."""
    lines = cell.source.split("\n")
    text = lines[line - 1] if line <= len(lines) else ""
    return AUTOMAGIC.match(text) is not None and text.split()[0] not in known


def _prompt(name: str) -> bool:
    """`_3` and `_i3`: outputs and inputs by their number, which change with every run."""
    return name.startswith("_") and name[1:].removeprefix("i").isdigit()


def look_at_effects(read: list[tuple[Cell, Source, Names | None]], found: Findings) -> None:
    """Cells that give something else when they are run a second time."""
    for cell, source, names in read:
        if names is None or source.tree is None:
            continue
        for node in source.tree.body:
            name = _changed(node)
            if name is not None and name in names.needs:
                found.add(
                    *("info", "changes-when-run-again", cell, node.lineno),
                    f"It changes `{name}`, of another cell; run twice, it changes it twice.",
                    "Make it and change it in one cell, or give the result a new name.",
                )
        for name, line in names.needs.items():
            if _prompt(name):
                found.add(
                    *("warning", "output-by-number", cell, line),
                    f"`{name}` is an earlier output by its number, which changes with every run.",
                    "Give that value a name.",
                )


def _changed(node: ast.stmt) -> str | None:
    """The name that a statement at the top of a cell changes in place."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return None
    call = node.value
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return None
    in_place = any(
        each.arg == "inplace" and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in call.keywords
    )
    if in_place or call.func.attr in ("append", "extend", "insert", "pop", "update", "add"):
        return call.func.value.id
    return None
