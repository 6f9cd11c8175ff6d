"""`reprise env limit`, `mount` and `unmount`: what sandboxes may use, and the data they see."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reprise.commands.terminal import Terminal
from reprise.quantities import amount
from reprise.quantities import seconds as duration
from reprise.sandbox.named import LIMIT_NAMES, limit_set, mount_add, mount_remove

MEANINGS = {
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


def add(acts: Any, common: argparse.ArgumentParser) -> None:
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
        epilog="limits:\n" + "\n".join(f"  {name:11} {MEANINGS[name]}" for name in LIMIT_NAMES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("limit", metavar="LIMIT", help="its name, see below")
    act.add_argument("value", metavar="VALUE", help="such as 4GiB, 256, 30min, none, default")
    act.set_defaults(act=_limit)


def _mount(args: argparse.Namespace, terminal: Terminal) -> int:
    terminal.status(f"recording what {args.folder} holds …")
    mount = mount_add(args.environment, args.folder, args.target)
    if args.json:
        terminal.json({"environment": args.environment, **mount.to_json()})
        return 0
    terminal.line(f"{mount.source} is mounted, read-only, at {mount.target} in {args.environment}.")
    terminal.line(
        "Sandboxes that start from now on see it; restart a running kernel to see it there."
    )
    return 0


def _unmount(args: argparse.Namespace, terminal: Terminal) -> int:
    mount = mount_remove(args.environment, args.place)
    if args.json:
        terminal.json({"environment": args.environment, **mount.to_json()})
        return 0
    terminal.line(f"{mount.source} is no longer mounted at {mount.target} in {args.environment}.")
    return 0


def _limit(args: argparse.Namespace, terminal: Terminal) -> int:
    name = args.limit.replace("-", "_")
    environment = limit_set(args.environment, name, args.value)
    value = asdict(environment.sandbox_limits())[name]
    if args.json:
        terminal.json({"environment": environment.name, "limit": name, "value": value})
        return 0
    terminal.line(f"{name} of {environment.name}: {told(name, value)}, from the next sandbox on.")
    return 0


def told(name: str, value: float) -> str:
    """A limit's value for people."""
    if not value:
        return "none"
    if name in _TIMES:
        return duration(value)
    return f"{value:g}" if name in _COUNTS else amount(int(value))
