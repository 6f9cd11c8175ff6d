"""Puts evidence together: which step is at the root, what causes it, what follows from it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from dataclasses import dataclass, field

from explaining import cells, shapes
from explaining.cells import Reading, Source
from explaining.report import Report, Step

CAUSES = ("randomness", "time", "order", "network", "versions", "files", "machine", "memory")

_OF_VERIFY = {
    "time": "time",
    "measurement": "time",
    "timing": "time",
    "randomness": "randomness",
    "uuid": "randomness",
    "file order": "order",
    "set order": "order",
    "thread order": "order",
    "order": "order",
    "rounding": "order",
    "identity": "machine",
    "address": "machine",
    "process": "machine",
    "network": "network",
    "memory": "memory",
    "outside": "versions",
}
#: What only comes out otherwise from run to run, and what only when something outside changes.
_CHANCE = frozenset({"randomness", "order", "memory", "machine"})
_MENDS = {
    "versions": "Build the environment from a lock (reprise env lock, reprise env create --lock),"
    " or pin what changed.",
    "files": "Bring the file in as a step (put it beside the notebook, or reprise put), or mount it"
    " with reprise env mount, so that its content belongs to the session.",
    "network": "Save what the network gave as a file of the session and read that, or let Reprise"
    " record it: reprise env record on.",
    "time": "Take the moment once, write it down as a constant, and compute with that.",
    "order": "Sort before you show, sum or number things.",
    "randomness": "Seed the generator once, in the first cell.",
    "machine": "Let no result depend on this process or machine.",
    "memory": "Use zeros instead of empty.",
}


@dataclass
class Root:
    """Where differences begin. follows: steps that differ because of it, itself included.

    strong: causes that something points to by itself; where there are any, the merely possible
    ones are not named.
    """

    seq: int
    scores: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    evidence: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sources: list[tuple[int, Source]] = field(default_factory=list)
    follows: list[int] = field(default_factory=list)
    strong: set[str] = field(default_factory=set)
    shows: str = ""

    def speak(self, cause: str, weight: int, why: str) -> None:
        self.scores[cause] += weight
        if weight >= 3:
            self.strong.add(cause)
        if weight > 0 and why not in self.evidence[cause]:
            self.evidence[cause].append(why)


class Explanation:
    """Reads all steps once, in order; then explains each that differs."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self._readings: dict[int, Reading] = {}
        self._setters: dict[str, list[int]] = defaultdict(list)
        self._functions: dict[str, tuple[int, list[Source]]] = {}
        aliases: dict[str, str] = {}
        seeded: set[str] = set()
        for seq, step in report.steps.items():
            reading = cells.read(step.source, aliases, shell=step.kind == "command")
            seeded |= reading.seeded
            reading.sources = [each for each in reading.sources if each.seeds not in seeded]
            for name, inner in reading.functions.items():
                self._functions[name] = (seq, [e for e in inner if e.seeds not in seeded])
            for name in reading.sets:
                self._setters[name].append(seq)
            self._readings[seq] = reading
        self.roots = self._explained()

    # what there is ------------------------------------------------------------------------------

    def _sources(self, seq: int) -> list[tuple[int, Source]]:
        """What a step does itself, and through functions of the session."""
        reading = self._readings[seq]
        found = [(seq, each) for each in reading.sources]
        for name in sorted(reading.calls & set(self._functions)):
            where, inner = self._functions[name]
            if where <= seq:
                found += [(where, each) for each in inner]
        return found

    def _before(self, seq: int) -> list[tuple[str, int]]:
        """The names that a step uses, and the latest earlier step that set each."""
        found = []
        for name in sorted(self._readings[seq].uses):
            earlier = [each for each in self._setters.get(name, ()) if each < seq]
            if earlier:
                found.append((name, earlier[-1]))
        return found

    def _origin(self, seq: int) -> tuple[int, str]:
        """The step that a difference in `seq` goes back to, and by which name (breadth first)."""
        seen, wave = {seq}, [(seq, "")]
        while wave:
            following = []
            for at, name in wave:
                for used, earlier in self._before(at):
                    if earlier in seen:
                        continue
                    seen.add(earlier)
                    step = self.report.steps[earlier]
                    if self._sources(earlier) or step.wrong:
                        return earlier, name or used
                    following.append((earlier, name or used))
            wave = following
        return seq, ""

    # putting it together --------------------------------------------------------------------------

    def _explained(self) -> list[Root]:
        roots: dict[int, Root] = {}
        origins: dict[int, int] = {}
        for step in self.report.wrong:
            origin, via = step.seq, ""
            if not self._sources(step.seq) or self._inherits(step):
                origin, via = self._origin(step.seq)
            origin = origins.get(origin, origin)
            origins[step.seq] = origin
            root = roots.setdefault(origin, Root(origin))
            root.follows.append(step.seq)
            self._weigh(root, step, via)
        for root in roots.values():
            root.sources = self._sources(root.seq)
        return sorted(roots.values(), key=lambda root: (root.seq, -len(root.follows)))

    def _inherits(self, step: Step) -> bool:
        """Whether what the code of a step does cannot make a difference of this look."""
        looks = {self._look(each)[0] for each in step.differences if not each.get("volatile")}
        speaks = {cause for look in looks for cause in shapes.SPEAKS.get(look, {})}
        return bool(speaks) and not speaks & {source.cause for _, source in self._sources(step.seq)}

    @staticmethod
    def _look(difference: dict[str, object]) -> tuple[str, str]:
        return shapes.shape(
            _written(difference.get("recorded")), _written(difference.get("replayed"))
        )

    def _weigh(self, root: Root, step: Step, via: str) -> None:
        own = step.seq == root.seq
        for where, source in self._sources(root.seq):
            at = f"line {source.line} of step {where}"
            root.speak(source.cause, 3, f"{at} calls `{source.call}`")
        for place, guess in enumerate(step.causes[:3]):
            known = _OF_VERIFY.get(str(guess.get("what")))
            if known is not None:
                root.speak(known, 3 - place, f"verify: {guess.get('text')}")
        for difference in step.differences[:20]:
            if difference.get("volatile"):
                continue
            look, words = self._look(difference)
            for cause, weight in shapes.SPEAKS.get(look, {}).items():
                root.speak(cause, weight, f"in step {step.seq} {words}")
            root.shows = root.shows or words
        self._of_replays(root, step)
        self._of_environment(root, step)
        if not own:
            root.shows = root.shows or f"step {step.seq} uses `{via}`"
        text = step.reason
        for pattern, cause in (
            (r"ModuleNotFound|ImportError", "versions"),
            (r"FileNotFound|No such file", "files"),
            (r"Connection|resolve|network", "network"),
            (r"memory|killed|times its recorded time", "machine"),
        ):
            if text and re.search(pattern, text, re.IGNORECASE):
                root.speak(cause, 3, f"step {step.seq} could not run: {text[:200]}")

    def _of_replays(self, root: Root, step: Step) -> None:
        if step.chance is True:
            for cause in (*_CHANCE, "time", "network"):
                root.speak(
                    cause, 2 if root.scores[cause] else 0, "two replays differ from each other"
                )
            root.speak("versions", -4, "")
            root.speak("files", -4, "")
        elif step.chance is False:
            why = "two replays agree with each other and not with the record"
            for cause, weight in (("versions", 2), ("files", 2), ("network", 1), ("time", 1)):
                root.speak(cause, weight, why)
            root.speak("randomness", -3, "")
            root.speak("order", -2, "")

    def _of_environment(self, root: Root, step: Step) -> None:
        if not self.report.environment:
            return
        imports = set().union(*(reading.imports for reading in self._readings.values()))
        touched = [
            change
            for change in self.report.environment
            if any(re.search(rf"\b{re.escape(name)}\b", change, re.IGNORECASE) for name in imports)
            or (re.search(r"scikit-learn", change) and "sklearn" in imports)
        ]
        if step.chance is not True:
            root.speak(
                "versions", 2, f"the environment changed: {self.report.environment[0][:150]}"
            )
        if touched and step.chance is not True:
            root.speak("versions", 2, f"the notebook imports what changed: {touched[0][:150]}")

    # for the reader -----------------------------------------------------------------------------

    def described(self, root: Root) -> dict[str, object]:
        ranked = sorted(
            (
                (cause, score)
                for cause, score in root.scores.items()
                if score > 0 and (cause in root.strong or not root.strong)
            ),
            key=lambda each: (-each[1], CAUSES.index(each[0]) if each[0] in CAUSES else 99),
        )
        total = sum(score for _, score in ranked) or 1
        top = ranked[0][0] if ranked else None
        step = self.report.steps[root.seq]
        fitting = [(seq, s) for seq, s in root.sources if s.cause == top]
        where, source = fitting[0] if fitting else (root.seq, None)
        return {
            "step": root.seq,
            "kind": step.kind,
            "verdict": step.verdict or "not compared",
            "source": step.source[:1_500],
            "shows": root.shows,
            "causes": [
                {
                    "cause": cause,
                    "weight": round(score / total, 2),
                    "evidence": root.evidence[cause][:5],
                }
                for cause, score in ranked[:4]
            ],
            "mend": None if top is None else self._mend(top, where, source),
            "explains": sorted(set(root.follows)),
            "also_differ": self._also(root),
            "chance": {True: "yes", False: "no", None: "unknown"}[
                next((s.chance for s in self.report.wrong if s.seq in root.follows), None)
            ],
        }

    @staticmethod
    def _mend(cause: str, seq: int, source: Source | None) -> dict[str, object]:
        if source is None:
            return {"do": _MENDS[cause], "edit": None}
        edit: dict[str, object] | None = None
        if source.after is not None and source.after != source.before:
            edit = {
                "step": seq,
                "line": source.line,
                "before": source.before,
                "after": source.after,
            }
        elif source.seeds is not None and "`" in source.mend:
            edit = {"step": seq, "line": source.line, "insert_before": source.mend.split("`")[1]}
        return {"do": source.mend, "edit": edit}

    def _also(self, root: Root) -> list[str]:
        """Variables and files that differ and were set by this root, as verify's states say."""
        found: list[str] = []
        for state in self.report.states:
            for part in ("variables", "files"):
                compared = state.get(part)
                different = compared.get("different") if isinstance(compared, dict) else None
                for each in different if isinstance(different, list) else []:
                    if not isinstance(each, dict) or each.get("volatile"):
                        continue
                    name = str(each.get("name") or each.get("path"))[:100]
                    since = each.get("since")
                    set_here = root.seq in self._setters.get(name, ())
                    if since == root.seq or (since is None and set_here):
                        found.append(f"{part[:-1]} {name}")
        return sorted(set(found))[:20]


def _written(value: object) -> str:
    return (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
    )
