"""A conversation with the agent as the log has it: an append-only list of entries (pure).

Each entry is committed before what it says happens, so a conversation is whole whatever dies.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

#: Kinds of entries and the body of each (JSON). "?" marks what may be left out.
#:
#: begun     {model, provider, notebook?: path, policy: [{level, digest}], environment?, by?,
#:           scripted?: true}
#: session   {session: uuid, why: "begun" | "undo" | "rewind" | "fork"}: whose steps follow
#: said      {text, by: person or null}: begins a turn
#: notebook  {path, sha256, where: "room" | "page" | "file"}: the notebook before the turn;
#:           sha256 names its stored blob (nbformat JSON, canonical)
#: state     {disclosure: Json, taints: [{kind, source, seq}]}: the newest one counts
#: asked     {model, attempt, input_estimate, digest}: digest of the request's body
#: waiting   {why, seconds, attempt, status?}
#: answered  {content: [block], stop_reason, usage: {…}, cost: {amount: text, currency} or null,
#:           request_id?, partial?: true (its end never came; no tool of it runs)}
#: called    {id, tool, input, act: {…}, verdict: {decision, rule, why, grant}, problem?: text,
#:           taints?: [{kind, source}] that may be in the problem's text}
#: question  {id, call, text, until_us, options: [text], act?, pattern?, session_rule?}
#: decided   {question, decision, by: person or null, how: "frame" | "terminal" | "timeout" |
#:           "cancelled", reason?, grant?: {scope, rule, taints}}
#: running   {id}: from here on the call may have had effects
#: result    {id, status, content: [block], steps: [seq], taints: [{kind, source}],
#:           edits: [{cell, before, after, moved?}], outside: [text], session?: uuid}
#: compacted {content: [block], before: seq, usage?, cost?}: stands for all entries before that one;
#:           usage and cost of the request that gave it, as in answered
#: ended     {status, why?}
#: continued {by: person or null}: the turn that had ended goes on; what it may cost counts anew
#: undone    {turn, session, at, cells: [id] put back, kept: [id] edited since, outside: [text]}
Kind = Literal[
    "begun",
    "session",
    "said",
    "notebook",
    "state",
    "asked",
    "waiting",
    "answered",
    "called",
    "question",
    "decided",
    "running",
    "result",
    "compacted",
    "ended",
    "continued",
    "undone",
]
KINDS: Final = get_args(Kind)

#: Of one entry's body. Larger things are blobs that it names.
MAX_BODY: Final = 4 << 20


@dataclass(frozen=True)
class Entry:
    """One entry of a conversation.

    seq: from 0, gapless.  turn: 0 before the first `said`.  at_us: microseconds since the epoch.
    """

    seq: int
    turn: int
    kind: Kind
    body: Mapping[str, Any]
    at_us: int

    def to_json(self) -> dict[str, Any]:
        return {
            "seq": self.seq,
            "turn": self.turn,
            "kind": self.kind,
            "body": dict(self.body),
            "at_us": self.at_us,
        }


@dataclass(frozen=True)
class ConversationInfo:
    """What a list shows. session: the one it began in; the newest `session` entry says where it is.

    entries: how many.  turns: how many `said`.  last_us: of the newest entry.
    """

    id: uuid.UUID
    owner: str
    session: uuid.UUID
    notebook: str | None
    title: str
    began_us: int
    last_us: int
    entries: int
    turns: int


#: What the chain of every conversation begins with.
FIRST: Final = hashlib.sha256(b"reprise-conversation-1").digest()


def next_digest(chain: bytes, entry: Entry, body: bytes) -> bytes:
    """The chain after an entry. body: its canonical text. Postgres computes the same (0008)."""
    place = f"{entry.seq} {entry.turn} {entry.kind} {entry.at_us} "
    return hashlib.sha256(chain + place.encode("ascii") + body).digest()
