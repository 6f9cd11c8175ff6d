"""`reprise env limit`, `mount`, `reuse`, `output`, `team`, `skills`: what sandboxes may."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reprise.commands.terminal import Terminal
from reprise.quantities import amount
from reprise.quantities import seconds as duration
from reprise.sandbox.named import LIMIT_NAMES, changed, limit_set, mount_add, mount_remove
from reprise.sandbox.named_skills import check_skills, check_team

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
    for field, words in (("reuse", _REUSE), ("output", _OUTPUT)):
        act = acts.add_parser(
            field,
            help="how long an interpreter lives" if field == "reuse" else "what outputs may do",
            epilog=f"words:\n{words}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        act.add_argument("name", metavar="NAME")
        act.add_argument(
            "value", choices=[line.split()[0] for line in words.splitlines() if line[2] != " "]
        )
        act.add_argument("--json", action="store_true", help="the result as JSON")
        act.set_defaults(act=_word, field=field)
    act = acts.add_parser("team", help="whose members alone may use an environment")
    act.add_argument("name", metavar="NAME")
    act.add_argument("team", metavar="TEAM", help="team/NAME, or none for everybody")
    act.add_argument("--json", action="store_true", help="the result as JSON")
    act.set_defaults(act=_team)
    act = acts.add_parser(
        "skills",
        help="which skills may be mounted in an environment",
        epilog=_SKILLS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    act.add_argument("name", metavar="NAME")
    act.add_argument("patterns", nargs="+", metavar="PATTERN", help="see below; or any, or none")
    act.add_argument("--json", action="store_true", help="the result as JSON")
    act.set_defaults(act=_let_in)


_SKILLS = """\
patterns:
  team/ml:*            all of a team's; personal:, organisation: and shipped: likewise
  shipped:profile-*    those whose names fit
  sha256:DIGEST        one content, whatever it is called
  any                  all that trust lets in (the usual)
  none                 no skill at all
What they are called is looked up in the catalog by content when a skill is mounted.
"""
_REUSE = """\
  session   all steps share one interpreter, as in any notebook (the usual)
  never     every step gets an interpreter of its own, with the files that the steps before left:
            no variable outlives its step; on Dagger also a container of its own
"""
_OUTPUT = """\
  auto      once an agent ran a step, or something of unknown trust was mounted, later outputs are
            shown without scripts (the usual): nothing in the page acts in your name
  static    outputs are shown without scripts from the first one on
  live      scripts in outputs run whatever ran before; only for sessions whose code you trust as
            much as your own
"""


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


def _team(args: argparse.Namespace, terminal: Terminal) -> int:
    team = check_team(None if args.team == "none" else args.team)
    environment = changed(args.name, team=team)
    if args.json:
        terminal.json({"environment": environment.name, "team": team})
        return 0
    whose = "everybody's" if team is None else f"for members of {team} alone"
    terminal.line(f"{environment.name} is {whose}, from the next kernel on.")
    return 0


def _let_in(args: argparse.Namespace, terminal: Terminal) -> int:
    words = {"any": None, "none": ()}
    given = args.patterns
    patterns = check_skills(words[given[0]] if len(given) == 1 and given[0] in words else given)
    environment = changed(args.name, skills=patterns)
    if args.json:
        shown = None if patterns is None else list(patterns)
        terminal.json({"environment": environment.name, "skills": shown})
        return 0
    what = "all that trust lets in" if patterns is None else ", ".join(patterns) or "none"
    terminal.line(f"skills of {environment.name}: {what}, from the next kernel on.")
    return 0


def _word(args: argparse.Namespace, terminal: Terminal) -> int:
    environment = changed(args.name, **{args.field: args.value})
    if args.json:
        terminal.json({"environment": environment.name, args.field: args.value})
        return 0
    terminal.line(f"{args.field} of {environment.name}: {args.value}, from the next kernel on.")
    return 0
