"""A conversation as a person reads it: who did what, by what right, what came of it (pure).

It is made of entries alone, so it reads the same in a terminal, over the API and a year later.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from reprise.log.conversation import Entry

#: Characters of one text that are shown; the log has all of it.
SHOWN: Final = 2_000

#: you, agent: what they said.  call: what the agent did.  question: what waited for a person.
#: told: what happened to the conversation itself.
Who = Literal["you", "agent", "call", "question", "told"]


@dataclass(frozen=True)
class Line:
    """One thing in a transcript. text may have several lines; detail is one.

    bad: whether a person should look twice (an error, a denial, something lost).
    """

    turn: int
    seq: int
    who: Who
    text: str
    detail: str = ""
    bad: bool = False

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def transcript(entries: Iterable[Entry]) -> Iterator[Line]:
    """The lines of these entries, in order.

    Bodies are read leniently: what a newer version wrote is shown as far as it is understood.
    """
    calls: dict[str, _Call] = {}
    for entry in entries:
        yield from _lines(entry, calls)
    for call in calls.values():
        if not call.told:
            yield call.line("waiting" if call.began is None else "may have run: no end recorded")


@dataclass
class _Call:
    entry: Entry
    verdict: str
    began: int | None = None
    told: bool = False

    def line(self, ended: str, detail: str = "", bad: bool = False) -> Line:
        body = self.entry.body
        words = [ended, detail, self.verdict]
        return Line(
            self.entry.turn,
            self.entry.seq,
            "call",
            f"{body.get('tool', '?')}  {_input(body.get('input'))}",
            " · ".join(word for word in words if word),
            bad,
        )


def _lines(entry: Entry, calls: dict[str, _Call]) -> Iterator[Line]:
    body = entry.body

    def told(text: str, detail: str = "", bad: bool = False) -> Line:
        return Line(entry.turn, entry.seq, "told", text, detail, bad)

    match entry.kind:
        case "begun":
            scripted = " (scripted: no model answers here)" if body.get("scripted") else ""
            yield told(f"conversation with {body.get('model', '?')}{scripted}")
        case "session" if body.get("why") != "begun":
            yield told(f"goes on in session {body.get('session')}", str(body.get("why", "")))
        case "said":
            by = body.get("by")
            yield Line(entry.turn, entry.seq, "you", _cut(str(body.get("text", ""))), str(by or ""))
        case "waiting":
            status = f" ({body['status']})" if body.get("status") else ""
            yield told(f"waited {body.get('seconds')} s: {body.get('why')}{status}")
        case "answered":
            yield from _answered(entry)
        case "called":
            verdict = _mapping(body.get("verdict"))
            words = f"{verdict.get('decision', '?')} by {verdict.get('rule', '?')}"
            calls[str(body.get("id"))] = _Call(entry, words)
        case "question":
            yield Line(entry.turn, entry.seq, "question", _cut(str(body.get("text", ""))))
        case "decided":
            yield _decided(entry)
        case "running":
            if (call := calls.get(str(body.get("id")))) is not None:
                call.began = entry.seq
        case "result":
            yield _result(entry, calls)
        case "compacted":
            yield told(f"what came before entry {body.get('before')} was summed up for the model")
        case "ended":
            status = str(body.get("status", "?"))
            yield told(f"turn {entry.turn}: {status}", str(body.get("why") or ""), status != "done")
        case "continued":
            yield told(f"turn {entry.turn} goes on")
        case "undone":
            yield _undone(entry)
        case _:
            return


def _answered(entry: Entry) -> Iterator[Line]:
    body = entry.body
    usage = _mapping(body.get("usage"))
    read = _number(usage.get("cache_read_input_tokens"))
    written = _number(usage.get("cache_creation_input_tokens"))
    fresh = _number(usage.get("input_tokens"))
    words = [f"{fresh + read + written} tokens in ({read} from the cache)"]
    words.append(f"{usage.get('output_tokens', 0)} out")
    cost = _mapping(body.get("cost"))
    if cost:
        words.append(f"{cost.get('amount')} {cost.get('currency')}")
    if body.get("partial"):
        words.append("cut off before its end")
    elif body.get("stop_reason") not in ("end_turn", "tool_use"):
        words.append(str(body.get("stop_reason")))
    said = "\n".join(
        str(block.get("text", "")) for block in _blocks(body) if block.get("type") == "text"
    )
    yield Line(
        entry.turn,
        entry.seq,
        "agent",
        _cut(said.strip()),
        " · ".join(words),
        bool(body.get("partial")),
    )


def _decided(entry: Entry) -> Line:
    body = entry.body
    who = body.get("by") or {"timeout": "nobody, in time"}.get(str(body.get("how")), "a person")
    reason = f": {body['reason']}" if body.get("reason") else ""
    parts = [str(_mapping(each).get("part")) for each in _items(body.get("rejected"))]
    reason += f", but not {', '.join(parts)}" if parts else ""
    grant = _mapping(body.get("grant"))
    rule = f"  rule {_short(grant.get('rule'))}" if grant.get("scope") == "pattern" else ""
    decision = str(body.get("decision", "?"))
    return Line(
        entry.turn,
        entry.seq,
        "question",
        f"{decision}{reason}",
        f"decided by {who}, {body.get('how', '?')}{rule}",
        decision == "deny",
    )


def _result(entry: Entry, calls: dict[str, _Call]) -> Line:
    body = entry.body
    status = str(body.get("status", "?"))
    words = []
    steps = _items(body.get("steps"))
    if steps:
        words.append(f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}")
    edits = _items(body.get("edits"))
    if edits:
        words.append(f"{len(edits)} cell{'s' if len(edits) > 1 else ''} changed")
    words += [f"outside: {each}" for each in _items(body.get("outside"))]
    words += [
        f"brought in what is not trusted: {each.get('kind')} {each.get('source')}"
        for each in _items(body.get("taints"))
        if isinstance(each, Mapping)
    ]
    call = calls.get(str(body.get("id")))
    if call is None:
        return Line(entry.turn, entry.seq, "call", "?", status, True)
    call.told = True
    return call.line(status, " · ".join(words), status != "ok")


def _undone(entry: Entry) -> Line:
    body = entry.body
    words = [f"session {body.get('session')}"]
    if _items(body.get("kept")):
        words.append(f"left as they are, changed since: {', '.join(map(str, body['kept']))}")
    words += [f"not undone: {each}" for each in _items(body.get("outside"))]
    text = f"turn {body.get('turn')} undone: back before step {body.get('at')}"
    return Line(entry.turn, entry.seq, "told", text, " · ".join(words), bool(body.get("outside")))


def _blocks(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [each for each in _items(body.get("content")) if isinstance(each, Mapping)]


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _input(given: Any) -> str:
    """What a call was given: a command or code as it is, everything else as JSON."""
    found = _mapping(given)
    for name in ("command", "code", "path", "name", "query", "question"):
        if isinstance(found.get(name), str):
            return _cut(found[name])
    return _short(given)


def _short(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False, sort_keys=True))


def _cut(text: str) -> str:
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}… ({len(text) - SHOWN} characters more; --json has them)"
