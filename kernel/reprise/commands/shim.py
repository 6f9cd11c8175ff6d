"""`reprise shim`: says where the file lies that an operator puts in an engine in place of runc."""

from __future__ import annotations

import argparse

from reprise.commands.terminal import Terminal
from reprise.sandbox import runtime_shim

EXAMPLES = """\
  reprise shim                                              its path
  install -m 755 "$(reprise shim)" /usr/local/bin/runc      in an engine, the real one moved first
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="the result as JSON")


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    if args.json:
        terminal.json({"path": runtime_shim.__file__, "version": runtime_shim.VERSION})
    else:
        terminal.line(runtime_shim.__file__)
    return 0
