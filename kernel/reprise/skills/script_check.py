"""What can be told of a skill's scripts without running them (pure).

That is the wall: nothing of a skill is run to be checked. Whether a script answers `--help` or asks
questions is told by what stands in it, so those are warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from reprise.errors import BadSkill, UsageError
from reprise.skills.contract import Finding, SkillTree
from reprise.skills.requirements import metadata_blocks, needs_of
from reprise.skills.rules import found
from reprise.skills.script import find_script, first_line, scripts
from reprise.workspace.manifest import Entry

#: Longer ones are looked at as programs only.
_MAX_LOOKED_AT: Final = 1 << 20
#: Linux takes no longer first line (BINPRM_BUF_SIZE).
_MAX_FIRST_LINE: Final = 255
#: Programs that are no text: ELF, Windows, Mach-O, WebAssembly.
_BINARIES: Final = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm")

_HELP: Final = re.compile(
    rb"--help|\busage\b|argparse|\bclick\b|\btyper\b|docopt|\bfire\b|optparse|absl|tyro"
    rb"|getopts|commander|yargs|minimist|parseArgs|OptionParser|clap",
    re.IGNORECASE,
)
_ARGUMENTS: Final = re.compile(
    rb"sys\.argv|process\.argv|\$[1-9@#*]|\$\{[1-9@#*]|\bARGV\b|\bARGS\b"
)
_ASKS: Final = {
    "python": re.compile(rb"^[^#\n]*?(?<![\w.])(?:input|getpass|getpass\.getpass)\(", re.MULTILINE),
    "shell": re.compile(rb"^[^#\n]*?(?<![\w-])read\s+(?:-[a-zA-Z]*\s+)*-[a-zA-Z]*p", re.MULTILINE),
}


def check_scripts(tree: SkillTree) -> Iterator[Finding]:
    """Findings of each file that is a script, or is executable."""
    runnable = frozenset(scripts(tree))
    for entry in tree.manifest:
        data = tree.get(entry.path) or b""
        executable = bool(entry.mode & 0o100)
        begins = data.removeprefix(b"\xef\xbb\xbf").startswith(b"#!")
        if begins:
            yield from _shebang(entry, data)
            if not executable and entry.path.startswith("scripts/"):
                yield found(
                    "script-not-executable",
                    entry.path,
                    None,
                    "It begins with #! but is not executable, so it runs only behind the name of "
                    "its interpreter.",
                    f"chmod +x {entry.path}; in Git: git update-index --chmod=+x {entry.path}",
                )
        elif executable and not data.startswith(_BINARIES):
            runs = entry.path in runnable
            yield found(
                "executable-no-script",
                entry.path,
                1,
                "It is executable but does not begin with #!, so a shell would take it for its own "
                "commands."
                if runs
                else "It is executable, but it is no program.",
                ("Begin it with a line such as #!/usr/bin/env python3, or take" if runs else "Take")
                + f" the bit away: chmod -x {entry.path}",
            )
        if len(data) <= _MAX_LOOKED_AT:
            yield from _inside(tree, entry, data, begins)


def _shebang(entry: Entry, data: bytes) -> Iterator[Finding]:
    line, _, _ = data.partition(b"\n")
    words = first_line(data)
    problem = mend = ""
    if data.startswith(b"\xef\xbb\xbf"):
        problem = "A byte order mark stands before #!, so the system does not see it."
        mend = "Save it as UTF-8 without a byte order mark."
    elif line.endswith(b"\r"):
        problem = "The line of its interpreter ends with CR LF, so the system looks for a program "
        problem += "whose name ends with a carriage return."
        mend = "Save it with LF as line end, and say so in .gitattributes: * text eol=lf"
    elif not words:
        problem = "No interpreter stands behind #!."
        mend = "Write one, such as #!/usr/bin/env python3."
    elif not words[0].startswith("/"):
        problem = "The interpreter behind #! is no absolute path."
        mend = f"Write #!/usr/bin/env {words[0].rpartition('/')[2]}"
    elif len(line) > _MAX_FIRST_LINE:
        problem = f"The first line is longer than the {_MAX_FIRST_LINE} bytes that Linux reads."
        mend = "Shorten it."
    elif words[0].endswith("/env") and len(words) > 2 and not words[1].startswith("-"):
        problem = f"Linux hands {' '.join(words[1:])!r} to env as one word."
        mend = f"Write #!{words[0]} -S {' '.join(words[1:])}"
    elif not words[0].startswith(("/usr/bin/", "/bin/", "/usr/local/bin/", "/usr/sbin/", "/sbin/")):
        problem = f"{words[0]} is where the interpreter was on one machine."
        mend = f"Write #!/usr/bin/env {words[0].rpartition('/')[2]}"
    if problem:
        yield found("shebang", entry.path, 1, problem, mend)


def _inside(tree: SkillTree, entry: Entry, data: bytes, begins: bool) -> Iterator[Finding]:
    try:
        script = find_script(tree, entry.path)
    except BadSkill as error:
        yield found("script-metadata", entry.path, _block_line(data), str(error), _METADATA)
        return
    except UsageError:
        return  # no script, or one whose first line was found already
    if script.program is None:
        return
    kind = "python" if script.is_python else "shell" if script.program in _SHELLS else ""
    if kind == "python":
        try:
            needs_of(data, entry.path)
        except BadSkill as error:
            yield found("script-metadata", entry.path, _block_line(data), str(error), _METADATA)
    # A module that others import is no script, whatever runs its suffix.
    if not begins and b"__main__" not in data and not entry.path.startswith("scripts/"):
        return
    if kind == "python" and not begins and b"__main__" not in data:
        return
    if _ARGUMENTS.search(data) and not _HELP.search(data):
        yield found(
            "script-help",
            entry.path,
            None,
            "It takes arguments, but nothing in it seems to answer --help, from which a model "
            "learns what they are.",
            "Let --help print what it does, its arguments and an example (argparse does).",
        )
    asks = _ASKS[kind].search(data) if kind else None
    if asks:
        yield found(
            "script-asks",
            entry.path,
            data.count(b"\n", 0, asks.end()) + 1,
            "It seems to ask a question, which nobody answers where a model runs it.",
            "Take the answer as an argument, and say which one is missing.",
        )


_SHELLS: Final = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_METADATA: Final = "Write it as PEP 723 says; `uv run` and Reprise read it."


def _block_line(data: bytes) -> int | None:
    text = data.decode(errors="replace").replace("\r\n", "\n")
    return next((line for kind, line, _ in metadata_blocks(text) if kind == "script"), None)
