"""Verify: replays a session in a fresh sandbox and compares each step with the record."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from reprise.errors import SandboxDied
from reprise.log.model import Json
from reprise.log.store import LogReader, StepRecord
from reprise.replay.difference import Comparison
from reprise.replay.executor import AskPassword, Played, Player
from reprise.replay.link import KernelLink
from reprise.replay.plan import Plan, plan
from reprise.sandbox.connection import Guest
from reprise.sandbox.contract import Backend, SandboxSpec

Verdict = Literal["same", "volatile", "different", "could not run", "skipped"]

#: A step may take this many times its recorded duration, and at least so many seconds.
PATIENCE_FACTOR = 20.0
PATIENCE_S = 60.0


@dataclass(frozen=True)
class StepReport:
    """What verify says of one step. `reason`: for what could not run or was skipped."""

    seq: int
    kind: str
    status: str | None
    verdict: Verdict
    reason: str = ""
    comparison: Comparison | None = None
    source: str = ""

    def to_json(self) -> dict[str, Json]:
        differences = [] if self.comparison is None else self.comparison.differences
        return {
            "seq": self.seq,
            "kind": self.kind,
            "outcome": self.status,
            "verdict": self.verdict,
            "reason": self.reason or None,
            "differences": [
                {
                    "where": each.where,
                    "kind": each.kind,
                    "recorded": each.recorded,
                    "replayed": each.replayed,
                    "diff": each.diff,
                }
                for each in differences
            ],
        }


@dataclass(frozen=True)
class Report:
    """Of a whole session. `took_s`: seconds the replay took, its sandbox's start included."""

    session: uuid.UUID
    steps: tuple[StepReport, ...]
    took_s: float

    def count(self, verdict: Verdict) -> int:
        return sum(step.verdict == verdict for step in self.steps)

    @property
    def ok(self) -> bool:
        """Nothing differs and everything that should run could."""
        return not (self.count("different") or self.count("could not run"))

    def to_json(self) -> dict[str, Json]:
        verdicts: tuple[Verdict, ...] = (
            "same",
            "volatile",
            "different",
            "could not run",
            "skipped",
        )
        return {
            "session": str(self.session),
            "ok": self.ok,
            "took_s": round(self.took_s, 3),
            "counts": {verdict: self.count(verdict) for verdict in verdicts},
            "steps": [step.to_json() for step in self.steps],
        }


class DetachedSandbox:
    """A fresh sandbox beside the live one, brought to a state of a session and thrown away.

    Use as an async context manager; `played` is filled by `play`.
    """

    def __init__(self, reader: LogReader, backend: Backend, spec: SandboxSpec) -> None:
        self._reader = reader
        self._backend = backend
        self._spec = spec
        # Nobody listens to strays: late output of a replayed step is not compared.
        self.link = KernelLink()

    async def __aenter__(self) -> DetachedSandbox:
        self.link.attach(await Guest.start(self._backend, self._spec, self.link))
        await self.link.guest.ready()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.link.guest.kill()

    def player(
        self,
        *,
        ask_password: AskPassword | None = None,
        patience: Callable[[float], float] | None = None,
    ) -> Player:
        return Player(
            self.link,
            self._reader,
            self._spec.limits,
            isolated=self._backend.isolated,
            ask_password=ask_password,
            patience=patience,
        )


async def verify(
    reader: LogReader,
    backend: Backend,
    spec: SandboxSpec,
    *,
    on_step: Callable[[StepReport], None] | None = None,
    ask_password: AskPassword | None = None,
) -> Report:
    """Replay all of a session from its base and compare. The live sandbox is not touched.

    Raises SandboxError when no sandbox can be started.
    """
    began = time.monotonic()
    summaries = await reader.summaries()
    # From the base, not from a restart's tree: verify proves the whole history.
    left = plan(summaries)
    reports: dict[int, StepReport] = {}

    def add(report: StepReport) -> None:
        reports[report.seq] = report
        if on_step is not None:
            on_step(report)

    for skipped in left.skipped:
        summary = summaries[skipped.seq - summaries[0].seq]
        reason = skipped.word or f"it ended as {skipped.status}, so its effects were rolled back"
        add(StepReport(skipped.seq, summary.kind, summary.status, "skipped", reason))
    while left.run:
        async with DetachedSandbox(reader, backend, spec) as sandbox:
            player = sandbox.player(ask_password=ask_password, patience=patience)
            try:
                async for played in player.play(left, summaries[-1].seq + 1):
                    if played.record.step.seq not in reports:
                        add(_report(played))
                break
            except SandboxDied as error:
                seq = player.current
                if seq is None:
                    raise
                kind = summaries[seq - summaries[0].seq].kind
                reason = f"the sandbox died in it ({error})"
                add(StepReport(seq, kind, "ok", "could not run", reason))
                left = _without(left, seq)
    ordered = tuple(reports[seq] for seq in sorted(reports))
    return Report(reader.session, ordered, time.monotonic() - began)


def patience(recorded_s: float) -> float:
    """Seconds that a step may take on a replay, given what it took when it was recorded."""
    return max(PATIENCE_S, recorded_s * PATIENCE_FACTOR)


def _without(whole: Plan, seq: int) -> Plan:
    return whole.without({seq})


def _report(played: Played) -> StepReport:
    record = played.record
    status = None if record.outcome is None else record.outcome.status
    verdict: Verdict = "same"
    if played.problem is not None:
        verdict = "could not run"
    elif played.comparison is not None:
        verdict = played.comparison.verdict
    return StepReport(
        record.step.seq,
        record.step.kind,
        status,
        verdict,
        played.problem or "",
        played.comparison,
        source(record),
    )


def source(record: StepRecord) -> str:
    """What a step asked for, in a few words for people: a cell's code, an upload's files."""
    payload = record.step.payload
    if record.step.kind == "cell":
        return str(payload.get("content", {}).get("code", ""))
    if record.step.kind == "upload":
        return f"{len(payload.get('entries', []))} file(s) of the notebook's folder"
    if record.step.kind == "restart":
        return "reset" if payload.get("emptied") else "restart"
    return str(payload.get("header", {}).get("msg_type", record.step.kind))
