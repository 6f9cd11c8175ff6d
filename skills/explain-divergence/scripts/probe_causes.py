#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Tries causes of a divergence: runs cells again, holding one thing still at a time."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from explain_divergence import located
from explaining.cells import plain
from explaining.report import Report, Unreadable, add_history, read_report

EXAMPLES = """\
examples:
  scripts/probe_causes.py report.json --step 7
  scripts/probe_causes.py report.json --step 7 --folder data --timeout 120

The cells up to that step run in interpreters of their own, on copies of the workspace, so nothing
of the session changes. First as they are, then with everything held still (seeds, clock, orders,
threads), then with each thing let go alone: what then differs again is a cause.

It runs the notebook's code: only inside a sandbox. Cells that need widgets, magics or commands
cannot be probed; what was left out is named.

exit codes:
  0  probed; `reproduced` and `causes` say what was found
  1  with --check: the step comes out otherwise
  2  wrong use, or a file cannot be read
  3  the cells take too long, or the folder is too large to be copied
"""

CONTROLS = ("randomness", "time", "set order", "listing order", "threads")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_COPIED_BYTES = 256 << 20
_COPIED_FILES = 5_000
_SHOWN = 100_000


class TooMuch(Exception):
    """It takes too long, or is too large."""


class Probe:
    """Runs the same cells under different controls."""

    def __init__(
        self, cells: list[tuple[int, str]], step: int, folder: Path, timeout: float
    ) -> None:
        self._cells = cells
        self._step = step
        self._folder = folder
        self._timeout = timeout
        self.runs = 0
        self.spent = 0.0

    def result(self, held: tuple[str, ...]) -> str:
        """What the step shows with these things held still. Raises TooMuch."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONHASHSEED"}
        environment["MPLBACKEND"] = "Agg"
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        if "set order" in held:
            environment["PYTHONHASHSEED"] = "0"
        if "threads" in held:
            environment.update(dict.fromkeys(_THREADS, "1"))
        asked = json.dumps({"cells": self._cells, "controls": held, "cut": _SHOWN})
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="probe-", dir=_scratch()) as place:
            there = Path(place, "workspace")
            _copy(self._folder, there)
            harness = Path(__file__).resolve().parent / "explaining" / "harness.py"
            try:
                done = subprocess.run(
                    [sys.executable, "-P", str(harness)],
                    input=asked,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    cwd=there,
                    env=environment,
                    timeout=self._timeout,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise TooMuch(
                    f"The cells up to step {self._step} take longer than {self._timeout:g} s;"
                    " give --timeout, or probe an earlier step."
                ) from error
        self.runs += 1
        self.spent += time.monotonic() - began
        for line in done.stdout.splitlines():
            seq, text = json.loads(line)
            if seq == self._step:
                return str(text)
        return f"(the interpreter ended: {done.returncode}) {done.stderr[-500:]}"

    def varies(self, held: tuple[str, ...], times: int) -> tuple[bool, list[str]]:
        """Whether the step shows different things in several runs, and what."""
        results: list[str] = []
        for _ in range(times):
            results.append(self.result(held))
            if len(set(results)) > 1:
                return True, results
        return False, results


def _scratch() -> str | None:
    place = os.environ.get("REPRISE_SCRATCH")
    return place if place and os.access(place, os.W_OK) else None


def _copy(folder: Path, there: Path) -> None:
    """A copy of the workspace, bounded; links are kept as links."""
    left, files = _COPIED_BYTES, _COPIED_FILES

    def passed(where: str, names: list[str]) -> set[str]:
        nonlocal left, files
        out = {name for name in names if name in (".git", ".venv", "__pycache__", "node_modules")}
        for name in names:
            path = Path(where, name)
            if name not in out and path.is_file() and not path.is_symlink():
                left, files = left - path.stat().st_size, files - 1
            elif name not in out and not path.is_dir() and not path.is_symlink():
                out.add(name)  # a socket or a pipe
        if left < 0 or files < 0:
            raise TooMuch(
                f"{folder} holds more than {_COPIED_BYTES >> 20} MiB or {_COPIED_FILES} files;"
                " name the part that the cells need: --folder."
            )
        return out

    shutil.copytree(folder, there, symlinks=True, ignore=passed)


def cells_of(report: Report, step: int) -> tuple[list[tuple[int, str]], list[str]]:
    """The cells up to a step since the last restart, as plain Python, and what was left out."""
    cells: list[tuple[int, str]] = []
    left: list[str] = []
    for seq, each in report.steps.items():
        if seq > step:
            break
        if each.kind == "restart":
            cells.clear()
        elif each.kind == "cell":
            text = plain(each.source)
            if text != each.source.replace("\r\n", "\n"):
                left.append(f"magics or shell lines of step {seq}")
            cells.append((seq, text))
        elif each.kind == "command":
            left.append(f"the command of step {seq}")
    return cells, left[:20]


def probed(probe: Probe, times: int, tell: object) -> dict[str, object]:
    """The experiment. Raises TooMuch."""
    say = tell if callable(tell) else lambda _: None
    say("as it is …")
    free, results = probe.varies((), times)
    if not free:
        return {
            "reproduced": False,
            "causes": [],
            "sentence": "It comes out the same every time here. What differs from the record lies"
            " outside: versions, files, the network, or the date.",
            "shown": results[0][:2_000],
        }
    say("with everything held still …")
    held, _ = probe.varies(CONTROLS, times)
    causes: list[str] = []
    if not held:
        for control in CONTROLS:
            say(f"with {control} let go …")
            others = tuple(each for each in CONTROLS if each != control)
            if probe.varies(others, times)[0]:
                causes.append(control)
    return {
        "reproduced": True,
        "causes": causes,
        "sentence": _found(held, causes),
        "shown": [each[:1_000] for each in results[:2]],
    }


def _found(held: bool, causes: list[str]) -> str:
    if held:
        return (
            "It differs even with seeds, clock, orders and threads held still: look for process"
            " ids, addresses, unwritten memory, several processes, generators of other libraries."
        )
    if not causes:
        return (
            "It differs, and not when everything is held still, but no single thing makes it differ"
            " each time: run again with more --times."
        )
    return (
        f"It differs because of {' and '.join(causes)}: with the others held still it still does."
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", metavar="REPORT", help="of reprise verify --json")
    parser.add_argument("--step", type=int, required=True, help="the step whose output differs")
    parser.add_argument("--history", metavar="FILE", help="sources of earlier steps: log or bundle")
    parser.add_argument(
        "--folder", default=".", help="of the workspace, copied for each run (default: all of it)"
    )
    parser.add_argument("--times", type=int, default=3, help="runs of each kind (default 3)")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds a run (default 60)")
    parser.add_argument("--check", action="store_true", help="exit 1 when the step differs here")
    args = parser.parse_args()
    if not 2 <= args.times <= 20 or args.timeout <= 0:
        parser.error("--times is 2 to 20, --timeout is more than 0")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `… | head` ends it without a word
    try:
        report = read_report(located(args.report))
        if args.history is not None:
            add_history(report, located(args.history))
        cells, left = cells_of(report, args.step)
        folder = located(args.folder)
        if not folder.is_dir():
            raise Unreadable(f"{folder} is no folder.")
    except Unreadable as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if not any(seq == args.step for seq, _ in cells):
        sys.stderr.write(f"Step {args.step} is no cell of this report.\n")
        return 2
    probe = Probe(cells, args.step, folder, args.timeout)
    try:
        body = probed(probe, args.times, lambda text: sys.stderr.write(f"{text}\n"))
    except TooMuch as error:
        sys.stderr.write(f"{error}\n")
        return 3
    body = {"step": args.step, **body, "left_out": left, "runs": probe.runs}
    json.dump(body, sys.stdout, indent=1, ensure_ascii=True)
    sys.stdout.write("\n")
    return int(args.check and bool(body["reproduced"]))


if __name__ == "__main__":
    sys.exit(main())
