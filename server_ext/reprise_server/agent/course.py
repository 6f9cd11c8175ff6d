"""The course of a turn as its entries have it: where it stands, and what comes next (pure).

`next_move` is the whole order of a turn. A server that was restarted goes on from entries alone,
since nothing else says where it was. Calls of one answer are judged and run one after the other:
what the first one brings in may be what the second one must be asked about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from reprise.log.model import Json
from reprise_server.agent.contract import CallEnd, Entry, Grant, Taint, TurnEnd
from reprise_server.agent.policy.taint import merged

#: Ends after which a turn may go on.
CONTINUABLE: Final[tuple[TurnEnd, ...]] = ("cancelled", "failed", "budget", "interrupted")
#: Answers in a row that were cut at their bound of tokens, before the turn ends: a model that
#: writes past it three times does so a fourth time.
MOST_CUT: Final = 3
#: What an answer's stop reason may say of its bound.
CUT: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
#: What a person may answer to an approval that lets the call run.
APPROVALS: Final = frozenset({"once", "session", "pattern"})
#: Of a call's id, as the API has them. It becomes part of a step's key and of a file's name.
_CALL_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


@dataclass(frozen=True)
class CallState:
    """One call of an answer and what is recorded of it.

    called, decided, result: bodies of those entries.  question: of the newest approval asked for.
    own: the newest question that the running call itself put to the person, and its answer.
    """

    id: str
    tool: str
    input: Mapping[str, Any]
    called: Mapping[str, Any] | None = None
    question: Mapping[str, Any] | None = None
    decided: Mapping[str, Any] | None = None
    own: tuple[Mapping[str, Any], Mapping[str, Any] | None] | None = None
    running: bool = False
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Course:
    """Where the newest turn stands.

    ended: None while it is open; a conversation without a turn is "done".
    answer: the newest answer of the model that counts, if nothing was said or asked since.
    calls: those that the answer asks for.  cut: answers in a row that were cut.
    """

    turn: int
    ended: TurnEnd | None
    answer: Mapping[str, Any] | None
    calls: tuple[CallState, ...]
    cut: int


# What comes next ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """Ask the model. compact: its context is full, so make room first."""

    compact: bool = False


@dataclass(frozen=True)
class Judge:
    """Find out what a call would do, and what the policies say to it."""

    call: CallState


@dataclass(frozen=True)
class Put:
    """Put a call to the person: the policies ask."""

    call: CallState


@dataclass(frozen=True)
class Wait:
    """Wait for the answer to what was put."""

    call: CallState


@dataclass(frozen=True)
class Run:
    """Run a call that is allowed."""

    call: CallState


@dataclass(frozen=True)
class Close:
    """Give a call its end without running it."""

    call: CallState
    status: CallEnd
    text: str


@dataclass(frozen=True)
class Recover:
    """Find out what became of a call that was running when everything stopped."""

    call: CallState


@dataclass(frozen=True)
class End:
    """End the turn."""

    status: TurnEnd
    why: str | None = None


@dataclass(frozen=True)
class Rest:
    """Nothing: no turn is open."""


Move = Ask | Judge | Put | Wait | Run | Close | Recover | End | Rest


def next_move(entries: Sequence[Entry]) -> Move:
    """What a conversation with these entries does next."""
    at = course(entries)
    if at.ended is not None:
        return Rest()
    if at.answer is None:
        return Ask()
    reason = str(at.answer.get("stop_reason"))
    if reason == "tool_use":
        for call in at.calls:
            if call.result is None:
                return _of_call(call)
        return (
            Ask() if at.calls else End("failed", "The model meant to call a tool, and named none.")
        )
    if reason == "refusal":
        said = at.answer.get("why")
        return End("refused", f"The model declined to answer{f': {said}' if said else '.'}")
    if reason == "pause_turn":
        return Ask()
    if reason in CUT:
        if at.cut >= MOST_CUT:
            return End("failed", f"{at.cut} answers in a row were cut at their bound ({reason}).")
        return Ask(compact=reason != "max_tokens")
    return End("done")


def _of_call(call: CallState) -> Move:
    if call.running:
        return Recover(call)
    if call.called is None:
        return Judge(call)
    if problem := call.called.get("problem"):
        return Close(call, "error", str(problem))
    verdict = call.called["verdict"]
    if verdict["decision"] == "deny":
        return Close(call, "denied", denied_by_policy(verdict))
    if verdict["decision"] == "ask":
        if call.question is None:
            return Put(call)
        if call.decided is None:
            return Wait(call)
        if call.decided["decision"] not in APPROVALS:
            return Close(call, "denied", denied_by_person(call.decided))
    return Run(call)


def denied_by_policy(verdict: Mapping[str, Any]) -> str:
    return (
        f"Denied by the rule {verdict['rule']}: {verdict['why']} Nothing was run. No other way of"
        " doing the same will be allowed by it: go on without, or tell the person what is needed."
    )


def denied_by_person(decided: Mapping[str, Any]) -> str:
    if decided.get("how") == "timeout":
        return (
            "Nobody answered in time, so this was not run. Go on without it, or end your turn and"
            " tell the person what you would have done."
        )
    reason = decided.get("reason")
    said = f" They say: {reason}" if reason else " They gave no reason."
    return f"The person denied this call; nothing was run.{said}"


# Where it stands ----------------------------------------------------------------------------------


def course(entries: Sequence[Entry]) -> Course:
    """Where the newest turn stands."""
    turn = entries[-1].turn if entries else 0
    if turn == 0:
        return Course(0, "done", None, (), 0)
    ended: TurnEnd | None = None
    answer: Mapping[str, Any] | None = None
    calls: dict[str, CallState] = {}
    cut = 0
    for entry in turn_entries(entries):
        body = entry.body
        match entry.kind:
            case "ended":
                ended = body["status"]
            case "continued":
                ended, cut = None, 0
                if answer is not None and answer.get("stop_reason") != "tool_use":
                    # What it says is done or cut; the person wants it to go on all the same.
                    answer, calls = None, {}
            case "answered" if not body.get("partial"):
                answer = body
                cut = cut + 1 if body.get("stop_reason") in CUT else 0
                calls = calls_of(body)
            case "called" | "question" | "decided" | "running" | "result":
                _note(calls, entry)
            case _:
                pass
    return Course(turn, ended, answer, tuple(calls.values()), cut)


def turn_entries(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries of the newest turn, its `said` first."""
    first = len(entries)
    while first and entries[first - 1].turn == entries[-1].turn:
        first -= 1
    return entries[first:]


def calls_of(answer: Mapping[str, Any]) -> dict[str, CallState]:
    """The calls that an answer asks for; none unless it ended for them."""
    if answer.get("stop_reason") != "tool_use" or answer.get("partial"):
        return {}
    return {
        block["id"]: CallState(block["id"], block["name"], block["input"])
        for block in answer["content"]
        if block.get("type") == "tool_use"
    }


def _note(calls: dict[str, CallState], entry: Entry) -> None:
    body = entry.body
    name = _call_of(calls, entry)
    call = None if name is None else calls.get(name)
    if name is None or call is None:
        return
    changed: dict[str, Any]
    match entry.kind:
        case "called":
            changed = {"called": body}
        case "question" if body.get("act") is None:
            changed = {"own": (body, None)}
        case "question":
            changed = {"question": body, "decided": None}
        case "decided" if call.own is not None and call.own[0]["id"] == body["question"]:
            changed = {"own": (call.own[0], body)}
        case "decided":
            changed = {"decided": body}
        case "running":
            changed = {"running": True}
        case _:
            changed = {"result": body}
    calls[name] = CallState(**{**vars(call), **changed})


def _call_of(calls: Mapping[str, CallState], entry: Entry) -> str | None:
    body = entry.body
    if entry.kind == "question":
        return str(body["call"])
    if entry.kind != "decided":
        return str(body["id"])
    for call in calls.values():
        asked = [call.question, None if call.own is None else call.own[0]]
        if any(one is not None and one["id"] == body["question"] for one in asked):
            return call.id
    return None


def open_questions(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """What waits for a person, as the newest turn has it; none once it has ended."""
    at = course(entries)
    if at.ended is not None:
        return []
    found: list[Mapping[str, Any]] = []
    for call in at.calls:
        if call.result is None:
            if call.question is not None and call.decided is None:
                found.append(call.question)
            if call.own is not None and call.own[1] is None:
                found.append(call.own[0])
    return found


def closing(
    entries: Sequence[Entry], status: TurnEnd, why: str | None
) -> list[tuple[Literal["decided", "result", "ended"], dict[str, Json]]]:
    """The entries that end an open turn where it stands; of a call that runs the end is known to
    whoever stopped it, so it has its result already.

    Calls that wait are left as they are when the turn may go on with them (`interrupted`); else
    each gets its end, since the model must be told one.
    """
    at = course(entries)
    found: list[tuple[Literal["decided", "result", "ended"], dict[str, Json]]] = []
    if status != "interrupted":
        found += settled(at)
    ended: dict[str, Json] = {"status": status}
    if why is not None:
        ended["why"] = why
    return [*found, ("ended", ended)]


def settled(at: Course) -> list[tuple[Literal["decided", "result", "ended"], dict[str, Json]]]:
    """The ends of calls that never ran and will not: the turn was stopped before them."""
    found: list[tuple[Literal["decided", "result", "ended"], dict[str, Json]]] = []
    for call in at.calls:
        if call.result is not None or call.running:
            continue
        if call.question is not None and call.decided is None:
            found.append(("decided", cancelled(call.question)))
        found.append(("result", result_body(call.id, "cancelled", NEVER_RAN)))
    return found


NEVER_RAN: Final = "The turn was ended before this call ran. Nothing of it was done."


def cancelled(question: Mapping[str, Any]) -> dict[str, Json]:
    """The end of a question that nobody answers any more."""
    return {"question": question["id"], "decision": "deny", "by": None, "how": "cancelled"}


def result_body(call: str, status: CallEnd, words: str, **more: Json) -> dict[str, Json]:
    """A result of text alone, as its entry has it."""
    return {
        "id": call,
        "status": status,
        "content": [{"type": "text", "text": words}],
        "steps": [],
        "taints": [],
        "edits": [],
        "outside": [],
        **more,
    }


# What all entries together say --------------------------------------------------------------------


def session_of(entries: Sequence[Entry]) -> str:
    """The session that the conversation is in."""
    return next(str(e.body["session"]) for e in reversed(entries) if e.kind == "session")


def taints_of(entries: Iterable[Entry]) -> tuple[Taint, ...]:
    """The untrusted content in the context, each source once, by the entry that brought it."""
    found: tuple[Taint, ...] = ()
    for entry in entries:
        if entry.kind in ("result", "state", "said") and entry.body.get("taints"):
            brought = [(each["kind"], each["source"]) for each in entry.body["taints"]]
            found = merged(found, brought, entry.seq)
    return found


def grants_of(entries: Iterable[Entry]) -> tuple[Grant, ...]:
    """What the person has allowed for as long as the conversation lasts."""
    return tuple(
        Grant(grant["scope"], grant["rule"], tuple(grant.get("taints", ())), entry.seq)
        for entry in entries
        if entry.kind == "decided" and (grant := entry.body.get("grant")) is not None
    )


def disclosure_of(entries: Sequence[Entry]) -> Any:
    """The newest stored view of the catalog; None when there is none."""
    for entry in reversed(entries):
        if entry.kind == "state" and entry.body.get("disclosure") is not None:
            return entry.body["disclosure"]
    return None


def undone_turns(entries: Iterable[Entry]) -> frozenset[int]:
    return frozenset(int(e.body["turn"]) for e in entries if e.kind == "undone")


def wrong_calls(content: Sequence[Mapping[str, Any]], entries: Iterable[Entry]) -> str | None:
    """Why the calls of an answer cannot be told apart, if so: an id is the key of its steps."""
    seen: set[str] = set()
    for entry in entries:
        if entry.kind == "answered":
            seen.update(_ids(entry.body["content"]))
    for one in _ids(content):
        if not _CALL_ID.fullmatch(one):
            return "The model gave a call an id that is none."
        if one in seen:
            return f"The model gave two calls the id {one}, so which of them ran could not be told."
        seen.add(one)
    return None


def _ids(content: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(block.get("id")) for block in content if block.get("type") == "tool_use"]
