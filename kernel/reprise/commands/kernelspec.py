"""`reprise kernelspec`: makes the kernel known to Jupyter, and wraps other languages' kernels."""

from __future__ import annotations

import argparse
from pathlib import Path

from reprise.commands.terminal import Terminal
from reprise.jupyter import kernelspec

EXAMPLES = """\
  reprise kernelspec install               into this Python environment
  reprise kernelspec install --user        for every Jupyter of yours
  reprise kernelspec add ir                R, in a sandbox and with a log, as reprise-ir
  reprise kernelspec list
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(title="what to do", metavar="ACT", required=True)
    said = argparse.ArgumentParser(add_help=False)
    said.add_argument("--json", action="store_true", help="the result as JSON")
    where = argparse.ArgumentParser(add_help=False)
    place = where.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for this user, in every environment")
    place.add_argument("--prefix", type=Path, metavar="DIR", help="in the environment at DIR")

    act = acts.add_parser("install", parents=[where, said], help="make `reprise` known to Jupyter")
    act.set_defaults(act=_install)
    act = acts.add_parser("add", parents=[where, said], help="wrap an installed language kernel")
    act.add_argument("name", metavar="NAME", help="as `jupyter kernelspec list` names it")
    act.set_defaults(act=_add)
    act = acts.add_parser("remove", parents=[said], help="take a wrapped kernel away")
    act.add_argument("name", metavar="NAME", help="with or without reprise-")
    act.set_defaults(act=_remove)
    act = acts.add_parser("list", parents=[said], help="ours, and the kernels that they wrap")
    act.set_defaults(act=_list)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    args.act(args, terminal)
    return 0


def _install(args: argparse.Namespace, terminal: Terminal) -> None:
    path = kernelspec.install(user=args.user, prefix=args.prefix)
    _told(args, terminal, path, f"Jupyter now offers Python 3 (Reprise): {path}")


def _add(args: argparse.Namespace, terminal: Terminal) -> None:
    path = kernelspec.add(args.name, user=args.user, prefix=args.prefix)
    _told(args, terminal, path, f"Jupyter now offers {path.name}: {path}")


def _remove(args: argparse.Namespace, terminal: Terminal) -> None:
    path = kernelspec.remove(args.name)
    text = f"{path.name} is gone ({path}). Sessions that ran on it are still in the log."
    _told(args, terminal, path, text)


def _told(args: argparse.Namespace, terminal: Terminal, path: Path, text: str) -> None:
    if args.json:
        terminal.json({"name": path.name, "path": str(path)})
    else:
        terminal.line(text)


def _list(args: argparse.Namespace, terminal: Terminal) -> None:
    own = kernelspec.find_all().get(kernelspec.NAME)
    wrapped = kernelspec.wrapped()
    if args.json:
        terminal.json(
            {
                "installed": None if own is None else str(own),
                "wrapped": [{**vars(each), "path": str(each.path)} for each in wrapped],
            }
        )
        return
    if own is None:
        terminal.line("reprise is not installed where Jupyter looks: reprise kernelspec install")
    else:
        terminal.line(f"reprise  {own}")
    for each in wrapped:
        there = "" if each.there else f"  ({each.wraps} is no longer installed)"
        terminal.line(f"{each.name}  wraps {each.wraps}{there}  {each.path}")
