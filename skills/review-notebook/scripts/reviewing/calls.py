"""Calls and constants of the notebook's code by full names, in the order of its cells."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from reviewing.notebook import Cell
from reviewing.python_source import Source


@dataclass(frozen=True)
class Call:
    """full: by the name that it was imported by ("numpy.random.rand"); a method of a value is
    ".name".  order: place in the notebook, for what comes before what.
    """

    cell: Cell
    node: ast.Call
    full: str
    order: int
    ordered: bool

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def method(self) -> str:
        return self.full.rpartition(".")[2]

    def keyword(self, name: str) -> ast.expr | None:
        return next((each.value for each in self.node.keywords if each.arg == name), None)


class Aliases:
    """Full names by the names that the notebook imports them by."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def learn(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._names[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    self._names[alias.asname or alias.name] = f"{node.module}.{alias.name}"

    def full(self, node: ast.expr) -> str:
        """The full name of a called thing; ".method" of a value; "" of anything else."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return f".{parts[0]}" if parts else ""
        known = self._names.get(node.id)
        if known is None and parts:
            return f".{parts[0]}"
        return ".".join([known or node.id, *reversed(parts)])


def calls(read: list[tuple[Cell, Source]], aliases: Aliases) -> Iterator[Call]:
    """Every call, in the order of cells and lines."""
    order = 0
    for cell, source in read:
        if source.tree is None:
            continue
        aliases.learn(source.tree)
        nodes = [node for node in ast.walk(source.tree) if isinstance(node, ast.Call)]
        calm = {
            id(inner)
            for node in nodes
            if aliases.full(node.func)
            in ("sorted", "len", "set", "sum", "min", "max", "any", "all")
            for argument in node.args
            for inner in ast.walk(argument)
        }
        for node in sorted(nodes, key=lambda each: (each.lineno, each.col_offset)):
            order += 1
            yield Call(cell, node, aliases.full(node.func), order, id(node) in calm)
