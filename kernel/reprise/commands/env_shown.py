"""`reprise env show`, `list` and `diff`: what environments say, for people and as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from reprise.client.environments import InUse, as_json, listed, packages_of, spec_of
from reprise.commands.env_limits import MEANINGS, told
from reprise.commands.env_sessions import session_environment, sessions_of_environments
from reprise.commands.opened import SHOWN_ID
from reprise.commands.terminal import Terminal
from reprise.errors import RepriseError
from reprise.log.model import Json
from reprise.quantities import amount
from reprise.sandbox.built import SHOWN, built_folder
from reprise.sandbox.environment import difference
from reprise.sandbox.named import LIMIT_NAMES, NamedEnvironment, environments, load
from reprise.sandbox.network import NetworkRules

_REUSE = {
    "session": "all steps share one interpreter",
    "never": "every step gets an interpreter of its own",
}
_OUTPUT = {
    "auto": "scripts in outputs are held back once an agent or something untrusted ran",
    "static": "scripts in outputs never run",
    "live": "scripts in outputs always run",
}


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser("show", parents=[common], help="what an environment says")
    act.add_argument("name", metavar="NAME", nargs="?", help="(or --environment NAME)")
    act.add_argument("--packages", action="store_true", help="list its packages too")
    act.set_defaults(act=_show)
    act = acts.add_parser("list", parents=[common], help="all environments, and who uses them")
    act.set_defaults(act=_list)
    act = acts.add_parser(
        "diff", parents=[common], help="how two environments differ (exit 1 when they do)"
    )
    act.add_argument("old", metavar="A", help="an environment, or a session")
    act.add_argument("new", metavar="B", help="an environment, or a session")
    act.set_defaults(act=_diff)


# show ---------------------------------------------------------------------------------------------


def _show(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = load(args.name or args.environment)
    # What stands on the host is read each time; a built one that is gone is shown all the same.
    try:
        spec, missing = spec_of(environment), ""
    except RepriseError as error:
        spec, missing = {}, str(error)
    packages = packages_of(spec)
    if args.json:
        terminal.json({**as_json(environment), "packages": packages, "missing": missing or None})
        return 0
    terminal.line(f"environment {environment.name}")
    terminal.line(f"stands on   {_standing(environment, spec)}")
    if missing:
        terminal.warn(missing)
    else:
        python = str(spec.get("interpreter", {}).get("version", "")).partition(" ")[0]
        terminal.line(f"packages    {len(packages)}, Python {python}")
    terminal.line(f"network     {_network(environment.network)}")
    terminal.line(f"reuse       {environment.reuse}: {_REUSE[environment.reuse]}")
    terminal.line(f"output      {environment.output}: {_OUTPUT[environment.output]}")
    if environment.team is not None:
        terminal.line(f"team        {environment.team}: its members alone may use it")
    if environment.skills is not None:
        terminal.line(f"skills      {', '.join(environment.skills) or 'none may be mounted'}")
    terminal.line()
    limits = asdict(environment.sandbox_limits())
    terminal.table(
        ["limit", "value", "", "of what"],
        [
            [name, told(name, limits[name]), _set_here(environment, name), MEANINGS[name]]
            for name in LIMIT_NAMES
        ],
    )
    terminal.line()
    if environment.mounts:
        rows = [
            [mount.target, str(mount.source), "" if mount.source.is_dir() else "gone"]
            for mount in environment.mounts
        ]
        terminal.table(["inside", "this machine's folder", ""], rows)
    else:
        terminal.line("no data is mounted (`reprise env mount DIR`)")
    for name, value in environment.variables.items():
        terminal.line(f"variable {name}={value}")
    if args.packages:
        terminal.line()
        terminal.table(["package", "version"], [[*each] for each in sorted(packages.items())])
    return 0


def _standing(environment: NamedEnvironment, spec: Mapping[str, Json]) -> str:
    if environment.packages is not None:
        return f"{environment.packages} (built; `reprise env lock {environment.name}`)"
    if environment.image is not None:
        return environment.image
    return f"this machine's own prefix {spec.get('base', '')}".rstrip()


def _network(rules: NetworkRules) -> str:
    if not rules.open:
        return "none"
    places = [*sorted(rules.allow), *(f"{each} (private)" for each in sorted(rules.private))]
    said = ", ".join(places)
    if rules.record:
        said += "; responses are recorded"
    if rules.secrets:
        said += f"; credentials for {', '.join(sorted({each.host for each in rules.secrets}))}"
    return said


def _set_here(environment: NamedEnvironment, name: str) -> str:
    return "set" if name in environment.limits else "default"


# list ---------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace, terminal: Terminal) -> int:
    names = environments()
    found, broken = [], {}
    for name in names:
        try:
            found.append(load(name))
        except RepriseError as error:
            broken[name] = str(error)
    try:
        used, unknown = sessions_of_environments(terminal), ""
    except RepriseError as error:
        used, unknown = InUse(), str(error)
    if args.json:
        terminal.json(
            {
                "environments": names,
                "in_use": args.environment,
                "details": [listed(each, used) for each in found],
                "broken": broken,
            }
        )
        return 0
    rows = []
    for environment in found:
        said = listed(environment, used)
        marked = "  (in use)" if environment.name == args.environment else ""
        rows.append(
            [
                environment.name + marked,
                _short(environment),
                "" if said["bytes"] is None else amount(said["bytes"]),
                _by_whom(said["sessions"]),
            ]
        )
    terminal.table(["environment", "stands on", "size", "sessions"], rows)
    for reason in broken.values():
        terminal.warn(reason)
    if unknown:
        terminal.warn(f"Which sessions use them is not known: {unknown}")
    return 0


def _short(environment: NamedEnvironment) -> str:
    if environment.packages is not None:
        here = "" if built_folder(environment.packages).is_dir() else ", not on this machine"
        return f"built {environment.packages[:SHOWN]}{here}"
    if environment.image is not None:
        name, _, digest = environment.image.partition("@sha256:")
        return f"image {name}@{digest[:SHOWN]}"
    return "this machine's prefix"


def _by_whom(sessions: list[str] | None) -> str:
    if not sessions:
        return "" if sessions is None else "none"
    named = ", ".join(each[:SHOWN_ID] for each in sessions[:3])
    return named if len(sessions) <= 3 else f"{named} and {len(sessions) - 3} more"


# diff ---------------------------------------------------------------------------------------------


def _diff(args: argparse.Namespace, terminal: Terminal) -> int:
    old, new = (_side(each, terminal) for each in (args.old, args.new))
    said = difference(old, new)
    if args.json:
        terminal.json({"old": args.old, "new": args.new, "differences": said})
    elif said:
        for phrase in said:
            terminal.line(phrase)
    else:
        terminal.line(f"{args.old} and {args.new} are the same environment.")
    return 1 if said else 0


def _side(named: str, terminal: Terminal) -> Mapping[str, Json]:
    """The spec of an environment as it is now, or of the one that a session last ran in."""
    if named in environments():
        return spec_of(load(named))
    return session_environment(named, terminal)[1]
