"""A cell's source as Python's own syntax tree, IPython's magics taken out, lines kept."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, field

#: A longer source is not parsed.
LONGEST = 1_000_000

#: Cell magics whose body is Python in the notebook's own namespace.
_PYTHON_BODY = frozenset({"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "debug"})
#: Line magics after which any name may be defined.
_BRINGS_NAMES = frozenset({"run", "load", "loadpy", "store", "pylab", "macro", "recall", "rerun"})
_SHELL_CELLS = frozenset({"bash", "sh", "script", "system", "sx", "!"})
_ASSIGNED = re.compile(r"(\s*[A-Za-z_][\w., ]*=\s*)([!%])(?!=)(.*)")
#: A line that IPython takes for a magic where its first word is no name.
AUTOMAGIC = re.compile(
    r"(?:ls|ll|cat|cd|pwd|mkdir|rmdir|rm|cp|mv|less|more|man|timeit|time|prun|who|whos|pip|conda"
    r"|matplotlib|pylab|run|load|load_ext|reload_ext|store|history|hist|env|alias|pdoc|pinfo|psource"
    r"|pfile|writefile|reset|xmode|precision|config|logstart|edit|ed|debug|pdb)(?:\s+[^=\s].*)?\s*$"
)
_HELP = re.compile(r"\s*\??\??[%A-Za-z_*][\w.*%]*\?{1,2}\s*;?\s*$|\s*\?{1,2}[%\w.*]+\s*$")


@dataclass
class Source:
    """tree: None where there is no Python or it does not parse (then `fault`: message and line).

    shell: shell texts and their lines.  magics: names and lines.  brings: it may define names that
    cannot be read here.  defines: names that a magic defines.
    """

    tree: ast.Module | None = None
    fault: tuple[str, int] | None = None
    shell: list[tuple[str, int]] = field(default_factory=list)
    magics: list[tuple[str, str, int]] = field(default_factory=list)
    brings: bool = False
    defines: set[str] = field(default_factory=set)
    python: bool = True


def read(text: str) -> Source:
    """Never raises."""
    found = Source()
    if len(text) > LONGEST:
        found.python = False
        return found
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    first = next((at for at, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return found
    if lines[first].startswith("%%"):
        name, _, rest = lines[first][2:].partition(" ")
        name = name.strip() or "!"
        found.magics.append((name, rest.strip(), first + 1))
        if name in _SHELL_CELLS or name.startswith("!"):
            found.shell.append(("\n".join(lines[first + 1 :]), first + 2))
        if name == "capture" and rest.split() and not rest.startswith("-"):
            found.defines.add(rest.split()[0])
        if name not in _PYTHON_BODY:
            found.python = False
            found.brings = name in ("sql", "R", "cython", "julia", "local", "spark")
            return found
        lines[first] = ""
        if name in ("timeit", "time", "prun") and rest.strip() and not rest.strip().startswith("-"):
            lines[first] = rest.strip()
    plain = _plain(lines, found)
    _parse("\n".join(plain), found)
    if found.fault is not None:
        bare = _without_automagic(plain)
        if bare != plain:
            found.fault = None
            _parse("\n".join(bare), found)
    # What a cell sets that does not parse, nobody knows.
    found.brings = found.brings or found.fault is not None
    return found


def _without_automagic(lines: list[str]) -> list[str]:
    """IPython takes `ls -l` and `timeit f(x)` for magics where they are no Python."""
    return ["pass" if AUTOMAGIC.match(line) else line for line in lines]


def _parse(text: str, found: Source) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the cell's odd escapes
            flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            tree = compile(text, "<cell>", "exec", flags)
    except SyntaxError as error:
        found.fault = (error.msg or "invalid syntax", error.lineno or 1)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        found.fault = (str(error) or type(error).__name__, 1)
    else:
        assert isinstance(tree, ast.Module)  # noqa: S101  what the flag promises
        found.tree = tree


def _plain(lines: list[str], found: Source) -> list[str]:
    """The lines with magics replaced, each by what has the same effect on names."""
    kept: list[str] = []
    state = _State()
    for number, line in enumerate(lines, 1):
        plain = line if state.inside else _line(line, number, found)
        kept.append(plain)
        state.read(plain)
    return kept


def _line(line: str, number: int, found: Source) -> str:
    bare = line.lstrip()
    indent = line[: len(line) - len(bare)]
    if bare.startswith("!"):
        found.shell.append((bare.lstrip("!"), number))
        return f"{indent}pass"
    if bare.startswith("%"):
        name, _, rest = bare.lstrip("%").partition(" ")
        return indent + _magic(name, rest.strip(), number, found)
    assigned = _ASSIGNED.fullmatch(line)
    if assigned is not None and "(" not in assigned[1]:
        if assigned[2] == "!":
            found.shell.append((assigned[3], number))
        else:
            name, _, rest = assigned[3].partition(" ")
            found.magics.append((name, rest.strip(), number))
        return f"{assigned[1]}None"
    if "?" in bare and _HELP.fullmatch(line):
        return f"{indent}pass"
    return line


def _magic(name: str, rest: str, number: int, found: Source) -> str:
    found.magics.append((name, rest, number))
    if name in _BRINGS_NAMES:
        found.brings = True
    if name in ("sx", "system", "sc"):
        found.shell.append((rest, number))
    if name == "pip" or name == "conda":
        found.shell.append((f"{name} {rest}", number))
    if name == "time" and rest:
        return rest
    return "pass"


class _State:
    """Whether the next line begins inside a string or a bracket, or goes on after a backslash."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._joined = False

    @property
    def inside(self) -> bool:
        return bool(self._depth or self._quote or self._joined)

    def read(self, line: str) -> None:
        at, self._joined = 0, False
        while at < len(line):
            c = line[at]
            if self._quote:
                if c == "\\":
                    at += 2
                    continue
                if line.startswith(self._quote, at):
                    at += len(self._quote)
                    self._quote = ""
                    continue
            elif c == "#":
                return
            elif c in "\"'":
                self._quote = c * 3 if line.startswith(c * 3, at) else c
                at += len(self._quote)
                continue
            elif c in "([{":
                self._depth += 1
            elif c in ")]}":
                self._depth = max(self._depth - 1, 0)
            at += 1
        if len(self._quote) == 1 and not line.endswith("\\"):
            self._quote = ""  # a string that is not closed is an error that the parser tells
        self._joined = line.endswith("\\") and not self._quote
