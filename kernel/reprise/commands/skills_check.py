"""`reprise skills check`: everything that is wrong with a skill, and what to do about it."""

from __future__ import annotations

import argparse
from typing import Any

from reprise.commands.terminal import Terminal
from reprise.errors import UsageError
from reprise.skills.as_json import finding_json
from reprise.skills.checked import Checked, checked_source
from reprise.skills.contract import Finding


def add(acts: Any, common: argparse.ArgumentParser) -> None:
    act = acts.add_parser(
        "check",
        parents=[common],
        help="everything that is wrong with skills, by file and line (exit 1 when something is)",
    )
    act.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a skill's folder, a folder with many, an archive, or an address of Git",
    )
    act.add_argument(
        "--fail-on",
        choices=("error", "warning"),
        default="error",
        help="what makes the exit code 1 (default: %(default)s)",
    )
    act.add_argument(
        "--quiet", action="store_true", help="errors only, and no line for skills without any"
    )
    act.set_defaults(act=_check)


def _check(args: argparse.Namespace, terminal: Terminal) -> int:
    checked: list[Checked] = []
    problems: list[UsageError] = []
    for path in args.paths:
        terminal.status(f"Checking {path} …")
        try:
            found, notes = checked_source(path)
        except UsageError as error:
            # The others are checked all the same; how it ends tells that one was not.
            problems.append(error)
            continue
        checked.extend(found)
        for note in notes:
            terminal.warn(note)
    terminal.status("")
    if args.json:
        terminal.json({"skills": [_as_json(each) for each in checked]})
    else:
        _tell(checked, terminal, quiet=args.quiet)
    for problem in problems:
        terminal.error(str(problem))
    if problems:
        return UsageError.exit_code
    failing = ("error", "warning") if args.fail_on == "warning" else ("error",)
    return int(any(each.severity in failing for one in checked for each in one.findings))


def _tell(checked: list[Checked], terminal: Terminal, *, quiet: bool) -> None:
    for each in checked:
        findings = [f for f in each.findings if not quiet or f.severity == "error"]
        if quiet and not findings:
            continue
        terminal.line(f"{terminal.paint(each.where, 'bold')}: {_verdict(each, terminal)}")
        for finding in findings:
            terminal.line(f"  {_place(finding)}: {_painted(finding, terminal)}")
            terminal.line(f"      {finding.text}")
            terminal.line(f"      {terminal.paint(finding.mend, 'dim')}")
    if len(checked) > 1:
        good = sum(each.ok for each in checked)
        terminal.line(f"{good:,} of {len(checked):,} skills keep to the specification.")


def _verdict(checked: Checked, terminal: Terminal) -> str:
    errors, warnings = _count(checked, "error"), _count(checked, "warning")
    if errors:
        return terminal.paint(f"{_number(errors, 'error')}, {_number(warnings, 'warning')}", "red")
    said = f"ok, {_number(warnings, 'warning')}" if warnings else "ok"
    return terminal.paint(said, "yellow" if warnings else "green") + f" (sha256:{checked.digest})"


def _place(finding: Finding) -> str:
    return finding.path if finding.line is None else f"{finding.path}:{finding.line}"


def _painted(finding: Finding, terminal: Terminal) -> str:
    colour = terminal.paint(finding.severity, "red" if finding.severity == "error" else "yellow")
    return f"{colour} {finding.rule}"


def _count(checked: Checked, severity: str) -> int:
    return sum(each.severity == severity for each in checked.findings)


def _number(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def _as_json(checked: Checked) -> dict[str, Any]:
    return {
        "path": checked.where,
        "name": checked.name,
        "digest": checked.digest,
        "ok": checked.ok,
        "errors": _count(checked, "error"),
        "warnings": _count(checked, "warning"),
        "findings": [finding_json(each) for each in checked.findings],
    }
