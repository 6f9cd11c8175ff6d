"""Tells on a terminal what verify found out: a step, the states compared, the verdict."""

from __future__ import annotations

from collections.abc import Iterable

from reprise.commands.opened import first_line
from reprise.commands.terminal import Colour, Terminal
from reprise.replay.causes import Cause
from reprise.replay.report import (
    VERDICTS,
    Compared,
    FileDifference,
    NameDifference,
    Report,
    StateReport,
    StepReport,
    Verdict,
)
from reprise.workspace.manifest import shown

_COLOURS: dict[Verdict, Colour] = {
    "same": "green",
    "volatile": "dim",
    "different": "red",
    "could not run": "red",
    "skipped": "yellow",
}

#: So many files or variables are named; the page and the JSON hold them all.
NAMED = 20

_INDENT = " " * 8


def counts(report: Report) -> str:
    """How many steps came out how, in one line."""
    found = [f"{count} {verdict}" for verdict in VERDICTS if (count := report.count(verdict))]
    return ", ".join(found) or "no steps"


def tell_step(step: StepReport, terminal: Terminal) -> None:
    verdict = terminal.paint(f"{step.verdict:13}", _COLOURS[step.verdict])
    terminal.line(f"{step.seq:>6}  {step.kind:7}  {verdict}  {first_line(step.source)}")
    if step.reason:
        terminal.line(f"{_INDENT}{step.reason}")
    for difference in () if step.comparison is None else step.comparison.differences:
        terminal.line(f"{_INDENT}{difference.where}: {difference.kind}")
        text = difference.diff or (
            f"recorded: {difference.recorded}\nreplayed: {difference.replayed}"
        )
        for line in text.splitlines():
            terminal.line(f"{_INDENT}  {line}")
    _causes(step.causes, terminal)


def _causes(causes: Iterable[Cause], terminal: Terminal, indent: str = _INDENT) -> None:
    for cause in causes:
        terminal.line(f"{indent}{terminal.paint('why?', 'yellow')} {cause.text}")
        if cause.mend:
            terminal.line(f"{indent}     {terminal.paint(cause.mend, 'dim')}")


def tell_states(report: Report, terminal: Terminal) -> None:
    """What the steps had left, compared with what is known of it."""
    told: set[str] = set()
    for state in report.states:
        terminal.line(f"{heading(state)}: {summary(state)}")
        _list(state.files, terminal, told)
        _list(state.variables, terminal, told)
    for sentence in report.unsaid:
        terminal.line(terminal.paint(sentence, "dim"))


def heading(state: StateReport) -> str:
    """Which two states are compared, in words."""
    if state.against == "second replay":
        return f"After step {state.seq}, two replays with each other"
    other = {
        "running kernel": "the running kernel",
        "recorded state": "what was taken down then",
        "restart": "the files kept at the restart",
    }
    return f"After step {state.seq}, with {other[state.against]}"


def summary(state: StateReport) -> str:
    return f"files {_amounts(state.files)}; variables {_amounts(state.variables)}"


def _amounts(found: Compared[FileDifference] | Compared[NameDifference]) -> str:
    return f"not compared ({found.why})" if found.why else found.amounts


def _list(
    found: Compared[FileDifference] | Compared[NameDifference],
    terminal: Terminal,
    told: set[str],
) -> None:
    """What differs; what stood under a state before is only named."""
    new = [each for each in found.different if _key(each) not in told]
    again = [_key(each) for each in found.different if _key(each) in told]
    told.update(map(_key, new))
    if again:
        more = f" and {len(again) - NAMED} more" if len(again) > NAMED else ""
        terminal.line(f"{_INDENT}as above   {', '.join(again[:NAMED])}{more}")
    for each in new[:NAMED]:
        label = "volatile" if each.volatile else "different"
        painted = terminal.paint(f"{label:10}", "dim" if each.volatile else "red")
        since = "" if each.since is None else f"  (since step {each.since})"
        terminal.line(f"{_INDENT}{painted}{_shown(each)}{since}")
        for line in each.diff.splitlines() if isinstance(each, FileDifference) else ():
            terminal.line(f"{_INDENT}  {line}")
        _causes(each.causes, terminal, f"{_INDENT}  ")
    if len(new) > NAMED:
        terminal.line(f"{_INDENT}… and {len(new) - NAMED} more")


def _key(each: FileDifference | NameDifference) -> str:
    return shown(each.path) if isinstance(each, FileDifference) else each.found.name


def _shown(each: FileDifference | NameDifference) -> str:
    if isinstance(each, FileDifference):
        words = {
            "missing": "is not there any more",
            "extra": "was not there before",
            "content": "has other content",
            "mode": "has another mode",
            "type": "is another kind of thing",
            "link": "leads elsewhere",
        }
        return f"{shown(each.path)} {words[each.kind]}"
    before, after = each.found.before, each.found.after
    old = "(no such name)" if before is None else before.preview or before.type
    new = "(no such name)" if after is None else after.preview or after.type
    return f"{each.found.name}: {old} → {new}"
