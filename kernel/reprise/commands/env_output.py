"""`reprise env output`: whether scripts in outputs may run in the page (docs/browser.md)."""

from __future__ import annotations

import argparse
from typing import Any, Final

from reprise.commands.terminal import Terminal
from reprise.sandbox.named import OUTPUT_RULES, changed, load

MEANINGS: Final = {
    "auto": "static once an agent has acted or something not trusted was mounted, live before",
    "static": "always static: no script of an output runs in the page",
    "live": "always live: what an output holds runs in the page, with your rights in this Jupyter",
}


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "output", parents=[common], help="whether scripts in outputs may run in the page"
    )
    act.add_argument(
        "rule",
        nargs="?",
        choices=OUTPUT_RULES,
        help="; ".join(f"{rule}: {meaning}" for rule, meaning in MEANINGS.items()),
    )
    act.set_defaults(act=_output)


def _output(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.rule is None:
        rule = load(args.environment).output
    else:
        rule = changed(args.environment, output=args.rule).output
    if args.json:
        terminal.json({"environment": args.environment, "output": rule})
        return 0
    terminal.line(f"output of {args.environment}: {rule} ({MEANINGS[rule]})")
    if args.rule is not None:
        terminal.line("Kernels that are started from now on follow it; restart those that run.")
    return 0
