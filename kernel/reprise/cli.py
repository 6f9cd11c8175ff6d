"""The `reprise` command: finds the command's module, runs it, and turns its end into an exit code.

Exit codes: 0 fine; 1 the thing asked about is not so (a difference, a failed cell, a broken
chain); 2 wrong use; 3 a part is unavailable. 130 and 141 are the shell's own for Ctrl-C and for
a reader that went away.
"""

from __future__ import annotations

import argparse
import errno
import keyword
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import NoReturn, Protocol, cast

from reprise import __version__
from reprise.commands.terminal import Terminal
from reprise.errors import RepriseError, UnavailableError, UsageError

#: What people do, in the order in which they meet it. Each name is a module of
#: `reprise.commands`, imported only when it is asked for: `reprise files` must not wait for
#: what `reprise run` needs.
COMMANDS: dict[str, str] = {
    "demo": "see it work: a real notebook, killed twice, comes back",
    "lab": "start JupyterLab with the Reprise kernel",
    "doctor": "say what this machine can and cannot do, and what to do about it",
    "sessions": "list your sessions",
    "log": "show the steps of a session; --check recomputes its digests",
    "run": "execute a notebook in a session and write the executed copy",
    "verify": "replay a session in a fresh sandbox and compare with the record",
    "exec": "run a command in a session, as a step of its history",
    "put": "bring files and folders into a session's workspace",
    "files": "list, read and compare the files of a session's workspace, now or at a past step",
    "get": "take a file out of a session's workspace",
    "artifacts": "list the files that were taken out",
    "fork": "begin a session that shares another one's history up to a step",
    "rewind": "go back to an earlier step: a fork that the notebook goes on with",
    "reset": "start a session's interpreter and workspace afresh, keeping its history",
    "export": "write a session as one file: a bundle, a notebook or a script",
    "import": "bring a bundle into the log here, once all of it is proven",
    "delete": "delete a whole session, for good",
    "gc": "free what no session needs any more",
    "kernelspec": "install the kernel; wrap another language's kernel",
    "env": "packages, data, limits and network of your sandboxes",
    "skills": "skills: checked, kept in a catalog, promoted, moved, run in a session",
    "agent": "give the agent a task in a notebook, with approvals at the prompt",
    "policy": "what the agent may do: show, check, try and set policies",
    "eval": "measure whether a skill helps: tasks with and without it",
    "mcp": "offer sessions and skills to other agents, by the Model Context Protocol",
    "shim": "say where the file lies that gives a Dagger engine's containers their limits",
}

#: Those that stand on the engine: the agent's.
ABOVE = frozenset({"agent", "policy", "eval", "mcp", "demo-agent"})

_WHAT = "A Jupyter kernel whose state can always be played again."

_NOTES = """\
exit codes: 0 fine, 1 the thing asked about is not so, 2 wrong use, 3 a part is unavailable

`reprise COMMAND --help` explains a command and gives examples.
REPRISE_DEBUG=1 shows the full traceback of an error.
"""


class CommandModule(Protocol):
    """What a module of `reprise.commands` named in COMMANDS offers."""

    EXAMPLES: str

    #: A module may also set PASS_ON = True: its arguments belong to another program; or
    #: WORDS = True: what follows `--` is a command line of its own, given as `args.words`.

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the command's arguments."""

    def run(self, args: argparse.Namespace, terminal: Terminal) -> int:
        """Do it and return the exit code; raises RepriseError."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Entry point of the `reprise` script."""
    terminal = Terminal(sys.stdout, sys.stderr)
    try:
        try:
            code = _dispatch(list(sys.argv[1:] if argv is None else argv), terminal)
        finally:
            # Also when argparse exits after its help: here a reader that went away is no error.
            sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted. Python would complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # What this prints, unless the error names a file.
        where = "what this was written to" if error.filename is None else error.filename
        terminal.error(f"{error.strerror}: {where}. Free some there, then try again.")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UnavailableError.exit_code
    except KeyboardInterrupt:
        terminal.status("")
        terminal.warn("interrupted")
        return 130
    except RepriseError as error:
        if os.environ.get("REPRISE_DEBUG"):
            raise
        terminal.error(str(error))
        return error.exit_code
    return code


def _dispatch(argv: list[str], terminal: Terminal) -> int:
    top = _top_parser()
    if not argv:
        top.print_help()
        return 2
    top.parse_args(argv[:1])
    name, rest = argv[0], argv[1:]
    module = command(name)
    parser = argparse.ArgumentParser(
        prog=f"reprise {name}",
        description=_sentence(COMMANDS[name]),
        epilog="examples:\n" + module.EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.arguments(parser)
    if getattr(module, "PASS_ON", False) and rest[:1] not in (["-h"], ["--help"]):
        rest = ["--", *rest]
    # argparse cannot tell a command's own options from ours once there are two positionals.
    words: list[str] = []
    if getattr(module, "WORDS", False) and "--" in rest:
        at = rest.index("--")
        rest, words = rest[:at], rest[at + 1 :]
    return module.run(parser.parse_args(rest, argparse.Namespace(words=words)), terminal)


def command(name: str) -> CommandModule:
    """The module of a command. One that Python has a keyword for ends with an underscore.

    A command of what stands on the engine (the agent) names its module by an entry point of the
    group `reprise.commands`: the engine does not import it.
    """
    if name in ABOVE:
        for found in entry_points(group="reprise.commands", name=name):
            return cast(CommandModule, found.load())
        raise UnavailableError(
            f"`reprise {name}` is not installed whole: its entry point is missing. Install "
            "jupyter-reprise again."
        )
    module = f"{name}_" if keyword.iskeyword(name) else name
    return cast(CommandModule, import_module(f"reprise.commands.{module}"))


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    listed = "\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    parser = _TopParser(
        prog="reprise",
        usage="reprise COMMAND [ARGUMENTS]",
        description=f"{_WHAT}\n\ncommands:\n{listed}",
        epilog=_NOTES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"reprise {__version__}")
    parser.add_argument("command", choices=list(COMMANDS), help=argparse.SUPPRESS)
    return parser


class _TopParser(argparse.ArgumentParser):
    """Tells an unknown command in one line, with the near ones."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}. `reprise --help` lists all commands.")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


if __name__ == "__main__":
    sys.exit(main())
