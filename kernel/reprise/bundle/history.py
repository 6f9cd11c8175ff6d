"""Follows the lines of a history and proves that they make one chain (pure).

The same walk when a bundle is written and when it is read: nothing leaves a log that another
would refuse.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from reprise.bundle.lines import EventLine, OutputLine
from reprise.bundle.shape import (
    Mention,
    checked_entry,
    checked_outcome,
    checked_step,
    mentions_of_step,
)
from reprise.errors import BadBundle
from reprise.log.model import (
    GENESIS,
    LateHash,
    NewOutcome,
    NewStep,
    OutputEntry,
    OutputsHash,
    extend,
)


@dataclass(frozen=True)
class StepItem:
    """A step of a checked history."""

    seq: int
    event: int
    new: NewStep
    body: bytes
    digest: bytes


@dataclass(frozen=True)
class OutcomeItem:
    """An outcome of a checked history."""

    seq: int
    event: int
    new: NewOutcome
    body: bytes
    chain: bytes


@dataclass(frozen=True)
class OutputItem:
    """An output of a checked history, or a late batch. event: the one that came next."""

    seq: int
    event: int
    late: bool
    body: bytes
    entries: tuple[OutputEntry, ...]


Item = StepItem | OutcomeItem | OutputItem


@dataclass
class HistoryCheck:
    """Takes one line after the other. `steps` and `events` count; `chain` closes over them.

    blobs: sha256 → whether it is a tree, of every blob named so far, in order of first mention.
    environments: digests in order of first mention.
    """

    steps: int = 0
    events: int = 0
    outputs: int = 0
    chain: bytes = GENESIS
    blobs: dict[str, bool] = field(default_factory=dict)
    environments: dict[str, None] = field(default_factory=dict)
    _keys: set[str | None] = field(default_factory=set)
    _open: dict[int, OutputsHash] = field(default_factory=dict)
    _late: LateHash = field(default_factory=LateHash)

    def take(self, line: EventLine | OutputLine, where: str) -> Item:
        """The next line, checked against all before it. Raises BadBundle."""
        if isinstance(line, OutputLine):
            return self._output(line, where)
        item = self._step(line, where) if line.type == "step" else self._outcome(line, where)
        if line.value.get("late") != self._late.hexdigest():
            raise BadBundle(f"{where}: the late outputs before it are not those that were recorded")
        if line.value["event"] != self.events:
            raise BadBundle(f"{where} is event {line.value['event']} where {self.events} is due")
        self.chain = extend(self.chain, line.body)
        if self.chain != line.link:
            raise BadBundle(
                f"the digest of {where} does not match what it says and what was before"
            )
        self._late = LateHash()
        self.events += 1
        return item

    def mention(self, mentions: list[Mention]) -> None:
        """Blobs that something beside the events names."""
        for name, tree in mentions:
            # A tree stays one, also when its bytes are named as a mere file as well.
            self.blobs[name] = self.blobs.get(name, False) or tree

    def _step(self, line: EventLine, where: str) -> StepItem:
        new = checked_step(line.value, line.body, where)
        seq = line.value["seq"]
        if seq != self.steps:
            raise BadBundle(f"{where} is step {seq} where {self.steps} is due")
        if new.key is not None and new.key in self._keys:
            raise BadBundle(f"{where} has the idempotency key of an earlier step")
        self._keys.add(new.key)
        self._open[seq] = OutputsHash()
        self.steps += 1
        self.environments.setdefault(new.environment)
        self.mention(list(mentions_of_step(new)))
        return StepItem(seq, self.events, new, line.body, line.link)

    def _outcome(self, line: EventLine, where: str) -> OutcomeItem:
        new = checked_outcome(line.value, line.body, where)
        seq = line.value["seq"]
        shown = self._open.pop(seq, None)
        if shown is None:
            raise BadBundle(f"{where} ends step {seq}, which is not running")
        if shown.hexdigest() != new.outputs:
            raise BadBundle(f"the outputs of step {seq} do not match their hash")
        return OutcomeItem(seq, self.events, new, line.body, line.link)

    def _output(self, line: OutputLine, where: str) -> OutputItem:
        seq, late = line.seq, line.type == "late"
        running = self._open.get(seq)
        if seq >= self.steps or late == (running is not None):
            raise BadBundle(f"{where} belongs to step {seq}, which shows nothing then")
        if not late:
            entries = [checked_entry(line.value, where)]
        elif isinstance(line.value, list) and line.value:
            entries = [checked_entry(value, where) for value in line.value]
            self._late.add(seq, line.body)
        else:
            raise BadBundle(f"{where} is an empty batch of outputs")
        for entry in entries:
            if running is not None:
                running.add(entry)
            self.mention([(name, False) for name in entry.blobs])
        self.outputs += 1
        return OutputItem(seq, self.events, late, line.body, tuple(entries))
