"""A conversation's questions, read from its entries, as what a person decides in a frame (pure)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from reprise.settings import DEFAULT_ENVIRONMENT
from reprise_server.agent.contract import Entry
from reprise_server.agent.notebook.parted import of_part
from reprise_server.api.matter import ACCEPT, REJECT, Choice, Matter, Parts

#: Calls of before that a rule would have matched too, which are named.
_MOST_NAMED: Final = 20
_ENDING: Final = "Not answered in time, so not run. The agent was told."


@dataclass(frozen=True)
class Open:
    """A question that nobody has answered yet. body: of its entry.  called: of the call's entry,
    None for a question of the model's own."""

    seq: int
    body: Mapping[str, Any]
    called: Mapping[str, Any] | None

    @property
    def id(self) -> str:
        return str(self.body["id"])

    @property
    def approves(self) -> bool:
        """Whether an answer lets something happen: then it is pressed in a frame."""
        return self.body.get("act") is not None


def open_questions(entries: Sequence[Entry]) -> list[Open]:
    """Those of the newest turn, in their order. A turn that has ended waits for nothing; one that
    goes on waits for the approvals that it was cut at."""
    calls: dict[str, Mapping[str, Any]] = {}
    found: dict[str, Open] = {}
    cut: dict[str, Open] = {}
    for entry in entries:
        body = entry.body
        if entry.kind == "called":
            calls[str(body["id"])] = body
        elif entry.kind == "question":
            # One whose time ran out while nobody asked is put anew.
            found = {key: each for key, each in found.items() if each.body["call"] != body["call"]}
            found[str(body["id"])] = Open(entry.seq, body, calls.get(str(body["call"])))
        elif entry.kind == "decided":
            found.pop(str(body["question"]), None)
        elif entry.kind == "result":
            found = {key: each for key, each in found.items() if each.body["call"] != body["id"]}
        elif entry.kind == "ended":
            cut, found = found, {}
        elif entry.kind == "continued":
            found, cut = {key: each for key, each in cut.items() if each.approves}, {}
        elif entry.kind == "said":
            cut, found = {}, {}
    return list(found.values())


def environment_of(entries: Sequence[Entry]) -> str:
    """The name of the environment that acts of before were judged in: rules that were offered for
    them name it."""
    for entry in reversed(entries):
        rule = entry.body.get("session_rule") if entry.kind == "question" else None
        if rule is not None and rule.get("environment"):
            return str(rule["environment"][0])
    begun = entries[0].body if entries else {}
    return str(begun.get("environment") or DEFAULT_ENVIRONMENT)


def matter_of(
    question: Open, matched: Mapping[str, Sequence[str]], rejected: Collection[str] = ()
) -> Matter:
    """An approval as it is shown. matched: of each option that lasts, the calls of before that its
    rule would have matched too.  rejected: the parts that are left out of it."""
    act = question.body["act"]
    said = list(_by_cells(act["input"], rejected) or leaves("", act["input"]))
    if act.get("skill") is not None:
        skill = act["skill"]
        told = f"{skill['scope']}:{skill['name']} sha256:{skill['digest']} ({skill['standing']})"
        said.append(("of the skill", told))
    if act.get("hosts"):
        said.append(("reaches", "\n".join(map(str, act["hosts"]))))
    said.insert(0, ("tool", str(act["tool"])))
    choices = [
        choice
        for option in question.body["options"]
        if (choice := _choice(str(option), question.body, matched)) is not None
    ]
    title = f"Agent wants to {act['title']}"
    return Matter(title, tuple(said), _why(question), tuple(choices), _ENDING)


def parts_of_matter(question: Open, matched: Mapping[str, Sequence[str]]) -> Parts | None:
    """An approval part by part; None where it has no parts."""
    names = question.body.get("parts") or ()
    if not names:
        return None
    edits = question.body["act"]["input"]["edits"]
    each = {str(name): _part(question, str(name), of_part(edits, str(name))) for name in names}
    return Parts(each, lambda rejected: matter_of(question, matched, rejected))


def _by_cells(asked: Mapping[str, Any], rejected: Collection[str]) -> list[tuple[str, str]]:
    """A batch of edits, but for those of some cells; nothing for any other call."""
    if set(asked) != {"notebook", "edits"}:
        return []
    said = [("notebook", str(asked["notebook"]))]
    if rejected:
        said.append(("rejected already, so left out", "\n".join(sorted(rejected))))
    return said + [
        (f"{number} · cell {edit['cell']} · {named}", text)
        for number, edit in enumerate(asked["edits"], 1)
        if edit["cell"] not in rejected
        for named, text in [_edit(edit)]
    ]


def _edit(edit: Mapping[str, Any]) -> tuple[str, str]:
    """All of an edit but its cell. What is written stands by itself, and reads as it will."""
    more = {key: value for key, value in edit.items() if key not in ("do", "cell", "source")}
    named = [str(edit["do"]), *(f"{key} {value}" for key, value in more.items() if value != "")]
    if edit.get("after") == "":
        named.append("at the top")
    return " · ".join(named), str(edit.get("source", ""))


def _part(question: Open, cell: str, edits: Sequence[Mapping[str, Any]]) -> Matter:
    """The edits of one cell."""
    said = [_edit(edit) for edit in edits]
    does = " and ".join(dict.fromkeys(str(edit["do"]) for edit in edits))
    choices = (
        Choice(ACCEPT, "Accept", "accept"),
        Choice(REJECT, "Reject", "reject", reason=True),
    )
    return Matter(f"{does.capitalize()} cell {cell}", tuple(said), _why(question), choices, _ENDING)


def _why(question: Open) -> str:
    verdict = (question.called or {}).get("verdict") or {}
    return f"{verdict.get('rule', 'policy')}: {verdict.get('why') or question.body['text']}"


def _choice(
    option: str, body: Mapping[str, Any], matched: Mapping[str, Sequence[str]]
) -> Choice | None:
    match option:
        case "once":
            return Choice("once", "Allow once", "accept")
        case "deny":
            return Choice("deny", "Deny", "reject", reason=True)
        case "session" | "pattern":
            rule = body.get("session_rule" if option == "session" else "pattern")
            if rule is None:
                return None
            label = "This session" if option == "session" else "Pattern"
            shows = (
                ("Allowed from now on, in this conversation", _exactly(rule)),
                ("Of the calls before, this would have matched", _named(matched.get(option, ()))),
            )
            return Choice(option, label, "warn", shows)
    return None


def _named(calls: Sequence[str]) -> str:
    if not calls:
        return "none but this one"
    rest = len(calls) - _MOST_NAMED
    return "\n".join([*calls[:_MOST_NAMED], *([f"and {rest} more"] if rest > 0 else [])])


def leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """What JSON holds, each text as it is under the name of its place: a cell's source as the lines
    that it has, and not as JSON writes them."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        pairs = [(f"{name} {key}".strip(), each) for key, each in value.items()]
    elif isinstance(value, list) and not all(isinstance(each, str) for each in value):
        pairs = [(f"{name} {number}", each) for number, each in enumerate(value, 1)]
    if not pairs:
        yield name, _exactly(value)
    for place, each in pairs:
        yield from leaves(place, each)


def _exactly(value: Any) -> str:
    """A text as it is; all else as JSON, in which nothing is left out."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
