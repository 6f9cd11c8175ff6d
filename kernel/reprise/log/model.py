"""What a step, an outcome and an output are, their canonical form, and the digest chain (pure).

A session's log is a gapless sequence of *events*, numbered from 0: a step is accepted
(`Step`), later its outcome is recorded (`Outcome`). Comm and subshell steps may be accepted
while a cell runs, so steps and outcomes interleave; the event number fixes their order.

    chain(-1)            = sha256("reprise-log-1")
    digest of a step     = sha256(chain before ‖ canonical(step))      = chain after it
    chain of an outcome  = sha256(chain before ‖ canonical(outcome))   = chain after it

The canonical outcome names the hash of the step's outputs, and each event names the hash of
the late outputs (sent by threads after their step's `idle`) stored since the event before it
(`LateHash`), so neither what was asked nor what came out can be changed unseen.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

StepKind = Literal["cell", "command", "upload", "mount", "comm", "restart"]
Status = Literal["ok", "error", "interrupted", "timeout", "died", "lost"]
ActorKind = Literal["user", "agent", "system"]

#: Where skills are mounted: trees that bring code to run. What lies elsewhere is data.
SKILLS = "/skills/"

STEP_KINDS: tuple[StepKind, ...] = ("cell", "command", "upload", "mount", "comm", "restart")
STATUSES: tuple[Status, ...] = ("ok", "error", "interrupted", "timeout", "died", "lost")

#: Replay runs a step again only if it ended so (the table of ends in docs/guarantees.md).
REPLAYED: frozenset[Status] = frozenset({"ok", "error"})

GENESIS: bytes = hashlib.sha256(b"reprise-log-1").digest()

#: A JSON value as `json.loads` gives it.
Json = Any


def canonical(value: Json) -> bytes:
    """The one byte form of a JSON value: keys sorted, no spaces, ASCII only.

    ASCII keeps lone surrogates (which JSON allows and UTF-8 does not) and NUL exact.
    Raises ValueError on NaN and infinities, which JSON has no form for.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    ).encode("ascii")


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Actor:
    """Who asked for a step. `conversation` and `turn` are set for agents only."""

    kind: ActorKind = "user"
    conversation: str | None = None
    turn: int | None = None

    def to_json(self) -> dict[str, Json]:
        if self.kind != "agent":
            return {"kind": self.kind}
        return {"kind": self.kind, "conversation": self.conversation, "turn": self.turn}


USER = Actor("user")
SYSTEM = Actor("system")


@dataclass(frozen=True)
class During:
    """Which step was running when this one started, and how many outputs it had shown by then."""

    seq: int
    outputs: int


@dataclass(frozen=True)
class NewStep:
    """A step as it is offered to the log, before it has a place in it.

    payload: JSON object; its shape belongs to the kind:
      cell     {header, metadata, content}: the execute_request as it came
      comm     {header, metadata, content}: the comm_open, comm_msg or comm_close as it came
      command  {shell: text} or {argv: [word, …]}, with {cwd, env, stdin: sha256 or null,
               timeout_s, output_bytes, output_lines, background}; or {stop: seq of a background
               command}
      upload   {root, entries: [[path, type, mode, size, sha256-or-target], …], removed: [path…]}
      mount    {target: absolute path, tree: sha256 of the manifest of what is shown there}
      restart  {tree: sha256 of the workspace's manifest, or null when it was not kept}
    blobs: sha256 (hex) of stored blobs that the payload needs, in order (message buffers, files).
    environment: sha256 (hex) of the environment it runs under.
    key: the idempotency key a client gave, if any.
    at: acceptance time, microseconds since the epoch, UTC.
    """

    kind: StepKind
    payload: Mapping[str, Json]
    environment: str
    at: int
    actor: Actor = USER
    during: During | None = None
    blobs: tuple[str, ...] = ()
    key: str | None = None


@dataclass(frozen=True)
class Step:
    """An accepted step: its place in the log and its digest (32 bytes)."""

    seq: int
    event: int
    new: NewStep
    digest: bytes

    @property
    def kind(self) -> StepKind:
        return self.new.kind

    @property
    def payload(self) -> Mapping[str, Json]:
        return self.new.payload


@dataclass(frozen=True)
class NewOutcome:
    """How a step ended, as offered to the log.

    outputs: `OutputsHash.hexdigest()` over all entries recorded for the step.
    inputs: replies to input_request in order; None stands for a password, never stored.
    cause: for died, timeout, lost and interrupted: {"what": …, …}, for people and planner.
    execution_count: the prompt number the client saw, if any.
    duration_us: run time, microseconds.  at: microseconds since the epoch, UTC.
    cut: true when the record of outputs was cut at its bound.
    """

    status: Status
    outputs: str
    at: int
    duration_us: int = 0
    inputs: tuple[str | None, ...] = ()
    execution_count: int | None = None
    cause: Mapping[str, Json] | None = None
    cut: bool = False


@dataclass(frozen=True)
class Outcome:
    """A recorded outcome: the step it ends, its place in the log and the chain after it."""

    seq: int
    event: int
    new: NewOutcome
    chain: bytes

    @property
    def status(self) -> Status:
        return self.new.status


@dataclass(frozen=True)
class OutputEntry:
    """One canonical output of a step: a message type, its content and metadata.

    type: stream, display_data, update_display_data, execute_result, error, clear_output,
      comm_open, comm_msg, comm_close, input_request, execute_reply (always last, and only when
      it says more than that it went well), step_reply (always last, of a command, upload or mount:
      its result), or any other iopub type a kernel sent.
    blobs: sha256 (hex) of message buffers, in order.
    """

    type: str
    content: Mapping[str, Json]
    metadata: Mapping[str, Json] = field(default_factory=dict)
    blobs: tuple[str, ...] = ()

    def to_json(self) -> list[Json]:
        return [self.type, dict(self.content), dict(self.metadata), list(self.blobs)]

    @classmethod
    def from_json(cls, value: Sequence[Json]) -> OutputEntry:
        type_, content, metadata, blobs = value
        return cls(type_, content, metadata, tuple(blobs))


class OutputsHash:
    """Hash over a step's outputs that does not depend on how streams were cut into messages.

    Consecutive stream entries of one name count as one text, so batching, coalescing and a
    kernel's own flush timing never change the hash.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"outputs")
        self._stream: str | None = None

    def add(self, entry: OutputEntry) -> None:
        if entry.type == "stream":
            name = str(entry.content.get("name", "stdout"))
            if name != self._stream:
                self._close()
                # 0xFE and 0xFF never occur in UTF-8, so the framing is unambiguous.
                self._hash.update(b"\xfe" + name.encode("utf-8", "surrogatepass") + b"\xfe")
                self._stream = name
            text = str(entry.content.get("text", ""))
            self._hash.update(text.encode("utf-8", "surrogatepass"))
            return
        self._close()
        body = canonical(entry.to_json())
        self._hash.update(b"\xfd%d:" % len(body) + body)

    def _close(self) -> None:
        if self._stream is not None:
            self._hash.update(b"\xff")
            self._stream = None

    def hexdigest(self) -> str:
        final = self._hash.copy()
        if self._stream is not None:
            final.update(b"\xff")
        return final.hexdigest()


def outputs_hash(entries: Iterable[OutputEntry]) -> str:
    """`OutputsHash` of all entries at once, hex."""
    total = OutputsHash()
    for entry in entries:
        total.add(entry)
    return total.hexdigest()


class LateHash:
    """Hash over the batches of late outputs stored between two events, in the order stored.

    Over each batch as it was stored: the step it belongs to and its canonical JSON array.
    `hexdigest()` is None when there was none; then the event has no "late" field.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"late")
        self._any = False

    def add(self, seq: int, batch: bytes) -> None:
        self._hash.update(b"%d:%d:" % (seq, len(batch)) + batch)
        self._any = True

    def copy(self) -> LateHash:
        twin = LateHash()
        twin._hash = self._hash.copy()
        twin._any = self._any
        return twin

    def hexdigest(self) -> str | None:
        return self._hash.hexdigest() if self._any else None


#: The outputs hash of a step that showed nothing.
NO_OUTPUTS: str = outputs_hash(())


def canonical_step(seq: int, event: int, new: NewStep, late: str | None = None) -> bytes:
    """Canonical bytes of a step. `late`: hash of the late outputs since the last event, if any."""
    body: dict[str, Json] = {
        "seq": seq,
        "event": event,
        "kind": new.kind,
        "actor": new.actor.to_json(),
        "payload": new.payload,
        "environment": new.environment,
        "at": new.at,
        "during": None if new.during is None else [new.during.seq, new.during.outputs],
        "blobs": list(new.blobs),
        "key": new.key,
    }
    if late is not None:
        body["late"] = late
    return canonical(body)


def canonical_outcome(seq: int, event: int, new: NewOutcome, late: str | None = None) -> bytes:
    """Canonical bytes of an outcome; `late` as in `canonical_step`."""
    body: dict[str, Json] = {
        "seq": seq,
        "event": event,
        "status": new.status,
        "outputs": new.outputs,
        "inputs": list(new.inputs),
        "execution_count": new.execution_count,
        "cause": None if new.cause is None else dict(new.cause),
        "duration_us": new.duration_us,
        "at": new.at,
        "cut": new.cut,
    }
    if late is not None:
        body["late"] = late
    return canonical(body)


def parse_step(body: Mapping[str, Json]) -> NewStep:
    """The step that `canonical_step` wrote, from its parsed JSON."""
    actor = body["actor"]
    during = body["during"]
    return NewStep(
        kind=body["kind"],
        payload=body["payload"],
        environment=body["environment"],
        at=body["at"],
        actor=Actor(actor["kind"], actor.get("conversation"), actor.get("turn")),
        during=None if during is None else During(*during),
        blobs=tuple(body["blobs"]),
        key=body["key"],
    )


def parse_outcome(body: Mapping[str, Json]) -> NewOutcome:
    """The outcome that `canonical_outcome` wrote, from its parsed JSON."""
    return NewOutcome(
        status=body["status"],
        outputs=body["outputs"],
        at=body["at"],
        duration_us=body["duration_us"],
        inputs=tuple(body["inputs"]),
        execution_count=body["execution_count"],
        cause=body["cause"],
        cut=body["cut"],
    )


def extend(chain: bytes, body: bytes) -> bytes:
    """The chain after an event whose canonical bytes are `body`."""
    return hashlib.sha256(chain + body).digest()
