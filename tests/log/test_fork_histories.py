"""Random histories, with steps that run beside others and forks of forks, against a plain model.

The model keeps each history as a list and forks it by the definition, however slow; what the log
reads, and what its checks say, must be the same at every step of every history.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprise.errors import UsageError
from reprise.log.model import outputs_hash
from reprise.log.postgres import Log
from reprise.log.store import StepRecord
from reprise.log.writer import Writer
from tests.log.words import cell, ok, text


@dataclass
class Model:
    """A history: "step" and "end" are its events; what is shown carries the event to come."""

    events: list[tuple[str, int]] = field(default_factory=list)
    ends: dict[int, str] = field(default_factory=dict)
    shown: list[tuple[int, bool, str, int]] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return sum(what == "step" for what, _ in self.events)

    def open(self) -> list[int]:
        return [seq for seq in range(self.steps) if seq not in self.ends]

    def texts(self, seq: int, late: bool) -> list[str]:
        return [words for of, was_late, words, _ in self.shown if (of, was_late) == (seq, late)]

    def fork_event(self, at: int) -> int:
        last = self.events.index(("end", at))
        while True:
            begun = [seq for what, seq in self.events[: last + 1] if what == "step"]
            later = [
                self.events.index(("end", seq))
                for seq in begun
                if seq < at and seq in self.ends and ("end", seq) not in self.events[: last + 1]
            ]
            if not later:
                return last + 1
            last = max(later)

    def fork(self, at: int) -> Model:
        event = 0 if at == -1 else self.fork_event(at)
        events = self.events[:event]
        ends = {seq: self.ends[seq] for what, seq in events if what == "end"}
        return Model(events, ends, [each for each in self.shown if each[3] < event])

    def settle(self) -> None:
        """What the next writer does."""
        for seq in self.open():
            self.ends[seq] = "lost"
            self.events.append(("end", seq))


#: What happens next, and to which of the steps that it can happen to (modulo their number).
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "end", "end", "show", "late", "fork", "again"]),
        st.integers(0, 40),
    ),
    min_size=4,
    max_size=40,
)


async def act(writer: Writer, model: Model, what: str, choice: int, number: int) -> None:
    still_open, ended = model.open(), sorted(model.ends)
    if what == "step":
        step = await writer.append_step(cell(f"code {number}"))
        assert (step.seq, step.event) == (model.steps, len(model.events))
        model.events.append(("step", step.seq))
    elif what == "end" and still_open:
        seq = still_open[choice % len(still_open)]
        entries = text(*model.texts(seq, False))
        await writer.record_outcome(seq, ok(*entries))
        model.ends[seq] = "ok"
        model.events.append(("end", seq))
    elif what in {"show", "late"} and (still_open if what == "show" else ended):
        of = still_open if what == "show" else ended
        seq, words = of[choice % len(of)], f"{what} {number}\n"
        await writer.append_outputs(seq, text(words), late=what == "late")
        model.shown.append((seq, what == "late", words, len(model.events)))


def as_model(records: list[StepRecord], like: Model) -> Model:
    """What was read, in the model's form; `like` says where among events outputs were shown."""
    events = [(record.step.event, "step", record.step.seq) for record in records]
    events += [(r.outcome.event, "end", r.step.seq) for r in records if r.outcome is not None]
    assert sorted(event for event, _, _ in events) == list(range(len(events)))
    ends = {r.step.seq: r.outcome.status for r in records if r.outcome is not None}
    for record in records:
        for entries, late in ((record.outputs, False), (record.late, True)):
            found = [str(entry.content["text"]) for entry in entries]
            assert found == like.texts(record.step.seq, late), record.step.seq
        if record.outcome is not None:
            assert record.outcome.new.outputs == outputs_hash(record.outputs)
    return Model([(what, seq) for _, what, seq in sorted(events)], dict(ends), like.shown)


async def same(log: Log, session: uuid.UUID, model: Model) -> None:
    reader = await log.reader(session)
    records = [record async for record in reader.records()]
    assert as_model(records, model) == model
    middle = len(records) // 2
    assert [record async for record in reader.records(middle)] == records[middle:]
    summaries = [(each.seq, each.status) for each in await reader.summaries()]
    assert summaries == [(seq, model.ends.get(seq)) for seq in range(model.steps)]
    assert (await reader.info()).steps == model.steps
    report = await log.check(session)
    assert report.fault is None
    assert (report.steps, report.outcomes) == (model.steps, len(model.ends))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS)
async def test_any_history_is_forked_at_any_step_as_the_model_says(
    log: Log, actions: list[tuple[str, int]]
) -> None:
    writer = await log.acquire(await log.begin(kernel="python3"), {})
    model = Model()
    left: list[tuple[uuid.UUID, Model]] = []
    for number, (what, choice) in enumerate(actions):
        if what == "again" or (what == "fork" and model.ends):
            session = writer.session
            await writer.close()
            if what == "fork":
                left.append((session, replace(model)))
                at = [-1, *sorted(model.ends)][choice % (len(model.ends) + 1)]
                session, model = await log.fork(session, at), model.fork(at)
                await same(log, session, model)
            writer = await log.acquire(session, {})
            model.settle()
        await act(writer, model, what, choice, number)
    left.append((writer.session, model))
    await writer.close()
    for session, was in left:
        await same(log, session, was)
        for at in range(-1, was.steps):
            if at in was.open():
                with pytest.raises(UsageError, match="no outcome yet"):
                    await log.fork(session, at)
                continue
            fork, expected = await log.fork(session, at), was.fork(at)
            await same(log, fork, expected)
            held = await log.acquire(fork, {})
            expected.settle()
            await act(held, expected, "step", 0, 1000)
            await act(held, expected, "end", 0, 1001)
            await held.close()
            await same(log, fork, expected)
    if left:
        default = await (await log.reader(await log.fork(session))).info()
        assert default.fork_seq == (was.open()[0] if was.open() else was.steps) - 1
