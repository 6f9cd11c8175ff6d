"""`reprise env`: what sandboxes start with: packages, data, limits, network, under a name."""

from __future__ import annotations

import argparse
import os

from reprise.commands import (
    env_check,
    env_create,
    env_limits,
    env_network,
    env_promote,
    env_secrets,
    env_shown,
)
from reprise.commands.terminal import Terminal
from reprise.settings import DEFAULT_ENVIRONMENT, ENVIRONMENT

EXAMPLES = """\
  reprise env create stats --requirements requirements.txt
  reprise env promote analysis.ipynb stats     what a session installed, for others too
  reprise env check stats
  reprise env show
  reprise env mount ~/data/images              appears as /data/images, read-only
  reprise env unmount /data/images
  reprise env limit memory 4GiB                "none" for no limit, "default" to take it back
  reprise env limit wall 30min --environment long-jobs
  reprise env allow example.org *.example.org:8443 package-index
  reprise env deny example.org
  reprise env record on                        replays are served from the record
  reprise env secret api.example.org --from env:API_KEY
  reprise env output default live              scripts in outputs run, whoever asked for them
  REPRISE_ENVIRONMENT=long-jobs reprise lab
"""

#: Each offers `add(acts, common)`: its acts, with `set_defaults(act=…)` naming what does each of
#: them: (args, terminal) → exit code.
_PARTS = (
    env_create,
    env_shown,
    env_check,
    env_promote,
    env_limits,
    env_network,
    env_secrets,
)


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
    for part in _PARTS:
        part.add(acts, common)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    code: int = args.act(args, terminal)
    return code
