"""`reprise exec`: runs a command in a session, as a step of its history."""

from __future__ import annotations

import argparse
import asyncio
import uuid
from pathlib import Path

from reprise.client import CommandResult, Kernel, connect
from reprise.client.results import command_json
from reprise.client.workspace import BackgroundStatus
from reprise.commands.opened import add_session, find_session, opened_log, took, when
from reprise.commands.ran import (
    given_stdin,
    given_variables,
    how_it_ended,
    shown_on,
    tell_cuts,
)
from reprise.commands.terminal import Terminal, printable
from reprise.errors import UsageError
from reprise.quantities import parse_seconds

EXAMPLES = """\
  reprise exec 3f2a -- ls -l data
  reprise exec 3f2a -- 'sort data.csv | uniq -c > counts.txt'     one word is shell text
  reprise exec 3f2a --stdin -- python3 clean.py < raw.csv
  reprise exec 3f2a --timeout 5min --json -- make test
  reprise exec analysis.ipynb --background -- python3 serve.py
  reprise exec analysis.ipynb --list
  reprise exec analysis.ipynb --read 17
  reprise exec analysis.ipynb --stop 17
"""

#: The command's own words follow `--`.
WORDS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "reprise exec SESSION [OPTIONS] -- CMD …"
    add_session(parser)
    parser.add_argument(
        "--cwd", metavar="DIR", help="where it runs (default: the notebook's place)"
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable; repeatable"
    )
    parser.add_argument("--stdin", action="store_true", help="pass on what comes on stdin")
    parser.add_argument("--timeout", metavar="TIME", help="end it after that: 90s, 5min")
    parser.add_argument(
        "--key", metavar="KEY", help="an idempotency key: asked twice, it runs once"
    )
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="where a kernel that has to be started runs"
    )
    parser.add_argument("--background", action="store_true", help="let it run on")
    parser.add_argument("--list", action="store_true", help="list background commands")
    parser.add_argument("--read", type=int, metavar="N", help="what background command N has said")
    parser.add_argument("--stop", type=int, metavar="N", help="end background command N")
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    asked = [args.list, args.read is not None, args.stop is not None]
    if sum(asked) + bool(args.words) != 1:
        raise UsageError(
            "Name one thing: a command after --, --list, --read N or --stop N."
            " `reprise exec --help` has examples."
        )
    running = any(asked) or args.background
    session, held = asyncio.run(_find(args.session, terminal))
    if running and not held:
        raise UsageError(
            f"No kernel runs for session {session}, and a background command ends with its kernel."
            " Open its notebook, or run the command in the foreground."
        )
    terminal.status("starting a kernel …" if not held else "")
    with connect(session, folder=args.folder, start=not running) as kernel:
        terminal.status("")
        if args.list:
            return _list(kernel, args, terminal)
        if args.read is not None:
            return _read(kernel, args, terminal)
        if args.stop is not None:
            return _tell(kernel.background_command(args.stop).stop(), args, kernel, terminal)
        if args.background:
            return _begin(kernel, args, terminal)
        return _run(kernel, args, terminal)


async def _find(named: str, terminal: Terminal) -> tuple[uuid.UUID, bool]:
    async with opened_log(terminal) as log:
        session = await find_session(log, named)
        return session, (await (await log.reader(session)).info()).holder is not None


def _run(kernel: Kernel, args: argparse.Namespace, terminal: Terminal) -> int:
    result = kernel.command(
        _command(args),
        cwd=args.cwd,
        env=given_variables(args.env),
        stdin=given_stdin() if args.stdin else None,
        timeout=None if args.timeout is None else parse_seconds(args.timeout),
        key=args.key,
        on_output=shown_on(terminal, quiet=args.json),
    )
    return _tell(result, args, kernel, terminal)


def _tell(
    result: CommandResult, args: argparse.Namespace, kernel: Kernel, terminal: Terminal
) -> int:
    if args.json:
        terminal.json({"session": str(kernel.session), **command_json(result)})
        return 0 if result.ok else 1
    tell_cuts(result, terminal)
    terminal.progress(
        f"step {result.seq}: {how_it_ended(result)}, {took(round(result.duration_s * 1e6))}"
        + (", as it ran the first time" if result.repeated else "")
    )
    return 0 if result.ok else 1


def _begin(kernel: Kernel, args: argparse.Namespace, terminal: Terminal) -> int:
    if args.timeout is not None:
        raise UsageError("A background command has no --timeout; --stop N ends it.")
    background = kernel.background(
        _command(args),
        cwd=args.cwd,
        env=given_variables(args.env),
        stdin=given_stdin() if args.stdin else None,
        key=args.key,
    )
    if args.json:
        terminal.json({"session": str(kernel.session), "command": background.command})
    else:
        number = background.command
        terminal.line(f"background command {number}; --read {number} shows what it says")
    return 0


def _list(kernel: Kernel, args: argparse.Namespace, terminal: Terminal) -> int:
    found = kernel.background_commands()
    if args.json:
        terminal.json({"session": str(kernel.session), "commands": [vars(each) for each in found]})
        return 0
    terminal.table(
        ["command", "started", "state"],
        [[str(each.command), when(each.started_at), _state(each)] for each in found],
    )
    return 0


def _state(status: BackgroundStatus) -> str:
    if status.running:
        return "running"
    if status.signal is not None:
        return f"ended by signal {status.signal}"
    return f"exit code {status.exit_code}"


def _read(kernel: Kernel, args: argparse.Namespace, terminal: Terminal) -> int:
    background = kernel.background_command(args.read)
    for name, stream in (("stdout", terminal.out), ("stderr", terminal.err)):
        data = background.read("stdout" if name == "stdout" else "stderr")
        text = data.decode("utf-8", "replace")
        stream.write(printable(text) if stream.isatty() else text)
        stream.flush()
    return 0


def _command(args: argparse.Namespace) -> str | list[str]:
    words: list[str] = args.words
    return words[0] if len(words) == 1 else words
