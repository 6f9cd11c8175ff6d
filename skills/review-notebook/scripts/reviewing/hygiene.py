"""Paths of one machine, what hides errors, what is unsafe, what makes the file too large."""

from __future__ import annotations

import ast
import re

from reviewing.calls import Call
from reviewing.findings import Findings
from reviewing.names import Names
from reviewing.notebook import Cell, Notebook, text_of
from reviewing.python_source import Source

_FOLDERS = "home|Users|root|mnt|media|data|opt|srv|content|kaggle|Volumes|scratch|dbfs"
_ABSOLUTE = re.compile(
    rf"""(?:^|(?<=[\s"'=<>|;(]))(?:file://)?(?:/(?:{_FOLDERS})/|~/|[A-Za-z]:(?:\\|/(?!/)))[^\s"']+"""
)
_UNSAFE = {
    "pickle.load": "a pickle",
    "pickle.loads": "a pickle",
    "dill.load": "a pickle",
    "cloudpickle.load": "a pickle",
    "joblib.load": "a pickle",
    "pandas.read_pickle": "a pickle",
    "torch.load": "a pickle",
}
_BUILTINS = frozenset(
    {"list", "dict", "set", "str", "int", "float", "sum", "min", "max", "len", "type", "input"}
    | {
        "filter",
        "map",
        "range",
        "sorted",
        "print",
        "open",
        "next",
        "all",
        "any",
        "zip",
        "round",
        "bytes",
    }
)
_CELL_BYTES = 1 << 20
_BOOK_BYTES = 10 << 20
_LINES = 2_000


def look(
    book: Notebook,
    read: list[tuple[Cell, Source, Names | None]],
    calls: list[Call],
    found: Findings,
) -> None:
    _sizes(book, found)
    _imports(read, found)
    for cell, source, names in read:
        if source.tree is None:
            continue
        for name, line in (names.sets if names else {}).items():
            if name in _BUILTINS:
                found.add(
                    *("warning", "hides-builtin", cell, line),
                    f"`{name}` now hides Python's own, in every cell that runs later.",
                    "Choose another name.",
                )
        _statements(cell, source.tree, found)
    for cell, source, _ in read:
        for text, line in source.shell:
            for number, each in enumerate(text.split("\n")):
                path = _ABSOLUTE.search(each[:2_000])
                if path is not None:
                    _absolute(cell, line + number, path[0], found)
    for call in calls:
        _call(call, found)


def _statements(cell: Cell, tree: ast.Module, found: Findings) -> None:
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in documentation and _ABSOLUTE.match(node.value[:300]):
                _absolute(cell, node.lineno, node.value, found)
        elif isinstance(node, ast.ExceptHandler) and _silent(node):
            found.add(
                *("warning", "errors-hidden", cell, node.lineno),
                "Any error is swallowed here without a word.",
                "Catch the one error that is expected, and say so.",
            )
        elif isinstance(node, ast.Assign) and any(map(_chained, node.targets)):
            found.add(
                *("warning", "chained-assignment", cell, node.lineno),
                "Chained indexing is assigned to: pandas changes a copy and drops it.",
                "Use one .loc[rows, column] = …",
            )


def _silent(node: ast.ExceptHandler) -> bool:
    broad = node.type is None or (
        isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
    )
    return broad and all(
        isinstance(each, ast.Pass | ast.Continue)
        or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
        for each in node.body
    )


def _chained(node: ast.expr) -> bool:
    """`df[a][b] = …` with a mask or a column: not a list of lists, as far as can be told."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Subscript):
        return False
    inner = node.value.slice
    return isinstance(node.value.value, ast.Name) and isinstance(inner, ast.Compare | ast.BoolOp)


def _absolute(cell: Cell, line: int, path: str, found: Findings) -> None:
    found.add(
        *("warning", "absolute-path", cell, line),
        f"A path of this one machine: {path[:80]!r}.",
        "Use a path relative to the notebook, or one setting at the top.",
    )


def _call(call: Call, found: Findings) -> None:
    unsafe = _UNSAFE.get(call.full)
    if call.full == "torch.load":
        only = call.keyword("weights_only")
        if isinstance(only, ast.Constant) and only.value is True:
            unsafe = None
    if call.full == "numpy.load":
        allowed = call.keyword("allow_pickle")
        unsafe = "a pickle" if isinstance(allowed, ast.Constant) and allowed.value is True else None
    if call.full in ("yaml.load", "yaml.unsafe_load") and "Safe" not in ast.dump(call.node):
        unsafe = "YAML with objects"
    if unsafe is not None:
        found.add(
            *("warning", "unsafe-load", call.cell, call.line),
            f"`{call.full}` loads {unsafe}: whoever made the file runs code here.",
            "Load only what you made yourself; Parquet, npz, safetensors and JSON hold data only.",
        )
    if call.full == "warnings.filterwarnings" and _ignores(call):
        found.add(
            *("info", "warnings-hidden", call.cell, call.line),
            "All warnings are hidden, also those that tell of wrong results.",
            "Hide the one that disturbs, by category and message.",
        )
    if (
        call.full in ("eval", "exec")
        and call.node.args
        and not isinstance(call.node.args[0], ast.Constant)
    ):
        found.add(
            *("info", "evaluates-text", call.cell, call.line),
            f"`{call.full}` runs text as code; what it does cannot be read here.",
            "Write the code out where that is possible.",
        )


def _ignores(call: Call) -> bool:
    first = call.node.args[0] if call.node.args else call.keyword("action")
    alone = len(call.node.args) + len(call.node.keywords) == 1
    return alone and isinstance(first, ast.Constant) and first.value == "ignore"


def _imports(read: list[tuple[Cell, Source, Names | None]], found: Findings) -> None:
    used: set[str] = set()
    texts: list[str] = []
    for _, source, names in read:
        if names is not None:
            used |= names.loads
        texts += [text for text, _ in source.shell]
        texts += [rest for _, rest, _ in source.magics]
    beside = " ".join(texts)
    for cell, _, names in read:
        if names is None:
            continue
        if names.star_line is not None:
            found.add(
                *("warning", "star-import", cell, names.star_line),
                "`import *` brings names that nobody sees, and may hide others.",
                "Import the names that are used.",
            )
        for name, (line, full) in names.imports.items():
            if name not in used and name not in beside and not name.startswith("_"):
                found.add(
                    *("info", "unused-import", cell, line),
                    f"`{full}` is imported and not used by its name.",
                    "Delete it, unless it is imported for what it registers.",
                )


def _sizes(book: Notebook, found: Findings) -> None:
    for cell in book.cells:
        size = lines = 0
        for output in cell.outputs:
            data = output.get("data")
            values = list(data.values()) if isinstance(data, dict) else []
            for value in (output.get("text"), output.get("traceback"), *values):
                text = text_of(value) if not isinstance(value, dict) else str(value)
                size += len(text)
            lines += text_of(output.get("text")).count("\n")
        if size > _CELL_BYTES:
            found.add(
                *("warning", "large-output", cell, None),
                f"Its outputs are {size / (1 << 20):.1f} MiB.",
                "Show less (head, a smaller figure), or write it to a file.",
            )
        elif lines > _LINES:
            found.add(
                *("warning", "long-output", cell, None),
                f"Its output has {lines} lines.",
                "Show a part, or write it to a file.",
            )
    if book.size > _BOOK_BYTES:
        found.add(
            *("warning", "large-notebook", None, None),
            f"The file is {book.size / (1 << 20):.1f} MiB; reviews and Git suffer.",
            "Clear large outputs.",
        )
