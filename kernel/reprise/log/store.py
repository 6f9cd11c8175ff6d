"""What the engine asks of a log: reading by anyone of the owner, writing by the one lease holder.

`postgres` implements it. All methods are coroutines on one event loop; none blocks it.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from reprise.log.model import (
    Actor,
    Json,
    NewOutcome,
    NewStep,
    Outcome,
    OutputEntry,
    Step,
    StepKind,
)


@dataclass(frozen=True)
class SessionInfo:
    """A row of `reprise sessions`. Times are microseconds since the epoch, UTC."""

    id: uuid.UUID
    owner: str
    created_at: int
    last_at: int
    steps: int
    notebook: str | None
    kernel: str
    environment: str | None
    holder: Mapping[str, Json] | None  # who holds the lease now, if anyone
    #: The session this one was forked from (the one that owns the last shared event), and the last
    #: shared step there; -1 when nothing is shared. `steps` counts shared steps too.
    parent: uuid.UUID | None = None
    fork_seq: int | None = None
    #: What people call it (`log.names`).
    name: str | None = None


@dataclass(frozen=True)
class StepRecord:
    """A step with its outcome (None while it runs) and, when asked for, its recorded outputs."""

    step: Step
    outcome: Outcome | None
    outputs: tuple[OutputEntry, ...] = ()
    late: tuple[OutputEntry, ...] = ()


@dataclass(frozen=True)
class StepSummary:
    """What the planner needs of a step, cheap to read for 100,000 steps."""

    seq: int
    kind: StepKind
    status: str | None
    duration_us: int
    tree: str | None  # of a restart step
    execution_count: int | None = None  # the prompt number the client saw


@dataclass(frozen=True)
class Notice:
    """Something a person should know that belongs to no cell's output.

    code: stable machine word, such as "folder-too-big", "rolled-back", "divergence".
    """

    seq: int | None
    at: int
    code: str
    text: str
    detail: Mapping[str, Json]


@dataclass(frozen=True)
class Artifact:
    """A file taken out of a workspace: stored as a blob, never replayed.

    seq: the last step of the session when it was taken (-1: before the first).
    path: in the workspace.  at: microseconds since the epoch, UTC.
    """

    id: uuid.UUID
    session: uuid.UUID
    seq: int
    path: str
    sha256: str
    size: int
    mode: int
    actor: Actor
    at: int


@dataclass(frozen=True)
class StateRecord:
    """What stood in a live sandbox after step `seq`, for a later verify to compare with.

    files: sha256 of the workspace's manifest (a blob; the files themselves are not kept).
    variables: fingerprint by name, as `replay.variables` makes it; None for other languages.
    """

    seq: int
    at: int
    files: str | None
    variables: Mapping[str, Json] | None


#: Of the content of a skill, for whoever asks: "revoked" beats every trust in any scope.
Standing = Literal["trusted", "untrusted", "revoked"]


@dataclass(frozen=True)
class SkillMount:
    """A step that showed a tree below /skills, and is not known to have failed.

    trusted: the kernel found it trusted when it accepted the step.
    """

    seq: int
    target: str
    tree: str
    trusted: bool


Verdict = Literal["allowed", "refused", "failed", "served"]


@dataclass(frozen=True)
class NetworkRow:
    """What one step asked of one host: a connection, or a request where the proxy reads requests.

    seq: the step that ran, None between steps.  at: microseconds since the epoch, UTC.
    host, port: as asked for, the host normalised.  address: the one that was dialled, None where
      none was.  via: how the program asked the proxy.
    verdict: "allowed", "refused" (by the rules), "failed" (the host could not be reached),
      "served" (from the record, without the network).
    reason: a sentence for "refused" and "failed", and for an "allowed" one that was cut.
    bytes_up: from the sandbox, bytes_down: to it.
    replay: a replay of the step asked, not its first run.
    detail: of a request its method, URL without secrets, status; `{"continued": true}` for a
      connection that an earlier step opened.
    id: so that a row whose answer was lost is stored once.
    """

    seq: int | None
    at: int
    host: str
    port: int
    address: str | None
    via: Literal["connect", "http", "socks"]
    verdict: Verdict
    reason: str
    bytes_up: int
    bytes_down: int
    duration_us: int
    replay: bool = False
    detail: Mapping[str, Json] = field(default_factory=dict)
    id: uuid.UUID = field(default_factory=uuid.uuid4)


@dataclass(frozen=True)
class RecordedResponse:
    """What a host answered to one request of a step, for replays of it.

    seq: the step that ran, or the one before when none did (-1: before the first).  idle: none did.
    key: sha256 (hex) of method, URL, Range and the body's sha256 (`egress.exchange`).
    nth: how many requests of the same key that step made before, 0 for the first.
    state: "whole"; "part" (the program, the host or a bound ended it early); "absent" (only that
      it was there: its body is over the bound).
    why: the sentence for a "part" or "absent" one.
    method, url: for people, secrets taken out.  headers, trailers: the host's, in order, the
      values of those that carry secrets taken out.
    pieces: blobs that are the body, one after the other.  size: of the body, bytes.
    """

    seq: int
    idle: bool
    key: str
    nth: int
    at: int
    state: Literal["whole", "part", "absent"]
    why: str
    method: str
    url: str
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    trailers: tuple[tuple[str, str], ...]
    pieces: tuple[str, ...]
    size: int


class Blobs(Protocol):
    """Content-addressed bytes of one owner; small ones in Postgres, larger ones in files."""

    async def put(self, data: bytes) -> str:
        """Store and return the sha256 (hex). Idempotent."""

    async def put_many(self, items: Sequence[bytes]) -> list[str]: ...

    async def get(self, sha256: str) -> bytes:
        """Raises LogCorrupt when it is missing or its bytes do not match its name."""

    async def small(self, wanted: Mapping[str, int]) -> dict[str, bytes]:
        """In one round trip those that Postgres holds itself and that have the size (bytes) that is
        said. Raises LogCorrupt as `get`."""

    async def missing(self, sha256s: Sequence[str]) -> set[str]:
        """Those of `sha256s` that are not stored."""


class LogReader(Protocol):
    """One session, read without a lease."""

    @property
    def session(self) -> uuid.UUID: ...

    async def info(self) -> SessionInfo: ...

    async def summaries(self) -> list[StepSummary]:
        """All steps in order, without payloads."""

    def records(
        self, start: int = 0, stop: int | None = None, *, outputs: bool = True
    ) -> AsyncIterator[StepRecord]:
        """Steps start ≤ seq < stop in order, fetched in pages (memory stays bounded)."""

    async def notices(self) -> list[Notice]: ...

    async def by_key(self, key: str) -> StepRecord | None:
        """The step that was accepted under an idempotency key, outputs included."""

    async def first_untrusted(self, trusted: Collection[str] = ()) -> int | None:
        """The first step that an agent asked for or wrote, or that mounts what is not trusted.

        trusted: trees (sha256) whose mounts do not count. Shared steps of a fork count too.
        """

    async def skill_mounts(self) -> list[SkillMount]:
        """The skills that the session has used, in order. Shared steps of a fork count too."""

    async def standings(self, trees: Collection[str]) -> dict[str, Standing]:
        """How each content of a skill stands for whoever is connected (log/migrations/0007)."""

    async def states(self) -> list[StateRecord]:
        """What was recorded of the live state, the earliest step first."""

    def network(self, start: int = 0, stop: int | None = None) -> AsyncIterator[NetworkRow]:
        """What steps start ≤ seq < stop asked of the network, in the order it was recorded.

        What was asked between steps counts to the step before. In pages: memory stays bounded.
        """

    async def network_count(self) -> int:
        """How many rows `network` gives by now. One may be of a step long before the latest: it
        counts to the step in which its request began."""

    async def recorded(
        self, seq: int, key: str, nth: int, *, idle: bool = False
    ) -> RecordedResponse | None:
        """What a host answered to that request.

        Without one at that very place: when the request came between steps, or the record did,
        the one of that key and number whose step is nearest. None when there is none.
        """

    async def recorded_count(self, seq: int, key: str) -> int:
        """How many answers to requests of that key are recorded at one step."""

    def all_recorded(self) -> AsyncIterator[RecordedResponse]:
        """All that is recorded of the network, in order of step, key and number, in pages."""

    async def environment(self, digest: str) -> Mapping[str, Json]:
        """The recorded spec of an environment."""

    @property
    def blobs(self) -> Blobs: ...


class SessionLog(LogReader, Protocol):
    """One session, held for writing: an advisory lock on this very connection, and an epoch.

    Every write is durable when it returns. When the connection is lost every write raises
    DatabaseUnavailable until `recover` has succeeded; when another process took the session,
    LeaseLost, for good.
    """

    @property
    def epoch(self) -> int: ...

    @property
    def next_seq(self) -> int:
        """The seq that the next accepted step gets."""

    @property
    def next_output(self) -> int:
        """The number that the next batch of outputs gets; a fork's own begin at 0."""

    async def append_step(self, new: NewStep) -> Step:
        """Commit a step (one round trip). Raises DatabaseUnavailable, LeaseLost, TooLarge."""

    async def append_outputs(
        self, seq: int, entries: Sequence[OutputEntry], *, late: bool = False
    ) -> None:
        """Commit a batch of outputs of step `seq`, in order."""

    async def record_outcome(
        self, seq: int, new: NewOutcome, entries: Sequence[OutputEntry] = ()
    ) -> Outcome:
        """Commit the last outputs and the outcome together (one round trip)."""

    async def note(self, notice: Notice) -> None: ...

    async def record_state(self, state: StateRecord) -> None: ...

    async def append_network(self, rows: Sequence[NetworkRow]) -> None:
        """Commit what was asked of the network; a row that is stored already is not again."""

    async def record_response(self, response: RecordedResponse) -> None:
        """Commit what a host answered; its pieces are stored. Once, however often it is sent."""

    async def record_environment(self, digest: str, spec: Mapping[str, Json]) -> None: ...

    async def bind(self, key: str) -> None:
        """Make `key` (a notebook, a kernel id) lead to this session from now on."""

    async def recover(self) -> None:
        """Reconnect with back-off, lock again and check that epoch and head are unchanged.

        Resolves a write whose answer was lost: when the head is that very write, it counts as
        stored. Returns when writes work again; raises LeaseLost. Cancellable.
        """

    async def close(self) -> None:
        """Give the lease back."""
