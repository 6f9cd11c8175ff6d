"""Says what a difference between a record and its replay is likely to come from (pure).

It knows what the session's steps do (`scan`) and what the difference looks like, and guesses; it
never claims to know. What differs only because an earlier step did is said to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from reprise.log.model import Json
from reprise.replay.difference import Comparison
from reprise.replay.scan import Finding, Scan, scan_python, scan_shell
from reprise.replay.shapes import SHAPES, Shape, shapes_of
from reprise.replay.sources import What

#: At most so many causes are named of one difference.
NAMED: Final = 3
#: Calls are followed through so many functions of the session.
DEEP: Final = 6

_DOES: Final[dict[What, str]] = {
    "time": "reads the clock",
    "measurement": "measures how long something takes, or how busy the machine is",
    "randomness": "draws random values without a seed",
    "file order": "lists files in the order in which the disk happens to give them",
    "set order": "goes through a set, which has no order of its own",
    "thread order": "runs several things at once, which end in any order",
    "identity": "looks at where something lies in memory",
    "process": "asks about this process, machine or moment",
    "network": "asks the network",
    "memory": "reads memory that nothing has written yet",
}

#: What a difference that looks like this may come from.
_FITS: Final[dict[Shape, frozenset[What]]] = {
    "time": frozenset({"time", "process", "measurement"}),
    "timing": frozenset({"measurement", "time"}),
    "address": frozenset({"identity"}),
    "uuid": frozenset({"randomness"}),
    "process": frozenset({"process"}),
    "order": frozenset({"file order", "set order", "thread order", "randomness"}),
    "rounding": frozenset({"thread order"}),
}


@dataclass(frozen=True)
class Cause:
    """A guess at where a difference comes from, for people.

    what: a `What`, a `Shape`, or "earlier step", "outside", "cut short".
    seq, line: where in the session, as far as that is known.  mend: what one can do about it.
    """

    what: str
    text: str
    mend: str = ""
    seq: int | None = None
    line: int | None = None

    def to_json(self) -> dict[str, Json]:
        return asdict(self)


@dataclass(frozen=True)
class _Read:
    """What is known of one step."""

    seq: int
    scan: Scan
    findings: tuple[Finding, ...]
    tainted: Mapping[str, int]


class History:
    """What the steps of a session do, read in their order: a step before the next one."""

    def __init__(self) -> None:
        self._aliases: dict[str, str] = {}
        self._seeded: set[str] = set()
        self._defined: dict[str, tuple[int, tuple[Finding, ...], frozenset[str]]] = {}
        self._steps: dict[int, _Read] = {}
        #: names that hold what may come out otherwise, and the step that this began with
        self._tainted: dict[str, int] = {}
        #: steps that set a name, in order, and those that began the interpreter afresh
        self._set_by: dict[str, list[int]] = {}
        self._restarts: list[int] = []

    def cell(self, seq: int, source: str) -> None:
        scan = scan_python(source, self._aliases)
        self._seeded |= scan.seeded
        for name, made in scan.definitions.items():
            self._defined[name] = (seq, made.findings, made.calls)
        self._add(seq, scan)

    def command(self, seq: int, text: str) -> None:
        self._add(seq, Scan(findings=scan_shell(text), texts={text[:2000]}))

    def module(self, seq: int, name: str, source: str) -> None:
        """A Python file that was uploaded, under the name by which cells import it."""
        scan = scan_python(source, {})
        for member, made in scan.definitions.items():
            known = member if member.startswith(".") else f"{name}.{member}"
            calls = frozenset(f"{name}.{call}" for call in made.calls) | made.calls
            self._defined[known] = (seq, made.findings, calls)

    def restart(self, seq: int) -> None:
        """The interpreter begins afresh; files stay."""
        self._restarts.append(seq)
        self._aliases.clear()
        self._seeded.clear()
        self._defined.clear()
        self._tainted.clear()

    def _add(self, seq: int, scan: Scan) -> None:
        findings = tuple(
            each
            for each in (*scan.findings, *self._called(scan.calls, DEEP, set()))
            if each.seed is None or each.seed not in self._seeded
        )
        used = {name: self._tainted[name] for name in scan.loads if name in self._tainted}
        self._steps[seq] = _Read(seq, scan, findings, used)
        origin = seq if findings else min(used.values(), default=None)
        for name in scan.stores:
            self._set_by.setdefault(name, []).append(seq)
            if origin is None:
                self._tainted.pop(name, None)
            else:
                self._tainted[name] = origin

    def _called(self, calls: Iterable[str], depth: int, seen: set[str]) -> list[Finding]:
        """What comes in through functions of the session."""
        found: list[Finding] = []
        for name in sorted(set(calls) - seen):
            if name not in self._defined or not depth:
                continue
            seen.add(name)
            seq, findings, inner = self._defined[name]
            shown = name.removeprefix(".")
            found += [replace(each, through=shown, seq=seq) for each in findings]
            found += [replace(each, through=shown) for each in self._called(inner, depth - 1, seen)]
        return found

    # what is said of a difference --------------------------------------------------------------

    def of_step(
        self, seq: int, comparison: Comparison, differing: Mapping[str, int] | None = None
    ) -> tuple[Cause, ...]:
        """differing: names known to differ, and the first step after which each did."""
        step = self._steps.get(seq)
        shapes = shapes_of(comparison)
        findings = () if step is None else step.findings
        fitting = frozenset().union(*(_FITS[shape] for shape in shapes))
        matching = [each for each in findings if each.what in fitting]
        causes = [_from_finding(seq, each) for each in _once(matching)[:NAMED]]
        if not causes:
            causes = [Cause(shape, *SHAPES[shape], seq=seq) for shape in shapes]
        if not shapes:
            causes = [_from_finding(seq, each) for each in _once(findings)[:NAMED]]
        if not matching and step is not None:
            causes = [*self._from_earlier(step, differing or {}), *causes]
        return tuple(causes[:NAMED])

    def of_variable(self, name: str, upto: int, shape: Sequence[Shape] = ()) -> tuple[Cause, ...]:
        """Why a variable may differ that stands so after step `upto`."""
        return self._of_written(self.setter(name, upto), shape)

    def of_file(self, path: str, upto: int) -> tuple[Cause, ...]:
        """Why a file may differ: what the steps do that name it."""
        name = path.rpartition("/")[2]
        naming = [
            seq
            for seq, step in self._steps.items()
            if seq <= upto and any(name in text for text in step.scan.texts)
        ]
        for seq in reversed(naming):
            causes = self._of_written(seq, ())
            if causes:
                return causes
        return ()

    def setter(self, name: str, upto: int) -> int | None:
        """The last step up to `upto` that set a name of the interpreter as it is then."""
        began = max((seq for seq in self._restarts if seq <= upto), default=-1)
        setting = (seq for seq in self._set_by.get(name, ()) if began < seq <= upto)
        return max(setting, default=None)

    def _of_written(self, seq: int | None, shapes: Sequence[Shape]) -> tuple[Cause, ...]:
        step = None if seq is None else self._steps.get(seq)
        if step is None:
            return ()
        fitting = frozenset().union(*(_FITS[shape] for shape in shapes))
        findings = [each for each in step.findings if each.what in fitting] or step.findings
        causes = [_from_finding(step.seq, each, of_step=True) for each in _once(findings)]
        causes += self._from_earlier(step, {})
        return tuple(causes[:NAMED])

    def _from_earlier(self, step: _Read, differing: Mapping[str, int]) -> list[Cause]:
        causes: list[Cause] = []
        for name in sorted(step.scan.loads):
            since = differing.get(name)
            if since is not None and since < step.seq:
                causes.append(self._since(name, since))
        if causes:
            return causes[:NAMED]
        for name, origin in sorted(step.tainted.items()):
            made = self._steps.get(origin)
            if origin == step.seq or made is None or not made.findings:
                continue
            first = made.findings[0]
            text = (
                f"Uses `{name}`, which goes back to step {origin}; that one {_DOES[first.what]}"
                f" (`{first.call}`)."
            )
            causes.append(Cause("earlier step", text, first.mend, origin, first.line))
        return causes

    def _since(self, name: str, since: int) -> Cause:
        """A name is known to differ; why, if its step tells."""
        text = f"Uses `{name}`, which differs since step {since}"
        made = self._steps.get(since)
        if made is None or not made.findings:
            return Cause("earlier step", f"{text}.", seq=since)
        first = made.findings[0]
        text += f"; that one {_DOES[first.what]} (`{first.call}`)."
        return Cause("earlier step", text, first.mend, since, first.line)


def _from_finding(seq: int, found: Finding, *, of_step: bool = False) -> Cause:
    does = _DOES[found.what]
    if found.through is None:
        where = f"line {found.line} of step {seq}" if of_step else f"line {found.line}"
        text = f"Likely because {where} {does}: `{found.call}`."
    else:
        step = f" of step {seq}" if of_step else ""
        text = (
            f"Likely because `{found.through}`, which the code{step} calls, {does}:"
            f" `{found.call}` (step {found.seq}, line {found.line})."
        )
    at = seq if found.seq is None else found.seq
    return Cause(found.what, text, found.mend, at, found.line)


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """One finding a call, the first."""
    seen: dict[tuple[str, str], Finding] = {}
    for each in findings:
        seen.setdefault((each.what, each.call), each)
    return list(seen.values())
