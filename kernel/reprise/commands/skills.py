"""`reprise skills`: the catalog of skills: checked, kept, promoted, moved, run."""

from __future__ import annotations

import argparse
from types import ModuleType

from reprise.commands import (
    skills_check,
    skills_cost,
    skills_followed,
    skills_governance,
    skills_moved,
    skills_rights,
    skills_run,
    skills_shown,
    skills_versions,
)
from reprise.commands.terminal import Terminal

EXAMPLES = """\
  reprise skills search csv                    names, descriptions, bodies
  reprise skills show profile-dataset          what it says, who added it, how it stands
  reprise skills trust profile-dataset         this content may run for you
  reprise skills promote profile-dataset --to team/ml
  reprise skills promotions 3f2a               what changes, file by file
  reprise skills approve 3f2a --release
  reprise skills revoke team/ml:profile-dataset@3 --scope team/ml --reason "sends data away"
  reprise skills check ~/.claude/skills        every skill in there, by file and line
  reprise skills import https://example.org/skills.git --dry-run
  reprise skills import --from claude-code     what Claude Code has; codex, gemini, agents too
  reprise skills export profile-dataset --to codex --user
  reprise skills sync                          what changed where they came from
  reprise skills publish ~/our-skills          a marketplace of Claude Code, in Git
  reprise skills run analysis.ipynb profile-dataset -- profile_dataset.py data.csv
  reprise skills cost profile-dataset          tokens of its line, its body, each file
  reprise skills catalog --notebook a.ipynb    what a model is told at the start
"""

#: Each offers `add(acts, common)`: its acts, with `set_defaults(act=…)` naming what does each of
#: them: (args, terminal) → exit code.
_PARTS: tuple[ModuleType, ...] = (
    skills_shown,
    skills_versions,
    skills_governance,
    skills_rights,
    skills_check,
    skills_moved,
    skills_followed,
    skills_run,
    skills_cost,
)

#: `reprise skills run SESSION NAME -- SCRIPT ARGS`
WORDS = True


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(act=None)
    acts = parser.add_subparsers(title="what to do", metavar="ACT", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="the result as JSON")
    for part in _PARTS:
        part.add(acts, common)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    code: int = args.act(args, terminal)
    return code
