"""Which names a cell needs at once, which only when its functions are called, and which it sets."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence
from dataclasses import dataclass, field

#: What IPython puts beside Python's own names.
GIVEN = frozenset(dir(builtins)) | {
    *("display", "get_ipython", "In", "Out", "exit", "quit", "_", "__", "___"),
    *("_i", "_ii", "_iii", "_ih", "_oh", "_dh", "__file__", "__name__", "__doc__", "__builtins__"),
    *("__annotations__", "__spec__", "__loader__", "__package__", "__debug__", "__class__"),
}


@dataclass
class Names:
    """needs: name → line of its first use before the cell sets it.  later: the same of what only
    runs when a function is called.  sets: name → line.  imports: name → (line, full name).
    star: it sets names that cannot be read here (import *, globals().update), at
    `star_line` by import *.  loads: every name that is read anywhere.
    """

    needs: dict[str, int] = field(default_factory=dict)
    later: dict[str, int] = field(default_factory=dict)
    sets: dict[str, int] = field(default_factory=dict)
    imports: dict[str, tuple[int, str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    star: bool = False
    star_line: int | None = None


def names_of(tree: ast.Module) -> Names:
    """Raises RecursionError on absurdly deep code."""
    found = Names()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.star = found.star or node.func.id in ("globals", "locals", "exec", "vars")
    reader = _Scope(found)
    for statement in tree.body:
        reader.visit(statement)
    return found


class _Scope(ast.NodeVisitor):
    """Visits in the order in which code runs. `local`: names of the function it is in, if any."""

    def __init__(
        self, found: Names, local: set[str] | None = None, outer: frozenset[str] = frozenset()
    ) -> None:
        self._found = found
        self._local = local
        self._outer = outer
        self._globals: set[str] = set()
        #: names of a comprehension or of a class's body
        self._own: set[str] = set()

    # names -------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._load(node.id, node.lineno)
        elif isinstance(node.ctx, ast.Store):
            self._store(node.id, node.lineno)
        elif self._local is None:
            self._load(node.id, node.lineno)
            self._found.deleted.add(node.id)
            self._found.sets.pop(node.id, None)

    def _load(self, name: str, line: int) -> None:
        self._found.loads.add(name)
        if name in self._own or name in self._outer or name in (self._local or ()):
            return
        if self._local is not None:
            self._found.later.setdefault(name, line)
        elif name not in self._found.sets:
            self._found.needs.setdefault(name, line)

    def _store(self, name: str, line: int) -> None:
        if self._local is not None and name not in self._globals:
            self._local.add(name)
        else:
            self._found.sets.setdefault(name, line)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self._store(name, node.lineno)
            if self._local is None:
                self._found.imports.setdefault(name, (node.lineno, alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*":
                self._found.star = True
                self._found.star_line = node.lineno
                continue
            name = alias.asname or alias.name
            self._store(name, node.lineno)
            if self._local is None and node.module != "__future__":
                self._found.imports.setdefault(name, (node.lineno, f"{node.module}.{alias.name}"))

    def visit_Global(self, node: ast.Global) -> None:
        self._globals |= set(node.names)

    # order of running -------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._load(node.target.id, node.lineno)
        self.visit(node.value)
        self.visit(node.target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
        if node.value is not None or not isinstance(node.target, ast.Name):
            self.visit(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self.visit(node.target)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self.visit(node.target)
        for each in (*node.body, *node.orelse):
            self.visit(each)

    visit_AsyncFor = visit_For  # noqa: N815  as ast names it

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name:
            self._store(node.name, node.lineno)
        for each in node.body:
            self.visit(each)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.pattern is not None:
            self.visit(node.pattern)
        if node.name:
            self._store(node.name, node.lineno)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self._store(node.name, node.lineno)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.generic_visit(node)
        if node.rest:
            self._store(node.rest, node.lineno)

    # scopes ------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for each in node.decorator_list:
            self.visit(each)
        self._arguments(node.args)
        if node.returns is not None:
            self.visit(node.returns)
        self._store(node.name, node.lineno)
        self._inner(node.args, node.body, _bound_in(node.body))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._arguments(node.args)
        self._inner(node.args, [node.body], set())

    def _arguments(self, args: ast.arguments) -> None:
        """What is evaluated where the function is defined."""
        for default in (*args.defaults, *args.kw_defaults):
            if default is not None:
                self.visit(default)
        for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
            if each is not None and each.annotation is not None:
                self.visit(each.annotation)

    def _inner(
        self, args: ast.arguments, body: Sequence[ast.stmt | ast.expr], own: set[str]
    ) -> None:
        names = {
            each.arg
            for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg)
            if each is not None
        }
        outer = self._outer | frozenset(self._local or ()) | self._seen_inside()
        inner = _Scope(self._found, names | own, outer)
        for part in body:
            inner.visit(part)

    def _seen_inside(self) -> frozenset[str]:
        """Of its own names, those that functions defined here see."""
        return frozenset(self._own)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self.visit(each)
        self._store(node.name, node.lineno)
        # The body runs at once, in a namespace of its own.
        body = _ClassBody(self._found, self._local, self._outer | self._seen_inside())
        for part in node.body:
            body.visit(part)

    def visit_ListComp(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    ) -> None:
        self.visit(node.generators[0].iter)
        inner = _Comprehension(self._found, self._local, self._outer)
        inner._own |= self._own
        for at, each in enumerate(node.generators):
            if at:
                inner.visit(each.iter)
            inner._own |= {name.id for name in ast.walk(each.target) if isinstance(name, ast.Name)}
            for test in each.ifs:
                inner.visit(test)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            inner.visit(part)

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp  # noqa: N815


class _Comprehension(_Scope):
    """Runs at once, with names of its own; a walrus in it sets names outside."""


class _ClassBody(_Scope):
    """Runs at once; what it sets are attributes, which its methods do not see as names."""

    def _store(self, name: str, line: int) -> None:  # noqa: ARG002
        self._own.add(name)

    def _seen_inside(self) -> frozenset[str]:
        return frozenset()


def _bound_in(body: list[ast.stmt]) -> set[str]:
    """Names that a function sets itself, so that they are its own all through it."""
    found: set[str] = set()
    shared: set[str] = set()
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            shared |= set(node.names)
        stack.extend(ast.iter_child_nodes(node))
    return found - shared
