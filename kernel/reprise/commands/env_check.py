"""`reprise env check`: whether an environment is still what its digest says."""

from __future__ import annotations

import argparse
from typing import Any

from reprise.client.environments import checked
from reprise.commands.env_sessions import sessions_of_environments
from reprise.commands.opened import when
from reprise.commands.terminal import Terminal
from reprise.environments.check import Checked, repair
from reprise.errors import UsageError
from reprise.sandbox.built import SHOWN
from reprise.sandbox.named import NamedEnvironment, load


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "check",
        parents=[common],
        help="whether what is on disk is what the digest says (exit 1 when not)",
    )
    act.add_argument("name", metavar="NAME", nargs="?", help="(or --environment NAME)")
    act.add_argument(
        "--repair", action="store_true", help="build what is damaged anew, of its own lock"
    )
    act.set_defaults(act=_check)


def _check(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = load(args.name or args.environment)
    if args.repair and environment.packages is None:
        raise UsageError(
            f"Only what `reprise env create` built can be repaired; {environment.name} stands on "
            f"{environment.image or 'the prefix of this machine'}."
        )

    def look() -> Checked:
        return checked(
            environment, lambda: sessions_of_environments(terminal), when, terminal.status
        )

    found = look()
    if args.repair and found.problems and environment.packages is not None:
        repair(environment.packages, terminal.status)
        found = look()
    terminal.status("")
    if args.json:
        terminal.json(
            {
                "environment": environment.name,
                "ok": not found.problems,
                "problems": list(found.problems),
                "notes": list(found.notes),
                "files": found.files,
            }
        )
        return 1 if found.problems else 0
    for problem in found.problems:
        terminal.line(problem)
    for note in found.notes:
        terminal.line(note)
    if found.problems:
        terminal.line(_advice(environment))
        return 1
    things = "packages" if environment.image is not None else "files"
    what = _standing(environment)
    terminal.line(
        f"{environment.name} ({what}) is what it says: {found.files:,} {things} are as they were."
    )
    return 0


def _standing(environment: NamedEnvironment) -> str:
    if environment.packages is not None:
        return f"built {environment.packages[:SHOWN]}"
    if environment.image is not None:
        return f"the image {environment.image}"
    return "this machine's own prefix"


def _advice(environment: NamedEnvironment) -> str:
    if environment.image is not None:
        return "Remove its folder of REPRISE_HOME/images: it is fetched anew at the next start."
    if environment.packages is None:
        return "Sessions go on in it as it is now; `reprise verify` says whether that matters."
    return f"`reprise env check {environment.name} --repair` builds it anew of its lock."
