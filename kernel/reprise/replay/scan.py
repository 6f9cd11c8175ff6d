"""Reads what a cell or a command does: what may come out otherwise, what it uses and sets (pure).

It reads the source and guesses: a call that is found need not be what made a difference, and one
that hides behind a library's function is not found. `causes` decides what to say of it.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from reprise.replay.sources import (
    ORDERED,
    RULES,
    SEED_ALL,
    SEEDS,
    SHELL,
    What,
)

#: A longer source is not read, nor more findings kept of one.
LONGEST: Final = 200_000
FOUND: Final = 50


@dataclass(frozen=True)
class Finding:
    """One place that may come out otherwise.

    call: as it is written ("np.random.rand").  line: in the source, from 1.  seed: the generator
    whose seed would tame it.  through: the function of the session that it stands in, and `seq`
    the step that defined it, when it was reached through a call.
    """

    what: What
    call: str
    line: int
    mend: str
    seed: str | None = None
    through: str | None = None
    seq: int | None = None


@dataclass(frozen=True)
class Definition:
    """A function or class that a source defines: what it may bring to whoever calls it."""

    findings: tuple[Finding, ...]
    calls: frozenset[str]


@dataclass
class Scan:
    """What a source does, as far as can be read.

    calls: full dotted names of what is called at its top level, and bare method names (".fit").
    loads, stores: names of the namespace that it uses before it sets them, and that it sets.
    seeded: generators that it seeds: "random", "numpy", "torch", "tensorflow".
    texts: its short text constants (file names among them).
    """

    findings: list[Finding] = field(default_factory=list)
    definitions: dict[str, Definition] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    seeded: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)


_MAGIC_TIME: Final = re.compile(r"%{1,2}(?:time|timeit|prun)\b")
_SHELL_CELLS: Final = re.compile(r"%%(?:bash|sh|script|system|!|sx)\b")
_SYSTEM: Final = re.compile(r"/(?:proc|sys)/")


def scan_shell(text: str, first_line: int = 1) -> list[Finding]:
    """What a shell text may bring that comes out otherwise."""
    found: list[Finding] = []
    for number, line in enumerate(text[:LONGEST].splitlines()):
        bare = line.partition("#")[0] if line.lstrip().startswith("#") else line
        for pattern, what, mend in SHELL:
            match = pattern.search(bare[:2000])
            if match is not None and len(found) < FOUND:
                call = match.group().strip()
                found.append(Finding(what, call, first_line + number, mend))
    return found


def scan_python(source: str, aliases: dict[str, str]) -> Scan:
    """What a cell does. `aliases`: full names by the names of the session's imports; kept up."""
    scan = Scan()
    if len(source) > LONGEST:
        return scan
    python = _without_magics(source, scan)
    if python is None:
        return scan
    tree = _parsed(python)
    if tree is not None:
        _Reader(scan, aliases).read(tree)
    return scan


def _parsed(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the cell's odd escapes
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def _without_magics(source: str, scan: Scan) -> str | None:
    """The cell as plain Python of as many lines; None for a cell of another language."""
    lines = source.split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return None
    head = lines[first].strip()
    if head.startswith("%%"):
        if _SHELL_CELLS.match(head):
            scan.findings += scan_shell("\n".join(lines[first + 1 :]), first + 2)
            return None
        if _MAGIC_TIME.match(head):
            scan.findings.append(_measured(head, first + 1))
        elif not head.startswith(("%%capture", "%%prun")):
            return None
        lines[first] = ""
    kept: list[str] = []
    for number, line in enumerate(lines, 1):
        bare = line.lstrip()
        indent = line[: len(line) - len(bare)]
        if bare.startswith("!"):
            scan.findings += scan_shell(bare.lstrip("!"), number)
            kept.append(f"{indent}pass")
        elif bare.startswith("%"):
            if _MAGIC_TIME.match(bare):
                scan.findings.append(_measured(bare, number))
                kept.append(indent + (bare.split(None, 1)[1:] or ["pass"])[0])
            else:
                kept.append(f"{indent}pass")
        elif (assigned := re.match(r"([\w, ]+=\s*)([!%])(.*)", bare)) is not None:
            if assigned[2] == "!":
                scan.findings += scan_shell(assigned[3], number)
            kept.append(f"{indent}{assigned[1]}None")
        elif bare.endswith("?") or bare.startswith("?"):
            kept.append(f"{indent}pass")
        else:
            kept.append(line)
    return "\n".join(kept)


def _measured(head: str, line: int) -> Finding:
    call = head.split(None, 1)[0]
    return Finding("measurement", call, line, "A measurement differs each time.")


_MOMENTARY: Final = frozenset({"st_mtime", "st_atime", "st_ctime", "st_ino"})


class _Reader:
    """Reads one module's tree, statement by statement, in the order in which it runs."""

    def __init__(self, scan: Scan, aliases: dict[str, str]) -> None:
        self._scan = scan
        self._aliases = aliases
        self._ordered: set[int] = set()

    def read(self, tree: ast.Module) -> None:
        for statement in tree.body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        self._imports(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._definition(node)
            return
        self._visit(node, self._scan)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        for part in (*node.decorator_list, *_defaults(node)):
            self._visit(part, self._scan)
        self._scan.stores.add(node.name)
        members: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        for each in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                members.append(each)
            else:
                self._visit(each, self._scan)
        whole: list[Finding] = []
        called: set[str] = set()
        for member in members:
            inner = Scan()
            for statement in member.body:
                self._imports(statement)
                self._visit(statement, inner, deep=True)
            # Names that the body sets are its own; what it uses beside them it takes from here.
            own = inner.stores | {each.arg for each in _arguments(member)}
            self._scan.loads |= inner.loads - own - self._scan.stores - {node.name}
            self._scan.texts |= inner.texts
            made = Definition(tuple(inner.findings[:FOUND]), frozenset(inner.calls))
            if member is node:
                self._scan.definitions[node.name] = made
            else:
                self._scan.definitions[f".{member.name}"] = made
                if member.name == "__init__":
                    whole += made.findings
                    called |= made.calls
        if isinstance(node, ast.ClassDef):
            self._scan.definitions[node.name] = Definition(tuple(whole), frozenset(called))

    def _imports(self, node: ast.stmt) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Import):
                for alias in each.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self._aliases[name] = alias.name if alias.asname else name
            elif isinstance(each, ast.ImportFrom) and each.module:
                for alias in each.names:
                    self._aliases[alias.asname or alias.name] = f"{each.module}.{alias.name}"

    def _visit(self, node: ast.AST, scan: Scan, *, deep: bool = False) -> None:
        """One statement or expression; bodies of functions inside count only when `deep`."""
        # Names of comprehensions and lambdas are their own.
        own: set[str] = set()
        for each in _walk(node, deep=deep):
            own |= _bound(each)
            if isinstance(each, ast.Name) and each.id in own:
                continue
            if isinstance(each, ast.Call):
                self._call(each, scan)
            elif isinstance(each, ast.Name):
                self._name(each, scan)
            elif isinstance(each, ast.Constant) and isinstance(each.value, str):
                self._text(each, scan)
            elif isinstance(each, ast.Attribute) and each.attr in (
                "st_mtime",
                "st_atime",
                "st_ino",
            ):
                mend = "Times and numbers of files differ between two workspaces."
                self._find(scan, Finding("process", each.attr, each.lineno, mend))
            elif isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
                if each.target.id not in scan.stores:
                    scan.loads.add(each.target.id)
            elif isinstance(each, ast.For | ast.comprehension) and _is_set(each.iter):
                line = each.iter.lineno
                mend = "Sort it: for each in sorted(…)."
                self._find(scan, Finding("set order", "a set", line, mend))

    def _name(self, node: ast.Name, scan: Scan) -> None:
        if isinstance(node.ctx, ast.Load):
            if node.id not in scan.stores:
                scan.loads.add(node.id)
        else:
            scan.stores.add(node.id)

    def _text(self, node: ast.Constant, scan: Scan) -> None:
        text = str(node.value)
        if len(text) <= 300:
            scan.texts.add(text)
        if _SYSTEM.match(text):
            mend = "It shows the machine as it is at that moment."
            self._find(scan, Finding("process", text[:40], node.lineno, mend))

    def _call(self, node: ast.Call, scan: Scan) -> None:
        written, full = self._named(node.func)
        if written is None:
            return
        if full in ORDERED:
            # What is sorted, counted or summed has no order any more.
            for each in node.args:
                inner = getattr(each, "generators", ())
                self._ordered.update(id(part) for part in (each, *(g.iter for g in inner)))
        scan.calls.add(full)
        scan.calls.add(f".{written.rpartition('.')[2]}")
        bare = not node.keywords and all(_is_none(each) for each in node.args)
        for pattern, seed in SEEDS:
            if pattern.match(full) and not bare:
                scan.seeded.add(seed)
                if SEED_ALL.match(full):
                    scan.seeded |= {"random", "numpy", "torch", "tensorflow"}
        keywords = {each.arg for each in node.keywords}
        if full in ("list", "tuple", "enumerate", "iter", "next") and any(map(_is_set, node.args)):
            mend = "Sort it: sorted(…)."
            self._find(scan, Finding("set order", f"{written}(a set)", node.lineno, mend))
        for rule in RULES:
            target = full if not rule.pattern.pattern.startswith(r"(?:\.") else None
            matched = target is not None and rule.pattern.match(target) is not None
            if not matched and "." in written:
                method = f".{written.rpartition('.')[2]}"
                matched = self._unknown(node.func) and rule.pattern.match(method) is not None
            if not matched or (rule.bare and not bare):
                continue
            if rule.keyword is not None and rule.keyword in keywords:
                continue
            if rule.what == "file order" and id(node) in self._ordered:
                continue
            mend = rule.mend.replace("{call}", written)
            self._find(scan, Finding(rule.what, written, node.lineno, mend, rule.seed))
            break

    def _find(self, scan: Scan, found: Finding) -> None:
        if len(scan.findings) < FOUND:
            scan.findings.append(found)

    def _named(self, node: ast.expr) -> tuple[str | None, str]:
        """A called thing as it is written, and by its full name as far as imports tell."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            parts.append(node.id)
        elif parts:
            parts.append("…")
        else:
            return None, ""
        written = ".".join(reversed(parts))
        head, dot, rest = written.partition(".")
        full = self._aliases.get(head, head)
        return written, f"{full}{dot}{rest}"

    def _unknown(self, node: ast.expr) -> bool:
        """Whether a method is called on a value and not on an imported module or class."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return not (isinstance(node, ast.Name) and node.id in self._aliases)


def _walk(node: ast.AST, *, deep: bool) -> Iterator[ast.AST]:
    """Like `ast.walk`, but values before the names that they are assigned to."""
    stack: list[ast.AST] = [node]
    while stack:
        each = stack.pop()
        yield each
        if not deep and isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        children = list(ast.iter_child_nodes(each))
        if isinstance(each, ast.For | ast.AsyncFor):
            children = [each.iter, each.target, *each.body, *each.orelse]
        elif isinstance(each, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr):
            children.sort(key=lambda child: isinstance(getattr(child, "ctx", None), ast.Store))
        stack.extend(reversed(children))


def _bound(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Lambda):
        return {each.arg for each in _arguments(node)}
    targets = [each.target for each in getattr(node, "generators", ())]
    names = (name for target in targets for name in ast.walk(target))
    return {name.id for name in names if isinstance(name, ast.Name)}


def _defaults(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
) -> list[ast.expr]:
    """What runs when it is defined: defaults of a function, bases of a class."""
    if isinstance(node, ast.ClassDef):
        return [*node.bases, *(each.value for each in node.keywords)]
    return [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    named = node.args
    more = [each for each in (named.vararg, named.kwarg) if each is not None]
    return [*named.posonlyargs, *named.args, *named.kwonlyargs, *more]


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    named = node.func if isinstance(node, ast.Call) else None
    return isinstance(named, ast.Name) and named.id in ("set", "frozenset")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
