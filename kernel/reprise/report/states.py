"""The part of a verify page about what the steps left behind: files and variables (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from reprise.quantities import amount
from reprise.replay.report import Compared, FileDifference, NameDifference, StateReport
from reprise.replay.variables import Variable
from reprise.report.differences import unified
from reprise.report.markup import Html, join, short, tag
from reprise.report.steps import causes, moment
from reprise.workspace.manifest import Entry, shown

_FILE_WORDS: Final = {
    "missing": "gone",
    "extra": "new",
    "content": "other content",
    "mode": "other mode",
    "type": "another kind of thing",
    "link": "leads elsewhere",
}
_SIDES: Final = {
    "second replay": ("first replay", "second replay"),
    "running kernel": ("running kernel", "replay"),
    "recorded state": ("recorded", "replay"),
    "restart": ("kept at the restart", "replay"),
}
#: Names that cannot be compared are listed up to so many.
_UNKNOWN: Final = 200


def section(states: Iterable[StateReport]) -> Html:
    """All states; one that says no more than those before it is closed at first."""
    told: set[str] = set()
    parts: list[Html] = []
    for state in states:
        keys = {each.path for each in state.files.different}
        keys |= {f"name {each.found.name}" for each in state.variables.different}
        parts.append(_state(state, is_open=bool(keys - told)))
        told |= keys
    return join(*parts)


def _state(state: StateReport, *, is_open: bool) -> Html:
    left, right = _SIDES[state.against]
    title = tag(
        "summary",
        tag("h3", f"After step {state.seq}: {left} and {right}"),
        tag("span", f"files {amounts(state.files)}; variables {amounts(state.variables)}"),
    )
    when = None
    if state.at is not None and state.against == "recorded state":
        when = tag("p", f"Taken down {moment(state.at)}.", class_="reason")
    return tag(
        "details",
        title,
        when,
        _part("Files", state.files, _files(state.files, left, right)),
        _part("Variables", state.variables, _names(state.variables, left, right)),
        class_=f"state {state.verdict.replace(' ', '-')}",
        open=is_open,
    )


def amounts(found: Compared[FileDifference] | Compared[NameDifference]) -> str:
    """How many came out how, or why none was compared."""
    return f"not compared: {short(found.why)}" if found.why else found.amounts


def _part(
    title: str, found: Compared[FileDifference] | Compared[NameDifference], table: Html | None
) -> Html:
    heading = tag("h4", f"{title} ", tag("span", amounts(found), class_="said"))
    return tag("div", heading, table, _unknown(found), class_="part")


def _unknown(found: Compared[FileDifference] | Compared[NameDifference]) -> Html | None:
    if not found.unknown:
        return None
    items = [
        tag("li", tag("code", short(name, 200)), f" {short(why, 200)}")
        for name, why in list(found.unknown.items())[:_UNKNOWN]
    ]
    more = len(found.unknown) - len(items)
    if more > 0:
        items.append(tag("li", f"and {more} more"))
    title = tag("summary", f"{len(found.unknown)} not comparable")
    return tag("details", title, tag("ul", *items), class_="listed")


def _files(found: Compared[FileDifference], left: str, right: str) -> Html | None:
    rows = [
        _row(
            tag("code", short(shown(each.path), 4096)),
            join(tag("span", _FILE_WORDS[each.kind]), _since(each.since)),
            (left, _entry(each.before)),
            (right, _entry(each.after)),
            join(
                unified(each.diff) if each.diff else None,
                causes(each.causes) if each.causes else None,
            ),
            volatile=each.volatile,
        )
        for each in found.different
    ]
    return _table(("File", "What", left.capitalize(), right.capitalize()), rows)


def _names(found: Compared[NameDifference], left: str, right: str) -> Html | None:
    rows = [
        _row(
            tag("code", each.found.name),
            join(
                tag("span", "volatile" if each.volatile else f"other {each.found.kind}")
                if each.found.kind in ("value", "type")
                else tag("span", "gone" if each.found.kind == "missing" else "new"),
                _since(each.since),
            ),
            (left, _variable(each.found.before)),
            (right, _variable(each.found.after)),
            causes(each.causes) if each.causes else Html(""),
            volatile=each.volatile,
        )
        for each in found.different
    ]
    return _table(("Variable", "What", left.capitalize(), right.capitalize()), rows)


def _since(seq: int | None) -> Html | None:
    if seq is None:
        return None
    return join(" since ", tag("a", f"step {seq}", href=f"#step-{seq}"))


def _entry(entry: Entry | None) -> Html:
    if entry is None:
        return tag("span", "not there", class_="reason")
    if entry.type == "link":
        return tag("span", f"→ {short(shown(entry.target or ''))}")
    size = amount(entry.size) if entry.type == "file" else entry.type
    return join(tag("span", size), tag("span", f" {entry.mode:04o}", class_="reason"))


def _variable(value: Variable | None) -> Html:
    if value is None:
        return tag("span", "no such name", class_="reason")
    shape = f" ({value.shape})" if value.shape else ""
    kind = tag("span", f"{value.type}{shape}", class_="type")
    return join(tag("code", value.preview, class_="value") if value.preview else None, kind)


def _row(
    first: Html,
    what: Html,
    old: tuple[str, Html],
    new: tuple[str, Html],
    more: Html,
    *,
    volatile: bool,
) -> Html:
    kind = "volatile" if volatile else "different"
    row = tag(
        "tr",
        tag("th", first, scope="row"),
        tag("td", what),
        *(tag("td", told, data_side=side) for side, told in (old, new)),
        class_=kind,
    )
    if not more:
        return row
    return join(row, tag("tr", tag("td", more, colspan=4), class_=f"more {kind}"))


def _table(heads: tuple[str, ...], rows: list[Html]) -> Html | None:
    if not rows:
        return None
    head = tag("tr", *(tag("th", each, scope="col") for each in heads))
    whole = tag("table", tag("thead", head), tag("tbody", *rows), class_="things")
    return tag("div", whole, class_="scroll")
