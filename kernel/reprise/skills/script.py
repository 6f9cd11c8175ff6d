"""Which program runs a script of a skill, by its first line or its suffix (values in, values out).

The first line is read as Linux does (execve(2)) where that works, and more kindly where it does
not: a carriage return at its end, a byte order mark before it and several words after the
interpreter are what scripts that were written elsewhere have, and mean what they seem to.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from reprise.errors import UsageError
from reprise.skills.contract import SkillTree
from reprise.skills.requirements import Needs, needs_of
from reprise.workspace.manifest import BadManifest, check_path

#: What stands for the session's own Python in `Script.program`.
PYTHON: Final = "python3"

#: A first line is read so far; Linux reads 256 bytes.
_LINE: Final = 1 << 10
_ELF: Final = b"\x7fELF"
_PYTHON: Final = re.compile(r"python(?:3(?:\.(\d{1,3}))?)?")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
#: Where a program's path says no more than its name does.
_USUAL: Final = re.compile(r"(?:/usr|/usr/local|/opt/homebrew)?/s?bin/([^/]+)")

#: By suffix, for scripts that do not say it themselves.
_SUFFIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "awk": ("awk", "-f"),
    "bash": ("bash",),
    "cjs": ("node",),
    "fish": ("fish",),
    "go": ("go", "run"),
    "jl": ("julia",),
    "js": ("node",),
    "ksh": ("ksh",),
    "lua": ("lua",),
    "mjs": ("node",),
    "mts": ("node",),
    "php": ("php",),
    "pl": ("perl",),
    "ps1": ("pwsh", "-File"),
    "py": (PYTHON,),
    "r": ("Rscript",),
    "rb": ("ruby",),
    "sed": ("sed", "-f"),
    "sh": ("bash",),
    "swift": ("swift",),
    "tcl": ("tclsh",),
    "ts": ("node",),
    "zsh": ("zsh",),
}

#: What runs a Python script in an environment made for it (PEP 723), by `PROGRAM run`. In a
#: session its Python does, with what the script needs installed for it.
_RUNNERS: Final = frozenset({"uv", "pipx", "hatch", "pdm"})
#: Options of theirs that say what the script needs.
_WITH: Final = frozenset({"--with", "-w"})
_VERSION: Final = frozenset({"--python", "-p"})
#: Options of theirs that are followed by a word of their own (`uv help run`, `pipx run --help`).
_VALUED: Final = frozenset(
    {
        *("--allow-insecure-host", "--cache-dir", "--color", "--config-file", "--config-setting"),
        *("--default-index", "--directory", "--env-file", "--exclude-newer", "--extra"),
        *("--extra-index-url", "--find-links", "--fork-strategy", "--group", "--index"),
        *("--index-strategy", "--index-url", "--keyring-provider", "--link-mode", "--only-group"),
        *("--package", "--pip-args", "--prerelease", "--project", "--python-platform"),
        *("--refresh-package", "--reinstall-package", "--resolution", "--spec"),
        *("--upgrade-package", "--with-editable", "--with-requirements"),
        *("-C", "-P", "-f", "-i"),
    }
)


@dataclass(frozen=True)
class Script:
    """A script of a skill, and how it is run.

    path: within the skill.  program: by name or absolute path; PYTHON for the session's own; None
    where the file itself is the program.  options: between program and script.
    variables: set for it.  needs: of Python and its packages, for a script that PYTHON runs.
    """

    path: str
    program: str | None
    options: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    needs: Needs = field(default_factory=Needs)

    @property
    def is_python(self) -> bool:
        return self.program == PYTHON


def find_script(tree: SkillTree, named: str) -> Script:
    """The script of that path in a skill, or of that path below `scripts/`.

    Raises UsageError when it is not there or cannot be run, BadSkill when what it says of its
    needs cannot be read.
    """
    path = _place(tree, named)
    data = tree.get(path)
    entry = tree.manifest.get(path)
    if data is None or entry is None:
        raise UsageError(f"{_said(named)} is no file of the skill. {_offer(tree)}")
    found = _how(path, data)
    if found is None:
        raise UsageError(
            f"{_said(path)} cannot be run: it neither begins with a line such as "
            f"`#!/usr/bin/env python3` nor has a suffix that says what runs it. {_offer(tree)}"
        )
    if found.program is None and not entry.mode & 0o100:
        raise UsageError(
            f"{_said(path)} is a program whose file is not executable. Make it so (chmod +x) and "
            "add the skill again."
        )
    if not found.is_python:
        return found
    asked = found.needs
    needs = needs_of(data, path)
    return Script(
        path,
        found.program,
        found.options,
        found.variables,
        Needs(needs.python & asked.python, (*needs.dependencies, *asked.dependencies)),
    )


def scripts(tree: SkillTree) -> list[str]:
    """The files of a skill that can be run, in order of their paths."""
    return [
        entry.path
        for entry in tree.manifest
        if entry.type == "file" and _runs(entry.path, entry.mode, tree.get(entry.path) or b"")
    ]


def _runs(path: str, mode: int, data: bytes) -> bool:
    try:
        found = _how(path, data)
    except UsageError:
        return False
    return found is not None and (found.program is not None or bool(mode & 0o100))


def _place(tree: SkillTree, named: str) -> str:
    if named.startswith("/"):
        raise UsageError(
            f"{_said(named)} is an absolute path. Name the script within the skill. {_offer(tree)}"
        )
    names = [name for name in named.split("/") if name not in ("", ".")]
    try:
        path = check_path("/".join(names))
    except BadManifest:
        raise UsageError(
            f"{_said(named)} is no path within the skill, which is all that is run. {_offer(tree)}"
        ) from None
    if tree.manifest.get(path) is None and tree.manifest.get(f"scripts/{path}") is not None:
        return f"scripts/{path}"
    return path


def _offer(tree: SkillTree) -> str:
    found = scripts(tree)
    if not found:
        return "It has no scripts."
    more = f" and {len(found) - 20} more" if len(found) > 20 else ""
    return f"Its scripts: {', '.join(map(_said, found[:20]))}{more}."


def _said(path: str) -> str:
    """A path for people; whoever names one may write anything."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in path[:200]
    )


# what runs it -------------------------------------------------------------------------------------


def _how(path: str, data: bytes) -> Script | None:
    """How a file is run; None when nothing says it."""
    if data.startswith(_ELF):
        return Script(path, None)
    words = first_line(data)
    if words:
        return _by_words(path, words)
    stem, dot, suffix = path.rpartition("/")[2].rpartition(".")
    if not stem or not dot or suffix.lower() not in _SUFFIXES:
        return None
    program, *options = _SUFFIXES[suffix.lower()]
    return Script(path, program, tuple(options))


def first_line(data: bytes) -> list[str]:
    """The words of a `#!` line, the first one the interpreter's path; none where there is none."""
    line = data.removeprefix(b"\xef\xbb\xbf")[:_LINE].partition(b"\n")[0].rstrip(b"\r")
    if not line.startswith(b"#!") or b"\0" in line:
        return []
    words = line[2:].decode("utf-8", "surrogateescape").split()
    # `#![…]` begins a source of Rust; what follows a `#` was meant as a comment.
    if not words or words[0].startswith("["):
        return []
    return list(itertools.takewhile(lambda word: not word.startswith("#"), words))


def _by_words(path: str, words: Sequence[str]) -> Script:
    program, rest = words[0], list(words[1:])
    variables: dict[str, str] = {}
    if program.rpartition("/")[2] == "env":
        found = _env(path, rest, variables)
        if found is None:
            return Script(path, "env", tuple(rest), variables)
        program, rest = found
    usual = _USUAL.fullmatch(program)
    name = usual[1] if usual else program
    python = _PYTHON.fullmatch(name.rpartition("/")[2])
    if python is not None:
        # Whichever Python it names: the session's is the one that has the session's packages.
        return Script(path, PYTHON, tuple(rest), variables, _series(python[1]))
    if name.rpartition("/")[2] in _RUNNERS and "run" in rest:
        return _runner(path, name, rest, variables)
    return Script(path, name, tuple(rest), variables)


def _env(path: str, words: list[str], variables: dict[str, str]) -> tuple[str, list[str]] | None:
    """Program and words after `env` (env(1)); None where `env` itself must look at them."""
    rest = list(words)
    if rest and (split := re.fullmatch(r"(?:-[vS]*S|--split-string=?)(.*)", rest[0])):
        text = " ".join([split[1], *rest[1:]]).strip()
        try:
            rest = shlex.split(text, comments=True)
        except ValueError as error:
            raise UsageError(f"The first line of {_said(path)} cannot be read: {error}.") from error
        if "${" in text:
            return None
    while rest and (assigned := _ASSIGNMENT.fullmatch(rest[0])):
        variables[assigned[1]] = assigned[2]
        rest.pop(0)
    if not rest or rest[0].startswith("-"):
        return None
    return rest[0], rest[1:]


def _series(minor: str | None) -> Needs:
    return Needs() if minor is None else Needs().plus(python=[f"==3.{minor}.*"])


def _runner(path: str, name: str, words: list[str], variables: dict[str, str]) -> Script:
    """A script for `uv run` and the like: what its options ask for, and the session's Python."""
    rest = words[words.index("run") + 1 :]
    dependencies: list[str] = []
    python: list[str] = []
    while rest and rest[0].startswith("-"):
        option, equals, value = rest.pop(0).partition("=")
        if not equals and option in _WITH | _VERSION | _VALUED:
            value = rest.pop(0) if rest else ""
        if option in _WITH:
            dependencies += [each for each in value.split(",") if each.strip()]
        elif option in _VERSION and (version := re.fullmatch(r"(?:3|3\.\d{1,3})(?:\.\d+)?", value)):
            python.append(f"=={version[0]}" if version[0].count(".") > 1 else f"=={version[0]}.*")
        elif option in _VERSION and re.match(r"[<>=!~]", value):
            python.append(value)
    if not rest:
        needs = Needs().plus(python, dependencies)
        return Script(path, PYTHON, (), variables, needs)
    found = _PYTHON.fullmatch(rest[0])
    if found is None:
        raise UsageError(
            f"{_said(path)} asks to be run by `{name} run … {rest[0]}`. A script of a skill is run "
            "by a program itself: name the file that does the work, or begin it with "
            "`#!/usr/bin/env python3`."
        )
    needs = _series(found[1]).plus(python, dependencies)
    return Script(path, PYTHON, tuple(rest[1:]), variables, needs)
