"""`reprise env show` and `env list`: what an environment says, for people and as JSON."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from reprise.commands.env_limits import MEANINGS, told
from reprise.commands.terminal import Terminal
from reprise.sandbox.named import LIMIT_NAMES, NamedEnvironment, environments, load


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser("show", parents=[common], help="limits, mounts and variables")
    act.set_defaults(act=_show)
    act = acts.add_parser("list", parents=[common], help="the names of all environments")
    act.set_defaults(act=_list)


def _show(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = load(args.environment)
    if args.json:
        terminal.json(_as_json(environment))
        return 0
    terminal.line(f"environment {environment.name}")
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
    return 0


def _list(args: argparse.Namespace, terminal: Terminal) -> int:
    names = environments()
    if args.json:
        terminal.json({"environments": names, "in_use": args.environment})
        return 0
    for name in names:
        terminal.line(f"{name}  (in use)" if name == args.environment else name)
    return 0


def _as_json(environment: NamedEnvironment) -> dict[str, object]:
    return {
        "environment": environment.name,
        "limits": asdict(environment.sandbox_limits()),
        "set": sorted(environment.limits),
        "mounts": [mount.to_json() for mount in environment.mounts],
        "variables": dict(environment.variables),
    }


def _set_here(environment: NamedEnvironment, name: str) -> str:
    return "set" if name in environment.limits else "default"
