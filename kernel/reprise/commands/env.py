"""`reprise env`: what sandboxes start with: mounts of data and limits, under a name."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from reprise.commands.terminal import Terminal
from reprise.quantities import amount
from reprise.quantities import seconds as duration
from reprise.sandbox.named import (
    LIMIT_NAMES,
    NamedEnvironment,
    environments,
    limit_set,
    load,
    mount_add,
    mount_remove,
)
from reprise.settings import DEFAULT_ENVIRONMENT, ENVIRONMENT

EXAMPLES = """\
  reprise env show
  reprise env mount ~/data/images              appears as /data/images, read-only
  reprise env unmount /data/images
  reprise env limit memory 4GiB                "none" for no limit, "default" to take it back
  reprise env limit wall 30min --environment long-jobs
  REPRISE_ENVIRONMENT=long-jobs reprise lab
"""

_MEANINGS = {
    "memory": "of all processes of a sandbox together",
    "processes": "processes and threads at once",
    "cpus": "cores' worth of computing time",
    "wall": "run time of one step",
    "workspace": "files in the workspace",
    "tmp": "files in /tmp",
    "open_files": "open files of one process",
    "output": "recorded and shown output of one step",
    "message": "one message that a cell shows",
    "request": "one cell as it is sent",
    "mounts": "skills and other trees mounted in a session",
}
_TIMES = frozenset({"wall"})
_COUNTS = frozenset({"processes", "cpus", "open_files"})


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=None)
    acts = parser.add_subparsers(title="what to do", metavar="ACT", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--environment",
        metavar="NAME",
        default=os.environ.get(ENVIRONMENT) or DEFAULT_ENVIRONMENT,
        help="which environment (default: %(default)s)",
    )
    common.add_argument("--json", action="store_true", help="the result as JSON")

    act = acts.add_parser("show", parents=[common], help="limits, mounts and variables")
    act.set_defaults(act=_show)
    act = acts.add_parser("list", parents=[common], help="the names of all environments")
    act.set_defaults(act=_list)
    act = acts.add_parser("mount", parents=[common], help="show a folder of data, read-only")
    act.add_argument("folder", type=Path, metavar="DIR", help="a folder of this machine")
    act.add_argument("--target", metavar="PATH", help="its path inside (default: /data/NAME)")
    act.set_defaults(act=_mount)
    act = acts.add_parser("unmount", parents=[common], help="take a mount away")
    act.add_argument("place", metavar="DIR", help="the folder, or its path inside")
    act.set_defaults(act=_unmount)
    act = acts.add_parser(
        "limit",
        parents=[common],
        help="set what a sandbox may use",
        epilog="limits:\n" + "\n".join(f"  {name:11} {_MEANINGS[name]}" for name in LIMIT_NAMES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("limit", metavar="LIMIT", help="its name, see below")
    act.add_argument("value", metavar="VALUE", help="such as 4GiB, 256, 30min, none, default")
    act.set_defaults(act=_limit)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    args.act(args, terminal)
    return 0


def _show(args: argparse.Namespace, terminal: Terminal) -> None:
    environment = load(args.environment)
    if args.json:
        terminal.json(_as_json(environment))
        return
    terminal.line(f"environment {environment.name}")
    limits = asdict(environment.sandbox_limits())
    terminal.table(
        ["limit", "value", "", "of what"],
        [
            [name, _told(name, limits[name]), _set_here(environment, name), _MEANINGS[name]]
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


def _list(args: argparse.Namespace, terminal: Terminal) -> None:
    names = environments()
    if args.json:
        terminal.json({"environments": names, "in_use": args.environment})
        return
    for name in names:
        terminal.line(f"{name}  (in use)" if name == args.environment else name)


def _mount(args: argparse.Namespace, terminal: Terminal) -> None:
    terminal.status(f"recording what {args.folder} holds …")
    mount = mount_add(args.environment, args.folder, args.target)
    if args.json:
        terminal.json({"environment": args.environment, **mount.to_json()})
        return
    terminal.line(f"{mount.source} is mounted, read-only, at {mount.target} in {args.environment}.")
    terminal.line(
        "Sandboxes that start from now on see it; restart a running kernel to see it there."
    )


def _unmount(args: argparse.Namespace, terminal: Terminal) -> None:
    mount = mount_remove(args.environment, args.place)
    if args.json:
        terminal.json({"environment": args.environment, **mount.to_json()})
        return
    terminal.line(f"{mount.source} is no longer mounted at {mount.target} in {args.environment}.")


def _limit(args: argparse.Namespace, terminal: Terminal) -> None:
    name = args.limit.replace("-", "_")
    environment = limit_set(args.environment, name, args.value)
    value = asdict(environment.sandbox_limits())[name]
    if args.json:
        terminal.json({"environment": environment.name, "limit": name, "value": value})
        return
    terminal.line(f"{name} of {environment.name}: {_told(name, value)}, from the next sandbox on.")


def _as_json(environment: NamedEnvironment) -> dict[str, object]:
    return {
        "environment": environment.name,
        "limits": asdict(environment.sandbox_limits()),
        "set": sorted(environment.limits),
        "mounts": [mount.to_json() for mount in environment.mounts],
        "variables": dict(environment.variables),
    }


def _told(name: str, value: float) -> str:
    if not value:
        return "none"
    if name in _TIMES:
        return duration(value)
    return f"{value:g}" if name in _COUNTS else amount(int(value))


def _set_here(environment: NamedEnvironment, name: str) -> str:
    return "set" if name in environment.limits else "default"
