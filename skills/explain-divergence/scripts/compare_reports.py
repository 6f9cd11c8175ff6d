#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Says what a mend did: two verify reports, before and after. JSON on stdout, words on stderr."""

from __future__ import annotations

import argparse
import difflib
import json
import signal
import sys

from explain_divergence import located
from explaining.report import Report, Step, Unreadable, read_report

EXAMPLES = """\
examples:
  scripts/compare_reports.py before.json after.json

Steps are paired by their source, in order, since a mended notebook is another session.

exit codes:
  0  compared
  1  with --check: something still differs, or differs now
  2  wrong use, or a file cannot be read
"""


def paired(before: Report, after: Report) -> list[tuple[Step | None, Step | None]]:
    """Steps of both, those with the same source side by side; an edited one beside what it was."""
    a = [step for step in before.steps.values() if step.kind in ("cell", "command")]
    b = [step for step in after.steps.values() if step.kind in ("cell", "command")]
    matcher = difflib.SequenceMatcher(
        None, [step.source for step in a], [step.source for step in b], autojunk=False
    )
    found: list[tuple[Step | None, Step | None]] = []
    for _, a0, a1, b0, b1 in matcher.get_opcodes():
        for at in range(max(a1 - a0, b1 - b0)):
            left = a[a0 + at] if a0 + at < a1 else None
            right = b[b0 + at] if b0 + at < b1 else None
            found.append((left, right))
    return found


def named(left: Step | None, right: Step | None) -> dict[str, object]:
    step = right or left
    return {
        "before": left.seq if left else None,
        "after": right.seq if right else None,
        "edited": left is None or right is None or left.source != right.source,
        "source": step.source.strip().split("\n")[0][:120] if step else "",
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", metavar="BEFORE", help="report of before the mend")
    parser.add_argument("after", metavar="AFTER", help="report of after it")
    parser.add_argument("--check", action="store_true", help="exit 1 when something differs now")
    args = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    try:
        before, after = read_report(located(args.before)), read_report(located(args.after))
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    groups: dict[str, list[dict[str, object]]] = {"mended": [], "still": [], "new": [], "gone": []}
    for left, right in paired(before, after):
        was, now = left is not None and left.wrong, right is not None and right.wrong
        if was and right is None:
            groups["gone"].append(named(left, right))
        elif was or now:
            group = "still" if was and now else "mended" if was else "new"
            groups[group].append(named(left, right))
    states = [s for s in after.states if s.get("verdict") == "different"]
    body = {
        "mended": len(groups["mended"]),
        "still": len(groups["still"]),
        "new": len(groups["new"]),
        "steps": {name: each[:30] for name, each in groups.items()},
        "states_that_differ_now": len(states),
        "replays": [before.replays, after.replays],
        "holds": after.ok,
        "sentence": _sentence(groups, after, bool(states)),
    }
    json.dump(body, sys.stdout, indent=1, ensure_ascii=True)
    sys.stdout.write("\n")
    return int(args.check and not after.ok)


def _sentence(groups: dict[str, list[dict[str, object]]], after: Report, states: bool) -> str:
    if after.ok:
        doubt = "" if after.replays > 1 else " It was replayed once: --twice shows chance, too."
        return f"Nothing differs any more; {len(groups['mended'])} steps were mended.{doubt}"
    left = len(groups["still"]) + len(groups["new"])
    if left:
        return (
            f"{len(groups['mended'])} steps were mended, {left} differ; go on with the first root."
        )
    return (
        "Outputs agree now, but other files or variables were left behind."
        if states
        else after.sentence
    )


if __name__ == "__main__":
    sys.exit(main())
