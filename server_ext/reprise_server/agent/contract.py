"""What the agent's parts hand to each other: entries, acts, verdicts, questions, results (pure).

The conversation is an append-only list of entries (`reprise.log.conversation`). It is the truth:
what the model is sent, what a page or a terminal shows and what a restarted server goes on with are
all read from it. Nothing happens before the entry that says it will is committed:

    said ─ notebook ─ asked ─ answered ─ called ─ (question ─ decided) ─ running ─ result ─ asked …
         └ state, compacted, waiting, session                 … ─ ended (─ continued …) ─ undone

A call that has no `running` entry never ran. One that has `running` and no `result` may have run:
it is *lost*, never run again unasked, and the model is told so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, runtime_checkable

from reprise.errors import RepriseError, UsageError
from reprise.log.conversation import Entry, Kind
from reprise.log.model import Json

__all__ = ["Entry", "Kind"]

# Entries ------------------------------------------------------------------------------------------

#: How a turn ends. interrupted: the server went. All but done and refused can be continued.
TurnEnd = Literal["done", "cancelled", "refused", "failed", "budget", "interrupted"]

#: How a call ends. lost: it may have run. cancelled: the turn was, before or while it ran.
CallEnd = Literal["ok", "error", "denied", "lost", "cancelled"]


# What a call is about to do -----------------------------------------------------------------------

#: What a tool does, as policies name it. read: looks at the notebook, the workspace, the history.
#: edit: changes the notebook. write: changes files of the workspace. run: runs code in the sandbox.
#: load: brings a skill's text or files into the context. history: forks or rewinds.
#: keep: saves an artifact, outside of the workspace. ask: asks the person. outside: acts beyond the
#: session (an MCP server).
Effect = Literal["read", "edit", "write", "run", "load", "history", "keep", "ask", "outside"]

Decision = Literal["allow", "ask", "deny"]


@dataclass(frozen=True)
class SkillNamed:
    """A skill as policies see it. standing: trusted, untrusted or revoked."""

    name: str
    scope: str
    digest: str
    standing: str


@dataclass(frozen=True)
class Act:
    """What a call is about to do, found out without doing any of it.

    tool: its name; of an MCP server `mcp/SERVER/TOOL`.  input: exactly what runs.
    argv: of a command that is words without any shell syntax; None for all else.
    code: of a cell or a command: its text.
    paths: of the workspace or the notebook, clean, relative.  hosts: which it names or reaches.
    carries_out: whether it can carry data out of the sandbox or change things outside: code where
      the environment's network is open to any host, an MCP tool.
    title: one line for people, such as "run a command".
    """

    tool: str
    effect: Effect
    input: Mapping[str, Json]
    title: str
    argv: tuple[str, ...] | None = None
    code: str | None = None
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    skill: SkillNamed | None = None
    carries_out: bool = False

    def to_json(self) -> dict[str, Json]:
        return {
            "tool": self.tool,
            "effect": self.effect,
            "input": dict(self.input),
            "title": self.title,
            "argv": None if self.argv is None else list(self.argv),
            "code": self.code,
            "paths": list(self.paths),
            "hosts": list(self.hosts),
            "skill": None if self.skill is None else dict(vars(self.skill)),
            "carries_out": self.carries_out,
        }


#: Where untrusted content came from.
TaintKind = Literal["network", "skill", "mcp", "named"]


@dataclass(frozen=True)
class Taint:
    """Untrusted content entered the context. source: a host, a skill's reference, a server's
    tool, a path.  seq: the entry that brought it."""

    kind: TaintKind
    source: str
    seq: int

    def to_json(self) -> dict[str, Json]:
        return {"kind": self.kind, "source": self.source, "seq": self.seq}


@dataclass(frozen=True)
class Situation:
    """What a verdict depends on besides the act. who: the person whose conversation it is, None
    where nobody can be told apart.  environment: its name.  isolated: whether the backend is a
    wall.
    network: hosts that the environment lets a sandbox reach, as its rules are written.
    untrusted_paths: what the person named untrusted (workspace patterns)."""

    who: str | None
    environment: str
    isolated: bool
    network: tuple[str, ...] = ()
    notebook: str | None = None
    taints: tuple[Taint, ...] = ()
    untrusted_paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """decision, the rule that fired ("organisation/no-curl", "taint", "default/read") and why, for
    a person to read.

    grant: the seq of the `decided` entry whose grant turned an ask into an allow.
    """

    decision: Decision
    rule: str
    why: str
    grant: int | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "decision": self.decision,
            "rule": self.rule,
            "why": self.why,
            "grant": self.grant,
        }


#: once: this very call.  session: this very tool and input shape, while the conversation lasts.
#: pattern: what the shown rule matches, while the conversation lasts.
GrantScope = Literal["once", "session", "pattern"]


@dataclass(frozen=True)
class Grant:
    """What a person allowed.

    rule: for `pattern` and `session`, a policy rule as policies are written (decision allow); it is
    shown whole before it is given.  taints: kinds and sources ("network a.example") that were there
    when it was given; newer taint is not covered.
    """

    scope: GrantScope
    rule: Mapping[str, Json]
    taints: tuple[str, ...] = ()
    seq: int = 0

    def to_json(self) -> dict[str, Json]:
        return {"scope": self.scope, "rule": dict(self.rule), "taints": list(self.taints)}


# Asking a person ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """What waits for a person: an approval of `act`, or (act None) a question of the model's own.

    options: of an approval "once", "session", "pattern", "deny"; else the model's suggestions.
    pattern: the rule that "pattern" would allow, and session_rule that "session" would.
    until_us: when it is denied by itself.  parts: of the act that can be rejected by themselves.
    """

    id: str
    call: str
    text: str
    act: Act | None
    verdict: Verdict | None
    options: tuple[str, ...]
    until_us: int
    pattern: Mapping[str, Json] | None = None
    session_rule: Mapping[str, Json] | None = None
    parts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decided:
    """How a question ended. decision: an option, or a person's own words to a model's question.

    rejected: parts of what was approved that are left out, each with the reason that was given.
    """

    decision: str
    how: Literal["frame", "terminal", "timeout", "cancelled"]
    by: str | None = None
    reason: str | None = None
    rejected: Mapping[str, str | None] = field(default_factory=dict)


class Asker(Protocol):
    """Puts questions to a person. Nothing the model or a sandbox says can answer one."""

    async def ask(self, question: Question) -> Decided:
        """Wait for the answer, at most until `until_us`; a timeout is a deny (how = "timeout")."""


# Tools --------------------------------------------------------------------------------------------

#: A block of the Messages API: {"type": "text", "text": …} or an image with base64 data.
Block = Mapping[str, Any]


class BadCall(UsageError):
    """A call that cannot be made as it is. Its text is written for the model: what is wrong, where,
    and what to call instead. Nothing was done."""


@dataclass(frozen=True)
class Edit:
    """A change of one cell. before, after: sha256 of its source and type, None where none is.

    Of a move and of painted outputs both are the same.  moved: it was brought to another place.
    """

    cell: str
    before: str | None
    after: str | None
    moved: bool = False

    def to_json(self) -> dict[str, Json]:
        return {
            "cell": self.cell,
            "before": self.before,
            "after": self.after,
            **({"moved": True} if self.moved else {}),
        }

    @classmethod
    def of(cls, given: Mapping[str, Json]) -> Edit:
        """The edit that `to_json` gave."""
        return cls(given["cell"], given["before"], given["after"], bool(given.get("moved")))


@dataclass(frozen=True)
class Result:
    """What a call came to. content: for the model, bounded.  steps: of the session, by seq.
    taints: what untrusted content is in it (kind, source).  outside: acts beyond the session, each
    in a line, which an undo names as not undone.  session: of a rewind, where it goes on."""

    content: Sequence[Block]
    status: CallEnd = "ok"
    steps: tuple[int, ...] = ()
    taints: tuple[tuple[TaintKind, str], ...] = ()
    edits: tuple[Edit, ...] = ()
    outside: tuple[str, ...] = ()
    session: str | None = None


def text(words: str) -> Block:
    return {"type": "text", "text": words}


#: Called with what a running tool shows, as it comes: never durable, for eyes only.
Show = Callable[[str], None]


@dataclass(frozen=True)
class Call:
    """One call while it runs.

    key: the idempotency key of its steps ("CONVERSATION:CALL"; a second step of the same call adds
    ":2"), by which a continued turn finds what became of it.  ask: puts a question of the model's
    own to the person (the tool `ask_user`).
    """

    id: str
    conversation: str
    turn: int
    input: Mapping[str, Json]
    situation: Situation
    show: Show
    ask: Callable[[str, tuple[str, ...]], Awaitable[Decided]]

    @property
    def key(self) -> str:
        return f"{self.conversation}:{self.id}"


class Tool(Protocol):
    """One tool. name, description and schema are the same bytes in every request (caching)."""

    name: str
    description: str
    #: JSON Schema, an object, additionalProperties false: the API checks it too (strict).
    schema: Mapping[str, Any]

    async def act(self, given: Mapping[str, Json], situation: Situation) -> Act:
        """What this input would do; it has been checked against the schema. Does none of it, and
        reads only what it must to say so. Raises BadCall."""

    async def run(self, call: Call, act: Act) -> Result:
        """Do it, as `act` said. Raises BadCall (nothing was done), RepriseError (told to the model,
        and to the person). When it is cancelled it first ends what it started."""


@runtime_checkable
class Parted(Protocol):
    """A tool whose acts have parts: a person may approve an act but for some of them."""

    def parts(self, act: Act) -> tuple[str, ...]:
        """The names of an act's parts, in their order."""

    def without(self, act: Act, rejected: Mapping[str, str | None]) -> Act:
        """The act but for these parts, of which the model is told that they were rejected, and why.
        Some part is left."""


# The notebook -------------------------------------------------------------------------------------


class Stale(RepriseError):
    """Somebody changed the notebook meanwhile. cells: the ids that are not as they were read."""

    def __init__(self, message: str, cells: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.cells = tuple(cells)


@dataclass(frozen=True)
class Change:
    """One change of a notebook.

    what: insert, replace, delete or move; outputs paints a run's outputs and its number.
    cell: the cell's id; of an insert the id that it will have.  was: sha256 of the source and type
    as the agent read them (`cell_hash`), required to replace, delete and move; None otherwise.
    after: of insert and move: the cell it follows, "" for the top.
    restored: of an undo's insert or replace: the whole cell as it was; else the agent wrote it, and
    its metadata say so.
    """

    what: Literal["insert", "replace", "delete", "move", "outputs"]
    cell: str
    was: str | None = None
    after: str | None = None
    cell_type: Literal["code", "markdown", "raw"] | None = None
    source: str | None = None
    outputs: Sequence[Mapping[str, Any]] | None = None
    execution_count: int | None = None
    restored: Mapping[str, Any] | None = None


class Document(Protocol):
    """The notebook, wherever it is live: the server's room, a connected page, or the file."""

    #: How it is changed now.
    where: Literal["room", "page", "file"]
    path: str

    async def read(self) -> Mapping[str, Any]:
        """The whole notebook as nbformat 4.5 JSON, every cell with its id. Raises RepriseError."""

    async def apply(self, changes: Sequence[Change]) -> None:
        """Make all of these changes, in their order, or none. Raises Stale, RepriseError."""

    async def close(self) -> None: ...


# The model ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prompt:
    """A request as the conversation has it: the parts whose order caching depends on.

    tools: in a fixed order.  system: blocks, the fixed ones first.  messages: as the API has them.
    """

    tools: Sequence[Mapping[str, Any]]
    system: Sequence[Block]
    messages: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Answered:
    """What a model answered, whole: its end came. usage: as the API counts; with `estimated` where
    it did not say, and `lost`: usages of attempts before it that were cut off. cost: "0.0123 USD"
    (`model.prices.Money.parse`), None when no price is known.  content: blocks as they are sent
    back in the next request, byte for byte; calls only where stop_reason is "tool_use".  why: of a
    refusal, in the API's words."""

    content: Sequence[Mapping[str, Any]]
    stop_reason: str
    usage: Mapping[str, Any]
    model: str
    request_id: str | None = None
    cost: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class Waiting:
    """A wait before the next attempt, which people see and can cancel."""

    why: str
    seconds: float
    attempt: int
    status: int | None = None


class ModelFailed(RepriseError):
    """The model gave no whole answer. partial: what of it came.  usage: estimated when the API did
    not say.  again: whether asking again may help (it is not asked again by itself any more)."""

    def __init__(
        self,
        message: str,
        *,
        partial: Sequence[Mapping[str, Any]] = (),
        usage: Mapping[str, Any] | None = None,
        again: bool = False,
    ) -> None:
        super().__init__(message)
        self.partial = tuple(partial)
        self.usage = usage
        self.again = again


#: {"type": "text" | "thinking" | "tool", "index": int, "text": …}: what is shown while it comes.
Delta = Mapping[str, Any]


@dataclass
class Listener:
    """Told while a model answers. None of them may wait.

    asked: an attempt begins, from 1; what was shown of the one before is void.  cut: it was
    cancelled: what of the answer had come, and an estimate of what it took (None: nothing was
    sent); the CancelledError follows.
    """

    delta: Callable[[Delta], None] = lambda _: None
    waiting: Callable[[Waiting], None] = lambda _: None
    asked: Callable[[int], None] = field(default=lambda _: None)
    cut: Callable[[Sequence[Mapping[str, Any]], Mapping[str, Any] | None], None] = field(
        default=lambda _content, _usage: None
    )


class Model(Protocol):
    """A model behind the Messages API, on any provider."""

    name: str

    async def respond(self, prompt: Prompt, listener: Listener) -> Answered:
        """Ask, wait out overloads, and give the whole answer. Cancelling it closes the connection.

        Raises ModelFailed. Tool inputs are whole and parsed strictly, or it is raised.
        """

    async def compact(self, prompt: Prompt, listener: Listener) -> Answered:
        """What stands for these messages from now on: content of an entry `compacted`. Raises
        ModelFailed."""

    async def close(self) -> None: ...


#: Of one result that the model gets; more goes to a file of the workspace, head and tail shown.
RESULT_CHARACTERS: Final = 16_000
