#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Explains why a session diverges, from a verify report: JSON on stdout, words on stderr."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from explaining.report import Unreadable, add_history, read_report
from explaining.verdict import Explanation

EXAMPLES = """\
examples:
  scripts/explain_divergence.py report.json
  scripts/explain_divergence.py report.json --history log.json
  scripts/explain_divergence.py report.json --history session.reprise

report.json:  reprise verify SESSION --twice --json > report.json
log.json:     reprise log SESSION --json > log.json      (needed when verify began with --from)

exit codes:
  0  explained as far as can be
  1  with --check: something differs
  2  wrong use, or a file cannot be read

A relative path is looked up in the folder that REPRISE_WORKSPACE names, else in the current one.
"""


def located(path: str) -> Path:
    """Where a file lies that is named in words of the workspace."""
    workspace = os.environ.get("REPRISE_WORKSPACE")
    if workspace and not Path(path).is_absolute():
        there = Path(workspace, path)
        if there.exists() or not Path(path).exists():
            return there
    return Path(path)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", metavar="REPORT", help="of reprise verify --json")
    parser.add_argument(
        "--history", metavar="FILE", help="of reprise log --json, or a bundle: sources of all steps"
    )
    parser.add_argument(
        "--most", type=int, default=10, metavar="N", help="roots shown at most (default 10)"
    )
    parser.add_argument("--check", action="store_true", help="exit 1 when something differs")
    args = parser.parse_args()
    if args.most < 1:
        parser.error("--most is at least 1")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    try:
        report = read_report(located(args.report))
        if args.history is not None:
            add_history(report, located(args.history))
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    explained = Explanation(report)
    states = [state for state in report.states if state.get("verdict") == "different"]
    body = {
        "session": report.session,
        "verdict": report.sentence,
        "replays": report.replays,
        "environment_changes": report.environment[:20],
        "roots": [explained.described(root) for root in explained.roots[: args.most]],
        "roots_left_out": max(len(explained.roots) - args.most, 0),
        "states_that_differ": [
            {"after_step": state.get("seq"), "against": state.get("against")}
            for state in states[:10]
        ],
        "not_compared": report.not_compared[:10],
        "next": _next(report.session, report.replays, bool(explained.roots), bool(states)),
    }
    json.dump(body, sys.stdout, indent=1, ensure_ascii=True)
    sys.stdout.write("\n")
    return int(args.check and bool(explained.roots or states or not report.ok))


def _next(session: str, replays: int, differs: bool, states: bool) -> list[str]:
    if not differs and not states:
        return ["Nothing differs. There is nothing to mend."]
    steps = []
    if replays < 2:
        steps.append(
            f"Replay twice, which tells chance from change: reprise verify {session} --twice --json"
        )
    if not differs:
        steps.append("Outputs agree, but what was left behind differs: see also_differ and states.")
    return [
        *steps,
        "Try the suspected causes one by one: scripts/probe_causes.py REPORT --step N",
        "Apply the mend of the first root only, in its cell; restart and run all.",
        "Verify again (--twice --json > after.json); scripts/compare_reports.py REPORT after.json",
    ]


if __name__ == "__main__":
    sys.exit(main())
