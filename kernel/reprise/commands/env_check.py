"""`reprise env check`: whether an environment is still what its digest says."""

from __future__ import annotations

import argparse
from typing import Any

from reprise.commands.env_sessions import sessions_of_environments
from reprise.commands.opened import when
from reprise.commands.terminal import Terminal
from reprise.environments.check import Checked, check_built, check_host, check_image, repair
from reprise.errors import RepriseError, UsageError
from reprise.jupyter.kernelspec import NATIVE, language_kernel
from reprise.sandbox.built import SHOWN
from reprise.sandbox.environment import difference, environment_spec
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
    if environment.packages is not None:
        checked = check_built(environment.packages, terminal.status)
        if args.repair and checked.problems:
            repair(environment.packages, terminal.status)
            checked = check_built(environment.packages, terminal.status)
        what = f"built {environment.packages[:SHOWN]}"
    elif environment.image is not None:
        checked = check_image(environment.image, terminal.status)
        what = f"the image {environment.image}"
    else:
        checked = _host(environment, terminal)
        what = "this machine's own prefix"
    terminal.status("")
    if args.json:
        terminal.json(
            {
                "environment": environment.name,
                "ok": not checked.problems,
                "problems": list(checked.problems),
                "notes": list(checked.notes),
                "files": checked.files,
            }
        )
        return 1 if checked.problems else 0
    for problem in checked.problems:
        terminal.line(problem)
    for note in checked.notes:
        terminal.line(note)
    if checked.problems:
        terminal.line(_advice(environment))
        return 1
    things = "packages" if environment.image is not None else "files"
    terminal.line(
        f"{environment.name} ({what}) is what it says: {checked.files:,} {things} are as they were."
    )
    return 0


def _advice(environment: NamedEnvironment) -> str:
    if environment.image is not None:
        return "Remove its folder of REPRISE_HOME/images: it is fetched anew at the next start."
    if environment.packages is None:
        return "Sessions go on in it as it is now; `reprise verify` says whether that matters."
    return f"`reprise env check {environment.name} --repair` builds it anew of its lock."


def _host(environment: NamedEnvironment, terminal: Terminal) -> Checked:
    """The files of the host's prefix, and what changed since a session last ran in it."""
    kernel = language_kernel(NATIVE)
    checked = check_host(kernel, terminal.status)
    now = environment_spec(environment, kernel).to_json()
    try:
        known = sessions_of_environments(terminal).host
    except RepriseError as error:
        note = f"What changed since sessions ran in it is not known: {error}"
        return Checked(checked.problems, checked.files, (note,))
    # The limits and variables of a session may be those of another name on the same prefix.
    parts = ("base", "interpreter", "packages")
    earlier = [(info, spec) for info, spec in known if spec.get("base") == now["base"]]
    if not earlier:
        return checked
    info, spec = max(earlier, key=lambda each: each[0].last_at)
    said = difference(*({part: each.get(part) for part in parts} for each in (spec, now)))
    if not said:
        note = f"Its packages are those of session {info.id} ({when(info.last_at)})."
        return Checked(checked.problems, checked.files, (note,))
    note = f"Since session {info.id} last ran in it ({when(info.last_at)}): {'; '.join(said)}."
    return Checked((*checked.problems, note), checked.files)
