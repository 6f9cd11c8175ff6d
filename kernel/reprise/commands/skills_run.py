"""`reprise skills run`: runs a script of a skill in a session, as steps of its history."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import uuid
from pathlib import Path
from typing import Any, Final

from reprise.client import Progress, SkillResult, connect
from reprise.client.results import command_json
from reprise.client.skill_results import skill_json
from reprise.commands.opened import add_session, find_session, opened_log, took
from reprise.commands.ran import (
    given_stdin,
    given_variables,
    how_it_ended,
    shown_on,
    tell_cuts,
)
from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.log.model import Json
from reprise.quantities import parse_seconds

_EPILOG = """\
The script runs in the skill's own folder, which is read-only. In its arguments
  {workspace}   is the folder of the notebook's files
  {scratch}     is a folder to write to that lasts as long as the sandbox
({{workspace}} is that text itself). The script finds both also as REPRISE_WORKSPACE
and REPRISE_SCRATCH. What it writes comes out here, and its exit code is ours;
128 and the signal's number when one ended it, 124 when its time was over.

examples:
  reprise skills run analysis.ipynb profile-dataset -- profile_dataset.py data.csv
  reprise skills run 3f2a notebook-to-report -- notebook_to_report.py a.ipynb --frame-only
  reprise skills run 3f2a team/ml:clean@3 --stdin --timeout 5min -- scripts/clean.sh < raw.csv
"""

#: As `timeout` of coreutils has it, and as shells tell a signal.
_TIMED_OUT: Final = 124
_SIGNALLED: Final = 128


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "run",
        parents=[common],
        help="run a script of a skill in a session",
        usage="reprise skills run SESSION SKILL [OPTIONS] -- SCRIPT ARGS …",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_session(act)
    act.add_argument(
        "skill", metavar="SKILL", help="[SCOPE:]NAME[@NUMBER], or sha256:DIGEST, of the catalog"
    )
    act.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable; repeatable"
    )
    act.add_argument("--stdin", action="store_true", help="pass on what comes on stdin")
    act.add_argument("--timeout", metavar="TIME", help="end the script after that: 90s, 5min")
    act.add_argument(
        "--key", metavar="KEY", help="an idempotency key: asked twice, the script runs once"
    )
    act.add_argument(
        "--no-install",
        action="store_true",
        help="install nothing that the script needs; say what is missing instead",
    )
    act.add_argument(
        "--folder", type=Path, metavar="DIR", help="where a kernel that has to be started runs"
    )
    act.set_defaults(act=_run)


def _run(args: argparse.Namespace, terminal: Terminal) -> int:
    if not args.words:
        raise UsageError(
            "Name the script to run, after --: reprise skills run SESSION SKILL -- SCRIPT ARGS. "
            "`reprise skills run --help` has examples."
        )
    session = asyncio.run(_find(args.session, terminal))
    script, *arguments = args.words
    terminal.status("reaching the kernel …")
    with connect(session, folder=args.folder) as kernel:
        result = kernel.run_skill(
            args.skill,
            script,
            arguments,
            env=given_variables(args.env),
            stdin=given_stdin() if args.stdin else None,
            timeout=None if args.timeout is None else parse_seconds(args.timeout),
            key=args.key,
            install=not args.no_install,
            on_output=shown_on(terminal, quiet=args.json),
            on_progress=lambda progress: _progress(progress, terminal),
        )
    terminal.status("")
    if args.json:
        terminal.json(_as_json(session, result))
    else:
        _tell(result, terminal)
    return exit_code(result)


async def _find(named: str, terminal: Terminal) -> uuid.UUID:
    async with opened_log(terminal) as log:
        return await find_session(log, named)


def _progress(progress: Progress, terminal: Terminal) -> None:
    """What changes the session stays to be read; after the last one comes the script."""
    if progress.kind == "run":
        terminal.status("")
    elif progress.kind == "warning":
        terminal.warn(progress.text)
    else:
        terminal.progress(progress.text)


def _tell(result: SkillResult, terminal: Terminal) -> None:
    tell_cuts(result, terminal)
    if result.mounted is not None and result.compatibility:
        terminal.progress(f"it says of what it needs: {result.compatibility}")
    if result.mounted is not None and result.allowed_tools:
        tools = " ".join(result.allowed_tools)
        terminal.progress(f"it asks for these tools of an agent, which grants nothing: {tools}")
    terminal.progress(
        f"step {result.seq}: {result.version.reference} {shlex.quote(result.script)}: "
        f"{how_it_ended(result)}, {took(round(result.duration_s * 1e6))}"
        + (", as it ran the first time" if result.repeated else "")
    )


def _as_json(session: uuid.UUID, result: SkillResult) -> dict[str, Json]:
    return {
        "session": str(session),
        **skill_json(result),
        "exit": exit_code(result),
        **command_json(result),
    }


def exit_code(result: SkillResult) -> int:
    """What the command line ends with: the script's own code where it has one."""
    if result.timed_out:
        return _TIMED_OUT
    if result.exit_code is not None:
        return result.exit_code
    if result.signal is not None:
        return _SIGNALLED + result.signal
    return 0 if result.ok else 1
