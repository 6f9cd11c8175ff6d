"""Runs cells in a plain interpreter and prints what each showed; started by probe_causes.py.

Standard input: JSON {cells: [[seq, source], …], controls: […], cut: N}. Standard output: JSON lines
[seq, text]. Not a notebook: magics are gone, display() prints.
"""

from __future__ import annotations

import ast
import asyncio
import builtins
import contextlib
import datetime as dt
import inspect
import io
import json
import os
import random
import re
import sys
import time
import traceback
import uuid
import warnings
from typing import Any

#: The moment at which a stopped clock stands: 2026-01-02 03:04:05 UTC.
_MOMENT = 1767323045.0
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")


def _seed() -> None:
    random.seed(0)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(0)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)


def _seed_everything() -> None:
    """Generators that are made without a seed get one too."""
    _seed()
    with contextlib.suppress(ImportError):
        import numpy as np  # noqa: PLC0415

        np.random.seed(0)
        fresh = np.random.default_rng
        np.random.default_rng = lambda seed=None: fresh(0 if seed is None else seed)
    plain: Any = random.Random

    def seeded(self: Any, x: Any = None) -> None:
        plain.__init__(self, 0 if x is None else x)

    random.Random = type("Random", (plain,), {"__init__": seeded})  # type: ignore[misc, assignment]
    uuid.uuid4 = lambda: uuid.UUID(int=random.getrandbits(128), version=4)
    os.urandom = lambda size: bytes(random.getrandbits(8) for _ in range(size))


def _stop_clock() -> None:
    real, day = dt.datetime, dt.date

    class Kind(type):
        """What was a datetime before the clock stopped still is one."""

        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real if "now" in vars(cls) else day)

    def now(_: Any, tz: dt.tzinfo | None = None) -> dt.datetime:
        return real.fromtimestamp(_MOMENT, tz)

    stopped: dict[str, Any] = {
        # No larger than the real one, since compiled code looks into it.
        "__slots__": (),
        "now": classmethod(now),
        "utcnow": classmethod(lambda _: real.fromtimestamp(_MOMENT, dt.UTC).replace(tzinfo=None)),
        "today": classmethod(now),
    }
    today: dict[str, Any] = {
        "__slots__": (),
        "today": classmethod(lambda _: real.fromtimestamp(_MOMENT).date()),
    }
    dt.datetime = Kind("datetime", (real,), stopped)  # type: ignore[misc, assignment]
    dt.date = Kind("date", (day,), today)  # type: ignore[misc, assignment]
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time"):
        setattr(time, name, lambda: _MOMENT)
        setattr(time, f"{name}_ns", lambda: int(_MOMENT * 1e9))
    for name in ("localtime", "gmtime"):
        given = getattr(time, name)
        setattr(time, name, lambda secs=None, given=given: given(_MOMENT if secs is None else secs))


def _sort_listings() -> None:
    listed: Any = os.listdir
    scanned: Any = os.scandir

    class Sorted:
        """Like what `os.scandir` gives: an iterator that can be closed."""

        def __init__(self, path: Any) -> None:
            with scanned(path) as entries:
                self._at = iter(sorted(entries, key=lambda entry: entry.name))

        def __iter__(self) -> Any:
            return self._at

        def __next__(self) -> Any:
            return next(self._at)

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None:
            self.close()

        def close(self) -> None:
            self._at = iter(())

    os.listdir = lambda path=".": sorted(listed(path))
    os.scandir = lambda path=".": Sorted(path)  # type: ignore[assignment]


_CONTROLS = {"randomness": _seed_everything, "time": _stop_clock, "listing order": _sort_listings}


class _Shell:
    """What `get_ipython()` gives here: every call is taken, none does anything."""

    def __getattr__(self, _: str) -> object:
        return lambda *_, **__: None


def _import_first(cells: list[tuple[int, str]]) -> None:
    """What the cells import, before anything is held still: compiled modules need real types."""
    for _, source in cells:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError):
            for node in ast.parse(source).body:
                if isinstance(node, ast.Import | ast.ImportFrom):
                    # Whatever it raises, the cell will say.
                    with contextlib.suppress(BaseException):
                        exec(compile(ast.Module([node], []), "<import>", "exec"), {})  # noqa: S102


def _run(source: str, names: dict[str, object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        assert isinstance(tree, ast.Module)  # noqa: S101  what the flag promises
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        body = compile(tree, "<cell>", "exec", flags)
    _await(eval(body, names))  # noqa: S307  a cell of the notebook, in the sandbox
    if last is not None and isinstance(last, ast.Expr):
        value = _await(eval(compile(ast.Expression(last.value), "<cell>", "eval", flags), names))  # noqa: S307
        if value is not None:
            print(repr(value))  # noqa: T201


def _await(value: object) -> object:
    return asyncio.run(value) if inspect.iscoroutine(value) else value


def main() -> None:
    asked = json.load(sys.stdin)
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library writes past Python does not mix with the answer
    # As a kernel has it; not the folder of this file.
    sys.path.insert(0, "")
    _import_first(asked["cells"])
    for control in asked["controls"]:
        if control in _CONTROLS:
            _CONTROLS[control]()
    builtins.display = lambda *things, **_: print(*map(repr, things))  # type: ignore[attr-defined]  # noqa: T201
    builtins.get_ipython = _Shell  # type: ignore[attr-defined]
    names: dict[str, object] = {"__name__": "__main__"}
    for seq, source in asked["cells"]:
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                _run(source, names)
        except BaseException as error:  # noqa: BLE001  a cell may raise anything, SystemExit too
            said.write("".join(traceback.format_exception_only(error)))
        text = _ADDRESS.sub("0x…", said.getvalue())[: asked["cut"]]
        answer.write(json.dumps([seq, text]) + "\n")
        answer.flush()


if __name__ == "__main__":
    main()
